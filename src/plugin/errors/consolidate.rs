//! Many errors of a kind as one line.
//!
//! Workers count; a task on the control runtime keeps the timers. A worker that counts the first error of a period
//! wakes the task, which sets the pattern's deadline; at the deadline it takes the count and logs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use coredns_plugin::corefile::GoDuration;
use regex::Regex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, error, info, warn};

/// The level of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Debug,
    Info,
    Warning,
    Error,
}

impl Level {
    pub(super) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "debug" => Self::Debug,
            "info" => Self::Info,
            "warning" => Self::Warning,
            "error" => Self::Error,
            _ => return None,
        })
    }

    pub(super) fn log(self, line: &str) {
        match self {
            Self::Debug => debug!(target: "plugin/errors", message = line),
            Self::Info => info!(target: "plugin/errors", message = line),
            Self::Warning => warn!(target: "plugin/errors", message = line),
            Self::Error => error!(target: "plugin/errors", message = line),
        }
    }
}

/// One option `consolidate`, and what it has counted in the running period.
#[derive(Debug)]
pub(super) struct Pattern {
    period: GoDuration,
    regex: Regex,
    /// The pattern as the Corefile has it.
    source: String,
    level: Level,
    show_first: bool,
    count: AtomicU64,
}

impl Pattern {
    pub(super) fn new(period: GoDuration, regex: Regex, source: String, level: Level, show_first: bool) -> Self {
        Self { period, regex, source, level, show_first, count: AtomicU64::new(0) }
    }

    /// Ends the period: logs what was counted, if that was anything.
    fn expire(&self) {
        let count = self.count.swap(0, Ordering::SeqCst);
        // The first was logged when it came; alone it is no summary.
        if count > u64::from(self.show_first) {
            let Self { source, period, .. } = self;
            self.level.log(&format!("{count} errors like '{source}' occurred in last {period}"));
        }
    }
}

/// The patterns of one directive.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    list: Vec<Pattern>,
    running: AtomicBool,
    first_counted: Notify,
}

impl Patterns {
    pub(super) fn new(list: Vec<Pattern>) -> Self {
        Self { list, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Counts an error whose text is `error`; `line` is how it is logged by itself. Returns whether that is done with.
    pub(super) fn take(&self, error: &str, line: impl FnOnce() -> String) -> bool {
        // SeqCst here and in `stop`: either this thread sees that the timers have stopped, or `stop` sees the count.
        if !self.running.load(Ordering::SeqCst) {
            return false;
        }
        let Some(pattern) = self.list.iter().find(|pattern| pattern.regex.is_match(error)) else { return false };
        if pattern.count.fetch_add(1, Ordering::SeqCst) > 0 {
            return true;
        }
        if pattern.show_first {
            pattern.level.log(&line());
        }
        if self.running.load(Ordering::SeqCst) {
            self.first_counted.notify_one();
        } else {
            pattern.expire();
        }
        true
    }

    /// Lets errors be counted; [`Patterns::keep_time`] must run from here on.
    pub(super) fn start(&self) {
        self.running.store(true, Ordering::SeqCst);
    }

    /// Ends all periods at once; later errors are logged one by one.
    pub(super) fn stop(&self) {
        self.running.store(false, Ordering::SeqCst);
        for pattern in &self.list {
            pattern.expire();
        }
    }

    /// Ends each period when its time has come, for ever.
    pub(super) async fn keep_time(self: Arc<Self>) {
        let mut deadlines: Vec<Option<Instant>> = vec![None; self.list.len()];
        loop {
            let now = Instant::now();
            for (pattern, deadline) in self.list.iter().zip(&mut deadlines) {
                if deadline.is_some_and(|deadline| deadline <= now) {
                    *deadline = None;
                    pattern.expire();
                } else if deadline.is_none() && pattern.count.load(Ordering::SeqCst) > 0 {
                    // A period that is negative or beyond what the clock holds ends at once, or never.
                    *deadline = now.checked_add(pattern.period.to_std().unwrap_or(Duration::ZERO));
                }
            }
            match deadlines.iter().flatten().min() {
                Some(next) => tokio::select! {
                    () = sleep_until(*next) => {}
                    () = self.first_counted.notified() => {}
                },
                None => self.first_counted.notified().await,
            }
        }
    }
}
