//! What has been delivered, and the difference to what the files say now.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use foldhash::HashMap as FastMap;
use smallvec::SmallVec;
use tracing::{debug, error, warn};

use super::super::object::{Change, Object, ObjectKey, ObjectKind};
use super::super::source::{Selection, Sink};
use super::derive::Scene;
use super::entry::{Entry, Facts, Visible, entry};
use super::error::ManifestError;
use super::files::{self, Digest, Digester, Listing};
use super::read::{Format, read};

/// Objects and endpoints delivered at a time.
const BATCH: usize = 2_048;

/// The files, and each object's place in them.
#[derive(Default)]
pub(super) struct State {
    digester: Digester,
    files: Vec<LoadedFile>,
    next_file: u32,
    held: FastMap<ObjectKey, Held>,
    /// The slices derived here.
    derived: FastMap<ObjectKey, Digest>,
    /// Trouble that has been logged, so that it is logged once.
    reported: HashSet<String>,
    /// Namespaces whose lack of a Namespace object has been logged.
    warned_namespaces: HashSet<Box<str>>,
}

/// A file that has been read, or was tried.
struct LoadedFile {
    id: u32,
    path: PathBuf,
    /// Whether objects are held for it.
    listed: bool,
    /// The content that was read last without error; none if it is to be read anew.
    loaded: Option<Digest>,
    /// The content that was found broken, with what is wrong.
    broken: Option<(Option<Digest>, ManifestError)>,
    skipped: u64,
}

/// An object that some file holds.
#[derive(Default)]
struct Held {
    /// The files with the object and the digest of their versions of it.
    holders: SmallVec<[(u32, Digest); 1]>,
    /// The version that was processed last.
    applied: Option<Digest>,
    /// Whether the plugin has the object.
    shown: bool,
    /// Whether a duplicate has been logged.
    warned: bool,
    facts: Facts,
}

/// What a look at the files found.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Present troubles, logged now or before.
    pub(super) errors: Vec<ManifestError>,
    /// How many of them are new.
    pub(super) new_errors: u64,
    pub(super) objects: u64,
    pub(super) skipped: u64,
}

/// Collects changes into batches of bearable size.
struct Batch<'a> {
    sink: &'a dyn Sink,
    changes: Vec<Change>,
    weight: usize,
}

impl Batch<'_> {
    fn push(&mut self, change: Change) {
        self.weight += match &change {
            Change::Apply(Object::EndpointSlice(slice)) => 1 + slice.endpoints.len(),
            _ => 1,
        };
        self.changes.push(change);
        if self.weight >= BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.changes.is_empty() {
            self.sink.apply(std::mem::take(&mut self.changes));
        }
        self.weight = 0;
    }
}

impl State {
    /// Looks at all files and delivers what has changed.
    pub(super) fn reconcile(&mut self, paths: &[PathBuf], selection: &Selection, sink: &dyn Sink) -> Outcome {
        let listing = files::list(paths);
        let mut errors = listing.errors.clone();
        let mut changed = self.follow(listing);
        for at in 0..self.files.len() {
            changed |= self.refresh(at, selection);
        }
        errors.extend(self.files.iter().filter_map(|file| file.broken.as_ref()).map(|(_, error)| error.clone()));
        let new_errors = self.report(&errors);

        if changed {
            self.deliver_differences(selection, sink);
            self.warn_of_namespaces(selection);
        }
        let objects = self.held.values().filter(|held| held.shown).count() + self.derived.len();
        Outcome {
            errors,
            new_errors,
            objects: u64::try_from(objects).unwrap_or(u64::MAX),
            skipped: self.files.iter().map(|file| file.skipped).sum(),
        }
    }

