//! Metrics of upstreams: `coredns_proxy_*`, by plugin and upstream.

use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use coredns_plugin::metrics::{prometheus, register};
use coredns_plugin::wire::Rcode;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, exponential_buckets};

/// Codes with a handle of their own: 0 to 23, all that have names.
const RCODES: usize = 24;

static DURATION: LazyLock<HistogramVec> = LazyLock::new(|| {
    let help = "Histogram of the time each request took.";
    let buckets = exponential_buckets(0.000_25, 2.0, 16).expect("the bounds are valid");
    let opts = HistogramOpts::new("coredns_proxy_request_duration_seconds", help).buckets(buckets);
    HistogramVec::new(opts, &["proxy_name", "to", "rcode"]).expect("the name and the labels are valid")
});
static HEALTH_FAILURES: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counter(
        "coredns_proxy_healthcheck_failures_total",
        "Counter of the number of failed healthchecks.",
        &["proxy_name", "to"],
    )
});
static HITS: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let help = "Counter of connection cache hits per upstream and protocol.";
    counter("coredns_proxy_conn_cache_hits_total", help, &["proxy_name", "to", "proto"])
});
static MISSES: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let help = "Counter of connection cache misses per upstream and protocol.";
    counter("coredns_proxy_conn_cache_misses_total", help, &["proxy_name", "to", "proto"])
});
static IGNORED: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let help = "Counter of messages from upstreams that were no reply to what was asked, and were passed over.";
    counter("coredns_proxy_ignored_messages_total", help, &["proxy_name", "to"])
});
static SUSPICIONS: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let help = "Counter of exchanges that got several datagrams with a wrong identifier and were repeated over TCP.";
    counter("coredns_proxy_spoof_suspicions_total", help, &["proxy_name", "to"])
});
static RACES: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let help = "Counter of exchanges in which another upstream was asked as well, since this one was late.";
    counter("coredns_proxy_late_total", help, &["proxy_name", "to"])
});

fn counter(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, help), labels).expect("the name and the labels are valid")
}

/// Registers the metrics; for the descriptors of plugins that have upstreams.
pub fn register_metrics() {
    register(DURATION.clone());
    for family in [&HEALTH_FAILURES, &HITS, &MISSES, &IGNORED, &SUSPICIONS, &RACES] {
        register((**family).clone());
    }
}

/// A class of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Udp,
    Tcp,
    Tls,
}

/// The metrics of one upstream, looked up once.
pub(super) struct UpstreamMetrics {
    plugin: &'static str,
    to: String,
    durations: [OnceLock<Histogram>; RCODES],
    hits: [OnceLock<IntCounter>; 3],
    misses: [OnceLock<IntCounter>; 3],
    /// Failed health checks.
    pub(super) health_failures: IntCounter,
    /// Messages that were passed over.
    pub(super) ignored: IntCounter,
    /// Exchanges repeated over TCP.
    pub(super) suspicions: IntCounter,
    /// Exchanges in which another upstream was asked as well.
    pub(super) late: IntCounter,
}

impl UpstreamMetrics {
    pub(super) fn new(plugin: &'static str, to: String) -> Self {
        let of = |family: &IntCounterVec| family.with_label_values(&[plugin, to.as_str()]);
        Self {
            plugin,
            durations: [const { OnceLock::new() }; RCODES],
            hits: [const { OnceLock::new() }; 3],
            misses: [const { OnceLock::new() }; 3],
            health_failures: of(&HEALTH_FAILURES),
            ignored: of(&IGNORED),
            suspicions: of(&SUSPICIONS),
            late: of(&RACES),
            to,
        }
    }

    /// An exchange that gave a reply.
    pub(super) fn replied(&self, rcode: Rcode, taken: Duration) {
        let make = || {
            let text = rcode.mnemonic().map_or_else(|| rcode.0.to_string(), str::to_owned);
            DURATION.with_label_values(&[self.plugin, &self.to, &text])
        };
        match self.durations.get(usize::from(rcode.0)) {
            Some(handle) => handle.get_or_init(make).observe(taken.as_secs_f64()),
            None => make().observe(taken.as_secs_f64()),
        }
    }

    /// A connection was there, or was not.
    pub(super) fn connection(&self, class: Class, hit: bool) {
        let (family, handles) = if hit { (&HITS, &self.hits) } else { (&MISSES, &self.misses) };
        let (at, proto) = match class {
            Class::Udp => (0, "udp"),
            Class::Tcp => (1, "tcp"),
            Class::Tls => (2, "tcp-tls"),
        };
        if let Some(handle) = handles.get(at) {
            handle.get_or_init(|| family.with_label_values(&[self.plugin, &self.to, proto])).inc();
        }
    }
}
