//! From the text of plugin.cfg to the Rust text of the plugin registry.
//!
//! No file is read here and nothing is printed: the build script hands in what it found on disk as [`Source`] and
//! gets back either the registry or every problem at once, so all of it is tested as plain functions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The file's name as it stands in messages.
pub(crate) const FILE: &str = "plugin.cfg";

/// Words that Rust reserves and that a module must therefore spell `r#word` (edition 2024).
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move",
    "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Words that cannot name a module, not even in the raw form.
const NEVER_NAMES: &[&str] = &["_", "Self", "crate", "self", "super"];

/// What the build script found in the source tree.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Modules under src/plugin that have a file: `NAME/mod.rs` or `NAME.rs`.
    pub(crate) modules: BTreeSet<String>,
    /// Modules that src/plugin/mod.rs declares, see [`declared_modules`].
    pub(crate) declared: BTreeSet<String>,
    /// Crates that Cargo.toml depends on, as Rust spells them, see [`dependency_crates`].
    pub(crate) crates: BTreeSet<String>,
}

/// One `name:path` of plugin.cfg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Line in the file, counted from 1.
    pub(crate) line: usize,
    /// Name of the directive in a Corefile.
    pub(crate) name: String,
    /// Module under src/plugin, or a Rust path into a dependency when it holds `::`.
    pub(crate) path: String,
    /// False for a line that is commented out: a known name without a plugin in this build.
    pub(crate) active: bool,
}

impl Entry {
    /// The module under src/plugin, or none when the path leads into another crate.
    pub(crate) fn local_module(&self) -> Option<&str> {
        (!self.path.contains("::")).then_some(self.path.as_str())
    }

    /// The Rust expression that names the plugin's descriptor.
    fn descriptor(&self) -> String {
        let raw: Vec<String> = self.path.split("::").map(raw_identifier).collect();
        match self.local_module() {
            Some(_) => format!("crate::plugin::{}::DESCRIPTOR", raw.join("::")),
            None => format!("::{}::DESCRIPTOR", raw.join("::")),
        }
    }
}

/// Reads plugin.cfg and checks it against the source tree; the error holds every problem, in the order of the lines.
pub(crate) fn read(text: &str, source: &Source) -> Result<Vec<Entry>, Vec<String>> {
    let mut entries = Vec::new();
    let mut problems = BTreeMap::new();
    let mut names = BTreeMap::new();
    let mut paths = BTreeMap::new();
    for (line, content) in (1..).zip(text.lines()) {
        let entry = match parse_line(line, content.trim()) {
            Ok(Some(entry)) => entry,
            Ok(None) => continue,
            Err(problem) => {
                problems.insert(line, problem);
                continue;
            }
        };
        if let Some(first) = names.insert(entry.name.clone(), line) {
            problems.insert(
                line,
                format!("the name '{}' is already taken on line {first}; delete one of the two lines", entry.name),
            );
        } else if entry.active {
            let check = match paths.insert(entry.path.clone(), line) {
                Some(first) => Err(format!(
                    "the path '{}' is already used on line {first}; a plugin has one name: delete one of the two lines",
                    entry.path
                )),
                None => check_path(&entry, source),
            };
            if let Err(problem) = check {
                problems.insert(line, problem);
            }
        }
        entries.push(entry);
    }
    if problems.is_empty() {
        Ok(entries)
    } else {
        let located = |(line, problem)| format!("{FILE}:{line}: {problem}");
        Err(problems.into_iter().map(located).collect())
    }
}

/// Reads one trimmed line: an entry, nothing (blank or prose), or what is wrong with it.
fn parse_line(line: usize, content: &str) -> Result<Option<Entry>, String> {
    if let Some(comment) = content.strip_prefix('#') {
        return Ok(parse_commented_out(line, comment));
    }
    if content.is_empty() {
        return Ok(None);
    }
    let malformed = |what: &str| {
        format!(
            "{what} in '{content}'; write one name:path a line, such as cache:cache or blocklist:acme_blocklist::plugin"
        )
    };
    if content.contains(char::is_whitespace) {
        return Err(malformed("a blank or a comment behind the path (comments have lines of their own)"));
    }
    let Some((name, path)) = content.split_once(':') else {
        return Err(malformed("no ':'"));
    };
    if !is_name(name) {
        return Err(malformed("the name is not made of letters, digits, '_' and '-'"));
    }
    if !path.split("::").all(is_identifier) {
        return Err(malformed("the path is neither a module name nor a Rust path"));
    }
    Ok(Some(Entry { line, name: name.to_owned(), path: path.to_owned(), active: true }))
}

/// Recognises `# name:path` with at most one word behind it; any other comment is prose.
fn parse_commented_out(line: usize, comment: &str) -> Option<Entry> {
    let mut words = comment.split_whitespace();
    let (name, path) = words.next()?.split_once(':')?;
    if words.nth(1).is_some() || !is_name(name) || !path.split("::").all(is_identifier) {
        return None;
    }
    Some(Entry { line, name: name.to_owned(), path: path.to_owned(), active: false })
}

