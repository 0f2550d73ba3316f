//! What a test logs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Interest, set_default};
use tracing::{Event, Level, Metadata, Subscriber};

/// Takes the events of the calling thread until it is dropped, debug events included.
#[must_use]
pub struct LogCapture {
    lines: Arc<Mutex<Vec<String>>>,
    _default: DefaultGuard,
}

impl LogCapture {
    /// Begins to take events.
    pub fn start() -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        Self { lines: Arc::clone(&lines), _default: set_default(Collector(lines)) }
    }

    /// The lines since the start or the last call, as the process log words them: `[LEVEL] plugin/NAME: message`.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Collector(Arc<Mutex<Vec<String>>>);

impl Subscriber for Collector {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.is_event() { Interest::sometimes() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, _attributes: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let level = match *event.metadata().level() {
            Level::WARN => "WARNING".to_owned(),
            level => level.to_string(),
        };
        let mut message = Message(String::new());
        event.record(&mut message);
        let target = event.metadata().target();
        let plugin = if target.starts_with("plugin/") { format!("{target}: ") } else { String::new() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(format!("[{level}] {plugin}{}", message.0));
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.0.push_str(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            use fmt::Write as _;
            let _ = write!(self.0, "{value:?}");
        }
    }
}
