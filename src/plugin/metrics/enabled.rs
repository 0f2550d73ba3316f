//! `coredns_plugin_enabled`: the plugins of each server block with `prometheus`.
//!
//! The series live as long as the instance that has them. During a reload both instances are there; what the new one
//! has as well never goes away.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use coredns_plugin::Start;
use coredns_plugin::metrics::{prometheus, register as register_metric};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};

/// Server, zone, view and plugin.
type Labels = [String; 4];

/// How many parts of instances hold each series. Protects the table; held for starts, stops and scrapes.
static HELD: LazyLock<Mutex<BTreeMap<Labels, usize>>> = LazyLock::new(Mutex::default);

/// The series of one server block, until this is dropped.
#[derive(Debug)]
pub(super) struct Enabled(Vec<Labels>);

impl Enabled {
    /// The plugins of a block, for each of its listeners, under the first of its zones.
    pub(super) fn new(start: &Start) -> Self {
        let zone = start.zones.as_slice().first().map_or_else(String::new, ToString::to_string);
        let labels = start.servers.iter().flat_map(|server| {
            let names = start.plugins.iter().map(|plugin| plugin.name());
            names.map(|name| [server.label.clone(), zone.clone(), start.view.clone(), name.to_owned()])
        });
        let labels: Vec<Labels> = labels.collect();
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        for label in &labels {
            *held.entry(label.clone()).or_default() += 1;
        }
        Self(labels)
    }
}

impl Drop for Enabled {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        for labels in &self.0 {
            match held.get_mut(labels) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    held.remove(labels);
                }
            }
        }
    }
}

/// Makes the family out of what is held.
struct EnabledCollector(IntGaugeVec);

impl EnabledCollector {
    fn family() -> IntGaugeVec {
        let help = "A metric that indicates whether a plugin is enabled on per server and zone basis.";
        let options = Opts::new("coredns_plugin_enabled", help);
        IntGaugeVec::new(options, &["server", "zone", "view", "name"])
            .unwrap_or_else(|error| unreachable!("a constant: {error}"))
    }
}

impl Collector for EnabledCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // A family of its own for each scrape: two scrapes do not see each other's half-filled one.
        let family = Self::family();
        for labels in HELD.lock().unwrap_or_else(PoisonError::into_inner).keys() {
            family.with_label_values(&labels.each_ref().map(String::as_str)).set(1);
        }
        family.collect()
    }
}

pub(super) fn register() {
    register_metric(EnabledCollector(EnabledCollector::family()));
}
