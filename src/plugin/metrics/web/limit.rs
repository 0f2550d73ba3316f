//! The limit on requests: a bucket of tokens.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::config::Limit;

/// A bucket that is filled by one token each interval.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    /// Protects the bucket; held for one decision.
    bucket: Mutex<Option<Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    limit: Limit,
    tokens: u32,
    /// When the last token was added.
    filled: Instant,
}

impl Limiter {
    /// Takes a token; a limit that has changed begins with a full bucket.
    pub(super) fn admits(&self, limit: Option<Limit>, now: Instant) -> bool {
        let Some(limit) = limit else { return true };
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let full = || Bucket { limit, tokens: limit.burst, filled: now };
        let bucket = match &mut *bucket {
            Some(known) if known.limit == limit => known,
            other => other.insert(full()),
        };
        let elapsed = now.saturating_duration_since(bucket.filled);
        let added = elapsed.as_nanos().checked_div(limit.interval.as_nanos()).unwrap_or_default();
        let room = limit.burst.saturating_sub(bucket.tokens);
        match u32::try_from(added) {
            Ok(added) if added < room => {
                bucket.tokens += added;
                bucket.filled += limit.interval.saturating_mul(added);
            }
            _ => {
                bucket.tokens = limit.burst;
                bucket.filled = now;
            }
        }
        let admitted = bucket.tokens > 0;
        bucket.tokens = bucket.tokens.saturating_sub(1);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coredns_plugin::clock;
    use std::time::Duration;

    #[test]
    fn a_burst_then_one_each_interval() {
        let limiter = Limiter::default();
        let limit = Some(Limit { interval: Duration::from_secs(1), burst: 2 });
        let start = clock::now();
        for (millis, admitted) in
            [(0, true), (0, true), (0, false), (999, false), (1000, true), (1999, false), (2000, true), (9000, true)]
        {
            assert_eq!(limiter.admits(limit, start + Duration::from_millis(millis)), admitted, "{millis}");
        }
        assert!(limiter.admits(None, start));
    }
}
