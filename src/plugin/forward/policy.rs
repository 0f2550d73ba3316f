//! The order in which upstreams are asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;

/// Places of upstreams in their list, in the order in which they are asked.
pub(super) type Order = SmallVec<[usize; 16]>;

/// How an order is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// By chance, every time anew.
    Random,
    /// Each query begins with another one, the others follow in their order.
    RoundRobin,
    /// As written.
    Sequential,
}

impl Policy {
    /// The policy of that name.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        [Self::Random, Self::RoundRobin, Self::Sequential].into_iter().find(|policy| policy.name() == text)
    }

    /// Its name in a Corefile.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round_robin",
            Self::Sequential => "sequential",
        }
    }
}

/// A policy at work.
#[derive(Debug)]
pub struct Selector {
    policy: Policy,
    count: AtomicUsize,
}

impl Selector {
    /// Begins with no query.
    #[must_use]
    pub const fn new(policy: Policy) -> Self {
        Self { policy, count: AtomicUsize::new(0) }
    }

    /// The order for one query among `len` upstreams.
    pub fn order(&self, len: usize) -> SmallVec<[usize; 16]> {
        let mut order: Order = (0..len).collect();
        match self.policy {
            Policy::Sequential => {}
            Policy::Random => shuffle(&mut order),
            Policy::RoundRobin if len > 0 => {
                // Relaxed: every query gets a number of its own, and that is all that matters.
                let first = self.count.fetch_add(1, Ordering::Relaxed).wrapping_add(1) % len;
                if let Some(front) = order.get_mut(..=first) {
                    front.rotate_right(1);
                }
            }
            Policy::RoundRobin => {}
        }
        order
    }
}

/// Every order is as likely as any other.
fn shuffle(order: &mut [usize]) {
    for last in (1..order.len()).rev() {
        order.swap(last, rand::random_range(0..=last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_gives_every_order() {
        let selector = Selector::new(Policy::Random);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            seen.insert(selector.order(3).to_vec());
        }
        assert_eq!(seen.len(), 6);
        assert!(selector.order(0).is_empty());
        assert_eq!(selector.order(1).as_slice(), [0]);
    }
}
