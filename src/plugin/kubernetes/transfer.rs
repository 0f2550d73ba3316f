//! Whole zones, for the plugin transfer.

use std::sync::Arc;

use coredns_plugin::services::{Transfer, TransferError};
use coredns_plugin::wire::{Labels, Name, Record, RrType};

use super::endpoint::{dashed, endpoint_label};
use super::handler::weight;
use super::index::{Entry, service_key};
use super::object::Port;
use super::{Kubernetes, NameServers};

impl Transfer for Kubernetes {
    fn transfer(
        &self,
        zone: &Name,
        serial: u32,
    ) -> Result<Box<dyn Iterator<Item = Record> + Send + '_>, TransferError> {
        let served = self.zones.iter().find(|served| served.name == *zone).ok_or(TransferError::NotAuthoritative)?;
        let soa = self.soa(served, served.name.clone());
        let serials = self.index.serials();
        let current = if served.is_multicluster { serials.multicluster() } else { serials.internal() };
        if serial != 0 && serial == current {
            return Ok(Box::new(std::iter::once(soa)));
        }
        let mut head = vec![soa.clone()];
        head.extend(self.name_server_records(&served.name));
        // Names of addresses point at Services; there are no Services in their zones.
        let mut entries = if served.is_reverse { Vec::new() } else { self.index.entries(served.is_multicluster) };
        entries.retain(|entry| entry.exists() && self.is_exposed(namespace_label(entry.key())));
        entries.sort_by(|a, b| parts(a).cmp(&parts(b)));
        let svc = served.name.prepend_all([&b"svc"[..]]).unwrap_or_else(|_| served.name.clone());
        let services = entries.into_iter().flat_map(move |entry| self.entry_records(&entry, &svc));
        Ok(Box::new(head.into_iter().chain(services).chain([soa])))
    }
}

/// Service and namespace, for sorting.
fn parts(entry: &Arc<Entry>) -> (&[u8], &[u8]) {
    let mut labels = Labels::new(entry.key());
    (labels.next().unwrap_or(&[]), labels.next().unwrap_or(&[]))
}

fn namespace_label(key: &[u8]) -> &[u8] {
    key.first().and_then(|service| key.get(1 + usize::from(*service)..)).unwrap_or(&[])
}

impl Kubernetes {
    fn name_server_records(&self, zone: &Name) -> Vec<Record> {
        let ttl = self.options.ttl;
        let servers = self.name_servers(zone, NameServers::Internal);
        let mut records: Vec<Record> = Vec::new();
        for (owner, _) in &servers {
            let record = Record::pointing(zone.clone(), ttl, RrType::NS, owner);
            if !records.contains(&record) {
                records.push(record);
            }
        }
        records.extend(servers.into_iter().map(|(owner, ip)| Record::address(owner, ttl, ip)));
        records
    }

    fn entry_records(&self, entry: &Entry, svc: &Name) -> Vec<Record> {
        let ttl = self.options.ttl;
        let mut records = Vec::new();
        let Ok(owner) = svc.prepend_all(Labels::new(entry.key())) else { return records };
        if entry.is_external() {
            records.extend(entry.alias().map(|target| Record::pointing(owner, ttl, RrType::CNAME, target)));
        } else if entry.is_headless() {
            self.endpoint_records(entry, &owner, &mut records);
        } else {
            records.extend(entry.v4().iter().map(|ip| Record::a(owner.clone(), ttl, *ip)));
            records.extend(entry.v6().iter().map(|ip| Record::aaaa(owner.clone(), ttl, *ip)));
            if records.is_empty() {
                return records;
            }
            for port in entry.ports() {
                let Some(number) = port.number else { continue };
                records.push(Record::srv(owner.clone(), ttl, 0, weight(1), number, &owner));
                if let Some(name) = port_name(port, &owner) {
                    records.push(Record::srv(name, ttl, 0, weight(1), number, &owner));
                }
            }
        }
        records
    }

    fn endpoint_records(&self, entry: &Entry, owner: &Name, records: &mut Vec<Record>) {
        let ttl = self.options.ttl;
        for slice in entry.slices() {
            let weight = weight(slice.endpoints.len());
            let cluster = slice.source.as_ref().filter(|_| entry.is_import()).map_or("", |source| &source.cluster);
            for endpoint in &slice.endpoints {
                let Some(ip) = endpoint.address.ip() else { continue };
                let label = endpoint_label(endpoint, self.options.endpoint_pod_names).unwrap_or_else(|| dashed(ip));
                let labels = [&label[..], cluster.as_bytes()].into_iter().filter(|label| !label.is_empty());
                let Ok(target) = owner.prepend_all(labels) else { continue };
                records.push(Record::address(owner.clone(), ttl, ip));
                records.push(Record::address(target.clone(), ttl, ip));
                for port in &slice.ports {
                    if let (Some(number), Some(name)) = (port.number, port_name(port, owner)) {
                        records.push(Record::srv(name, ttl, 0, weight, number, &target));
                    }
                }
            }
        }
    }
}

/// `_port._protocol.SERVICE`, in lower case; `None` for an unnamed port.
fn port_name(port: &Port, owner: &Name) -> Option<Name> {
    let protocol = port.protocol.as_str();
    // Both must be labels with their underscore.
    service_key(&port.name, protocol)?;
    let label = |text: &str| format!("_{}", text.to_ascii_lowercase());
    owner.prepend_all([label(&port.name).as_bytes(), label(protocol).as_bytes()]).ok()
}
