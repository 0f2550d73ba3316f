//! The process log: `[LEVEL] plugin/NAME: message` on standard output, one line an event.
//!
//! Whoever logs makes the line and puts it into a bounded queue; one thread writes. A full queue costs lines, which are
//! counted and reported, and never time. Everything outside printable ASCII is escaped as `\DDD`, so that no name and no
//! text from outside can end a line, begin another or drive a terminal. Warnings and errors that repeat are cut to ten a
//! second of each text.

mod line;
mod queue;
mod repeats;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use coredns_plugin::metrics::{prometheus::IntCounter, register};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use line::Line;
use queue::Queue;

/// How long the end of the process waits for a reader of the log that does not read.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// Debug lines are logged.
static DEBUG: AtomicBool = AtomicBool::new(false);
static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();

static DROPPED: LazyLock<IntCounter> = LazyLock::new(|| {
    let help = "Lines that were not logged because the log was not read fast enough.";
    IntCounter::new("coredns_log_dropped_total", help).unwrap_or_else(|error| unreachable!("metric: {error}"))
});

/// Keeps the log going; writes what is left when it is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    queue: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
}

/// Sends the events of the whole process to standard output, until the guard is dropped.
pub(crate) fn init() -> Guard {
    register(DROPPED.clone());
    let (layer, guard) = start(io::stdout());
    let _ = QUEUE.set(Arc::clone(&guard.queue));
    // Where something else takes the events already, it keeps them.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
    guard
}

/// Whether debug lines are logged, from now on.
pub(crate) fn set_debug(debug: bool) {
    // Relaxed: lines near the switch may go either way.
    if DEBUG.swap(debug, Ordering::Relaxed) != debug {
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Logs why the process ends, behind all that was logged before, and waits until that is written.
pub(crate) fn fatal(message: &str) {
    if let Some(queue) = QUEUE.get() {
        let mut text = "[FATAL] ".to_owned();
        let prefix = text.len();
        text.push_str(message);
        queue.push(Line::new(text, prefix, false));
    }
    flush();
}

/// Waits until all that was logged so far is written, for two seconds at most.
pub(crate) fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH_MAX);
    }
}

/// A layer that logs to `out`, and the guard of the thread that writes.
fn start(out: impl io::Write + Send + 'static) -> (Lines, Guard) {
    let queue = Arc::new(Queue::default());
    let source = Arc::clone(&queue);
    let writer = std::thread::Builder::new().name("log".into()).spawn(move || writer::run(&source, out)).ok();
    (Lines { queue: Arc::clone(&queue) }, Guard { queue, writer })
}

impl Drop for Guard {
    fn drop(&mut self) {
        let is_written = self.queue.end(FLUSH_MAX);
        // A thread that hangs in a write is left behind: the process is about to end.
        if let Some(writer) = self.writer.take().filter(|_| is_written) {
            let _ = writer.join();
        }
    }
}

/// Turns events into lines.
struct Lines {
    queue: Arc<Queue>,
}

/// Events of ours, which are shown from INFO on; those of libraries only from WARN on.
fn is_ours(target: &str) -> bool {
    target.is_empty() || target == "server" || target.starts_with("plugin/") || target.starts_with("coredns")
}

fn is_shown(metadata: &Metadata<'_>) -> bool {
    let most = match (is_ours(metadata.target()), DEBUG.load(Ordering::Relaxed)) {
        (true, true) => Level::DEBUG,
        (true, false) => Level::INFO,
        (false, _) => Level::WARN,
    };
    metadata.is_event() && *metadata.level() <= most
}

impl<S: Subscriber> Layer<S> for Lines {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_shown(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _context: Context<'_, S>) -> bool {
        is_shown(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if DEBUG.load(Ordering::Relaxed) { LevelFilter::DEBUG } else { LevelFilter::INFO })
    }

    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        let level = *metadata.level();
        let mut text = String::with_capacity(line::USUAL_BYTES);
        text.push_str(match level {
            Level::ERROR => "[ERROR] ",
            Level::WARN => "[WARNING] ",
            Level::INFO => "[INFO] ",
            _ => "[DEBUG] ",
        });
        if metadata.target().starts_with("plugin/") {
            text.push_str(metadata.target());
            text.push_str(": ");
        }
        let prefix = text.len();
        event.record(&mut TextOf(&mut text));
        self.queue.push(Line::new(text, prefix, level <= Level::WARN));
    }
}

/// Appends an event's message, and behind it any other fields as ` name=value`.
struct TextOf<'a>(&'a mut String);

impl Visit for TextOf<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.0.push_str(value);
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write as _;
        // Writing into a String fails only where the value's own formatting does.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
