//! The process as plugins see it: its end, and the CPUs that it may use.

use std::sync::Mutex;
use std::sync::PoisonError;

use tokio::sync::Notify;

/// Why the process must end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fatal {
    /// The logged line, without its level.
    pub message: String,
}

/// Protects the first reason; later ones do not matter.
static REASON: Mutex<Option<Fatal>> = Mutex::new(None);
static RAISED: Notify = Notify::const_new();

/// Ends the process: the server logs `[FATAL] message` and exits with 1.
pub fn fatal(message: impl Into<String>) {
    let mut reason = REASON.lock().unwrap_or_else(PoisonError::into_inner);
    reason.get_or_insert_with(|| Fatal { message: message.into() });
    RAISED.notify_one();
}

/// Waits until a plugin ends the process; for the server.
pub async fn take_fatal() -> Fatal {
    loop {
        let raised = RAISED.notified();
        if let Some(reason) = REASON.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return reason;
        }
        raised.await;
    }
}

/// The largest number of workers, and of sockets a listener.
pub const WORKERS_MAX: usize = 1024;

/// CPUs that the process may use, at least one: affinity and the quota of the control group count, and `GOMAXPROCS`
/// overrides them, as manifests for CoreDNS set it.
#[must_use]
pub fn usable_cpus() -> usize {
    let asked = std::env::var("GOMAXPROCS").ok().and_then(|text| text.parse().ok());
    let asked = asked.filter(|count| (1..=WORKERS_MAX).contains(count));
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(WORKERS_MAX)))
}
