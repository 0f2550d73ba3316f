//! What is counted.

use std::sync::LazyLock;

use coredns_plugin::metrics::prometheus::IntCounter;
use coredns_plugin::metrics::register as register_metric;

/// Queries that were refused.
///
/// One atomic for all workers: it is touched by blocked queries only. What every query counts belongs into
/// [`Cells`](coredns_plugin::metrics::Cells).
pub(super) static BLOCKED: LazyLock<IntCounter> = LazyLock::new(|| {
    let made = IntCounter::new("coredns_blocklist_blocked_total", "Counter of queries for names of the list.");
    made.unwrap_or_else(|error| unreachable!("a constant name: {error}"))
});

/// Puts the metric into the registry, so that it is exposed as 0 from the start.
pub(super) fn register() {
    register_metric(BLOCKED.clone());
}
