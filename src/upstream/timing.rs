//! How long upstreams take, and how long they are waited for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bounds of the time-out for setting up a connection, and where its average starts.
const DIAL_MIN: Duration = Duration::from_secs(1);
const DIAL_MAX: Duration = Duration::from_secs(30);
const DIAL_START: Duration = Duration::from_secs(15);

/// The time-out for setting up connections to one upstream, which follows how long that took lately.
#[derive(Debug)]
pub struct DialTimeout {
    /// The running average in nanoseconds.
    average: AtomicU64,
}

impl Default for DialTimeout {
    fn default() -> Self {
        Self { average: AtomicU64::new(DIAL_START.as_nanos() as u64) }
    }
}

impl DialTimeout {
    /// With a running average of `average`.
    #[must_use]
    pub fn with_average(average: Duration) -> Self {
        Self { average: AtomicU64::new(nanos(average)) }
    }

    /// The time-out: twice the average within 1 s and 30 s.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        let average = self.average();
        if average < DIAL_MIN {
            DIAL_MIN
        } else if average < DIAL_START {
            average * 2
        } else {
            DIAL_MAX
        }
    }

    /// The running average.
    #[must_use]
    pub fn average(&self) -> Duration {
        Duration::from_nanos(self.average.load(Ordering::Relaxed))
    }

    /// Takes note of how long a connection took, successful or not: a quarter of the difference is added.
    pub fn observe(&self, taken: Duration) {
        // Relaxed, and a lost update now and then: it is an estimate.
        let average = self.average.load(Ordering::Relaxed);
        self.average.store(average - average / 4 + nanos(taken) / 4, Ordering::Relaxed);
    }
}

/// An upstream is late after so many of its own smoothed round trips.
const LATE_FACTOR: u64 = 3;
/// Sooner than this nothing is late: answers from caches must not make every other one look late.
const LATE_MIN: Duration = Duration::from_millis(50);
/// What an upstream that has never answered gets, and the most that any gets.
const LATE_MAX: Duration = Duration::from_millis(400);

/// The smoothed round trip of an upstream (RFC 6298 §2, as TCP has it).
#[derive(Debug, Default)]
pub struct RoundTrip {
    /// In nanoseconds; 0 before the first answer.
    smoothed: AtomicU64,
    deviation: AtomicU64,
}

impl RoundTrip {
    /// Takes note of an answer.
    pub fn observe(&self, taken: Duration) {
        let taken = nanos(taken).max(1);
        // Relaxed, and a lost update now and then: it is an estimate.
        let smoothed = self.smoothed.load(Ordering::Relaxed);
        if smoothed == 0 {
            self.deviation.store(taken / 2, Ordering::Relaxed);
            self.smoothed.store(taken, Ordering::Relaxed);
            return;
        }
        let deviation = self.deviation.load(Ordering::Relaxed);
        self.deviation.store(deviation - deviation / 4 + taken.abs_diff(smoothed) / 4, Ordering::Relaxed);
        self.smoothed.store(smoothed - smoothed / 8 + taken / 8, Ordering::Relaxed);
    }

    /// How long to wait before another upstream is asked as well.
    #[must_use]
    pub fn late_after(&self) -> Duration {
        let smoothed = self.smoothed.load(Ordering::Relaxed);
        if smoothed == 0 {
            return LATE_MAX;
        }
        let spread = smoothed.saturating_add(self.deviation.load(Ordering::Relaxed).saturating_mul(4));
        let late = spread.max(smoothed.saturating_mul(LATE_FACTOR));
        Duration::from_nanos(late).clamp(LATE_MIN, LATE_MAX)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_is_relative_to_what_is_usual() {
        let trip = RoundTrip::default();
        assert_eq!(trip.late_after(), LATE_MAX);
        trip.observe(Duration::from_millis(1));
        assert_eq!(trip.late_after(), LATE_MIN);
        for _ in 0..100 {
            trip.observe(Duration::from_millis(60));
        }
        let late = trip.late_after();
        assert!(late > Duration::from_millis(150) && late < Duration::from_millis(190), "{late:?}");
        trip.observe(Duration::from_secs(100));
        assert_eq!(trip.late_after(), LATE_MAX);
    }
}
