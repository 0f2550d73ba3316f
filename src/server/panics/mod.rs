//! Panics while serving: what is kept of them, what is logged, and when they end the process.
//!
//! A panic in a chain ends one query: the client gets SERVFAIL, a counter goes up, and the process logs a line a
//! second at most. With `debug` in a block of the listener it ends the process. A panic anywhere else on a worker
//! would leave sockets that nobody serves, so it ends the process too.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use coredns_plugin::{clock, fatal};
use futures_util::FutureExt;

use super::{core_metrics, logging};

/// At most one panic in so long is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Stacks are kept: some listener wants them.
static STACKS: AtomicBool = AtomicBool::new(false);
/// Protects when a panic was last logged.
static LOGGED: Mutex<Option<Instant>> = Mutex::new(None);

thread_local! {
    /// This thread is a worker, whose panics are caught and reported by those who catch them.
    static WORKER: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<Origin> = const { RefCell::new(Origin { place: None, stack: None }) };
}

/// Where the last panic of a thread came from.
#[derive(Default)]
struct Origin {
    place: Option<(String, u32)>,
    stack: Option<String>,
}

/// Makes panics on workers silent, so that they are logged once and with the listener; others print as usual.
pub(super) fn install_hook() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| if WORKER.get() { keep(info) } else { usual(info) }));
}

fn keep(info: &PanicHookInfo<'_>) {
    let place = info.location().map(|location| (location.file().to_owned(), location.line()));
    // Relaxed: a switch that is set long before the first query.
    let stack = STACKS.load(Ordering::Relaxed).then(|| Backtrace::force_capture().to_string());
    let _ = LAST.try_with(|last| last.replace(Origin { place, stack }));
}

/// The calling thread is a worker.
pub(super) fn enter_worker() {
    WORKER.set(true);
}

/// From here on stacks are kept.
pub(super) fn keep_stacks() {
    STACKS.store(true, Ordering::Relaxed);
}

/// Counts a panic that was caught while serving a query of `server`, and logs it unless one was logged just now.
pub(super) fn caught(server: &str, stacktrace: bool, panic: &(dyn Any + Send)) {
    core_metrics::PANICS.inc();
    let now = clock::now();
    {
        let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_some_and(|last| now.saturating_duration_since(last) < LOG_INTERVAL) {
            return;
        }
        *logged = Some(now);
    }
    let (text, stack) = describe(panic);
    tracing::error!(target: "server", "Recovered from panic in server: \"{server}\" {text}");
    // One event is one line of the log, and a stack is many.
    for line in stack.as_deref().filter(|_| stacktrace).unwrap_or_default().lines() {
        tracing::error!(target: "server", "{line}");
    }
}

/// Ends the process for a panic in a listener that is being debugged.
#[expect(clippy::print_stderr, reason = "a crash speaks for itself, behind all that was logged")]
pub(super) fn crash(server: &str, panic: &(dyn Any + Send)) -> ! {
    let (text, stack) = describe(panic);
    logging::flush();
    eprintln!("panic in server {server}: {text}\n{}", stack.unwrap_or_default());
    std::process::abort()
}

/// The text of a panic with its place, and its stack where it was kept.
fn describe(panic: &(dyn Any + Send)) -> (String, Option<String>) {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("(no text)");
    let Origin { place, stack } = LAST.take();
    match place {
        Some((file, line)) => (format!("{text} ({file}:{line})"), stack),
        None => (text.to_owned(), stack),
    }
}

/// Runs a task that serves a socket; if it panics, the process ends rather than leave the socket unserved.
pub(super) async fn watched(what: &'static str, task: impl Future<Output = ()>) {
    if let Some(complaint) = complaint(what, task).await {
        fatal(complaint);
    }
}

/// Runs a task to its end; what to say where that end is a panic.
async fn complaint(what: &str, task: impl Future<Output = ()>) -> Option<String> {
    let panic = AssertUnwindSafe(task).catch_unwind().await.err()?;
    core_metrics::PANICS.inc();
    Some(format!("panic in the {what} loop of a worker: {}", describe(&*panic).0))
}

#[cfg(test)]
mod tests;
