//! The metrics of queries: `coredns_dns_*`, by server, zone and view.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Metric, MetricFamily, MetricType};

use super::families::Family;
use super::observation::{
    DNSSEC_OK_AT, DURATION_CELLS, DURATIONS, DURATIONS_AT, FAMILIES, PROTOS, REQUEST_SIZES_AT, REQUESTS_AT,
    RESPONSE_SIZES_AT, SIZE_CELLS, SIZES, Series, TYPES,
};

/// The zone of queries that no block serves and that the server answers itself.
const DROPPED_ZONE: &str = "dropped";
/// Nanoseconds of a second.
const NANOS: f64 = 1e9;

const REQUESTS: Family = Family {
    name: "coredns_dns_requests_total",
    help: "Counter of DNS requests made per zone, protocol and family.",
    kind: MetricType::COUNTER,
    labels: &["family", "proto", "server", "type", "view", "zone"],
};
const DURATION: Family = Family {
    name: "coredns_dns_request_duration_seconds",
    help: "Histogram of the time (in seconds) each request took per zone.",
    kind: MetricType::HISTOGRAM,
    labels: &["server", "view", "zone"],
};
const REQUEST_SIZE: Family = Family {
    name: "coredns_dns_request_size_bytes",
    help: "Size of the request in bytes, as it came from the client.",
    kind: MetricType::HISTOGRAM,
    labels: &["proto", "server", "view", "zone"],
};
const DNSSEC_OK: Family = Family {
    name: "coredns_dns_do_requests_total",
    help: "Counter of DNS requests with DO bit set per zone.",
    kind: MetricType::COUNTER,
    labels: &["server", "view", "zone"],
};
const RESPONSE_SIZE: Family = Family {
    name: "coredns_dns_response_size_bytes",
    help: "Size of the returned response in bytes, before it is cut to size.",
    kind: MetricType::HISTOGRAM,
    labels: &["proto", "server", "view", "zone"],
};
const RESPONSES: Family = Family {
    name: "coredns_dns_responses_total",
    help: "Counter of response status codes.",
    kind: MetricType::COUNTER,
    labels: &["plugin", "rcode", "server", "view", "zone"],
};

/// All series of queries.
///
/// They outlive reloads: a server block that comes back with the same labels and plugins goes on with its numbers.
/// How many there are is decided by configurations alone, never by queries.
#[derive(Debug, Default)]
pub struct RequestMetrics {
    /// Protects the list; held for a look-up at the start of an instance, and for a copy at a scrape.
    series: Mutex<Vec<Arc<Series>>>,
}

impl RequestMetrics {
    /// Those of the process.
    #[must_use]
    pub fn global() -> &'static Arc<Self> {
        static GLOBAL: OnceLock<Arc<RequestMetrics>> = OnceLock::new();
        GLOBAL.get_or_init(Arc::default)
    }

    /// The numbers for these labels; `authors` are the plugins that replies can come from.
    #[must_use]
    pub fn series(&self, server: &str, zone: &str, view: &str, authors: &[&'static str]) -> Arc<Series> {
        let mut names: Vec<&'static str> = authors.iter().copied().filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        names.dedup();
        names.insert(0, "");
        let mut all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |series: &&Arc<Series>| {
            (series.server.as_str(), series.zone.as_str(), series.view.as_str()) == (server, zone, view)
                && *series.authors == *names
        };
        if let Some(series) = all.iter().find(same) {
            return Arc::clone(series);
        }
        let series = Arc::new(Series::new(server, zone, view, names.into()));
        all.push(Arc::clone(&series));
        series
    }

    /// The numbers for queries that the listener `server` answers by itself, without a chain: `zone="dropped"`.
    ///
    /// Taken once for each listener; then [`Series::record`] with
    /// [`Observation::of_server`](super::Observation::of_server).
    #[must_use]
    pub fn dropped(&self, server: &str) -> Arc<Series> {
        self.series(server, DROPPED_ZONE, "", &[])
    }
}

/// Gives the numbers to a registry.
#[derive(Debug)]
pub struct RequestCollector {
    metrics: Arc<RequestMetrics>,
    descs: Vec<Desc>,
}

impl RequestCollector {
    /// A collector of these numbers.
    #[must_use]
    pub fn new(metrics: Arc<RequestMetrics>) -> Self {
        let families = [REQUESTS, DURATION, REQUEST_SIZE, DNSSEC_OK, RESPONSE_SIZE, RESPONSES];
        Self { metrics, descs: families.iter().map(Family::desc).collect() }
    }
}

