//! Queries behind the client's back: prefetch, and the refresh of stale answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coredns_plugin::{Answer, Next, Query, clock};

use super::entry::{Entry, Key};
use super::flights::{Flight, Waiting};
use super::handler::Inner;
use super::keep::Purpose;
use super::metrics::Count;

/// Refreshes of one plugin that may be under way; beyond, what there is is served.
const REFRESHES_MAX: usize = 1024;
/// What is not answered by then has failed.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(10);

/// See [`since`].
const STEP: Duration = Duration::from_millis(100);

/// Why an entry is fetched again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It is popular and about to end.
    Prefetch,
    /// It has ended, and is served all the same.
    Stale,
    /// It has ended, and the client waits for a fresh one for a while.
    Verify,
}

/// A refresh under way: the mark on the entry and the place among the refreshes, both given back at its end.
struct Mark {
    inner: Arc<Inner>,
    entry: Arc<Entry>,
}

impl Mark {
    /// Marks an entry; `None` where it is being fetched already, must not be yet, or too many others are.
    fn set(inner: &Arc<Inner>, entry: &Arc<Entry>, reason: Reason, now: Instant) -> Option<Self> {
        {
            let mut upkeep = entry.upkeep();
            let too_early = reason != Reason::Prefetch && upkeep.not_before.is_some_and(|time| now < time);
            if upkeep.refreshing || too_early || !take_place(&inner.refreshes) {
                return None;
            }
            upkeep.refreshing = true;
        }
        Some(Self { inner: Arc::clone(inner), entry: Arc::clone(entry) })
    }
}

fn take_place(refreshes: &AtomicUsize) -> bool {
    let more = |count: usize| (count < REFRESHES_MAX).then_some(count + 1);
    // Relaxed: a bound, not a hand-over.
    refreshes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.entry.upkeep().refreshing = false;
        self.inner.refreshes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Fetches an entry again, unless that is under way; returns whom to wait for where it was begun.
pub(super) fn refresh(
    inner: &Arc<Inner>,
    query: &Query,
    next: Next<'_>,
    entry: &Arc<Entry>,
    reason: Reason,
) -> Option<Waiting> {
    let runtime = tokio::runtime::Handle::try_current().ok()?;
    let mark = Mark::set(inner, entry, reason, query.received())?;
    let rest = next.detach()?;
    let flight = inner.flights.begin(&Key::of(query, inner.seed));
    let waiting = flight.as_ref().map(Flight::wait);
    let asked = query.for_refresh(query.received());
    if reason != Reason::Verify {
        inner.count(query, Count::Prefetches);
    }
    let begun = clock::now();
    runtime.spawn(async move {
        let answer = tokio::time::timeout(REFRESH_TIMEOUT, rest.serve(&asked)).await.unwrap_or(Answer::Dropped);
        let inner = &mark.inner;
        let stored = since(&asked, begun);
        let kept = inner.keep(&asked, &Key::of(&asked, inner.seed), answer, stored, Purpose::Refresh);
        if reason != Reason::Prefetch && !kept.landing.refreshed {
            inner.note_failed(&mark.entry, stored);
        }
        // Who waits looks at the entry next.
        drop(mark);
        if let Some(flight) = flight {
            flight.land(kept.landing);
        }
    });
    waiting
}

/// The time of a query that came at `query.received()` and was passed on at `begun`.
///
/// All of the plugin's time is that of queries, moved on by what the clock says has passed, in steps that are much
/// shorter than the second in which TTLs count.
pub(super) fn since(query: &Query, begun: Instant) -> Instant {
    let steps = clock::now().saturating_duration_since(begun).as_millis() / STEP.as_millis();
    query.received() + STEP * u32::try_from(steps).unwrap_or(u32::MAX)
}

impl Inner {
    /// Puts the next refresh of an entry off.
    pub(super) fn note_failed(&self, entry: &Entry, now: Instant) {
        let recheck = self.config.stale.recheck;
        if !recheck.is_zero() {
            entry.upkeep().not_before = Some(now + recheck);
        }
    }
}
