//! From a query to the server block that serves it, and through its chain.
//!
//! Budget for a query of a block without views and metadata: one walk over the zones of the listener (some 10 ns a
//! zone, or one hash look-up a label where there are many), no allocation.

use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use coredns_plugin::{
    Answer, BoxFuture, Core, Failure, Metadata, Next, Outcome, Plugin, Query, ServerInfo, View, Zones,
};
use coredns_wire::{Class, Name, Opcode, Rcode, RrType};

use super::panics;

#[cfg(test)]
mod tests;

/// Up to this many zones are compared one by one; beyond, they are looked up by hash.
const LINEAR_ZONES: usize = 16;

/// A server block as one listener serves it.
pub(crate) struct Site {
    /// The links of the chain, in order; the block's other listeners share them.
    pub(crate) chain: Arc<[Arc<dyn Plugin>]>,
    /// The condition on the block.
    pub(crate) view: Option<View>,
    /// The zones for which metadata are collected.
    pub(crate) metadata: Option<Zones>,
    /// Some plugin keeps answers, so those below are asked for stamps.
    keeps_answers: bool,
}

impl Site {
    /// A block's chain with its view and metadata zones.
    pub(crate) fn new(chain: Arc<[Arc<dyn Plugin>]>, view: Option<View>, metadata: Option<Zones>) -> Self {
        let keeps_answers = chain.iter().any(|plugin| plugin.keeps_answers());
        Self { chain, view, metadata, keeps_answers }
    }

    /// Collects metadata and asks the view; `false` where the block does not take the query.
    fn admits(&self, query: &mut Query) -> bool {
        if let Some(zones) = &self.metadata {
            let store = Arc::new(Metadata::new());
            if zones.matching(query.name()).is_some() {
                for plugin in self.chain.iter().filter(|plugin| plugin.provides_metadata()) {
                    plugin.metadata(query, &store);
                }
            }
            query.enter(None, Some(store));
        }
        let Some(view) = &self.view else { return true };
        if !view.filter.accepts(query) {
            query.enter(None, None);
            return false;
        }
        query.set_view(Arc::clone(&view.name));
        true
    }
}

/// The blocks of one zone, in the order of the Corefile.
struct Zone {
    name: Name,
    sites: Vec<Arc<Site>>,
}

/// All blocks of a listener.
pub(crate) struct Dispatcher {
    /// The listener.
    pub(crate) info: Arc<ServerInfo>,
    /// Longest first.
    zones: Vec<Zone>,
    /// The places of zones in `zones`, where there are many.
    index: Option<HashMap<Name, usize>>,
    /// Some block takes classes other than IN.
    any_class: bool,
    /// Panics end the process.
    pub(crate) debug: bool,
    /// Panics are logged with their stack.
    pub(crate) stacktrace: bool,
    /// Itself, for work that outlives a query.
    own: Weak<Self>,
}

/// Where a query goes.
pub(crate) enum Route<'a> {
    /// To a block.
    Site(&'a Site),
    /// Nowhere: the server answers with this code itself.
    Refused(Rcode),
    /// The client speaks another version of EDNS.
    BadVersion,
}

impl Dispatcher {
    /// The blocks with their zones, in the order of the Corefile.
    pub(crate) fn new(
        info: Arc<ServerInfo>,
        blocks: Vec<(Name, Arc<Site>)>,
        debug: bool,
        stacktrace: bool,
    ) -> Arc<Self> {
        let any_class = blocks.iter().any(|(_, site)| site.chain.iter().any(|plugin| plugin.any_class()));
        let mut zones: Vec<Zone> = Vec::new();
        for (name, site) in blocks {
            match zones.iter_mut().find(|zone| zone.name == name) {
                Some(zone) => zone.sites.push(site),
                None => zones.push(Zone { name, sites: vec![site] }),
            }
        }
        zones.sort_by_key(|zone| std::cmp::Reverse(zone.name.len()));
        let index = (zones.len() > LINEAR_ZONES)
            .then(|| zones.iter().enumerate().map(|(at, zone)| (zone.name.clone(), at)).collect());
        if debug || stacktrace {
            panics::keep_stacks();
        }
        Arc::new_cyclic(|own| Self { info, zones, index, any_class, debug, stacktrace, own: Weak::clone(own) })
    }

    /// Finds the block for a query, and sets view and metadata of the query for it.
    ///
    /// The longest zone wins; DS records lie with the parent, so for them the shortest zone but the root does
    /// (RFC 4035 §3.1.4.1, and as CoreDNS does it).
    #[inline]
    pub(crate) fn route(&self, query: &mut Query) -> Route<'_> {
        if query.qclass() != Class::IN
            && let Some(refused) = self.refuse_class(query)
        {
            return refused;
        }
        if query.edns().is_some_and(|edns| edns.version != 0) {
            return Route::BadVersion;
        }
        if query.qtype() == RrType::DS {
            return self.route_to_parent(query);
        }
        for zone in self.containing(query.name().clone()) {
            if let Some(route) = enter(zone, query) {
                return route;
            }
        }
        Route::Refused(Rcode::REFUSED)
    }

    /// Other classes reach only blocks that take them; in a NOTIFY those of RFC 2136 make no sense at all.
    #[cold]
    fn refuse_class(&self, query: &Query) -> Option<Route<'static>> {
        match (query.header().opcode(), query.qclass()) {
            (Opcode::NOTIFY, Class::NONE | Class::ANY) => Some(Route::Refused(Rcode::FORMERR)),
            _ => (!self.any_class).then_some(Route::Refused(Rcode::REFUSED)),
        }
    }

    fn route_to_parent(&self, query: &mut Query) -> Route<'_> {
        let mut last: Option<&Site> = None;
        for zone in self.containing(query.name().clone()) {
            if zone.name.is_root() && last.is_some() {
                break;
            }
            match enter(zone, query) {
                Some(Route::Site(site)) => last = Some(site),
                Some(other) => return other,
                None => {}
            }
        }
        match last {
            // A block above may have been tried since and have declined: its view and metadata must not stay.
            Some(site) if site.admits(query) => Route::Site(site),
            _ => Route::Refused(Rcode::REFUSED),
        }
    }

    /// The zones that contain `name`, longest first.
    fn containing(&self, name: Name) -> Containing<'_> {
        Containing { zones: &self.zones, index: self.index.as_ref(), at: 0, name: Some(name) }
    }
}

