//! When to try again.

use std::time::Duration;

/// Delays that double from one failure to the next, up to a bound, each up to a quarter longer or shorter by chance.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) const fn new((first, longest): (Duration, Duration)) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// Things work again.
    pub(super) const fn reset(&mut self) {
        self.failures = 0;
    }

    /// The delay after another failure; `chance` lies between 0 and 1.
    pub(super) fn next(&mut self, chance: f64) -> Duration {
        let doubled = self.first.saturating_mul(1 << self.failures.min(20));
        self.failures = self.failures.saturating_add(1);
        doubled.min(self.longest).mul_f64(0.75 + chance.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_bound() {
        let mut backoff = Backoff::new((Duration::from_millis(800), Duration::from_secs(30)));
        let delays: Vec<_> = (0..8).map(|_| backoff.next(0.5).as_millis()).collect();
        assert_eq!(delays, [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(backoff.next(0.0), Duration::from_millis(22_500));
        assert_eq!(backoff.next(1.0), Duration::from_millis(37_500));
        backoff.reset();
        assert_eq!(backoff.next(0.5), Duration::from_millis(800));
    }
}
