//! Events and lists into changes.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::super::object::raw::{
    IMPORT_LABEL, List, RawEndpoint, RawMeta, RawObject, RawPort, RawSpec, RawStatus, Section, Text,
};
use super::super::object::{
    Change, EndpointSlice, Namespace, Object, ObjectKey, ObjectKind, Pod, Service, ServiceImport,
};
use super::super::source::Selection;
use super::failure::{Cause, Failure, RawStatus as ApiStatus};

/// What an object says: who it is, and what is new about it, if anything.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) key: ObjectKey,
    pub(super) change: Option<Change>,
}

/// An event of a watch.
#[derive(Debug)]
pub(super) enum Event {
    /// An object came, changed or went. The version is empty where the server gave none.
    Object(Item, Box<str>),
    /// Everything up to the version has been told; the initial state has, if the list ends here.
    Bookmark { version: Box<str>, ends_list: bool },
    /// The watch has failed.
    Failed(Failure),
    /// An event of a type that is not known, or about an object without a name.
    Other,
}

/// Reads events and lists of one kind.
#[derive(Clone, Copy)]
pub(super) struct Decoder<'a> {
    pub(super) kind: ObjectKind,
    pub(super) selection: &'a Selection,
}

/// An event as it is written, or a status in its place.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawEvent {
    #[serde(rename = "type")]
    kind: Text,
    object: Section<RawItem>,
    code: super::super::object::raw::Number,
    reason: Text,
    message: Text,
}

/// An object, or a status.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawItem {
    metadata: Section<RawMeta>,
    spec: Section<RawSpec>,
    status: Section<RawStatus>,
    ports: List<Section<RawPort>>,
    endpoints: List<Section<RawEndpoint>>,
    code: super::super::object::raw::Number,
    reason: Text,
    message: Text,
    details: Section<super::failure::RawDetails>,
}

impl Decoder<'_> {
    /// Reads a line of a watch.
    pub(super) fn event(&self, line: &[u8]) -> Result<Event, Failure> {
        let event: RawEvent = serde_json::from_slice(line)
            .map_err(|error| Failure::new(Cause::Malformed, format_args!("an event cannot be read: {error}")))?;
        let item = event.object.0;
        let deleted = match &*event.kind.0 {
            "ADDED" | "MODIFIED" => false,
            "DELETED" => true,
            "BOOKMARK" => {
                let meta = item.metadata.0;
                let ends_list = !meta.annotations.0.initial_events_end.0.is_empty();
                return Ok(Event::Bookmark { version: meta.resource_version.0, ends_list });
            }
            "ERROR" => {
                let RawItem { code, reason, message, details, .. } = item;
                return Ok(Event::Failed(ApiStatus { code, reason, message, details }.failure(None)));
            }
            "" => {
                let RawEvent { code, reason, message, .. } = event;
                return Ok(Event::Failed(ApiStatus { code, reason, message, ..ApiStatus::default() }.failure(None)));
            }
            _ => return Ok(Event::Other),
        };
        let version = item.metadata.0.resource_version.0.clone();
        let RawItem { metadata, spec, status, ports, endpoints, .. } = item;
        let raw = RawObject { metadata, spec, status, ports, endpoints };
        Ok(match self.item(raw) {
            None => Event::Other,
            Some(Item { key, .. }) if deleted => {
                Event::Object(Item { change: Some(Change::Delete(key.clone())), key }, version)
            }
            Some(item) => Event::Object(item, version),
        })
    }

    /// What an object says; `None` for one without a name.
    fn item(&self, raw: RawObject) -> Option<Item> {
        let meta = &raw.metadata.0;
        if meta.name.0.is_empty() {
            return None;
        }
        let namespace = if self.kind == ObjectKind::Namespace { Box::default() } else { meta.namespace.0.clone() };
        let key = ObjectKey { kind: self.kind, namespace, name: meta.name.0.clone() };
        // The server selects; a proxy between may drop parameters.
        let imported = meta.labels.get(IMPORT_LABEL).is_some();
        if !self.selection.admits(self.kind, &meta.labels, imported, &raw.status.0.phase.0) {
            return Some(Item { change: Some(Change::Delete(key.clone())), key });
        }
        let object = match self.kind {
            ObjectKind::Namespace => Object::Namespace(Namespace::from(raw)),
            ObjectKind::Service => Object::Service(Service::from(raw)),
            ObjectKind::EndpointSlice => {
                let mut slice = EndpointSlice::from(raw);
                self.selection.trim(&mut slice);
                Object::EndpointSlice(slice)
            }
            ObjectKind::Pod => Object::Pod(Pod::from(raw)),
            ObjectKind::ServiceImport => Object::ServiceImport(ServiceImport::from(raw)),
        };
        Some(Item { change: Change::of(object), key })
    }

    /// Reads a page of a list, one object after the other, and gives each to `take`.
    pub(super) fn page(&self, octets: &[u8], take: &mut dyn FnMut(Item)) -> Result<PageEnd, Failure> {
        let mut deserializer = serde_json::Deserializer::from_slice(octets);
        let read = ListSeed { decoder: self, take }.deserialize(&mut deserializer);
        let end = read.and_then(|end| deserializer.end().map(|()| end));
        end.map_err(|error| Failure::new(Cause::Malformed, format_args!("a list cannot be read: {error}")))
    }
}

