//! Requests a second and at once.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Requests a second unless the option says otherwise.
const QPS: f64 = 5.0;
/// Requests at once above that unless the option says otherwise.
const BURST: u32 = 10;

/// The options `apiserver_qps`, `apiserver_burst` and `apiserver_max_inflight`.
pub(super) struct Limits {
    qps: f64,
    burst: f64,
    /// The requests that may be made now, negative for those that wait already; and when that was so.
    bucket: Mutex<(f64, Instant)>,
    inflight: Option<Semaphore>,
}

impl Limits {
    /// Zeros stand for the defaults, and for no limit of requests under way.
    pub(super) fn new(qps: f32, burst: u32, max_inflight: u32) -> Self {
        let burst = f64::from(if burst == 0 { BURST } else { burst });
        let inflight = usize::try_from(max_inflight).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self {
            qps: if qps > 0.0 { f64::from(qps) } else { QPS },
            burst,
            bucket: Mutex::new((burst, Instant::now())),
            inflight: (inflight > 0).then(|| Semaphore::new(inflight)),
        }
    }

    /// Waits until a request may be made; gives the time that it waited for its turn.
    pub(super) async fn turn(&self) -> Duration {
        let wait = self.reserve(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        wait
    }

    fn reserve(&self, now: Instant) -> Duration {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let (tokens, at) = &mut *bucket;
        *tokens = (*tokens + now.duration_since(*at).as_secs_f64() * self.qps).min(self.burst) - 1.0;
        *at = now;
        if *tokens >= 0.0 {
            Duration::ZERO
        } else {
            Duration::try_from_secs_f64(-*tokens / self.qps).unwrap_or_default()
        }
    }

    /// Waits until fewer requests than allowed are under way; the permit is for one.
    pub(super) async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        self.inflight.as_ref()?.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_and_then_so_many_a_second() {
        let limits = Limits::new(4.0, 2, 0);
        let mut waits = Vec::new();
        for _ in 0..4 {
            waits.push(limits.turn().await.as_millis());
        }
        assert_eq!(waits, [0, 0, 250, 250]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let again: Vec<_> = (0..3).map(|_| limits.reserve(Instant::now()).as_millis()).collect();
        assert_eq!(again, [0, 0, 250]);
    }

    #[tokio::test(start_paused = true)]
    async fn defaults_and_requests_under_way() {
        let limits = Limits::new(0.0, 0, 1);
        let waits: Vec<_> = (0..12).map(|_| limits.reserve(Instant::now()).as_millis()).collect();
        assert_eq!(waits.iter().filter(|wait| **wait == 0).count(), 10);
        assert_eq!(waits[10..], [200, 400]);
        let permit = limits.permit().await;
        assert!(permit.is_some());
        assert!(tokio::time::timeout(Duration::from_secs(9), limits.permit()).await.is_err());
        drop(permit);
        assert!(limits.permit().await.is_some());
        assert!(Limits::new(0.0, 0, 0).permit().await.is_none());
    }
}
