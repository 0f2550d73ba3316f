mod derivation;
mod following;
mod reading;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::super::object::{Change, EndpointSlice, Object, ObjectKey, ObjectKind};
use super::super::source::{Selection, Sink};
use super::{Config, Manifests};

/// How long an event may take that should come at once.
const DEADLINE: Duration = Duration::from_secs(60);

/// A sink that holds what has been applied, as the index would.
#[derive(Default)]
struct Held {
    state: Mutex<HeldState>,
    changed: Condvar,
}

#[derive(Default)]
struct HeldState {
    objects: BTreeMap<ObjectKey, Object>,
    /// The sizes of the batches since the start.
    batches: Vec<usize>,
    synced: usize,
}

impl Sink for Held {
    fn apply(&self, changes: Vec<Change>) {
        let mut state = self.state.lock().expect("no test panics while it holds the lock");
        state.batches.push(changes.len());
        for change in changes {
            match change {
                Change::Apply(object) => drop(state.objects.insert(object.key(), object)),
                Change::Delete(key) => assert!(state.objects.remove(&key).is_some(), "{key:?} is deleted once"),
            }
        }
        self.changed.notify_all();
    }

    fn retain(&self, kind: ObjectKind, keep: &dyn Fn(&ObjectKey) -> bool) {
        let mut state = self.state.lock().expect("no test panics while it holds the lock");
        state.objects.retain(|key, _| key.kind != kind || keep(key));
    }

    fn synced(&self) {
        self.state.lock().expect("no test panics while it holds the lock").synced += 1;
        self.changed.notify_all();
    }
}

impl Held {
    fn names(&self) -> Vec<String> {
        let state = self.state.lock().expect("no test panics while it holds the lock");
        let name = |key: &ObjectKey| format!("{} {}/{}", key.kind.as_str(), key.namespace, key.name);
        state.objects.keys().map(name).collect()
    }

    fn object(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<Object> {
        let key = ObjectKey { kind, namespace: namespace.into(), name: name.into() };
        self.state.lock().expect("no test panics while it holds the lock").objects.get(&key).cloned()
    }

    fn slices(&self) -> Vec<EndpointSlice> {
        let state = self.state.lock().expect("no test panics while it holds the lock");
        state
            .objects
            .values()
            .filter_map(|object| match object {
                Object::EndpointSlice(slice) => Some(slice.clone()),
                _ => None,
            })
            .collect()
    }

    /// The number of changes since the start.
    fn changes(&self) -> usize {
        self.state.lock().expect("no test panics while it holds the lock").batches.iter().sum()
    }

    fn wait_for(&self, what: &str, met: impl Fn(&HeldState) -> bool) {
        let state = self.state.lock().expect("no test panics while it holds the lock");
        let (state, timeout) = self
            .changed
            .wait_timeout_while(state, DEADLINE, |state| !met(state))
            .expect("no test panics while it holds the lock");
        drop(state);
        assert!(!timeout.timed_out(), "waited for {what}");
    }
}

/// A directory of manifests, the source on it and the sink.
struct Fixture {
    directory: tempfile::TempDir,
    source: Arc<Manifests>,
    sink: Arc<Held>,
}

impl Fixture {
    /// A source on the directory itself, with `files` in it.
    fn new(files: &[(&str, &str)], selection: Selection) -> Self {
        Self::with_paths(files, &["."], selection)
    }

    fn with_paths(files: &[(&str, &str)], paths: &[&str], selection: Selection) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let paths: Vec<PathBuf> = paths
            .iter()
            .map(|path| if *path == "." { directory.path().to_owned() } else { directory.path().join(path) })
            .collect();
        let source = Arc::new(Manifests::new(Config::new(paths, selection)));
        let fixture = Self { directory, source, sink: Arc::default() };
        files.iter().for_each(|(name, content)| fixture.write(name, content));
        fixture
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a file has a parent")).expect("a directory");
        std::fs::write(path, content).expect("a written file");
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.path().join(name)).expect("a removed file");
    }

    /// Looks once; gives the errors without the directory.
    fn load(&self) -> Vec<String> {
        let report = self.source.load_once(&*self.sink);
        let prefix = format!("{}/", self.path().display());
        report.errors.iter().map(|error| error.to_string().replace(&prefix, "")).collect()
    }
}

fn service(name: &str, ip: &str) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: n}}\nspec: {{clusterIP: {ip}}}\n")
}
