//! What is counted. Nothing here is on the query path.

use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use coredns_plugin::metrics::prometheus::core::{Collector, Desc};
use coredns_plugin::metrics::prometheus::proto::MetricFamily;
use coredns_plugin::metrics::prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, exponential_buckets,
};
use coredns_plugin::{clock, metrics};
use tracing::warn;

use super::manifests::Manifests;
use super::object::{EndpointSlice, ObjectKind, Service};

/// The annotation that says when what a slice shows began to be so.
const TRIGGER_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

static PROGRAMMING: LazyLock<HistogramVec> = LazyLock::new(|| {
    let options = HistogramOpts::new(
        "coredns_kubernetes_dns_programming_duration_seconds",
        "Histogram of the time (in seconds) it took to program a dns instance.",
    );
    let buckets = exponential_buckets(0.001, 2.0, 20).unwrap_or_default();
    HistogramVec::new(options.buckets(buckets), &["service_kind"]).unwrap_or_else(|error| unreachable!("{error}"))
});

static OBJECTS: LazyLock<IntGaugeVec> = LazyLock::new(|| {
    let options = Opts::new("coredns_kubernetes_index_objects", "Objects that names are served from, by kind.");
    IntGaugeVec::new(options, &["kind"]).unwrap_or_else(|error| unreachable!("{error}"))
});

static ODD_OBJECTS: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let options = Opts::new(
        "coredns_kubernetes_odd_objects_total",
        "Warnings about objects that have no records, or whose names confuse clients, by kind.",
    );
    IntCounterVec::new(options, &["kind"]).unwrap_or_else(|error| unreachable!("{error}"))
});

const KINDS: [ObjectKind; 5] =
    [ObjectKind::Namespace, ObjectKind::Service, ObjectKind::EndpointSlice, ObjectKind::Pod, ObjectKind::ServiceImport];

/// Puts the plugin's metrics into the registry.
pub(super) fn register_all() {
    for kind in KINDS {
        OBJECTS.with_label_values(&[kind.as_str()]);
        ODD_OBJECTS.with_label_values(&[kind.as_str()]);
    }
    metrics::register(PROGRAMMING.clone());
    metrics::register(OBJECTS.clone());
    metrics::register(ODD_OBJECTS.clone());
    metrics::register(ManifestsCollector::new());
    super::api::register();
}

/// Counts an object in or out of an index.
pub(super) fn count_object(kind: ObjectKind, change: i64) {
    OBJECTS.with_label_values(&[kind.as_str()]).add(change);
}

/// Counts a warning about an object.
pub(super) fn count_odd_object(kind: ObjectKind) {
    ODD_OBJECTS.with_label_values(&[kind.as_str()]).inc();
}

/// Observes how long it took from the cause of a slice's change until it is served.
pub(super) fn observe_programming(slice: &EndpointSlice, service: Option<&Service>) {
    let Some(text) = slice.trigger_time.as_deref() else { return };
    let Some((kind, seconds)) = programming_latency(text, service, clock::wall()) else {
        if service.is_some() {
            warn!(
                target: "plugin/kubernetes",
                "DnsProgrammingLatency cannot be calculated for Endpoints '{}/{}'; invalid \"{TRIGGER_ANNOTATION}\" \
                 annotation RFC3339 value of \"{text}\"",
                slice.namespace, slice.name
            );
        }
        return;
    };
    PROGRAMMING.with_label_values(&[kind]).observe(seconds);
}

/// The kind of Service and the seconds from `trigger` to `now`; `None` without a Service or for text that is no time.
pub fn programming_latency(trigger: &str, service: Option<&Service>, now: SystemTime) -> Option<(&'static str, f64)> {
    let kind = if service?.headless { "headless_with_selector" } else { "cluster_ip" };
    let now = now.duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
    Some((kind, now - rfc3339(trigger)?))
}

