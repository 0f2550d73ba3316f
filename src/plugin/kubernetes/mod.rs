//! The kubernetes plugin: names of a cluster's Services, endpoints and Pods.
//!
//! A source delivers objects to the [`index`]; queries are answered from it at once. Only the target of an
//! ExternalName Service outside the zone has to be waited for.
//!
//! | module | contents |
//! |---|---|
//! | `setup`, `options` | the directive |
//! | `lifecycle` | the source, the first synchronisation, local addresses |
//! | `object`, `selector`, `source` | objects of the API, which of them are watched, where they go |
//! | `manifests`, `api` | objects from files, and from an API server |
//! | `index` | what the objects mean for queries |
//! | `parse`, `endpoint`, `reverse` | the grammar of names |
//! | `handler` | queries |
//! | `soa`, `nsaddrs` | records of the zone itself |
//! | `transfer`, `autopath`, `metadata` | what other plugins ask for |
//! | `metrics` | counters |
//!
//! Budget of an A query for a ClusterIP Service: no allocation, no lock, two table look-ups, one record; well below
//! 300 ns with the reply itself.

pub mod api;
mod autopath;
pub mod endpoint;
mod handler;
pub mod index;
mod lifecycle;
pub mod local;
pub mod manifests;
mod metadata;
pub mod metrics;
mod nsaddrs;
pub mod object;
pub mod options;
pub mod parse;
mod reverse;
pub mod selector;
mod setup;
mod soa;
pub mod source;
mod transfer;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use coredns_plugin::Descriptor;
use coredns_plugin::wire::Name;

use index::Index;
use lifecycle::Running;
use options::Options;

pub use nsaddrs::NameServers;

/// The name of the directive.
const NAME: &str = "kubernetes";

/// The kubernetes plugin.
pub static DESCRIPTOR: Descriptor =
    Descriptor { name: NAME, setup: setup::setup, register_metrics: metrics::register_all };

/// A zone that the plugin serves.
#[derive(Clone, Debug)]
struct ServedZone {
    name: Name,
    /// Names of addresses lie in it, not names of Services.
    is_reverse: bool,
    /// Names of addresses may lie in it.
    may_hold_addresses: bool,
    is_multicluster: bool,
}

/// The plugin in one server block.
pub struct Kubernetes {
    options: Options,
    zones: Vec<ServedZone>,
    index: Arc<Index>,
    /// The addresses of this host that clients may know the server by.
    local: ArcSwap<Vec<std::net::IpAddr>>,
    /// The search list of the host, for clients' search paths.
    host_search: Vec<Name>,
    /// The running source; held only to start and stop it.
    running: Mutex<Option<Running>>,
}

impl Kubernetes {
    /// The plugin with an empty index; `host_search` is the search list of the host.
    #[must_use]
    pub fn new(options: Options, host_search: Vec<Name>) -> Self {
        let arpa = Name::from_wire(b"\x04arpa\0").unwrap_or_default();
        let zones = options.zones.as_slice().iter().map(|name| {
            let is_reverse = reverse::is_reverse_zone(name);
            ServedZone {
                name: name.clone(),
                is_reverse,
                may_hold_addresses: is_reverse || arpa.is_within(name),
                is_multicluster: options.multicluster.matching(name).is_some(),
            }
        });
        Self {
            zones: zones.collect(),
            index: Arc::new(Index::new(options.endpoints)),
            options,
            local: ArcSwap::default(),
            host_search,
            running: Mutex::default(),
        }
    }

    /// What the directive says.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The index, for whoever feeds or asks it.
    #[must_use]
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Says which addresses the server is known by.
    pub fn set_local_addresses(&self, addresses: Vec<std::net::IpAddr>) {
        self.local.store(Arc::new(addresses));
    }

    /// The longest zone that contains `name`, and where it begins in the name.
    #[inline]
    fn zone_of(&self, name: &Name) -> Option<(&ServedZone, usize)> {
        let mut best: Option<(&ServedZone, usize)> = None;
        for zone in &self.zones {
            if let Some(at) = name.offset_of(&zone.name)
                && best.is_none_or(|(_, held)| at < held)
            {
                best = Some((zone, at));
            }
        }
        best
    }
}
