//! When the files are looked at.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tracing::{info, warn};

use super::super::source::{Selection, Sink};
use super::error::ManifestError;
use super::files;
use super::state::{Outcome, State};

/// How often the files are looked at when nothing wakes the source earlier.
pub const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long a wake waits for the writer to finish.
const SETTLE: Duration = Duration::from_millis(100);
/// Stack for decoding documents of the greatest depth, in bytes.
const STACK: usize = 16 << 20;

/// What the source reads and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// Files, directories and patterns, in order; of duplicate objects the last counts.
    pub paths: Vec<PathBuf>,
    /// What is kept of the objects.
    pub selection: Selection,
    /// The longest time between two looks at the files; [`POLL_INTERVAL`] unless a test is in a hurry.
    pub poll: Duration,
}

impl Config {
    /// The usual interval.
    pub fn new(paths: Vec<PathBuf>, selection: Selection) -> Self {
        Self { paths, selection, poll: POLL_INTERVAL }
    }
}

/// What a look at the files found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The objects that the sink has now, derived slices included.
    pub objects: u64,
    /// The objects of kinds that the plugin does not serve.
    pub skipped: u64,
    /// The files that cannot be used at present. What was read of them before stays in use.
    pub errors: Vec<ManifestError>,
}

/// The source.
pub struct Manifests {
    config: Config,
    /// What has been delivered; and whether all of it has been, once.
    state: Mutex<(State, bool)>,
    errors: AtomicU64,
    broken: AtomicU64,
    objects: AtomicU64,
    skipped: AtomicU64,
}

impl Manifests {
    /// Prepares the source; nothing is read yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            state: Mutex::default(),
            errors: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            objects: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        }
    }

    /// Looks at the files and delivers what differs from what the sink has. The first time ends with `synced`, even
    /// when some files cannot be used. Blocks on the file system.
    pub fn load_once(&self, sink: &dyn Sink) -> Report {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, synced) = &mut *guard;
        let outcome = with_stack(|| state.reconcile(&self.config.paths, &self.config.selection, sink));
        let outcome = outcome.unwrap_or_else(|error| {
            let error = ManifestError {
                path: self.config.paths.first().cloned().unwrap_or_default(),
                line: None,
                what: format!("cannot start a thread to read with: {error}"),
            };
            Outcome { new_errors: 1, errors: vec![error], ..Outcome::default() }
        });
        if !std::mem::replace(synced, true) {
            info!(
                target: "plugin/kubernetes",
                "{} objects read from manifests, {} of other kinds skipped", outcome.objects, outcome.skipped
            );
            sink.synced();
        }
        self.errors.fetch_add(outcome.new_errors, Ordering::Relaxed);
        self.broken.store(u64::try_from(outcome.errors.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.objects.store(outcome.objects, Ordering::Relaxed);
        self.skipped.store(outcome.skipped, Ordering::Relaxed);
        Report { objects: outcome.objects, skipped: outcome.skipped, errors: outcome.errors }
    }

    /// How often a file or path was found unusable since the start; the same trouble counts once.
    pub fn errors_total(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// How many files and paths are unusable now.
    pub fn broken(&self) -> u64 {
        self.broken.load(Ordering::Relaxed)
    }

    /// How many objects have been delivered and not deleted.
    pub fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// How many objects are skipped for their kind.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Loads the files unless that has been done, then follows them until `shutdown` is ready.
    ///
    /// The kernel's notices wake it early; a poll that compares contents decides, so file systems without notices
    /// and swapped symbolic links (as of a mounted ConfigMap) are followed too.
    pub async fn run(self: Arc<Self>, sink: Arc<dyn Sink>, shutdown: impl Future<Output = ()> + Send) {
        let wake = Arc::new(Notify::new());
        let mut watch = Watch::new(Arc::clone(&wake));
        tokio::pin!(shutdown);
        loop {
            // Watches come first: what changes after them is noticed, what changed before is read.
            watch.follow(&self.config.paths);
            let (source, target) = (Arc::clone(&self), Arc::clone(&sink));
            let look = tokio::task::spawn_blocking(move || source.load_once(&*target));
            if let Err(error) = look.await {
                warn!(target: "plugin/kubernetes", "reading manifests failed: {error}");
            }
            tokio::select! {
                () = &mut shutdown => return,
                () = tokio::time::sleep(self.config.poll) => {}
                () = async { wake.notified().await; tokio::time::sleep(SETTLE).await } => {}
            }
        }
    }
}

/// Runs `work` on a thread with stack enough for the deepest document.
pub(super) fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    // What logs here goes where the caller's log goes.
    let log = tracing::dispatcher::get_default(Clone::clone);
    let work = || tracing::dispatcher::with_default(&log, work);
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name("manifests".to_owned()).stack_size(STACK).spawn_scoped(scope, work)?;
        thread.join().map_or_else(|panic| std::panic::resume_unwind(panic), Ok)
    })
}

/// Notices of changes in directories.
struct Watch {
    watcher: Option<notify::RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl Watch {
    fn new(wake: Arc<Notify>) -> Self {
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading a file is an event too, and this source reads.
            let idle = matches!(
                event.map(|event| event.kind),
                Ok(EventKind::Access(access)) if access != AccessKind::Close(AccessMode::Write)
            );
            if !idle {
                wake.notify_one();
            }
        });
        let watcher = watcher
            .inspect_err(|error| {
                warn!(target: "plugin/kubernetes", "manifests are polled only, watching is not possible: {error}");
            })
            .ok();
        Self { watcher, watched: BTreeSet::new() }
    }

    /// Watches the directories of the paths. One that cannot be watched is polled, and tried again.
    fn follow(&mut self, paths: &[PathBuf]) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        self.watched.retain(|directory| directory.is_dir());
        for directory in paths.iter().map(|path| files::watched_directory(path)) {
            if !self.watched.contains(&directory) && watcher.watch(&directory, RecursiveMode::NonRecursive).is_ok() {
                self.watched.insert(directory);
            }
        }
    }
}