/// A label's value: valid UTF-8, each run of other octets as one U+FFFD.
#[must_use]
pub fn label_text(octets: &[u8]) -> String {
    let mut text = String::with_capacity(octets.len());
    for chunk in octets.utf8_chunks() {
        let joins = chunk.valid().is_empty() && text.ends_with(char::REPLACEMENT_CHARACTER);
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() && !joins {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}

/// Reads a time as RFC 3339 writes it; seconds since 1970.
fn rfc3339(text: &str) -> Option<f64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let mut parts = date.split('-');
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let (time, offset) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0),
        None => {
            let (time, zone) = time.split_at_checked(time.len().checked_sub(6)?)?;
            let sign = if zone.starts_with('+') { 1 } else { -1 };
            let (hours, minutes) = zone.strip_prefix(['+', '-'])?.split_once(':')?;
            (time, sign * (digits(hours, 2)? * 3_600 + digits(minutes, 2)? * 60))
        }
    };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = clock.split(':');
    let (hour, minute, second) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let is_valid = parts.next().is_none()
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60
        && !fraction.is_empty()
        && fraction.bytes().all(|octet| octet.is_ascii_digit());
    let fraction: f64 = format!("0.{fraction}").parse().ok()?;
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    is_valid.then_some(seconds as f64 + fraction)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|octet| octet.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Days of the Gregorian calendar. Years begin in March, so that the leap day is the last.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let from_march = (month + 9) % 12;
    let of_months = (153 * from_march + 2) / 5;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_months + day - 1 - 719_468
}

/// The sources of manifests that run, and the errors of those that have ended.
#[derive(Default)]
struct Live {
    sources: Vec<Weak<Manifests>>,
    past_errors: u64,
}

/// Protects the list; held for a walk over it.
static LIVE: Mutex<Live> = Mutex::new(Live { sources: Vec::new(), past_errors: 0 });

/// A source whose counters are exposed while this lives.
pub(super) struct WatchedManifests(Arc<Manifests>);

impl WatchedManifests {
    pub(super) fn new(source: &Arc<Manifests>) -> Self {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).sources.push(Arc::downgrade(source));
        Self(Arc::clone(source))
    }
}

impl Drop for WatchedManifests {
    fn drop(&mut self) {
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        live.past_errors += self.0.errors_total();
        let gone = Arc::downgrade(&self.0);
        live.sources.retain(|source| !source.ptr_eq(&gone));
    }
}

/// Exposes the counters of all sources of manifests together.
struct ManifestsCollector {
    errors: IntCounter,
    broken: IntGauge,
    skipped: IntGauge,
}

impl ManifestsCollector {
    fn new() -> Self {
        let errors = IntCounter::new(
            "coredns_kubernetes_manifests_errors_total",
            "Manifests that were found unusable; the same trouble counts once.",
        );
        let broken = IntGauge::new("coredns_kubernetes_manifests_broken", "Manifests that are unusable now.");
        let skipped = IntGauge::new(
            "coredns_kubernetes_manifests_skipped_objects",
            "Objects in manifests whose kind has no names.",
        );
        Self {
            errors: errors.unwrap_or_else(|error| unreachable!("{error}")),
            broken: broken.unwrap_or_else(|error| unreachable!("{error}")),
            skipped: skipped.unwrap_or_else(|error| unreachable!("{error}")),
        }
    }
}

impl Collector for ManifestsCollector {
    fn desc(&self) -> Vec<&Desc> {
        [self.errors.desc(), self.broken.desc(), self.skipped.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        let sources: Vec<Arc<Manifests>> = live.sources.iter().filter_map(Weak::upgrade).collect();
        let sum = |count: fn(&Manifests) -> u64| sources.iter().map(|source| count(source)).sum::<u64>();
        let errors = live.past_errors + sum(Manifests::errors_total);
        self.errors.inc_by(errors.saturating_sub(self.errors.get()));
        self.broken.set(i64::try_from(sum(Manifests::broken)).unwrap_or(i64::MAX));
        self.skipped.set(i64::try_from(sum(Manifests::skipped)).unwrap_or(i64::MAX));
        [self.errors.collect(), self.broken.collect(), self.skipped.collect()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0.0)),
            ("2006-01-02T15:04:05Z", Some(1_136_214_245.0)),
            ("2006-01-02T15:04:05.5+02:00", Some(1_136_207_045.5)),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800.0)),
            ("2006-01-02 15:04:05Z", None),
            ("2006-13-02T15:04:05Z", None),
            ("2006-01-02T15:04:05", None),
            ("wrong-value", None),
            ("", None),
        ] {
            assert_eq!(rfc3339(text), expected, "{text}");
        }
    }

    #[test]
    fn latency_is_counted_for_slices_of_known_services() {
        let now = UNIX_EPOCH + std::time::Duration::from_secs(1_136_214_247);
        let of = |headless| Service { headless, ..Service::default() };
        let trigger = "2006-01-02T15:04:05Z";
        assert_eq!(programming_latency(trigger, Some(&of(true)), now), Some(("headless_with_selector", 2.0)));
        assert_eq!(programming_latency(trigger, Some(&of(false)), now), Some(("cluster_ip", 2.0)));
        assert_eq!(programming_latency(trigger, None, now), None);
        assert_eq!(programming_latency("wrong-value", Some(&of(true)), now), None);
    }
}