impl Collector for RequestCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let all: Vec<_> = self.metrics.series.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut totals: BTreeMap<(&str, &str, &str), Totals> = BTreeMap::new();
        for series in &all {
            totals.entry((&series.server, &series.zone, &series.view)).or_default().add(series);
        }
        let mut out = Exposed::default();
        for ((server, zone, view), totals) in &totals {
            out.add(server, zone, view, totals);
        }
        vec![
            REQUESTS.with(out.requests),
            DURATION.with(out.durations),
            REQUEST_SIZE.with(out.request_sizes),
            DNSSEC_OK.with(out.dnssec_ok),
            RESPONSE_SIZE.with(out.response_sizes),
            RESPONSES.with(out.responses),
        ]
    }
}

/// The sums over all series with the same labels.
struct Totals {
    numbers: [u64; super::observation::RESPONSES_AT],
    responses: BTreeMap<(&'static str, String), u64>,
}

impl Default for Totals {
    fn default() -> Self {
        Self { numbers: [0; super::observation::RESPONSES_AT], responses: BTreeMap::new() }
    }
}

impl Totals {
    fn add(&mut self, series: &Series) {
        let mut sums = vec![0; series.cells.width()];
        series.cells.add_sums(&mut sums);
        for (total, sum) in self.numbers.iter_mut().zip(&sums) {
            *total = total.wrapping_add(*sum);
        }
        series.responses(&sums, |rcode, author, count| *self.responses.entry((author, rcode)).or_default() += count);
    }

    /// `length` numbers from `at` on.
    fn part(&self, at: usize, length: usize) -> &[u64] {
        self.numbers.get(at..).and_then(|rest| rest.get(..length)).unwrap_or(&[])
    }
}

/// The series of each family in the making.
#[derive(Default)]
struct Exposed {
    requests: Vec<Metric>,
    durations: Vec<Metric>,
    request_sizes: Vec<Metric>,
    dnssec_ok: Vec<Metric>,
    response_sizes: Vec<Metric>,
    responses: Vec<Metric>,
}

impl Exposed {
    fn add(&mut self, server: &str, zone: &str, view: &str, totals: &Totals) {
        let counts = totals.part(REQUESTS_AT, PROTOS.len() * FAMILIES.len() * TYPES.len());
        let labels = PROTOS.iter().flat_map(|proto| FAMILIES.iter().map(move |family| (proto, family)));
        for ((proto, family), counts) in labels.zip(counts.chunks(TYPES.len())) {
            for (qtype, count) in TYPES.iter().zip(counts).filter(|(_, count)| **count > 0) {
                self.requests.push(REQUESTS.counter(&[family, proto, server, qtype, view, zone], *count));
            }
        }
        let bounds = DURATIONS.map(|nanos| nanos as f64 / NANOS);
        if let Some((sum, counts)) = histogram(totals.part(DURATIONS_AT, DURATION_CELLS)) {
            let sum = sum as f64 / NANOS;
            self.durations.push(DURATION.histogram(&[server, view, zone], &bounds, counts, sum));
        }
        if let [count @ 1_u64..=u64::MAX] = totals.part(DNSSEC_OK_AT, 1) {
            self.dnssec_ok.push(DNSSEC_OK.counter(&[server, view, zone], *count));
        }
        for (family, at, out) in [
            (&REQUEST_SIZE, REQUEST_SIZES_AT, &mut self.request_sizes),
            (&RESPONSE_SIZE, RESPONSE_SIZES_AT, &mut self.response_sizes),
        ] {
            let sizes = totals.part(at, PROTOS.len() * SIZE_CELLS);
            for (proto, numbers) in PROTOS.iter().zip(sizes.chunks(SIZE_CELLS)) {
                if let Some((sum, counts)) = histogram(numbers) {
                    let values = [proto, server, view, zone];
                    out.push(family.histogram(&values, &SIZES.map(f64::from), counts, sum as f64));
                }
            }
        }
        for ((author, rcode), count) in &totals.responses {
            self.responses.push(RESPONSES.counter(&[author, rcode, server, view, zone], *count));
        }
    }
}

/// Sum and buckets of a histogram that has seen something.
fn histogram(numbers: &[u64]) -> Option<(u64, &[u64])> {
    let (sum, counts) = numbers.split_last()?;
    counts.iter().any(|count| *count > 0).then_some((*sum, counts))
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