    /// Delivers what differs between what the files hold and what has been delivered.
    fn deliver_differences(&mut self, selection: &Selection, sink: &dyn Sink) {
        let mut batch = Batch { sink, changes: Vec::new(), weight: 0 };
        let mut stirred = BTreeSet::new();
        let (pending, gone) = self.compare();
        for id in pending {
            self.deliver(id, selection, &mut batch, &mut stirred);
        }
        for key in gone {
            if let Some(held) = self.held.remove(&key) {
                if held.facts != Facts::None {
                    stirred.insert(key.namespace.clone());
                }
                if held.shown {
                    batch.push(Change::Delete(key));
                }
            }
        }
        self.derive(&stirred, selection, &mut batch);
        batch.flush();
    }

    /// Brings the list of files in line: new ones in, vanished ones out, in the present order. Says whether it changed.
    fn follow(&mut self, listing: Listing) -> bool {
        let before: Vec<u32> = self.files.iter().map(|file| file.id).collect();
        let mut known: HashMap<PathBuf, LoadedFile> =
            self.files.drain(..).map(|file| (file.path.clone(), file)).collect();
        for path in listing.files {
            let file = known.remove(&path).unwrap_or_else(|| {
                self.next_file += 1;
                LoadedFile { id: self.next_file, path, listed: false, loaded: None, broken: None, skipped: 0 }
            });
            self.files.push(file);
        }
        let mut gone = HashSet::new();
        for (path, file) in known {
            if listing.unlisted.iter().any(|directory| path.parent() == Some(directory)) {
                self.files.push(file);
            } else {
                gone.insert(file.id);
            }
        }
        if !gone.is_empty() {
            for held in self.held.values_mut() {
                held.holders.retain(|(file, _)| !gone.contains(file));
            }
        }
        !self.files.iter().map(|file| file.id).eq(before)
    }

    /// Looks whether a file has changed and, if it is sound, notes which objects it holds now. Says whether it did.
    fn refresh(&mut self, at: usize, selection: &Selection) -> bool {
        let Some(file) = self.files.get_mut(at) else { return false };
        let outcome = survey(
            &file.path,
            file.loaded,
            file.broken.as_ref().and_then(|broken| broken.0),
            |hashing| {
                let mut found: FastMap<ObjectKey, Digest> = FastMap::default();
                let mut twice = Vec::new();
                let skipped = read(hashing, Format::of(&file.path), &mut |kind, raw| {
                    let entry = entry(kind, raw, selection);
                    let digest = self.digester.of(&entry);
                    if found.insert(entry.key.clone(), digest).is_some() {
                        twice.push(entry.key);
                    }
                    Ok(())
                })?;
                Ok((found, twice, skipped))
            },
            &self.digester,
        );
        let (digest, (found, twice, skipped)) = match outcome {
            Survey::Same => {
                file.broken = None;
                return false;
            }
            Survey::StillBroken => return false,
            Survey::Broken(digest, error) => {
                file.broken = Some((digest, error));
                return false;
            }
            Survey::Sound(digest, content) => (digest, content),
        };
        for key in twice {
            warn!(
                target: "plugin/kubernetes",
                "{}: {} is there twice; the later one counts, remove the other", file.path.display(), describe(&key)
            );
        }
        let id = file.id;
        if std::mem::replace(&mut file.listed, true) {
            for held in self.held.values_mut() {
                held.holders.retain(|(holder, _)| *holder != id);
            }
        }
        file.loaded = Some(digest);
        file.broken = None;
        file.skipped = skipped;
        for (key, digest) in found {
            self.held.entry(key).or_default().holders.push((id, digest));
        }
        true
    }

