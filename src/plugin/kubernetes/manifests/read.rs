//! The objects of a file, one at a time.
//!
//! Lists may be of any length: their items are decoded as they come. The kind of an object may follow its content, as
//! it does in sorted output, so objects are decoded into the union of what the plugin's kinds have.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use coredns_plugin::corefile::{excerpt, excerpt_path};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use serde_saphyr::budget::BudgetBreach;

use super::super::object::ObjectKind;
use super::super::object::raw::{RawObject, Text};

/// Most aliases (`*name`) that a YAML document may use.
pub const ALIASES_MAX: usize = 1_000;
/// Deepest nesting of a document.
pub const DEPTH_MAX: usize = 128;
/// Octets of a line looked at in one piece; a longer line comes in several.
const PIECE: u64 = 8 << 10;
/// Bounds on what a document's anchors may hold in memory for their aliases.
const ANCHOR_EVENTS_MAX: usize = 100_000;
const ANCHOR_BYTES_MAX: usize = 8 << 20;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Yaml,
}

impl Format {
    /// JSON for `*.json`, else YAML, which most JSON is too.
    pub(super) fn of(path: &Path) -> Self {
        if path.extension().is_some_and(|extension| extension == "json") { Self::Json } else { Self::Yaml }
    }
}

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) line: Option<u64>,
    pub(super) what: String,
}

/// Takes each object with its kind; an error message ends the reading.
pub(super) type Visit<'v> = dyn FnMut(ObjectKind, RawObject) -> Result<(), String> + 'v;

/// Reads all objects and gives the number of those that were skipped for their kind.
pub(super) fn read(reader: impl Read, format: Format, visit: &mut Visit<'_>) -> Result<u64, Problem> {
    let mut walk = Walk { visit, skipped: 0, orphans: 0, failed: None };
    match format {
        Format::Json => read_json(reader, &mut walk)?,
        Format::Yaml => read_yaml(reader, &mut walk)?,
    }
    Ok(walk.skipped)
}

fn read_json(reader: impl Read, walk: &mut Walk<'_, '_>) -> Result<(), Problem> {
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::new(reader));
    while deserializer.end().is_err() {
        ObjectSeed { walk, list: None, item: false }.deserialize(&mut deserializer).map_err(|error| Problem {
            line: u64::try_from(error.line()).ok().filter(|line| *line > 0),
            what: without_position(&error.to_string()),
        })?;
    }
    Ok(())
}

fn read_yaml(reader: impl Read, walk: &mut Walk<'_, '_>) -> Result<(), Problem> {
    let mut documents = Documents::new(reader);
    while documents.next_document() {
        let before = documents.start;
        let options = serde_saphyr::options! {
            with_snippet: false,
            strict_booleans: true,
            leading_zero_numbers_as_strings: true,
            underscored_numbers_as_strings: true,
            non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::AsString,
            budget: serde_saphyr::budget! {
                max_aliases: ALIASES_MAX,
                enforce_alias_anchor_ratio: false,
                max_depth: DEPTH_MAX,
                flow_nesting_limit: DEPTH_MAX,
                max_recorded_anchor_events: ANCHOR_EVENTS_MAX,
                max_recorded_anchor_bytes: ANCHOR_BYTES_MAX,
                // The size of the file bounds these.
                max_events: usize::MAX,
                max_nodes: usize::MAX,
                max_total_scalar_bytes: usize::MAX,
            },
        };
        serde_saphyr::with_deserializer_from_reader_with_options(&mut documents, options, |deserializer| {
            ObjectSeed { walk: &mut *walk, list: None, item: false }.deserialize(deserializer)
        })
        .map_err(|error| Problem {
            line: walk
                .failed
                .or_else(|| error.location().map(|location| location.line()))
                .map(|line| before.saturating_add(line)),
            what: remedy(&error),
        })?;
    }
    Ok(())
}

/// The parser's message without its position and with what to do about it.
fn remedy(error: &serde_saphyr::Error) -> String {
    let text = without_position(&error.to_string());
    match error {
        serde_saphyr::Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().map_or_else(String::new, |key| format!(": {}", excerpt(key)));
            format!("duplicate mapping key{key}; remove one of the two")
        }
        serde_saphyr::Error::Budget { breach, .. } => match breach {
            BudgetBreach::Depth { .. } => too_deep(),
            BudgetBreach::Aliases { .. } => {
                format!("more than {ALIASES_MAX} aliases; write them out")
            }
            BudgetBreach::RecordedAnchorEvents { .. } | BudgetBreach::RecordedAnchorBytes { .. } => {
                "too much content under anchors; write the aliases out".to_owned()
            }
            _ => text,
        },
        // The scanner, which is ahead of the budget, has its own words for deep brackets.
        _ if text == "recursion limit exceeded" => too_deep(),
        _ => text,
    }
}