/// Checks that the path of an active entry leads to a descriptor's place.
fn check_path(entry: &Entry, source: &Source) -> Result<(), String> {
    let path = &entry.path;
    let Some(module) = entry.local_module() else {
        let krate = path.split("::").next().unwrap_or_default();
        if source.crates.contains(krate) {
            return Ok(());
        }
        return Err(format!(
            "the crate '{krate}' is not among the [dependencies] of Cargo.toml; add it there under that name, or delete this line"
        ));
    };
    if !source.modules.contains(module) {
        return Err(format!(
            "there is no module '{module}' under src/plugin; create src/plugin/{module}/mod.rs, name a crate's plugin as crate::path, or delete this line"
        ));
    }
    if !source.declared.contains(module) {
        return Err(format!(
            "the module '{module}' is not declared in src/plugin/mod.rs; add there the two lines `{}` and `pub mod {};`",
            cfg_attribute(module),
            raw_identifier(module)
        ));
    }
    Ok(())
}

/// The Rust text of the registry: a table of descriptors and a table of names, and a proof that they agree.
pub(crate) fn generate(entries: &[Entry]) -> String {
    let mut table = String::new();
    let mut names = String::new();
    let mut proofs = String::new();
    for entry in entries {
        let _ = writeln!(names, "    {:?},", entry.name);
        if !entry.active {
            continue;
        }
        let (name, descriptor) = (&entry.name, entry.descriptor());
        let _ = writeln!(table, "    &{descriptor},");
        let _ = writeln!(
            proofs,
            "const _: () = assert!(matches!({descriptor}.name.as_bytes(), b{name:?}), \
             \"{FILE}:{}: the descriptor of this path has another name; write its name before the ':'\");",
            entry.line
        );
    }
    format!(
        "// Made by build.rs from {FILE}; change that file instead.\n\n\
         /// Every plugin of this build, in the order of the chain.\n\
         pub static REGISTRY: &[&::coredns_plugin::Descriptor] = &[\n{table}];\n\n\
         /// Every directive name that {FILE} knows, in order, with those that are commented out there.\n\
         ///\n\
         /// A name that is listed here and has no descriptor in [`REGISTRY`] is a plugin that this build leaves out: a\n\
         /// Corefile that uses it gets CoreDNS's `no action found for directive 'X' with server type 'dns' (missing a\n\
         /// plugin?)`, while a name that is not listed at all is an `Unknown directive 'X'`.\n\
         pub static DIRECTIVES: &[&str] = &[\n{names}];\n\n\
         // A descriptor under another name would sit at a wrong place of the chain.\n{proofs}"
    )
}

/// The attribute before a module's declaration in src/plugin/mod.rs: without its line in plugin.cfg a module is not compiled.
fn cfg_attribute(module: &str) -> String {
    format!("#[cfg(plugin = \"{module}\")]")
}

/// Modules that the text of src/plugin/mod.rs declares as `pub mod NAME;` below their `#[cfg(plugin = "NAME")]`.
pub(crate) fn declared_modules(text: &str) -> BTreeSet<String> {
    let lines = || text.lines().map(str::trim);
    lines()
        .zip(lines().skip(1))
        .filter_map(|(attribute, declaration)| {
            let module = declaration.strip_prefix("pub mod ")?.strip_suffix(';')?;
            let module = module.strip_prefix("r#").unwrap_or(module);
            (attribute == cfg_attribute(module)).then(|| module.to_owned())
        })
        .collect()
}

/// Crates in the `[dependencies]` tables of a Cargo.toml (plain, per target and one table a crate), as Rust spells them.
///
/// Only the keys are looked at, which need no TOML reader: a key stands first on its line, and what a multi-line array
/// brings has no `=` after a bare word.
pub(crate) fn dependency_crates(text: &str) -> BTreeSet<String> {
    let mut crates = BTreeSet::new();
    let mut in_dependencies = false;
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.split(']').next().unwrap_or_default().trim();
            let table = header.rsplit_once("].").map_or(header, |(_, last)| last);
            in_dependencies = is_dependency_table(table);
            if let Some((parent, name)) = table.rsplit_once('.')
                && is_dependency_table(parent)
            {
                crates.insert(rust_name(name));
            }
        } else if in_dependencies && let Some((key, _)) = line.split_once('=') {
            let key = key.split('.').next().unwrap_or_default();
            crates.insert(rust_name(key));
        }
    }
    crates.retain(|name| is_identifier(name));
    crates
}

/// True for `dependencies` and `target.'…'.dependencies`, not for the dev- and build- kinds nor the workspace's versions.
fn is_dependency_table(table: &str) -> bool {
    table == "dependencies" || (table.starts_with("target.") && table.ends_with(".dependencies"))
}

/// A Cargo.toml key as Rust spells the crate.
fn rust_name(key: &str) -> String {
    key.trim().trim_matches(['"', '\'']).replace('-', "_")
}

/// True for a directive's name.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// True for what can name a module or a crate, keywords included (they are written raw).
fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !NEVER_NAMES.contains(&text)
}

/// The word as Rust source: `loop` becomes `r#loop`.
fn raw_identifier(word: &str) -> String {
    if KEYWORDS.contains(&word) { format!("r#{word}") } else { word.to_owned() }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
