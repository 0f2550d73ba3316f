//! Plugins in a chain.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use coredns_wire::{Name, Rcode, RrType};

use crate::lifecycle::BoxFuture;
use crate::metadata::Metadata;
use crate::outcome::{Answer, Failure, Outcome};
use crate::query::Query;
use crate::services::{AutoPath, Transfer};
use crate::zones::Zones;

/// Lookups that the server makes for itself (targets of aliases) for one query of a client.
pub const MAX_LOOKUPS: u8 = 10;

/// A link of a chain.
///
/// One value serves all zones and listeners of its server block, from all workers at once.
pub trait Plugin: Send + Sync {
    /// The name, as in `plugin.cfg`.
    fn name(&self) -> &'static str;

    /// Answers the query, or passes it on with `next`.
    ///
    /// It must not block, and must not take longer than 2 ms at a stretch. A panic becomes SERVFAIL.
    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a>;

    /// For plugins that are not ready from the start: whether they are by now. `None` counts as ready.
    fn ready(&self) -> Option<bool> {
        None
    }

    /// Adds labels about the query to `store`; called where the block collects metadata.
    fn metadata(&self, query: &Query, store: &Metadata) {
        let _ = (query, store);
    }

    /// Tells whether this plugin adds labels about queries.
    fn provides_metadata(&self) -> bool {
        false
    }

    /// Tells whether this plugin keeps answers, and so asks those below for stamps.
    fn keeps_answers(&self) -> bool {
        false
    }

    /// Tells whether classes other than IN may reach this block, as with `chaos` and `forward`.
    fn any_class(&self) -> bool {
        false
    }

    /// The zones' records for transfers, where this plugin has them.
    fn transfer(&self) -> Option<&dyn Transfer> {
        None
    }

    /// Zones that this plugin has found while serving, beside those of the block; metrics go by them too.
    fn found_zones(&self) -> Option<&arc_swap::ArcSwap<Zones>> {
        None
    }

    /// Search paths of clients, where this plugin knows them.
    fn auto_path(&self) -> Option<&dyn AutoPath> {
        None
    }
}

/// What the server does for chains: asking itself, and keeping what outlives a query.
pub trait Core: Send + Sync {
    /// Serves a query as if it had come to the listener: routing, views and the whole chain of the block.
    fn dispatch(&self, query: Query) -> BoxFuture<'_, Answer>;

    /// A handle on this server for work that outlives a query; `None` where there can be no such work.
    fn shared(&self) -> Option<Arc<dyn Core>>;

    /// Reports a panic of a chain in such work, which no client's query ends with.
    fn panicked(&self, panic: Box<dyn Any + Send>);
}

/// No plugin was left to pass a query to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoNextPlugin {
    /// The plugin that passed it on.
    pub plugin: &'static str,
}

impl fmt::Display for NoNextPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin/{}: no next plugin found", self.plugin)
    }
}

impl std::error::Error for NoNextPlugin {}

/// A client's query has led to more than [`MAX_LOOKUPS`] lookups inside the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TooManyLookups;

impl fmt::Display for TooManyLookups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {MAX_LOOKUPS} lookups inside the server for one query")
    }
}

impl std::error::Error for TooManyLookups {}

/// The rest of a chain, behind the plugin that holds it.
#[derive(Clone, Copy)]
pub struct Next<'a> {
    chain: &'a Arc<[Arc<dyn Plugin>]>,
    position: usize,
    core: &'a dyn Core,
}

impl<'a> Next<'a> {
    /// The whole of a chain.
    #[must_use]
    pub fn start(chain: &'a Arc<[Arc<dyn Plugin>]>, core: &'a dyn Core) -> Self {
        Self { chain, position: 0, core }
    }

    /// Passes the query on.
    #[inline]
    pub fn serve(self, query: &'a Query) -> Outcome<'a> {
        match self.chain.get(self.position) {
            Some(plugin) => plugin.serve(query, Self { position: self.position + 1, ..self }),
            None => Outcome::failed(Rcode::SERVFAIL, NoNextPlugin { plugin: self.caller() }),
        }
    }

    /// Passes a changed copy of the query on, and applies `finish` to what comes back.
    pub fn serve_owned(self, query: Query, finish: impl FnOnce(&Query, Answer) -> Answer + Send + 'a) -> Outcome<'a> {
        Outcome::of(async move {
            let answer = self.reborrow().serve(&query).wait().await;
            finish(&query, answer)
        })
    }

    /// Asks the whole server for `name` and `qtype` on behalf of the query's client: for targets of aliases.
    ///
    /// More than [`MAX_LOOKUPS`] of these for one client's query give SERVFAIL: that is a loop.
    pub fn lookup(self, query: &Query, name: Name, qtype: RrType) -> Outcome<'a> {
        if query.count_lookup() > u32::from(MAX_LOOKUPS) {
            return Outcome::failed(Rcode::SERVFAIL, TooManyLookups);
        }
        let asked = query.with_question(name, qtype);
        Outcome::of(self.core.dispatch(asked))
    }

    /// The rest of the chain as a value that outlives the query: for a refresh behind the client's back.
    ///
    /// It keeps the instance alive, so its use must end by itself; a reload waits for it for a bounded time. `None`
    /// where the server does not allow such work.
    #[must_use]
    pub fn detach(self) -> Option<Detached> {
        Some(Detached { chain: Arc::clone(self.chain), position: self.position, core: self.core.shared()? })
    }

    /// The name of the plugin that holds this.
    fn caller(self) -> &'static str {
        self.position.checked_sub(1).and_then(|at| self.chain.get(at)).map_or("", |plugin| plugin.name())
    }

    /// The same with a shorter life, so that it can serve a query that lives no longer than a future.
    const fn reborrow<'b>(self) -> Next<'b>
    where
        'a: 'b,
    {
        self
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.chain.iter().skip(self.position).map(|plugin| plugin.name())).finish()
    }
}

/// The rest of a chain, held by work that outlives the query that began it; see [`Next::detach`].
pub struct Detached {
    chain: Arc<[Arc<dyn Plugin>]>,
    position: usize,
    core: Arc<dyn Core>,
}

impl Detached {
    /// Serves a query by the rest of the chain; a panic there is reported to the server, and the answer is SERVFAIL.
    pub async fn serve(&self, query: &Query) -> Answer {
        let next = Next { chain: &self.chain, position: self.position, core: &*self.core };
        let mut serving = pin!(async { next.serve(query).wait().await });
        // A chain shares only data that stay whole when a reader unwinds: snapshots and counters.
        let served =
            std::future::poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| serving.as_mut().poll(context))) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
                Err(panic) => Poll::Ready(Err(panic)),
            });
        served.await.unwrap_or_else(|panic| {
            self.core.panicked(panic);
            Answer::Failed(Failure::silent(Rcode::SERVFAIL))
        })
    }
}

impl fmt::Debug for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Next { chain: &self.chain, position: self.position, core: &*self.core }.fmt(f)
    }
}
