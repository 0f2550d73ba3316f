//! What the server itself counts.

use std::sync::OnceLock;

use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Opts};

use super::register;
use super::requests::{RequestCollector, RequestMetrics};

/// The constant label `hash` of `coredns_reload_version_info`.
const RELOAD_HASH: &str = "sha512";

fn counter(name: &str, help: &str) -> IntCounter {
    IntCounter::new(name, help).unwrap_or_else(|error| unreachable!("{name}: {error}"))
}

fn counters(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, help), labels).unwrap_or_else(|error| unreachable!("{name}: {error}"))
}

fn gauges(name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    IntGaugeVec::new(Opts::new(name, help), labels).unwrap_or_else(|error| unreachable!("{name}: {error}"))
}

/// `coredns_panics_total`: panics that were caught while serving a query.
#[must_use]
pub fn panics() -> &'static IntCounter {
    static METRIC: OnceLock<IntCounter> = OnceLock::new();
    METRIC.get_or_init(|| counter("coredns_panics_total", "A metrics that counts the number of panics."))
}

/// `coredns_reload_failed_total`: changed configurations that could not be loaded.
#[must_use]
pub fn reload_failures() -> &'static IntCounter {
    static METRIC: OnceLock<IntCounter> = OnceLock::new();
    METRIC.get_or_init(|| counter("coredns_reload_failed_total", "Counter of the number of failed reload attempts."))
}

fn reload_version() -> &'static IntGaugeVec {
    static METRIC: OnceLock<IntGaugeVec> = OnceLock::new();
    METRIC.get_or_init(|| {
        let help = "A metric with a constant '1' value labeled by hash, and value which type of hash generated.";
        gauges("coredns_reload_version_info", help, &["hash", "value"])
    })
}

/// Sets `coredns_reload_version_info` to the hash of the configuration that is being loaded, in hexadecimal; called at
/// each attempt to reload, whether it succeeds or not.
pub fn set_reload_version(value: &str) {
    let metric = reload_version();
    // Only one series at a time: a scrape between the two sees none.
    metric.reset();
    metric.with_label_values(&[RELOAD_HASH, value]).set(1);
}

/// `coredns_dns_https_responses_total`, by server and HTTP status; the cells of each status are to be kept.
#[must_use]
pub fn https_responses() -> &'static IntCounterVec {
    static METRIC: OnceLock<IntCounterVec> = OnceLock::new();
    METRIC.get_or_init(|| {
        let help = "Counter of DoH responses per server and http status code.";
        counters("coredns_dns_https_responses_total", help, &["server", "status"])
    })
}

/// `coredns_dns_https3_responses_total`, by server and HTTP status.
#[must_use]
pub fn https3_responses() -> &'static IntCounterVec {
    static METRIC: OnceLock<IntCounterVec> = OnceLock::new();
    METRIC.get_or_init(|| {
        let help = "Counter of DoH3 responses per server and http status code.";
        counters("coredns_dns_https3_responses_total", help, &["server", "status"])
    })
}

/// `coredns_dns_quic_responses_total`, by server and code of the stream or connection in hexadecimal (`0x0`).
#[must_use]
pub fn quic_responses() -> &'static IntCounterVec {
    static METRIC: OnceLock<IntCounterVec> = OnceLock::new();
    METRIC.get_or_init(|| {
        let help = "Counter of DoQ responses per server and QUIC application code.";
        counters("coredns_dns_quic_responses_total", help, &["server", "status"])
    })
}

/// Registers what the server counts, the metrics of queries, and `coredns_build_info` with these labels.
pub fn register_all(version: &str, revision: &str, goversion: &str) {
    let help = "A metric with a constant '1' value labeled by version, revision, and goversion from which CoreDNS was \
                built.";
    let build = gauges("coredns_build_info", help, &["version", "revision", "goversion"]);
    build.with_label_values(&[version, revision, goversion]).set(1);
    register(build);
    register(panics().clone());
    register(reload_failures().clone());
    register(reload_version().clone());
    register(https_responses().clone());
    register(https3_responses().clone());
    register(quic_responses().clone());
    register(RequestCollector::new(RequestMetrics::global().clone()));
}
