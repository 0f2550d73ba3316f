//! The only place that reads clocks, so that everything else can be given a time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock, for durations and deadlines. One read costs some 20 ns.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub fn now() -> Instant {
    Instant::now()
}

/// The wall clock, for what people and other machines read.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// Seconds since 1970, as serial numbers of zones use them; wraps in 2106, as serial arithmetic expects.
#[must_use]
pub fn unix_seconds() -> u32 {
    wall().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32)
}