fn too_deep() -> String {
    format!("more than {DEPTH_MAX} levels of nesting; write the document out flatter")
}

/// The parser's message; what it quotes of the file is escaped and cut as in a path, which leaves its own words whole.
fn without_position(text: &str) -> String {
    excerpt_path(text.rfind(" at line ").and_then(|at| text.get(..at)).unwrap_or(text))
}

/// The documents of a YAML stream, each a reader of its own.
///
/// A line that starts with `---` or `...` cannot be part of a document (YAML 1.2.2 section 9.1.2), so documents are
/// told apart by their lines alone. Nothing but the piece of the line in hand is buffered.
pub(super) struct Documents<R> {
    inner: BufReader<R>,
    /// The piece of a line in hand, and how much of it has been given out.
    piece: Vec<u8>,
    at: usize,
    /// Whether the next piece begins a line.
    line_start: bool,
    /// The lines that lie before the present document.
    start: u64,
    /// The lines read.
    line: u64,
    /// Whether the present document has content, and whether it has directives.
    content: bool,
    directives: bool,
    /// The document has ended; the piece in hand, if any, opens the next one.
    ended: bool,
    /// The input has ended.
    exhausted: bool,
}

impl<R: Read> Documents<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner: BufReader::new(inner),
            piece: Vec::new(),
            at: 0,
            line_start: true,
            start: 0,
            line: 0,
            content: false,
            directives: false,
            ended: true,
            exhausted: false,
        }
    }

    /// Goes on to the next document, once the present one has been read to its end. False at the end of the input.
    pub(super) fn next_document(&mut self) -> bool {
        let held = self.piece.len() > self.at;
        self.start = if held { self.line.saturating_sub(1) } else { self.line };
        self.ended = false;
        self.content = held;
        self.directives = false;
        held || !self.exhausted
    }

    /// Reads the next piece of a line, or finds that the document ends here.
    fn advance(&mut self) -> std::io::Result<()> {
        self.piece.clear();
        self.at = 0;
        let read = self.inner.by_ref().take(PIECE).read_until(b'\n', &mut self.piece)?;
        if read == 0 {
            self.exhausted = true;
            self.ended = true;
            return Ok(());
        }
        let starts = self.line_start;
        self.line_start = self.piece.ends_with(b"\n");
        if starts {
            self.line += 1;
            self.look_at_line();
        }
        Ok(())
    }

    fn look_at_line(&mut self) {
        let is_blank = |rest: &[u8]| {
            let text = rest.trim_ascii_start();
            text.is_empty() || text.starts_with(b"#")
        };
        let marker = |marker: &[u8]| {
            let rest = self.piece.strip_prefix(marker)?;
            rest.first().is_none_or(u8::is_ascii_whitespace).then_some(rest)
        };
        if marker(b"...").is_some() {
            self.piece.clear();
            // A comment longer than a piece would remain; it is a comment of the next document then.
            self.ended = true;
        } else if let Some(rest) = marker(b"---") {
            let blank = is_blank(rest);
            if self.content {
                self.ended = true;
            } else if blank && !self.directives {
                // An opening marker without content means nothing; an empty line in its place keeps the count.
                self.piece.truncate(0);
                self.piece.push(b'\n');
            } else {
                self.content = true;
            }
            if self.ended && blank {
                self.piece.clear();
            }
        } else if !self.content && self.piece.starts_with(b"%") {
            self.directives = true;
        } else if !is_blank(&self.piece) {
            self.content = true;
        }
    }
}

impl<R: Read> Read for &mut Documents<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.at >= self.piece.len() && !self.ended {
            self.advance()?;
        }
        if self.ended {
            return Ok(0);
        }
        let mut rest = self.piece.get(self.at..).unwrap_or_default();
        let read = rest.read(buffer)?;
        self.at += read;
        Ok(read)
    }
}

/// What goes along while objects are read.
struct Walk<'w, 'v> {
    visit: &'w mut Visit<'v>,
    skipped: u64,
    /// Items without a kind in lists whose kind is not known yet.
    orphans: u64,
    /// The first line, in its document, of the object that is refused.
    failed: Option<u64>,
}

/// The `apiVersion` and `kind` of an object.
#[derive(Clone, Debug, Default)]
struct TypeMeta {
    version: Box<str>,
    kind: Box<str>,
}

