//! What happens to a query: a hit, a stale hit, or a miss.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use coredns_plugin::wire::{Header, Opcode, Rcode, RrType};
use coredns_plugin::{Answer, BoxError, BoxFuture, Lifecycle, Next, Outcome, Plugin, Query, ServerInfo, Start, clock};

use super::NAME;
use super::entry::{Entry, Key};
use super::flights::{Flights, Landing, Waiting};
use super::judge::Side;
use super::keep::{Kept, Purpose};
use super::metrics::{Count, Numbers};
use super::refresh::{Reason, refresh, since};
use super::setup::{Config, Stale};
use super::store::Store;

/// The metadata label that is kept with an answer and set again by a hit.
pub(super) const WILDCARD: &str = "zone/wildcard";
/// How long a query waits for an equal one that is on its way; then it goes its own way.
const WAIT: Duration = Duration::from_secs(2);

/// The plugin of one server block.
pub struct Cache {
    inner: Arc<Inner>,
}

/// What the plugin and its refreshes share.
pub(super) struct Inner {
    pub(super) config: Config,
    pub(super) success: Store,
    pub(super) denial: Store,
    pub(super) flights: Arc<Flights>,
    /// The secret of the hashes.
    pub(super) seed: u64,
    /// Refreshes under way.
    pub(super) refreshes: AtomicUsize,
    /// Seconds since 1970.
    wall: fn() -> u32,
    /// The label `zones`.
    zones: String,
    /// The numbers of the listeners, from the start on.
    servers: OnceLock<Box<[Listener]>>,
}

struct Listener {
    server: Arc<ServerInfo>,
    numbers: Arc<Numbers>,
}

/// An entry that can be served.
struct Found {
    entry: Arc<Entry>,
    side: Side,
}

impl Cache {
    /// A plugin without entries.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self::with_wall_clock(config, clock::unix_seconds)
    }

    /// The same with another clock for the validity of signatures; it returns seconds since 1970.
    ///
    /// All other times are those at which queries came.
    #[must_use]
    pub fn with_wall_clock(config: Config, wall: fn() -> u32) -> Self {
        let seed = rand::random();
        let up_to = config.stale.up_to;
        let zones: Vec<String> = config.zones.as_slice().iter().map(ToString::to_string).collect();
        let inner = Inner {
            success: Store::new(config.success.capacity, up_to, rand::random()),
            denial: Store::new(config.denial.capacity, up_to, rand::random()),
            config,
            flights: Flights::new(),
            seed,
            refreshes: AtomicUsize::new(0),
            wall,
            zones: zones.join(","),
            servers: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// How many positive answers and how many denials are kept.
    #[must_use]
    pub fn entries(&self) -> (usize, usize) {
        (self.inner.success.len(), self.inner.denial.len())
    }

    fn fresh<'a>(&'a self, query: &'a Query, next: Next<'a>, found: &Found, left: u32) -> Outcome<'a> {
        let Inner { config, .. } = &*self.inner;
        let entry = &found.entry;
        let prefetch = config.prefetch;
        if prefetch.amount > 0 {
            let hits = entry.upkeep().hits.count(prefetch.window, query.received());
            let threshold = (u64::from(entry.ttl) * u64::from(prefetch.percent)).div_ceil(100);
            if hits >= prefetch.amount && u64::from(left) <= threshold {
                refresh(&self.inner, query, next, entry, Reason::Prefetch);
            }
        }
        Outcome::Now(entry.answer(query, if config.keep_ttl { entry.ttl } else { left }))
    }

    fn stale<'a>(&'a self, query: &'a Query, next: Next<'a>, key: Key<'a>, entry: Arc<Entry>) -> Outcome<'a> {
        let inner = &*self.inner;
        let Stale { verify, verify_timeout, .. } = inner.config.stale;
        if !verify {
            refresh(&self.inner, query, next, &entry, Reason::Stale);
            return Outcome::Now(inner.stale_answer(query, &entry));
        }
        if entry.upkeep().not_before.is_some_and(|time| query.received() < time) {
            return Outcome::Now(inner.stale_answer(query, &entry));
        }
        let limit = if verify_timeout.is_zero() { WAIT } else { verify_timeout };
        if let Some(waiting) = inner.flights.find(&key) {
            return inner.verified(query, entry, waiting, limit);
        }
        if !verify_timeout.is_zero() {
            return match refresh(&self.inner, query, next, &entry, Reason::Verify) {
                Some(waiting) => inner.verified(query, entry, waiting, limit),
                None => Outcome::Now(inner.stale_answer(query, &entry)),
            };
        }
        let finish = move |kept: &Kept, now| match kept.landing.refreshed {
            true => None,
            false => {
                inner.note_failed(&entry, now);
                Some(inner.stale_answer(query, &entry))
            }
        };
        inner.fetch(query, next, key, |_| Purpose::Refresh, finish)
    }

    fn miss<'a>(&'a self, query: &'a Query, next: Next<'a>, key: Key<'a>) -> Outcome<'a> {
        let inner = &*self.inner;
        let Some(waiting) = inner.flights.find(&key) else { return inner.ask(query, next, key) };
        Outcome::Later(Box::pin(async move {
            let deadline = tokio::time::Instant::now() + WAIT;
            let mut flight = Some(waiting);
            while let Some(waiting) = flight.take() {
                match tokio::time::timeout_at(deadline, waiting.landed()).await {
                    Ok(Some(landing)) => match &landing.entry {
                        Some(entry) => return entry.shared_answer(query),
                        None => break,
                    },
                    // Who asked has gone; one of those that waited asks again.
                    Ok(None) => flight = inner.flights.find(&key),
                    Err(_) => break,
                }
            }
            inner.ask(query, next, key).wait().await
        }))
    }
}

