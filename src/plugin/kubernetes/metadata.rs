//! Labels about queries, for the plugin metadata.

use std::net::IpAddr;

use coredns_plugin::wire::Name;
use coredns_plugin::{Metadata, Query};

use super::Kubernetes;
use super::options::PodMode;
use super::parse::{Grammar, Kind, parse, text};

impl Kubernetes {
    pub(super) fn label(&self, query: &Query, store: &Metadata) {
        self.label_name(query.name(), store);
        self.label_client(query.client().ip(), store);
    }

    /// The Pod that asks.
    fn label_client(&self, client: IpAddr, store: &Metadata) {
        if self.options.pods != PodMode::Verified {
            return;
        }
        let pods = self.index.pods(client.to_canonical());
        let Some(pod) = pods.first().map(|row| row.object()) else { return };
        store.set("kubernetes/client-namespace", &*pod.namespace);
        store.set("kubernetes/client-pod-name", &*pod.name);
        for (key, value) in pod.labels.iter() {
            store.set(format!("kubernetes/client-label/{key}"), value);
        }
    }

    /// The parts of the name.
    fn label_name(&self, name: &Name, store: &Metadata) {
        let Some((zone, zone_at)) = self.zone_of(name) else { return };
        let grammar = Grammar { multicluster: zone.is_multicluster, zonal: self.options.zonal };
        let parsed = match parse(name, zone_at, grammar) {
            Ok(parsed) => parsed,
            Err(error) => return store.set("kubernetes/parse-error", error.to_string()),
        };
        store.set("kubernetes/port-name", text(parsed.port));
        store.set("kubernetes/protocol", text(parsed.protocol));
        store.set("kubernetes/endpoint", text(parsed.endpoint));
        store.set("kubernetes/service", text(parsed.service));
        store.set("kubernetes/namespace", text(parsed.namespace));
        store.set("kubernetes/kind", parsed.kind.map_or("", Kind::as_str));
        if zone.is_multicluster {
            store.set("kubernetes/cluster", text(parsed.cluster));
        }
        if self.options.zonal {
            store.set("kubernetes/zone", parsed.scope.map_or_else(String::new, |scope| scope.text()));
        }
    }
}
