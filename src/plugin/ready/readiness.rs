//! What is ready: one state for all blocks of an instance.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use coredns_plugin::Plugin;

/// How long plugins are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Monitor {
    /// Until they have been ready once.
    #[default]
    UntilReady,
    /// Each time.
    Continuously,
}

/// What the endpoint has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The listeners are not open yet.
    Starting,
    /// Nothing is waited for.
    Ready,
    /// The names of the plugins that are waited for, sorted and joined by commas.
    Waiting(String),
    /// The process is about to end.
    ShuttingDown,
}

struct Watched {
    plugin: Arc<dyn Plugin>,
    monitor: Monitor,
    was_ready: bool,
}

/// The plugins of all blocks with `ready`, and the stage that the process is in.
#[derive(Default)]
pub(super) struct Readiness {
    /// Protects the list; held while plugins are asked, which none makes wait.
    watched: Mutex<Vec<Watched>>,
    open: AtomicBool,
    shutting_down: AtomicBool,
}

impl Readiness {
    /// Adds the plugins of a block that say whether they are ready. Each is asked once a request, also where several
    /// blocks share it; where their modes differ it is asked each time.
    pub(super) fn watch(&self, plugins: &[Arc<dyn Plugin>], monitor: Monitor) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for plugin in plugins.iter().filter(|plugin| plugin.ready().is_some()) {
            match watched.iter_mut().find(|known| Arc::ptr_eq(&known.plugin, plugin)) {
                Some(known) if monitor == Monitor::Continuously => known.monitor = monitor,
                Some(_) => {}
                None => watched.push(Watched { plugin: Arc::clone(plugin), monitor, was_ready: false }),
            }
        }
    }

    /// Queries are answered from now on.
    pub(super) fn open(&self) {
        self.open.store(true, Ordering::Relaxed);
    }

    /// The process is about to end.
    pub(super) fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::Relaxed);
    }

    /// Asks the plugins.
    pub(super) fn state(&self) -> State {
        // Relaxed: a probe that comes at the same moment may see either.
        if self.shutting_down.load(Ordering::Relaxed) {
            return State::ShuttingDown;
        }
        let mut waiting = Vec::new();
        for watched in self.watched.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            if watched.was_ready && watched.monitor == Monitor::UntilReady {
                continue;
            }
            watched.was_ready = watched.plugin.ready().unwrap_or(true);
            if !watched.was_ready {
                waiting.push(watched.plugin.name());
            }
        }
        waiting.sort_unstable();
        waiting.dedup();
        if !waiting.is_empty() {
            State::Waiting(waiting.join(","))
        } else if self.open.load(Ordering::Relaxed) {
            State::Ready
        } else {
            State::Starting
        }
    }
}