    /// Finds the files to deliver from, in order, and the objects that no file holds any more.
    ///
    /// Of an object that several files hold, the last file's version counts.
    fn compare(&mut self) -> (Vec<u32>, Vec<ObjectKey>) {
        let ranks: HashMap<u32, usize> = self.files.iter().enumerate().map(|(rank, file)| (file.id, rank)).collect();
        let mut pending = BTreeSet::new();
        let mut gone = Vec::new();
        for (key, held) in &mut self.held {
            held.holders.sort_by_key(|(file, _)| ranks.get(file).copied());
            let Some((winner, digest)) = held.holders.last() else {
                gone.push(key.clone());
                continue;
            };
            if held.applied != Some(*digest) {
                pending.insert((ranks.get(winner).copied(), *winner));
            }
            let is_duplicate = held.holders.len() > 1;
            if is_duplicate && !held.warned {
                let path = |id: &u32| ranks.get(id).and_then(|rank| self.files.get(*rank)).map(|file| &*file.path);
                let paths: Vec<String> = held
                    .holders
                    .iter()
                    .filter_map(|(file, _)| path(file))
                    .map(|path| path.display().to_string())
                    .collect();
                warn!(
                    target: "plugin/kubernetes",
                    "{} is in {}; the last one counts, remove the others", describe(key), paths.join(" and ")
                );
            }
            held.warned = is_duplicate;
        }
        (pending.into_iter().map(|(_, id)| id).collect(), gone)
    }

    /// Reads a file once more and delivers those of its objects that count and are not known yet.
    fn deliver(&mut self, id: u32, selection: &Selection, batch: &mut Batch<'_>, stirred: &mut BTreeSet<Box<str>>) {
        let Some(file) = self.files.iter_mut().find(|file| file.id == id) else {
            return;
        };
        let (held, digester) = (&mut self.held, &self.digester);
        let mut deliver = || -> Result<Digest, String> {
            let opened = files::open(&file.path).map_err(|error| error.to_string())?;
            let mut hashing = digester.reader(opened);
            read(&mut hashing, Format::of(&file.path), &mut |kind, raw| {
                let entry = entry(kind, raw, selection);
                let digest = digester.of(&entry);
                let known = held.get_mut(&entry.key).filter(|held| held.holders.last() == Some(&(id, digest)));
                if let Some(held) = known.filter(|held| held.applied != Some(digest)) {
                    held.apply(entry, digest, batch, stirred);
                }
                Ok(())
            })
            .map_err(|problem| problem.what)?;
            hashing.finish().map_err(|error| error.to_string())
        };
        let outcome = deliver();
        if outcome.as_ref().ok() != file.loaded.as_ref() {
            debug!(
                target: "plugin/kubernetes",
                "{} changed while it was read; it is read again", file.path.display()
            );
            file.loaded = None;
        }
    }

    /// Derives the endpoints of the Services in the given namespaces and delivers what differs.
    fn derive(&mut self, stirred: &BTreeSet<Box<str>>, selection: &Selection, batch: &mut Batch<'_>) {
        if stirred.is_empty() {
            return;
        }
        let mut scenes: HashMap<&str, Scene<'_>> = HashMap::new();
        for (key, held) in self.held.iter().filter(|(key, _)| stirred.contains(&key.namespace)) {
            let scene = scenes.entry(&key.namespace).or_default();
            match &held.facts {
                Facts::None => {}
                Facts::Service(facts) => drop(scene.services.insert(&key.name, facts)),
                Facts::Pod(facts) => drop(scene.pods.insert(&key.name, facts)),
                Facts::Slice(service) => drop(scene.given.insert(service)),
            }
        }
        let mut gone: HashSet<ObjectKey> =
            self.derived.keys().filter(|key| stirred.contains(&key.namespace)).cloned().collect();
        for namespace in stirred {
            let Some(scene) = scenes.get(&**namespace) else {
                continue;
            };
            for mut slice in scene.slices(namespace) {
                selection.trim(&mut slice);
                let digest = self.digester.of(&slice);
                let slice = Object::EndpointSlice(slice);
                let key = slice.key();
                gone.remove(&key);
                if self.derived.insert(key, digest) != Some(digest) {
                    batch.push(Change::Apply(slice));
                }
            }
        }
        for key in gone {
            self.derived.remove(&key);
            batch.push(Change::Delete(key));
        }
    }

    /// Logs troubles that are new and forgets those that are over. Gives the number of new ones.
    fn report(&mut self, errors: &[ManifestError]) -> u64 {
        let texts: HashSet<String> = errors.iter().map(ToString::to_string).collect();
        let mut new = 0;
        for text in errors.iter().map(ToString::to_string).filter(|text| !self.reported.contains(text)) {
            new += 1;
            error!(target: "plugin/kubernetes", "{text} (what was read before stays in use)");
        }
        self.reported = texts;
        new
    }

