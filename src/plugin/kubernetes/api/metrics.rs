//! What is counted of the API.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use coredns_plugin::metrics;
use coredns_plugin::metrics::prometheus::core::{Collector, Desc};
use coredns_plugin::metrics::prometheus::proto::MetricFamily;
use coredns_plugin::metrics::prometheus::{
    DEFAULT_BUCKETS, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts,
};
use http::Response;

use super::super::metrics::label_text;
use super::standing::Standing;

/// The only method that is used.
const METHOD: &str = "GET";

static DURATION: LazyLock<HistogramVec> = LazyLock::new(|| {
    histogram(
        "coredns_kubernetes_rest_client_request_duration_seconds",
        "Request latency in seconds. Broken down by verb and host.",
    )
});

static WAIT: LazyLock<HistogramVec> = LazyLock::new(|| {
    histogram(
        "coredns_kubernetes_rest_client_rate_limiter_duration_seconds",
        "Client side rate limiter latency in seconds. Broken down by verb and host.",
    )
});

static REQUESTS: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let options = Opts::new(
        "coredns_kubernetes_rest_client_requests_total",
        "Number of HTTP requests, partitioned by status code, method, and host.",
    );
    IntCounterVec::new(options, &["code", "method", "host"]).unwrap_or_else(|error| unreachable!("{error}"))
});

fn histogram(name: &str, help: &str) -> HistogramVec {
    let options = HistogramOpts::new(name, help).buckets(DEFAULT_BUCKETS.to_vec());
    HistogramVec::new(options, &["verb", "host"]).unwrap_or_else(|error| unreachable!("{error}"))
}

/// Puts the metrics into the registry.
pub(in super::super) fn register() {
    metrics::register(DURATION.clone());
    metrics::register(WAIT.clone());
    metrics::register(REQUESTS.clone());
    metrics::register(FAILURES.clone());
    metrics::register(LISTS.clone());
    metrics::register(AgeCollector::new());
}

/// A request was sent, and its head came, or nothing did.
pub(super) fn observe_request<B>(host: &str, time: Duration, response: Option<&Response<B>>) {
    let host = label_text(host.as_bytes());
    DURATION.with_label_values(&[METHOD, &host]).observe(time.as_secs_f64());
    let status = response.map(Response::status);
    let code = status.as_ref().map_or("<error>", |status| status.as_str());
    REQUESTS.with_label_values(&[code, METHOD, &host]).inc();
}

/// A request waited for its turn.
pub(super) fn observe_wait(host: &str, time: Duration) {
    WAIT.with_label_values(&[METHOD, &label_text(host.as_bytes())]).observe(time.as_secs_f64());
}

/// The watches of all instances. Protects the list; held for a walk over it.
static LIVE: Mutex<Vec<Arc<Standing>>> = Mutex::new(Vec::new());

/// Watches that are exposed while this lives.
pub(super) struct Exposed(Vec<Arc<Standing>>);

impl Exposed {
    pub(super) fn new(standings: Vec<Arc<Standing>>) -> Self {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).extend(standings.iter().cloned());
        Self(standings)
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        let is_ours = |standing: &Arc<Standing>| self.0.iter().any(|own| Arc::ptr_eq(own, standing));
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).retain(|standing| !is_ours(standing));
    }
}

/// An attempt to list or watch a resource failed.
pub(super) fn count_failure(resource: &str) {
    FAILURES.with_label_values(&[resource]).inc();
}

/// All objects of a resource have been read.
pub(super) fn count_list(resource: &str) {
    LISTS.with_label_values(&[resource]).inc();
}

/// Exposes how long ago the watches gave a sign of life.
struct AgeCollector {
    age: GaugeVec,
}

static FAILURES: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counter("coredns_kubernetes_watch_failures_total", "Failed attempts to list or watch a resource.")
});

static LISTS: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counter("coredns_kubernetes_lists_total", "How often all objects of a resource were read, the first time included.")
});

fn counter(name: &str, help: &str) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, help), &["resource"]).unwrap_or_else(|error| unreachable!("{error}"))
}

impl AgeCollector {
    fn new() -> Self {
        let options = Opts::new(
            "coredns_kubernetes_watch_age_seconds",
            "The time since the API server last gave a sign of life about a resource; of several instances the longest.",
        );
        let age = GaugeVec::new(options, &["resource"]).unwrap_or_else(|error| unreachable!("{error}"));
        Self { age }
    }
}

impl Collector for AgeCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.age.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        self.age.reset();
        for standing in live.iter() {
            let age = self.age.with_label_values(&[standing.resource]);
            age.set(age.get().max(standing.age().as_secs_f64()));
        }
        self.age.collect()
    }
}
