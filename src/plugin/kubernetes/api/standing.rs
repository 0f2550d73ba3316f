//! How each watch is doing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::failure::Failure;
use super::metrics;

/// The time between two lines about one trouble.
const REMINDER: Duration = Duration::from_secs(60);
/// The lines within that time about a trouble that changes.
const CHANGES_MAX: u32 = 5;

/// How one watch is doing.
pub(super) struct Standing {
    pub(super) resource: &'static str,
    /// Protects what is written a few times a second and read by scrapes.
    inner: Mutex<Inner>,
}

struct Inner {
    /// The last sign of life.
    alive: Instant,
    trouble: Option<Trouble>,
}

/// Failures since the last success.
struct Trouble {
    since: Instant,
    failures: u64,
    /// The time of the last reminder, and the lines since.
    reminded: Instant,
    lines: u32,
    text: String,
}

impl Standing {
    pub(super) fn new(resource: &'static str) -> Self {
        let inner = Mutex::new(Inner { alive: Instant::now(), trouble: None });
        Self { resource, inner }
    }

    /// The time since the last sign of life.
    pub(super) fn age(&self) -> Duration {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).alive.elapsed()
    }

    /// Something came.
    pub(super) fn alive(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).alive = Instant::now();
    }

    /// It works: ends a trouble, with a line in the log.
    pub(super) fn works(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.alive = Instant::now();
        if let Some(trouble) = inner.trouble.take() {
            let (failures, seconds) = (trouble.failures, trouble.since.elapsed().as_secs());
            let resource = self.resource;
            info!(
                target: "plugin/kubernetes",
                "watching {resource} works again after {seconds} s; failed attempts: {failures}"
            );
        }
    }

    /// It failed and will be tried again: a line for a new trouble, and one a minute while it lasts.
    pub(super) fn failed(&self, failure: &Failure, delay: Duration) {
        metrics::count_failure(self.resource);
        let now = Instant::now();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let trouble = inner.trouble.get_or_insert_with(|| Trouble {
            since: now,
            failures: 0,
            reminded: now,
            lines: 0,
            text: String::new(),
        });
        trouble.failures += 1;
        if now.duration_since(trouble.reminded) >= REMINDER {
            (trouble.reminded, trouble.lines) = (now, 0);
        }
        if trouble.lines == 0 || (trouble.text != failure.text && trouble.lines < CHANGES_MAX) {
            trouble.lines += 1;
            trouble.text.clone_from(&failure.text);
            let (resource, text, seconds) = (self.resource, &failure.text, delay.as_secs_f32());
            warn!(
                target: "plugin/kubernetes",
                "failed to watch {resource}: {text}; what is known stays in use, next attempt in {seconds:.1} s"
            );
        }
    }
}

/// Warns, once each, of watches that have shown no sign of life for too long. Never ends.
pub(super) async fn warn_of_stale(standings: &[Arc<Standing>], bound: Duration) {
    let mut warned = vec![false; standings.len()];
    let mut interval = tokio::time::interval((bound / 10).max(Duration::from_millis(1)));
    loop {
        interval.tick().await;
        for (standing, warned) in standings.iter().zip(&mut warned) {
            let age = standing.age();
            let stale = age > bound;
            if stale && !*warned {
                let (resource, seconds) = (standing.resource, age.as_secs());
                warn!(
                    target: "plugin/kubernetes",
                    "nothing was heard about {resource} for {seconds} s: names are served as they were then; see why the \
                     API server cannot be watched"
                );
            }
            *warned = stale;
        }
    }
}
