//! Metrics of the server itself: limits, losses, panics, its build, its configuration. Off the query path but where a
//! limit is met, and for queries that it answers itself.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use coredns_plugin::metrics::{Observation, RequestCollector, RequestMetrics, Series, prometheus, register};
use coredns_plugin::{Query, ServerInfo, VERSION};
use coredns_wire::Rcode;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};

/// The compiler in the place of Go's version.
const COMPILER: &str = concat!("rustc", env!("COREDNS_RUSTC_VERSION"));
/// The constant label `hash` of `coredns_reload_version_info`.
const RELOAD_HASH: &str = "sha512";
/// Listeners that a thread remembers the numbers of; more than any configuration has at a time.
const DROPPED_MAX: usize = 64;

thread_local! {
    /// The numbers for queries that listeners answer themselves.
    static DROPPED: RefCell<Vec<(Arc<ServerInfo>, Arc<Series>)>> = const { RefCell::new(Vec::new()) };
}

fn counter(name: &str, help: &str) -> IntCounter {
    registered(IntCounter::new(name, help))
}

fn registered<T: prometheus::core::Collector + Clone + 'static>(made: prometheus::Result<T>) -> T {
    // The names and labels are constants of this file; a bad one shows in every test.
    let metric = made.unwrap_or_else(|error| unreachable!("metric: {error}"));
    register(metric.clone());
    metric
}

/// Queries that wait for an upstream or the like, over all workers.
pub(crate) static PENDING: LazyLock<IntGauge> =
    LazyLock::new(|| registered(IntGauge::new("coredns_server_pending_queries", "Queries that wait for I/O.")));

/// Queries answered SERVFAIL because too many were waiting.
pub(crate) static PENDING_REJECTED: LazyLock<IntCounter> = LazyLock::new(|| {
    counter("coredns_server_pending_rejected_total", "Queries answered SERVFAIL because too many waited already.")
});

/// Open TCP connections.
pub(crate) static CONNECTIONS: LazyLock<IntGauge> =
    LazyLock::new(|| registered(IntGauge::new("coredns_server_tcp_connections", "Open TCP connections.")));

/// Connections that the server closed, by reason.
pub(crate) static CONNECTIONS_CLOSED: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let opts = Opts::new("coredns_server_tcp_connections_closed_total", "TCP connections closed by the server.");
    registered(IntCounterVec::new(opts, &["reason"]))
});

/// Connections that could not be accepted.
pub(crate) static ACCEPT_ERRORS: LazyLock<IntCounter> =
    LazyLock::new(|| counter("coredns_server_accept_errors_total", "Failed attempts to accept a TCP connection."));

/// Replies that could not be sent by UDP.
pub(crate) static SEND_ERRORS: LazyLock<IntCounter> =
    LazyLock::new(|| counter("coredns_server_udp_send_errors_total", "UDP replies that could not be sent."));

/// Messages that are no acceptable query, by what became of them.
pub(crate) static MALFORMED: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let opts = Opts::new("coredns_server_rejected_messages_total", "Messages rejected before any plugin saw them.");
    registered(IntCounterVec::new(opts, &["reason"]))
});

/// Panics while serving a query.
pub(crate) static PANICS: LazyLock<IntCounter> =
    LazyLock::new(|| counter("coredns_panics_total", "A metrics that counts the number of panics."));

/// Changed configurations that could not be loaded.
static RELOAD_FAILED: LazyLock<IntCounter> =
    LazyLock::new(|| counter("coredns_reload_failed_total", "Counter of the number of failed reload attempts."));

/// The configuration that was tried last.
static RELOAD_VERSION: LazyLock<IntGaugeVec> = LazyLock::new(|| {
    let help = "A metric with a constant '1' value labeled by hash, and value which type of hash generated.";
    registered(IntGaugeVec::new(Opts::new("coredns_reload_version_info", help), &["hash", "value"]))
});

/// What this program is.
static BUILD_INFO: LazyLock<IntGaugeVec> = LazyLock::new(|| {
    let help = "A metric with a constant '1' value labeled by version, revision, and goversion from which CoreDNS was \
                built.";
    let opts = Opts::new("coredns_build_info", help);
    let info = registered(IntGaugeVec::new(opts, &["version", "revision", "goversion"]));
    info.with_label_values(&[VERSION, env!("COREDNS_GIT_COMMIT"), COMPILER]).set(1);
    info
});

/// Makes all of them, so that those without labels are exposed as 0 from the start.
pub(crate) fn register_all() {
    register(RequestCollector::new(Arc::clone(RequestMetrics::global())));
    LazyLock::force(&BUILD_INFO);
    LazyLock::force(&RELOAD_VERSION);
    for metric in [&PENDING_REJECTED, &ACCEPT_ERRORS, &SEND_ERRORS, &PANICS, &RELOAD_FAILED] {
        LazyLock::force(metric);
    }
    LazyLock::force(&PENDING);
    LazyLock::force(&CONNECTIONS);
    LazyLock::force(&CONNECTIONS_CLOSED);
    LazyLock::force(&MALFORMED);
}

/// Counts a query that the server answered itself, under the zone `dropped`; it took no time worth telling.
pub(crate) fn answered_by_core(query: &Query, rcode: Rcode, reply_len: usize) {
    let seen = Observation::of_server(query, rcode, reply_len, Duration::ZERO);
    DROPPED.with_borrow_mut(|known| {
        let found = known.iter().find(|(server, _)| Arc::ptr_eq(server, query.server()));
        if let Some((_, series)) = found {
            return series.record(&seen);
        }
        if known.len() >= DROPPED_MAX {
            known.clear();
        }
        let series = RequestMetrics::global().dropped(&query.server().label);
        series.record(&seen);
        known.push((Arc::clone(query.server()), series));
    });
}

/// Counts a message that was answered with `rcode` before any plugin saw it.
pub(crate) fn rejected(rcode: Rcode) {
    MALFORMED.with_label_values(&[rcode.mnemonic().unwrap_or("other")]).inc();
}

/// Counts a message that got no answer: too short, or a response.
pub(crate) fn ignored() {
    MALFORMED.with_label_values(&["ignored"]).inc();
}

/// Counts a connection that the server closed.
pub(crate) fn closed(reason: &'static str) {
    CONNECTIONS_CLOSED.with_label_values(&[reason]).inc();
}

/// Counts a reload that failed.
pub(crate) fn reload_failed() {
    RELOAD_FAILED.inc();
}

/// Names the configuration that a reload was tried with, by its hash in hexadecimal.
pub(crate) fn reload_version(hash: &str) {
    // There is one series at a time; a scrape between the two sees none.
    RELOAD_VERSION.reset();
    RELOAD_VERSION.with_label_values(&[RELOAD_HASH, hash]).set(1);
}
