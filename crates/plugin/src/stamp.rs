//! Stamps: what an answer was made from, and whether that has changed since.
//!
//! A stamp names one of 65,536 counters of the process and the value that it had when the data were read. Whoever
//! keeps an answer (the cache) asks [`Stamp::is_current`] before using it again. Two sources may share a counter by
//! chance; the cost is a needless miss, never a stale answer. Stamps are plain numbers: no reference counts.

use std::sync::atomic::{AtomicU64, Ordering};

const COUNTERS: usize = 1 << 16;

static TABLE: [AtomicU64; COUNTERS] = [const { AtomicU64::new(0) }; COUNTERS];

/// A counter and the value that it had; compare with [`Stamp::is_current`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    counter: u16,
    value: u64,
}

impl Stamp {
    /// The stamp for data that go by `hash`; take it **before** reading the data.
    #[must_use]
    pub fn take(hash: u64) -> Self {
        let counter = (hash ^ hash >> 32) as u16;
        // Acquire: data read after this are at least as new as the counter's value.
        Self { counter, value: TABLE[usize::from(counter)].load(Ordering::Acquire) }
    }

    /// Says that the data that go by `hash` have changed; call it **after** the new data can be read.
    pub fn advance(hash: u64) {
        let counter = (hash ^ hash >> 32) as u16;
        // Release: whoever sees the new value sees the new data.
        TABLE[usize::from(counter)].fetch_add(1, Ordering::Release);
    }

    /// Tells whether nothing has changed since the stamp was taken.
    #[must_use]
    pub fn is_current(self) -> bool {
        TABLE[usize::from(self.counter)].load(Ordering::Acquire) == self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_ends_when_its_data_change() {
        let hash = 0x0005_0000_1234_5678;
        let stamp = Stamp::take(hash);
        assert!(stamp.is_current());
        Stamp::advance(hash);
        assert!(!stamp.is_current());
        assert!(Stamp::take(hash).is_current());
    }
}
