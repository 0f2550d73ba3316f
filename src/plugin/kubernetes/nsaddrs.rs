//! Names and addresses of the zone's name servers: those by which clients know this server.

use std::net::IpAddr;

use coredns_plugin::wire::Name;

use super::Kubernetes;
use super::endpoint::endpoint_label;
use super::index::{Entry, Seen};
use super::object::{Address, EndpointSlice};

/// For whom the name servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameServers {
    /// For clients in the cluster.
    Internal,
    /// For clients outside: external addresses, and with `headless` the endpoints of headless Services.
    External {
        /// Whether headless Services count.
        headless: bool,
    },
}

impl Kubernetes {
    /// The name servers of `zone` with their addresses: the Services in front of this host's addresses, or these
    /// addresses themselves under `ns.dns.ZONE`.
    ///
    /// Options about namespaces do not count here: the server's own Service is usually in a namespace of its own.
    #[must_use]
    pub fn name_servers(&self, zone: &Name, whom: NameServers) -> Vec<(Name, IpAddr)> {
        let local = self.local.load();
        let mut servers = Vec::new();
        let mut has_slice = false;
        for ip in local.iter() {
            let rows = self.index.endpoint_address(*ip);
            let mut last: Option<*const EndpointSlice> = None;
            for row in rows.iter() {
                has_slice = true;
                // A slice comes once for each of its endpoints with the address.
                if last.replace(std::ptr::from_ref(row.object())) != Some(std::ptr::from_ref(row.object())) {
                    self.push_servers(zone, whom, row.object(), &mut servers);
                }
            }
        }
        if !has_slice {
            let owner = zone.prepend_all([&b"ns"[..], b"dns"]).unwrap_or_else(|_| zone.clone());
            servers.extend(local.iter().map(|ip| (owner.clone(), *ip)));
        }
        let mut seen: Vec<(Name, IpAddr)> = Vec::with_capacity(servers.len());
        for server in servers {
            if !seen.contains(&server) {
                seen.push(server);
            }
        }
        seen
    }

    fn push_servers(&self, zone: &Name, whom: NameServers, slice: &EndpointSlice, servers: &mut Vec<(Name, IpAddr)>) {
        let Some(found) = self.index.service_named(&slice.service, &slice.namespace) else { return };
        let Some(entry) = found.entry().filter(|entry| entry.exists()) else { return };
        let svc: &[&[u8]] = if whom == NameServers::Internal { &[b"svc"] } else { &[] };
        let own = [slice.service.as_bytes(), slice.namespace.as_bytes()];
        let Ok(base) = zone.prepend_all(own.into_iter().chain(svc.iter().copied())) else { return };
        if entry.is_headless() {
            if whom == (NameServers::External { headless: false }) {
                return;
            }
            let mut ips = Seen::default();
            for endpoint in &slice.endpoints {
                let Some(ip) = endpoint.address.ip().filter(|ip| ips.insert(*ip)) else { continue };
                let label = endpoint_label(endpoint, self.options.endpoint_pod_names);
                if let Some(Ok(owner)) = label.map(|label| base.prepend_all([&label[..]])) {
                    servers.push((owner, ip));
                }
            }
            return;
        }
        servers.extend(addresses(entry, whom).iter().filter_map(Address::ip).map(|ip| (base.clone(), ip)));
    }
}

fn addresses(entry: &Entry, whom: NameServers) -> &[Address] {
    match whom {
        NameServers::Internal => entry.cluster_ips(),
        NameServers::External { .. } => entry.service().map_or(&[], |service| &service.external_ips),
    }
}