impl Inner {
    /// Tells whether this plugin has to do with a query.
    #[inline]
    fn takes(&self, query: &Query) -> bool {
        query.header().opcode() == Opcode::QUERY
            && !matches!(query.qtype(), RrType::AXFR | RrType::IXFR)
            && self.config.zones.matching(query.name()).is_some()
    }

    pub(super) fn wall_seconds(&self) -> u32 {
        (self.wall)()
    }

    /// Tells whether answers of a kind are not to be kept for a name.
    pub(super) fn is_disabled(&self, side: Side, query: &Query) -> bool {
        let zones = match side {
            Side::Success => &self.config.disable_success,
            Side::Denial => &self.config.disable_denial,
        };
        zones.matching(query.name()).is_some()
    }

    /// Hands the numbers of the query's listener to `use_them`.
    #[inline]
    pub(super) fn numbers(&self, query: &Query, use_them: impl FnOnce(&Numbers)) {
        let listeners = self.servers.get().map_or(&[][..], |listeners| &**listeners);
        let server = query.server();
        // A listener that a reload has kept has a value of its own, with the same label.
        let is_it = |known: &Arc<ServerInfo>| Arc::ptr_eq(known, server) || known.label == server.label;
        match listeners.iter().find(|listener| is_it(&listener.server)) {
            Some(listener) => use_them(&listener.numbers),
            None => use_them(&Numbers::of(&query.server().label, &self.zones, query.view())),
        }
    }

    #[inline]
    pub(super) fn count(&self, query: &Query, count: Count) {
        self.numbers(query, |numbers| numbers.count(count));
    }

    /// The entry that a question is answered from.
    #[inline]
    fn find(&self, key: &Key<'_>, now: Instant) -> Option<Found> {
        let prefer_positive = self.config.stale.prefer_positive && !self.config.stale.up_to.is_zero();
        if prefer_positive && let Some(entry) = self.success.get(key).and_then(|entry| self.answering(entry, now)) {
            return Some(Found { entry, side: Side::Success });
        }
        let denial = self.denial.get(key).filter(|entry| self.is_usable(entry, now));
        if let Some(entry) = denial.as_ref().filter(|entry| entry.rcode != Rcode::SERVFAIL) {
            return Some(Found { entry: Arc::clone(entry), side: Side::Denial });
        }
        let success = self.success.get(key).filter(|entry| self.is_usable(entry, now));
        match success {
            Some(entry) => Some(Found { entry, side: Side::Success }),
            None => denial.map(|entry| Found { entry, side: Side::Denial }),
        }
    }

    /// An entry that answers its question, or the last that did.
    fn answering(&self, entry: Arc<Entry>, now: Instant) -> Option<Arc<Entry>> {
        let entry = if entry.answers { entry } else { entry.prior.as_ref().map(Arc::clone)? };
        self.is_usable(&entry, now).then_some(entry)
    }

