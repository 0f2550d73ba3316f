//! The link of the chain: what every query of a server block is counted under.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use coredns_plugin::metrics::{Observation, RequestMetrics, Series};
use coredns_plugin::{BoxError, BoxFuture, Lifecycle, Next, Outcome, Plugin, Query, ServerInfo, Start, clock};
use coredns_wire::Name;
use foldhash::quality::RandomState;

use super::enabled::Enabled;
use super::{NAME, runtime};

/// Counts the queries of one server block.
pub(super) struct Prometheus {
    metrics: Arc<RequestMetrics>,
    runtime_metrics: bool,
    table: OnceLock<Table>,
    /// The series of `coredns_plugin_enabled`; protects one value.
    enabled: Mutex<Option<Enabled>>,
}

/// What is counted where; made once, when the listeners and plugins of the block are known.
struct Table {
    view: String,
    /// The plugins of the block.
    authors: Vec<&'static str>,
    /// The zones of the block, the longest first; the last is the root.
    zones: Vec<Name>,
    /// The numbers of each listener, by zone.
    servers: Vec<(Arc<ServerInfo>, Vec<Arc<Series>>)>,
    /// Plugins that find zones while serving.
    finders: Vec<Arc<dyn Plugin>>,
    /// The numbers of found zones by listener and zone, and those of a listener that the start did not name. Protects
    /// the table; locked only for queries of such zones.
    added: Mutex<HashMap<(String, Name), Arc<Series>, RandomState>>,
}

/// The numbers that a query belongs to.
enum Found<'a> {
    Known(&'a Series),
    Added(Arc<Series>),
}

impl Deref for Found<'_> {
    type Target = Series;

    fn deref(&self) -> &Series {
        match self {
            Self::Known(series) => series,
            Self::Added(series) => series,
        }
    }
}

impl Prometheus {
    pub(super) const fn new(metrics: Arc<RequestMetrics>, runtime_metrics: bool) -> Self {
        Self { metrics, runtime_metrics, table: OnceLock::new(), enabled: Mutex::new(None) }
    }

    fn set_enabled(&self, enabled: Option<Enabled>) {
        // The new series are there before the old ones go, so that a reload does not blink.
        drop(std::mem::replace(&mut *self.enabled.lock().unwrap_or_else(PoisonError::into_inner), enabled));
    }

    #[inline]
    fn find(&self, query: &Query) -> Option<Found<'_>> {
        let table = self.table.get()?;
        let at = table.zones.iter().position(|zone| query.name().is_within(zone))?;
        if !table.finders.is_empty()
            && let Some(zone) = table.found_zone(query.name(), table.zones.get(at)?)
        {
            return Some(Found::Added(table.added(&self.metrics, query.server(), &zone)));
        }
        match table.servers.iter().find(|(server, _)| Arc::ptr_eq(server, query.server())) {
            Some((_, series)) => series.get(at).map(|series| Found::Known(series)),
            None => Some(Found::Added(table.added(&self.metrics, query.server(), table.zones.get(at)?))),
        }
    }
}

impl Table {
    fn new(metrics: &RequestMetrics, start: &Start) -> Self {
        let mut zones = start.zones.as_slice().to_vec();
        zones.push(Name::root());
        zones.sort_by_key(|zone| std::cmp::Reverse(zone.len()));
        zones.dedup();
        let authors: Vec<&'static str> = start.plugins.iter().map(|plugin| plugin.name()).collect();
        let servers = start.servers.iter().map(|server| {
            let series =
                zones.iter().map(|zone| metrics.series(&server.label, &zone.to_string(), &start.view, &authors));
            (Arc::clone(server), series.collect())
        });
        let finders = start.plugins.iter().filter(|plugin| plugin.found_zones().is_some()).map(Arc::clone);
        Self {
            view: start.view.clone(),
            servers: servers.collect(),
            finders: finders.collect(),
            authors,
            zones,
            added: Mutex::default(),
        }
    }

    /// The found zone of a name, where it is longer than the block's.
    fn found_zone(&self, name: &Name, block: &Name) -> Option<Name> {
        let mut best: Option<Name> = None;
        for zones in self.finders.iter().filter_map(|plugin| plugin.found_zones()) {
            let zones = zones.load();
            let longest = best.as_ref().unwrap_or(block).len();
            if let Some(zone) = zones.matching(name).filter(|zone| zone.len() > longest) {
                best = Some(zone.clone());
            }
        }
        best
    }

    fn added(&self, metrics: &RequestMetrics, server: &ServerInfo, zone: &Name) -> Arc<Series> {
        let mut added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || metrics.series(&server.label, &zone.to_string(), &self.view, &self.authors);
        Arc::clone(added.entry((server.label.clone(), zone.clone())).or_insert_with(make))
    }
}

impl Plugin for Prometheus {
    fn name(&self) -> &'static str {
        NAME
    }

    #[inline]
    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        let found = self.find(query);
        next.serve(query).map(move |answer| {
            if let Some(series) = found {
                let elapsed = clock::now().saturating_duration_since(query.received());
                series.record(&Observation::of(query, &answer, elapsed));
            }
            answer
        })
    }
}

impl Lifecycle for Prometheus {
    fn start<'a>(&'a self, start: &'a Start) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async {
            self.table.get_or_init(|| Table::new(&self.metrics, start));
            self.set_enabled(Some(Enabled::new(start)));
            if self.runtime_metrics {
                runtime::enable(tokio::runtime::Handle::current());
            }
            Ok(())
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.set_enabled(None) })
    }
}