impl TypeMeta {
    fn object_kind(&self) -> Option<ObjectKind> {
        match (&*self.version, &*self.kind) {
            ("v1", "Namespace") => Some(ObjectKind::Namespace),
            ("v1", "Service") => Some(ObjectKind::Service),
            ("v1", "Pod") => Some(ObjectKind::Pod),
            ("discovery.k8s.io/v1", "EndpointSlice") => Some(ObjectKind::EndpointSlice),
            ("multicluster.x-k8s.io/v1alpha1", "ServiceImport") => Some(ObjectKind::ServiceImport),
            _ => None,
        }
    }

    /// What the items of a list of this kind are, if they do not say it themselves.
    fn of_items(&self) -> Option<Self> {
        let kind = self.kind.strip_suffix("List").filter(|kind| !kind.is_empty())?;
        Some(Self { version: self.version.clone(), kind: kind.into() })
    }

    /// Whether the content is worth decoding: the kind is one of ours or not known yet.
    fn may_matter(&self) -> bool {
        self.kind.is_empty() || self.version.is_empty() || self.object_kind().is_some()
    }
}

struct ObjectSeed<'a, 'w, 'v> {
    walk: &'a mut Walk<'w, 'v>,
    /// What items of the list around are, if that is known.
    list: Option<TypeMeta>,
    item: bool,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with apiVersion, kind and metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut meta = TypeMeta::default();
        let mut raw = RawObject::default();
        let (mut empty, mut is_list) = (true, false);
        let (mut line, orphans) = (0, self.walk.orphans);
        // JSON knows no positions of keys; its errors have their own.
        while let Some(Spanned { value: Text(key), defined, .. }) = map.next_key()? {
            if std::mem::take(&mut empty) {
                line = defined.line();
            }
            let matters = meta.may_matter();
            match &*key {
                "apiVersion" => meta.version = map.next_value::<Text>()?.0,
                "kind" => meta.kind = map.next_value::<Text>()?.0,
                "items" if meta.kind.is_empty() || meta.kind.ends_with("List") => {
                    is_list = true;
                    let list = meta.of_items();
                    map.next_value_seed(ItemsSeed { walk: &mut *self.walk, list })?;
                }
                "metadata" if matters => raw.metadata = map.next_value()?,
                "spec" if matters => raw.spec = map.next_value()?,
                "status" if matters => raw.status = map.next_value()?,
                "ports" if matters => raw.ports = map.next_value()?,
                "endpoints" if matters => raw.endpoints = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if empty && !self.item {
            return Ok(());
        }
        let Self { walk, list, item } = self;
        walk.conclude(Seen { meta, raw, is_list, orphans, list, item }).map_err(|what| {
            walk.failed = Some(line).filter(|line| *line > 0);
            A::Error::custom(what)
        })
    }
}

/// An object that has been read to its end.
struct Seen {
    meta: TypeMeta,
    raw: RawObject,
    /// Whether it has items.
    is_list: bool,
    /// The orphans that there were before it.
    orphans: u64,
    /// What items of the list around it are, if it is an item and that is known.
    list: Option<TypeMeta>,
    item: bool,
}

impl Walk<'_, '_> {
    /// Decides what has been read, now that all of it is known.
    fn conclude(&mut self, seen: Seen) -> Result<(), String> {
        let Seen { mut meta, raw, is_list, orphans, list, item } = seen;
        if meta.kind.is_empty() {
            match list {
                Some(list) => meta = list,
                None if item => {
                    self.orphans += 1;
                    return Ok(());
                }
                None => {
                    return Err("kind is missing; every object needs apiVersion and kind".to_owned());
                }
            }
        }
        if is_list && meta.kind.ends_with("List") {
            let lost = self.orphans - orphans;
            self.orphans = orphans;
            return match meta.of_items() {
                Some(items) if lost > 0 && items.object_kind().is_some() => Err(format!(
                    "{lost} items say no kind and stand before the list's own; write kind: {} before items",
                    excerpt(&meta.kind)
                )),
                None if lost > 0 => Err(format!("{lost} items of the list say no kind; add it to each")),
                _ => Ok(()),
            };
        }
        if meta.version.is_empty() {
            return Err(format!("apiVersion is missing; a {} needs one, for instance v1", excerpt(&meta.kind)));
        }
        let Some(kind) = meta.object_kind() else {
            self.skipped += 1;
            return Ok(());
        };
        if raw.metadata.0.name.0.is_empty() {
            return Err(format!("metadata.name is missing; give the {} a name", excerpt(&meta.kind)));
        }
        (self.visit)(kind, raw)
    }
}

struct ItemsSeed<'a, 'w, 'v> {
    walk: &'a mut Walk<'w, 'v>,
    list: Option<TypeMeta>,
}

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Self { walk, list } = self;
        while seq.next_element_seed(ObjectSeed { walk: &mut *walk, list: list.clone(), item: true })?.is_some() {}
        Ok(())
    }
}