    /// Tells whether an entry can be served; a failure is never served beyond its time (RFC 9520 §3.2).
    #[inline]
    fn is_usable(&self, entry: &Entry, now: Instant) -> bool {
        let in_time = match entry.remaining(now) {
            Ok(_) => true,
            Err(past) => {
                Duration::from_secs(past) < self.config.stale.up_to
                    && !matches!(entry.rcode, Rcode::SERVFAIL | Rcode::NOTIMP)
            }
        };
        in_time && entry.is_current()
    }

    fn stale_answer(&self, query: &Query, entry: &Entry) -> Answer {
        self.count(query, Count::Stale);
        let Config { stale: Stale { response_ttl, .. }, keep_ttl, .. } = self.config;
        let ttl = match response_ttl {
            0 if keep_ttl => entry.ttl,
            // Larger ones would mean 0 (RFC 2181 §8).
            ttl => ttl.min(i32::MAX.unsigned_abs()),
        };
        entry.answer(query, ttl)
    }

    /// Waits for a refresh and serves what it brings, or else the stale entry.
    fn verified<'a>(&'a self, query: &'a Query, entry: Arc<Entry>, waiting: Waiting, limit: Duration) -> Outcome<'a> {
        Outcome::Later(Box::pin(async move {
            let landing = tokio::time::timeout(limit, waiting.landed()).await.ok().flatten();
            match landing.as_deref() {
                Some(Landing { entry: Some(fresh), refreshed: true, kept }) => match kept {
                    true => fresh.answer(query, fresh.ttl),
                    false => fresh.shared_answer(query),
                },
                _ => self.stale_answer(query, &entry),
            }
        }))
    }

    /// Asks for what is not there.
    fn ask<'a>(&'a self, query: &'a Query, next: Next<'a>, key: Key<'a>) -> Outcome<'a> {
        self.fetch(query, next, key, |waited| Purpose::Miss { waited }, |_, _| None)
    }

    /// Asks the rest of the chain for the client; `instead` may replace the answer.
    fn fetch<'a>(
        &'a self,
        query: &'a Query,
        next: Next<'a>,
        key: Key<'a>,
        why: impl FnOnce(bool) -> Purpose + Send + 'a,
        instead: impl FnOnce(&Kept, Instant) -> Option<Answer> + Send + 'a,
    ) -> Outcome<'a> {
        // With AD, one answer serves clients that want to know about authenticity and those that do not.
        let outcome = if query.header().has(Header::AD) {
            next.serve(query)
        } else {
            next.serve_owned(query.with_authentic_data(), |_, answer| answer)
        };
        let future = match outcome {
            Outcome::Now(answer) => {
                let now = query.received();
                let kept = self.keep(query, &key, answer, now, why(false));
                return Outcome::Now(instead(&kept, now).unwrap_or(kept.answer));
            }
            Outcome::Later(future) => future,
        };
        let shared = !self.is_disabled(Side::Success, query) && !self.is_disabled(Side::Denial, query);
        let flight = if shared { self.flights.begin(&key) } else { None };
        let begun = clock::now();
        Outcome::Later(Box::pin(async move {
            let answer = future.await;
            let now = since(query, begun);
            let kept = self.keep(query, &key, answer, now, why(true));
            let instead = instead(&kept, now);
            if let Some(flight) = flight {
                flight.land(kept.landing);
            }
            instead.unwrap_or(kept.answer)
        }))
    }
}

impl Plugin for Cache {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        let inner = &*self.inner;
        if !inner.takes(query) {
            return next.serve(query);
        }
        let now = query.received();
        let key = Key::of(query, inner.seed);
        let found = inner.find(&key, now);
        inner.numbers(query, |numbers| {
            numbers.count(Count::Requests);
            numbers.count(found.as_ref().map_or(Count::Misses, |found| Count::Hits(found.side)));
        });
        let Some(found) = found else { return self.miss(query, next, key) };
        found.entry.touch(now);
        match found.entry.remaining(now) {
            Ok(left) => self.fresh(query, next, &found, left),
            Err(_) => self.stale(query, next, key, found.entry),
        }
    }

    fn keeps_answers(&self) -> bool {
        true
    }
}

impl Lifecycle for Cache {
    fn start<'a>(&'a self, start: &'a Start) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async {
            let Inner { servers, zones, .. } = &*self.inner;
            let listeners = start.servers.iter().map(|server| Listener {
                server: Arc::clone(server),
                numbers: Numbers::of(&server.label, zones, &start.view),
            });
            // An instance is started once; a second start would find the same labels.
            let _ = servers.set(listeners.collect());
            Ok(())
        })
    }
}
