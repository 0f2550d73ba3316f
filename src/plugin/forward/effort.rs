//! What one query may cost, and which upstream is tried next.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::metrics::HEALTHCHECK_BROKEN;
use super::policy::Order;
use crate::upstream::Upstream;

/// The most tries of a query, whatever the options say.
const TRIES_MAX: usize = 40;

/// The most tries of a query among `upstreams`; `option` is `max_connect_attempts`.
pub(super) fn tries(option: Option<u32>, upstreams: usize) -> usize {
    let tries = match option {
        None => upstreams.saturating_mul(2),
        Some(0) => TRIES_MAX,
        Some(most) => usize::try_from(most).unwrap_or(TRIES_MAX),
    };
    tries.min(TRIES_MAX)
}

/// The next upstream to be tried.
pub(super) enum Choice {
    /// One that is well.
    Healthy(Arc<Upstream>),
    /// All are down: one of them, by chance, and no other.
    LastResort(Arc<Upstream>),
    /// None.
    Nobody,
}

/// Goes through the upstreams again and again.
pub(super) struct Walk<'a> {
    list: &'a [Arc<Upstream>],
    order: Order,
    at: usize,
    down: usize,
}

impl<'a> Walk<'a> {
    pub(super) const fn new(list: &'a [Arc<Upstream>], order: Order) -> Self {
        Self { list, order, at: 0, down: 0 }
    }

    /// The next one; with `failfast` there is none where all are down.
    pub(super) fn next(&mut self, failfast: bool) -> Choice {
        loop {
            if self.at >= self.order.len() {
                self.at = 0;
                self.down = 0;
            }
            let Some(upstream) = self.order.get(self.at).and_then(|at| self.list.get(*at)) else {
                return Choice::Nobody;
            };
            self.at += 1;
            if !upstream.is_down() {
                return Choice::Healthy(Arc::clone(upstream));
            }
            self.down += 1;
            if self.down < self.list.len() {
                continue;
            }
            HEALTHCHECK_BROKEN.inc();
            if failfast {
                return Choice::Nobody;
            }
            let any = self.list.get(rand::random_range(0..self.list.len()));
            return any.map_or(Choice::Nobody, |upstream| Choice::LastResort(Arc::clone(upstream)));
        }
    }

    /// One that is well and is not `busy`, to be asked beside it; goes on behind it.
    pub(super) fn beside(&mut self, busy: &Arc<Upstream>) -> Option<Arc<Upstream>> {
        for step in 0..self.order.len() {
            let at = (self.at + step) % self.order.len();
            let upstream = self.order.get(at).and_then(|at| self.list.get(*at))?;
            if !upstream.is_down() && !Arc::ptr_eq(upstream, busy) {
                self.at = at + 1;
                return Some(Arc::clone(upstream));
            }
        }
        None
    }
}

/// Tenths of a race that a query adds.
const EARNED: i64 = 1;
/// Tenths that a race costs.
const COST: i64 = 10;
/// Tenths that can be saved up.
const SAVED_MAX: i64 = 1000;

/// How many races there may be: of queries to upstreams that are well, one in ten, so that a spell of slow answers does not
/// double the load.
#[derive(Debug)]
pub(super) struct Races {
    saved: AtomicI64,
}

impl Default for Races {
    fn default() -> Self {
        Self { saved: AtomicI64::new(SAVED_MAX) }
    }
}

impl Races {
    /// One more query.
    pub(super) fn earn(&self) {
        // Relaxed: a bound that may be missed by a few.
        if self.saved.load(Ordering::Relaxed) < SAVED_MAX {
            self.saved.fetch_add(EARNED, Ordering::Relaxed);
        }
    }

    /// Takes the price of a race; one for an upstream that is suspected of being down costs nothing.
    pub(super) fn spend(&self, suspect: bool) -> bool {
        if suspect {
            return true;
        }
        let before = self.saved.fetch_sub(COST, Ordering::Relaxed);
        if before < COST {
            self.saved.fetch_add(COST, Ordering::Relaxed);
        }
        before >= COST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_bounded() {
        for (option, upstreams, expected) in [
            (None, 1, 2),
            (None, 3, 6),
            (None, 100, 40),
            (Some(0), 1, 40),
            (Some(1), 5, 1),
            (Some(7), 1, 7),
            (Some(9999), 1, 40),
        ] {
            assert_eq!(tries(option, upstreams), expected, "{option:?} {upstreams}");
        }
    }

    #[test]
    fn one_query_in_ten_may_race() {
        let races = Races::default();
        let raced = (0..1000).filter(|_| races.spend(false)).count();
        assert_eq!(raced, 100, "what was saved up");
        for _ in 0..100 {
            races.earn();
        }
        assert_eq!((0..100).filter(|_| races.spend(false)).count(), 10);
        assert!(races.spend(true));
    }
}