/// Tries the blocks of a zone in order.
fn enter<'a>(zone: &'a Zone, query: &mut Query) -> Option<Route<'a>> {
    for site in &zone.sites {
        if site.chain.is_empty() {
            if zone.name.is_root() {
                continue;
            }
            return Some(Route::Refused(Rcode::REFUSED));
        }
        if site.admits(query) {
            if site.keeps_answers {
                query.want_stamp();
            }
            return Some(Route::Site(site));
        }
    }
    None
}

struct Containing<'a> {
    zones: &'a [Zone],
    index: Option<&'a HashMap<Name, usize>>,
    /// The next zone to compare, without an index.
    at: usize,
    /// The next suffix to look up; all of the name without an index.
    name: Option<Name>,
}

impl<'a> Iterator for Containing<'a> {
    type Item = &'a Zone;

    #[inline]
    fn next(&mut self) -> Option<&'a Zone> {
        let Some(index) = self.index else {
            let name = self.name.as_ref()?;
            while let Some(zone) = self.zones.get(self.at) {
                self.at += 1;
                if name.is_within(&zone.name) {
                    return Some(zone);
                }
            }
            return None;
        };
        while let Some(name) = self.name.take() {
            self.name = name.parent();
            if let Some(zone) = index.get(&name).and_then(|at| self.zones.get(*at)) {
                return Some(zone);
            }
        }
        None
    }
}

impl Core for Dispatcher {
    fn dispatch(&self, mut query: Query) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            match self.route(&mut query) {
                Route::Site(site) => Next::start(&site.chain, self).serve(&query).wait().await,
                Route::Refused(rcode) => Answer::Failed(Failure::silent(rcode)),
                Route::BadVersion => Answer::Failed(Failure::silent(Rcode::BADVERS)),
            }
        })
    }

    fn shared(&self) -> Option<Arc<dyn Core>> {
        self.own.upgrade().map(|own| own as Arc<dyn Core>)
    }

    fn panicked(&self, panic: Panic) {
        if self.debug {
            panics::crash(&self.info.label, &*panic);
        }
        panics::caught(&self.info.label, self.stacktrace, &*panic);
    }
}

/// What the server makes of a query.
pub(crate) struct Served {
    /// The answer of the chain, or of the server itself.
    pub(crate) answer: Answer,
    /// No chain was asked: metrics count the query under the zone `dropped`.
    pub(crate) by_core: bool,
}

impl Served {
    const fn core(rcode: Rcode) -> Self {
        Self { answer: Answer::Failed(Failure::silent(rcode)), by_core: true }
    }
}

/// Routes a query and runs it through its chain; panics become SERVFAIL unless `debug` is set.
pub(crate) async fn serve(dispatcher: &Dispatcher, query: &mut Query, has_question: bool) -> Served {
    if !has_question {
        return Served::core(Rcode::SERVFAIL);
    }
    let site = match dispatcher.route(query) {
        Route::Site(site) => site,
        Route::Refused(rcode) => return Served::core(rcode),
        Route::BadVersion => return Served { by_core: false, ..Served::core(Rcode::BADVERS) },
    };
    let query = &*query;
    match guarded(dispatcher, site, query).await {
        Ok(answer) => Served { answer, by_core: false },
        Err(panic) if dispatcher.debug => panics::crash(&dispatcher.info.label, &*panic),
        Err(panic) => {
            panics::caught(&dispatcher.info.label, dispatcher.stacktrace, &*panic);
            Served::core(Rcode::SERVFAIL)
        }
    }
}

type Panic = Box<dyn std::any::Any + Send>;

/// Runs the chain; a panic, at once or while it waits, ends this query and nothing else.
async fn guarded<'a>(dispatcher: &'a Dispatcher, site: &'a Site, query: &'a Query) -> Result<Answer, Panic> {
    // A chain shares only data that stay whole when a reader unwinds: snapshots and counters.
    let outcome = catch_unwind(AssertUnwindSafe(|| Next::start(&site.chain, dispatcher).serve(query)))?;
    match outcome {
        Outcome::Now(answer) => Ok(answer),
        Outcome::Later(future) => Guarded(future).await,
    }
}

struct Guarded<'a>(BoxFuture<'a, Answer>);

impl Future for Guarded<'_> {
    type Output = Result<Answer, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}
