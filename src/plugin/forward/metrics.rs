//! The plugin's own metrics; those of its upstreams are with them.

use std::sync::LazyLock;

use coredns_plugin::metrics::{prometheus, register};
use prometheus::IntCounter;

use crate::upstream;

/// All upstreams were down when one was to be chosen.
pub(super) static HEALTHCHECK_BROKEN: LazyLock<IntCounter> = LazyLock::new(|| {
    counter(
        "coredns_forward_healthcheck_broken_total",
        "Counter of the number of complete failures of the healthchecks.",
    )
});
/// Queries beyond `max_concurrent`.
pub(super) static MAX_CONCURRENT_REJECTS: LazyLock<IntCounter> = LazyLock::new(|| {
    let help = "Counter of the number of queries rejected because the concurrent queries were at maximum.";
    counter("coredns_forward_max_concurrent_rejects_total", help)
});

fn counter(name: &str, help: &str) -> IntCounter {
    IntCounter::new(name, help).expect("the name is valid")
}

pub(super) fn register_metrics() {
    register(HEALTHCHECK_BROKEN.clone());
    register(MAX_CONCURRENT_REJECTS.clone());
    upstream::register_metrics();
}
