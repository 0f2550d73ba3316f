//! A listener: what all workers share of it, and what each has of its own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coredns_plugin::{ServerInfo, Timeouts};
use tokio::sync::Notify;

use super::core_metrics;
use super::dispatch::Dispatcher;
use super::slot::Handle;

/// Time-outs and bounds of a listener, all set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// For the first query of a connection, from when it is accepted.
    pub(crate) read: Duration,
    /// For writing replies to a client that does not read.
    pub(crate) write: Duration,
    /// For each later query, from the end of the one before.
    pub(crate) idle: Duration,
    /// Queries after which a connection is closed.
    pub(crate) max_tcp_queries: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            read: Duration::from_secs(3),
            write: Duration::from_secs(5),
            idle: Duration::from_secs(10),
            max_tcp_queries: None,
        }
    }
}

impl Limits {
    /// What a block says goes over what was said before.
    pub(crate) fn apply(&mut self, timeouts: &Timeouts) {
        self.read = timeouts.read.unwrap_or(self.read);
        self.write = timeouts.write.unwrap_or(self.write);
        self.idle = timeouts.idle.unwrap_or(self.idle);
        self.max_tcp_queries = timeouts.max_tcp_queries.unwrap_or(self.max_tcp_queries);
    }
}

/// What the control plane sets, and each worker takes over when it is told to.
pub(crate) struct Shared {
    /// The listener as plugins see it.
    pub(crate) info: Arc<ServerInfo>,
    /// Protects blocks and limits while they are replaced; workers look only when told to.
    current: Mutex<(Arc<Dispatcher>, Limits)>,
}

impl Shared {
    /// A listener with its first blocks.
    pub(crate) fn new(dispatcher: Arc<Dispatcher>, limits: Limits) -> Self {
        Self { info: Arc::clone(&dispatcher.info), current: Mutex::new((dispatcher, limits)) }
    }

    /// Sets other blocks; workers serve them once they have been told to look. Returns the old ones.
    pub(crate) fn replace(&self, dispatcher: Arc<Dispatcher>, limits: Limits) -> Arc<Dispatcher> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, (dispatcher, limits)).0
    }

    fn load(&self) -> (Arc<Dispatcher>, Limits) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One worker's part of a listener, used by its UDP socket, its TCP socket and all its connections.
pub(crate) struct Endpoint {
    /// The listener as plugins see it.
    pub(crate) info: Arc<ServerInfo>,
    shared: Arc<Shared>,
    handle: RefCell<Arc<Handle>>,
    limits: Cell<Limits>,
    /// Queries of connections that wait for I/O.
    waiting: Cell<usize>,
    stopping: Cell<bool>,
    stop: Notify,
}

impl Endpoint {
    /// A worker's part of `shared`.
    pub(crate) fn new(shared: Arc<Shared>) -> Rc<Self> {
        let (dispatcher, limits) = shared.load();
        Rc::new(Self {
            info: Arc::clone(&shared.info),
            shared,
            handle: RefCell::new(Arc::new(Handle { dispatcher })),
            limits: Cell::new(limits),
            waiting: Cell::new(0),
            stopping: Cell::new(false),
            stop: Notify::new(),
        })
    }

    /// The blocks, for one query.
    #[inline]
    pub(crate) fn handle(&self) -> Arc<Handle> {
        Arc::clone(&self.handle.borrow())
    }

    /// The time-outs and bounds in force.
    pub(crate) fn limits(&self) -> Limits {
        self.limits.get()
    }

    /// Tells whether this is the worker's part of `shared`.
    pub(crate) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Queries of this worker's connections to the listener that wait for I/O.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// One more query of a connection waits.
    pub(crate) fn begin_wait(&self) {
        self.waiting.set(self.waiting.get() + 1);
        core_metrics::PENDING.inc();
    }

    /// So many queries of a connection wait no longer.
    pub(crate) fn end_waits(&self, count: usize) {
        self.waiting.set(self.waiting.get().saturating_sub(count));
        core_metrics::PENDING.sub(count as i64);
    }

    /// Takes over what the control plane has set; queries under way keep what they have.
    pub(crate) fn refresh(&self) {
        let (dispatcher, limits) = self.shared.load();
        self.handle.replace(Arc::new(Handle { dispatcher }));
        self.limits.set(limits);
    }

    /// Ends receiving and accepting; what has arrived is still answered.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.stop.notify_waiters();
    }

    /// Waits for [`Endpoint::stop`].
    pub(crate) async fn stopped(&self) {
        loop {
            let notified = self.stop.notified();
            if self.stopping.get() {
                return;
            }
            notified.await;
        }
    }

    /// Tells whether [`Endpoint::stop`] was called.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }
}
