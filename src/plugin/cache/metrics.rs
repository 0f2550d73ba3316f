//! The plugin's metrics: rows of numbers for each worker, by server, zones and view.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use coredns_plugin::metrics::{Cells, prometheus, register};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{IntGauge, IntGaugeVec, Opts};

use super::judge::Side;

/// The values of the label `type`, by [`Side`].
const SIDES: [&str; 2] = ["success", "denial"];

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Requests,
    Hits(Side),
    Misses,
    Prefetches,
    Drops,
    Stale,
    Evictions(Side),
}

impl Count {
    const CELLS: usize = 9;

    const fn cell(self) -> usize {
        match self {
            Self::Requests => 0,
            Self::Hits(side) => 1 + side as usize,
            Self::Misses => 3,
            Self::Prefetches => 4,
            Self::Drops => 5,
            Self::Stale => 6,
            Self::Evictions(side) => 7 + side as usize,
        }
    }
}

/// A counter: its name, its help text, its cells.
struct Family {
    name: &'static str,
    help: &'static str,
    counts: &'static [Count],
}

const FAMILIES: [Family; 7] = [
    Family { name: "coredns_cache_requests_total", help: "The count of cache requests.", counts: &[Count::Requests] },
    Family {
        name: "coredns_cache_hits_total",
        help: "The count of cache hits.",
        counts: &[Count::Hits(Side::Success), Count::Hits(Side::Denial)],
    },
    Family {
        name: "coredns_cache_misses_total",
        help: "The count of cache misses. Deprecated, derive misses from cache hits/requests counters.",
        counts: &[Count::Misses],
    },
    Family {
        name: "coredns_cache_prefetch_total",
        help: "The number of times the cache has prefetched a cached item.",
        counts: &[Count::Prefetches],
    },
    Family {
        name: "coredns_cache_drops_total",
        help: "The number responses that are not cached, because the reply is malformed.",
        counts: &[Count::Drops],
    },
    Family {
        name: "coredns_cache_served_stale_total",
        help: "The number of requests served from stale cache entries.",
        counts: &[Count::Stale],
    },
    Family {
        name: "coredns_cache_evictions_total",
        help: "The count of cache evictions.",
        counts: &[Count::Evictions(Side::Success), Count::Evictions(Side::Denial)],
    },
];

static ENTRIES: LazyLock<IntGaugeVec> = LazyLock::new(|| {
    let opts = Opts::new("coredns_cache_entries", "The number of elements in the cache.");
    IntGaugeVec::new(opts, &["server", "type", "zones", "view"]).expect("the name and the labels are valid")
});

/// The numbers of one server, list of zones and view.
#[derive(Debug)]
pub(super) struct Numbers {
    labels: Labels,
    cells: Cells,
    entries: [IntGauge; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Labels {
    server: String,
    zones: String,
    view: String,
}

/// All numbers of the process; they outlive reloads, and configurations alone decide how many there are.
static ALL: LazyLock<Mutex<HashMap<Labels, Arc<Numbers>>>> = LazyLock::new(Mutex::default);

impl Numbers {
    /// The numbers for these labels.
    pub(super) fn of(server: &str, zones: &str, view: &str) -> Arc<Self> {
        let labels = Labels { server: server.to_owned(), zones: zones.to_owned(), view: view.to_owned() };
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || {
            let entries = SIDES.map(|side| ENTRIES.with_label_values(&[server, side, zones, view]));
            Arc::new(Self { labels: labels.clone(), cells: Cells::new(Count::CELLS), entries })
        };
        Arc::clone(all.entry(labels.clone()).or_insert_with(fresh))
    }

    /// Counts one more.
    #[inline]
    pub(super) fn count(&self, count: Count) {
        self.cells.add(count.cell(), 1);
    }

    /// Counts `amount` more.
    pub(super) fn add(&self, count: Count, amount: u64) {
        self.cells.add(count.cell(), amount);
    }

    /// Says how many entries there are.
    pub(super) fn set_entries(&self, success: usize, denial: usize) {
        for (gauge, len) in self.entries.iter().zip([success, denial]) {
            gauge.set(i64::try_from(len).unwrap_or(i64::MAX));
        }
    }

    /// What has been counted.
    #[cfg(test)]
    pub(super) fn sum(&self, count: Count) -> u64 {
        self.cells.sum(count.cell())
    }

    fn series(&self, count: Count) -> Option<Metric> {
        let sum = self.cells.sum(count.cell());
        let side = match count {
            Count::Hits(side) | Count::Evictions(side) => Some(SIDES[side as usize]),
            _ => None,
        };
        let Labels { server, zones, view } = &self.labels;
        let labels = [("server", Some(server.as_str())), ("type", side), ("view", Some(view)), ("zones", Some(zones))];
        let pairs = labels.into_iter().filter_map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.to_owned());
            pair.set_value(value?.to_owned());
            Some(pair)
        });
        let mut metric = Metric::from_label(pairs.collect());
        let mut counter = Counter::default();
        counter.set_value(sum as f64);
        metric.set_counter(counter);
        // As CoreDNS's counters, a series is there from the first event on.
        (sum > 0).then_some(metric)
    }
}

/// Gives the counters to the registry.
struct CountsCollector {
    descs: Vec<Desc>,
}

impl CountsCollector {
    fn new() -> Self {
        let desc = |family: &Family| {
            let with_type = family.counts.len() > 1;
            let labels = ["server", "type", "view", "zones"].into_iter().filter(|label| with_type || *label != "type");
            let labels = labels.map(str::to_owned).collect();
            Desc::new(family.name.to_owned(), family.help.to_owned(), labels, HashMap::new())
        };
        let descs = FAMILIES.iter().map(|family| desc(family).expect("the name and the labels are valid"));
        Self { descs: descs.collect() }
    }
}

impl Collector for CountsCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let all: Vec<_> = ALL.lock().unwrap_or_else(PoisonError::into_inner).values().map(Arc::clone).collect();
        let families = FAMILIES.iter().map(|family| {
            let series = family.counts.iter().flat_map(|count| all.iter().filter_map(|one| one.series(*count)));
            let mut out = MetricFamily::default();
            out.set_name(family.name.to_owned());
            out.set_help(family.help.to_owned());
            out.set_field_type(MetricType::COUNTER);
            out.set_metric(series.collect());
            out
        });
        families.filter(|family| !family.get_metric().is_empty()).collect()
    }
}

pub(super) fn register_metrics() {
    register(ENTRIES.clone());
    register(CountsCollector::new());
}