/// What a page says about the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PageEnd {
    /// The version that the list shows.
    pub(super) version: Box<str>,
    /// Where the list goes on; empty on the last page.
    pub(super) next: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawListMeta {
    resource_version: Text,
    #[serde(rename = "continue")]
    next: Text,
}

struct ListSeed<'a, 'd> {
    decoder: &'a Decoder<'d>,
    take: &'a mut dyn FnMut(Item),
}

impl<'de> DeserializeSeed<'de> for ListSeed<'_, '_> {
    type Value = PageEnd;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<PageEnd, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ListSeed<'_, '_> {
    type Value = PageEnd;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PageEnd, A::Error> {
        let mut end = PageEnd::default();
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "metadata" => {
                    let meta: Section<RawListMeta> = map.next_value()?;
                    end = PageEnd { version: meta.0.resource_version.0, next: meta.0.next.0 };
                }
                "items" => map.next_value_seed(ItemsSeed { decoder: self.decoder, take: &mut *self.take })?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(end)
    }
}

struct ItemsSeed<'a, 'd> {
    decoder: &'a Decoder<'d>,
    take: &'a mut dyn FnMut(Item),
}

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(Section(raw)) = seq.next_element::<Section<RawObject>>()? {
            if let Some(item) = self.decoder.item(raw) {
                (self.take)(item);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(event: Result<Event, Failure>) -> String {
        match event {
            Ok(Event::Object(item, version)) => match item.change {
                Some(Change::Apply(object)) => format!("+{}/{}@{version}", object.namespace(), object.name()),
                Some(Change::Delete(key)) => format!("-{}/{}@{version}", key.namespace, key.name),
                None => format!("={}@{version}", item.key.name),
            },
            Ok(Event::Bookmark { version, ends_list }) => format!("bookmark {version} {ends_list}"),
            Ok(Event::Failed(failure)) => format!("{:?}: {}", failure.cause, failure.text),
            Ok(Event::Other) => "other".to_owned(),
            Err(failure) => format!("{:?}", failure.cause),
        }
    }

    #[test]
    fn events() {
        let selection = Selection { pods: true, ..Selection::default() };
        let decoder = Decoder { kind: ObjectKind::Pod, selection: &selection };
        let meta = r#""metadata":{"name":"p","namespace":"n","resourceVersion":"7"}"#;
        let gone = r#""metadata":{"name":"p","namespace":"n","resourceVersion":"7","deletionTimestamp":"x"}"#;
        for (line, expected) in [
            (format!(r#"{{"type":"ADDED","object":{{{meta}}}}}"#), "+n/p@7"),
            (format!(r#"{{"object":{{{meta}}},"type":"MODIFIED"}}"#), "+n/p@7"),
            (format!(r#"{{"type":"DELETED","object":{{{meta}}}}}"#), "-n/p@7"),
            (format!(r#"{{"type":"MODIFIED","object":{{{meta},"status":{{"phase":"Succeeded"}}}}}}"#), "-n/p@7"),
            (format!(r#"{{"type":"MODIFIED","object":{{{gone}}}}}"#), "=p@7"),
            (format!(r#"{{"type":"SURPRISE","object":{{{meta}}}}}"#), "other"),
            (r#"{"type":"ADDED","object":{"metadata":{"name":"p"}}}"#.to_owned(), "+/p@"),
            (r#"{"type":"ADDED","object":{}}"#.to_owned(), "other"),
            (r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#.to_owned(), "bookmark 9 false"),
            (
                r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#
                    .to_owned(),
                "bookmark 9 true",
            ),
            (
                r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}}"#
                    .to_owned(),
                "Expired: the API server answers 410 Gone: too old resource version: 1 (2)",
            ),
            (
                r#"{"kind":"Status","status":"Failure","message":"no","reason":"InternalError","code":500}"#.to_owned(),
                "Status: the API server answers 500 Internal Server Error: no",
            ),
            (r#"{"type":"ADDED","obj"#.to_owned(), "Malformed"),
            ("what?".to_owned(), "Malformed"),
        ] {
            assert_eq!(describe(decoder.event(line.as_bytes())), expected, "{line}");
        }
    }

    #[test]
    fn pages() {
        let selection = Selection::default();
        let decoder = Decoder { kind: ObjectKind::Service, selection: &selection };
        let read = |text: &str| {
            let mut names = Vec::new();
            let end = decoder.page(text.as_bytes(), &mut |item| names.push(item.key.name));
            (names.concat(), end.map(|end| (end.version, end.next)).map_err(|failure| failure.cause))
        };
        let end = |version: &str, next: &str| Ok((version.into(), next.into()));
        let list = r#"{"kind":"ServiceList","metadata":{"resourceVersion":"5","continue":"x","remainingItemCount":3},
            "items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"},"spec":{"ports":null}},{}]}"#;
        assert_eq!(read(list), ("ab".to_owned(), end("5", "x")));
        assert_eq!(read(r#"{"items":null,"metadata":{"resourceVersion":"5"}}"#), (String::new(), end("5", "")));
        assert_eq!(read(r#"{"metadata":null}"#), (String::new(), end("", "")));
        assert_eq!(read(r#"{"items":[{"metadata":{"name":"a"}}"#).1, Err(Cause::Malformed));
        assert_eq!(read("[]").1, Err(Cause::Malformed));
    }
}