    /// Warns of namespaces that hold objects but are not there themselves: no name in them resolves.
    fn warn_of_namespaces(&mut self, selection: &Selection) {
        if !selection.namespace_labels.is_empty() {
            return;
        }
        let mut missing: BTreeSet<&str> = BTreeSet::new();
        for (key, held) in &self.held {
            if held.shown && key.kind != ObjectKind::Namespace && !missing.contains(&*key.namespace) {
                missing.insert(&key.namespace);
            }
        }
        missing.retain(|name| {
            let key = ObjectKey { kind: ObjectKind::Namespace, namespace: Box::default(), name: (*name).into() };
            !self.held.contains_key(&key)
        });
        let missing: HashSet<Box<str>> = missing.into_iter().map(Box::from).collect();
        for name in missing.difference(&self.warned_namespaces) {
            warn!(
                target: "plugin/kubernetes",
                "the manifests have objects in namespace {name} but no Namespace of that name, so no name in it exists; \
                 add the Namespace"
            );
        }
        self.warned_namespaces = missing;
    }
}

impl Held {
    /// Makes a version of the object the present one.
    fn apply(&mut self, entry: Entry, digest: Digest, batch: &mut Batch<'_>, stirred: &mut BTreeSet<Box<str>>) {
        self.applied = Some(digest);
        if self.facts != entry.facts {
            stirred.insert(entry.key.namespace.clone());
            self.facts = entry.facts;
        }
        match entry.visible {
            Visible::Show(object) => {
                self.shown = true;
                batch.push(Change::Apply(*object));
            }
            Visible::Hide if self.shown => {
                self.shown = false;
                batch.push(Change::Delete(entry.key));
            }
            Visible::Hide | Visible::Keep => {}
        }
    }
}

/// What a look at one file found.
enum Survey<T> {
    /// Nothing new.
    Same,
    /// The broken content that was seen before.
    StillBroken,
    /// New content that cannot be used; without a digest it could not even be read.
    Broken(Option<Digest>, ManifestError),
    /// New content.
    Sound(Digest, T),
}

/// Looks at a file and reads it if its content is neither the loaded nor the broken one.
fn survey<T>(
    path: &Path,
    loaded: Option<Digest>,
    broken: Option<Digest>,
    content: impl FnOnce(&mut files::Hashing<io::Take<std::fs::File>>) -> Result<T, super::read::Problem>,
    digester: &Digester,
) -> Survey<T> {
    let unreadable =
        |error: io::Error| Survey::Broken(None, ManifestError::new(path, None, format!("cannot read: {error}")));
    let mut file = match files::open(path) {
        Ok(file) => file,
        Err(error) => return unreadable(error),
    };
    if loaded.is_some() || broken.is_some() {
        let digest = match digester.reader(&mut file).finish() {
            Ok(digest) => digest,
            Err(error) => return unreadable(error),
        };
        if Some(digest) == loaded {
            return Survey::Same;
        }
        if Some(digest) == broken {
            return Survey::StillBroken;
        }
        if let Err(error) = file.get_mut().rewind() {
            return unreadable(error);
        }
        file.set_limit(files::FILE_MAX_BYTES + 1);
    }
    let mut hashing = digester.reader(file);
    let content = content(&mut hashing);
    let digest = match hashing.finish() {
        Ok(digest) => digest,
        Err(error) => return unreadable(error),
    };
    match content {
        Ok(content) => Survey::Sound(digest, content),
        Err(problem) => Survey::Broken(Some(digest), ManifestError::new(path, problem.line, problem.what)),
    }
}

fn describe(key: &ObjectKey) -> String {
    let slash = if key.namespace.is_empty() { "" } else { "/" };
    format!("{} {}{slash}{}", key.kind.as_str(), key.namespace, key.name)
}
