//! Metrics of `health`; neither has labels, so both are exposed from the start.

use std::sync::LazyLock;

use coredns_plugin::metrics::{prometheus, register as register_metric};
use prometheus::{Histogram, HistogramOpts, IntCounter};

/// Bounds in seconds.
const BUCKETS: [f64; 5] = [0.00025, 0.0025, 0.025, 0.25, 2.5];

static DURATION: LazyLock<Histogram> = LazyLock::new(|| {
    let help = "Histogram of the time (in seconds) each request took.";
    let options = HistogramOpts::new("coredns_health_request_duration_seconds", help).buckets(BUCKETS.to_vec());
    Histogram::with_opts(options).unwrap_or_else(|error| unreachable!("a constant: {error}"))
});

static FAILURES: LazyLock<IntCounter> = LazyLock::new(|| {
    IntCounter::new("coredns_health_request_failures_total", "The number of times the health check failed.")
        .unwrap_or_else(|error| unreachable!("a constant: {error}"))
});

/// How long the self-checks took.
pub(super) fn duration() -> &'static Histogram {
    &DURATION
}

/// Self-checks that failed.
pub(super) fn failures() -> &'static IntCounter {
    &FAILURES
}

pub(super) fn register() {
    register_metric(DURATION.clone());
    register_metric(FAILURES.clone());
}
