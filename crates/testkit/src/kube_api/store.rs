//! Objects, versions, history.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

/// A resource that the server has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) plural: &'static str,
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    /// Items in lists of custom resources carry their kind; those of the built-in ones do not.
    pub(super) custom: bool,
}

impl Resource {
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
}

const fn built_in(plural: &'static str, group: &'static str, kind: &'static str) -> Resource {
    Resource { plural, group, version: "v1", kind, custom: false }
}

/// What the server has.
pub(super) static RESOURCES: [Resource; 5] = [
    built_in("namespaces", "", "Namespace"),
    built_in("services", "", "Service"),
    built_in("pods", "", "Pod"),
    built_in("endpointslices", "discovery.k8s.io", "EndpointSlice"),
    Resource {
        plural: "serviceimports",
        group: "multicluster.x-k8s.io",
        version: "v1alpha1",
        kind: "ServiceImport",
        custom: true,
    },
];

/// One change of one object.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) version: u64,
    pub(super) resource: &'static str,
    /// The object after the change; of a deletion the last state with the version of the deletion.
    pub(super) object: Arc<Value>,
    pub(super) previous: Option<Arc<Value>>,
    pub(super) deleted: bool,
}

/// A list that a client reads page by page.
pub(super) struct Snapshot {
    pub(super) version: u64,
    pub(super) items: Arc<[Arc<Value>]>,
}

type Key = (&'static str, String, String);

/// All objects and what happened to them.
pub(super) struct Store {
    version: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    history: VecDeque<Event>,
    /// No watch can go on from before this version.
    compacted: u64,
    snapshots: BTreeMap<u64, Snapshot>,
    next_snapshot: u64,
}

impl Store {
    pub(super) const fn new() -> Self {
        Self {
            version: 1,
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            compacted: 0,
            snapshots: BTreeMap::new(),
            next_snapshot: 1,
        }
    }

    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    pub(super) const fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn apply(&mut self, mut object: Value) -> u64 {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let resource = resource_of(&kind);
        self.version += 1;
        let key = key_of(resource, &object);
        assert!(!key.2.is_empty(), "an object without a name: {object}");
        object["apiVersion"] = json!(resource.api_version());
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        let object = Arc::new(object);
        let previous = self.objects.insert(key, Arc::clone(&object));
        let (version, resource) = (self.version, resource.plural);
        self.history.push_back(Event { version, resource, object, previous, deleted: false });
        version
    }

    pub(super) fn delete(&mut self, kind: &str, namespace: &str, name: &str) -> u64 {
        let resource = resource_of(kind);
        self.version += 1;
        let key = (resource.plural, namespace.to_owned(), name.to_owned());
        let previous = self.objects.remove(&key).unwrap_or_else(|| panic!("there is no {kind} {namespace}/{name}"));
        let mut object = Value::clone(&previous);
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.history.push_back(Event {
            version: self.version,
            resource: resource.plural,
            object: Arc::new(object),
            previous: Some(previous),
            deleted: true,
        });
        self.version
    }

    pub(super) fn vanish(&mut self, kind: &str, namespace: &str, name: &str) {
        self.objects.remove(&(resource_of(kind).plural, namespace.to_owned(), name.to_owned()));
    }

    pub(super) fn compact(&mut self) {
        self.history.clear();
        // What comes next has a later version, so that a client which has seen everything is too old as well.
        self.version += 1;
        self.compacted = self.version;
    }

    pub(super) fn expire_pages(&mut self) {
        self.snapshots.clear();
    }

    pub(super) fn reset_version(&mut self, version: u64) {
        self.version = version;
        self.history.clear();
        self.compacted = 0;
    }

    /// The objects of a resource in the order of their keys.
    pub(super) fn objects(&self, resource: &str) -> Vec<Arc<Value>> {
        self.objects.iter().filter(|(key, _)| key.0 == resource).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// What happened to a resource after a version.
    pub(super) fn since(&self, version: u64, resource: &str) -> Vec<Event> {
        let start = self.history.partition_point(|event| event.version <= version);
        self.history.range(start..).filter(|event| event.resource == resource).cloned().collect()
    }

    pub(super) fn keep_snapshot(&mut self, items: Arc<[Arc<Value>]>) -> u64 {
        let number = self.next_snapshot;
        self.next_snapshot += 1;
        self.snapshots.insert(number, Snapshot { version: self.version, items });
        number
    }

    pub(super) fn snapshot(&self, number: u64) -> Option<&Snapshot> {
        self.snapshots.get(&number)
    }
}

fn resource_of(kind: &str) -> &'static Resource {
    RESOURCES.iter().find(|resource| resource.kind == kind).unwrap_or_else(|| panic!("unknown kind {kind:?}"))
}

fn key_of(resource: &Resource, object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (resource.plural, text("namespace"), text("name"))
}
