//! What a name means.

use coredns_plugin::Reply;
use coredns_plugin::Stamp;
use coredns_plugin::wire::{Name, Record, RrType, fold};

use super::super::endpoint::label_address;
use super::super::index::Entry;
use super::super::object::Port;
use super::super::options::PodMode;
use super::super::parse::{Grammar, Kind, Parsed, parse};
use super::super::reverse::{self, Reverse};
use super::super::{Kubernetes, NameServers, endpoint};
use super::records::Wanted;
use super::{Ask, Found};

/// The version of the naming scheme that this plugin follows.
const SCHEMA_VERSION: &[u8] = b"1.1.0";
/// Its time to live in seconds.
const SCHEMA_TTL: u32 = 28_800;

impl Kubernetes {
    /// Finds out what the name means and puts the records of the type into the reply.
    #[inline]
    pub(super) fn resolve(&self, ask: &Ask<'_>, reply: &mut Reply) -> Found {
        if ask.zone_at == 0 {
            return self.resolve_apex(ask, reply);
        }
        if ask.zone.may_hold_addresses {
            match reverse::read(ask.name) {
                Reverse::Address(ip) => return self.resolve_address(ask, ip, reply),
                // Names of addresses may lie below; only where others may know the range is that left to them.
                Reverse::Range if !self.options.fallthrough.through(ask.name) => return Found::Exists,
                Reverse::Range | Reverse::Neither => {}
            }
        }
        let grammar = Grammar { multicluster: ask.zone.is_multicluster, zonal: self.options.zonal };
        let Ok(parsed) = parse(ask.name, ask.zone_at, grammar) else { return self.resolve_fixed(ask, reply) };
        match parsed.kind {
            None => Found::Exists,
            Some(_) if ask.zone.is_reverse => Found::Missing,
            Some(Kind::Svc) => self.resolve_service(ask, &parsed, reply),
            Some(Kind::Pod) => self.resolve_pod(ask, &parsed, reply),
        }
    }

    /// Whether names in the namespace are served.
    #[inline]
    pub(in super::super) fn is_exposed(&self, namespace_label: &[u8]) -> bool {
        let listed = &self.options.namespaces;
        let name = namespace_label.get(1..).unwrap_or(&[]);
        (listed.is_empty() || listed.iter().any(|one| fold::eq(one.as_bytes(), name)))
            && self.index.has_namespace(namespace_label)
    }

    fn resolve_apex(&self, ask: &Ask<'_>, reply: &mut Reply) -> Found {
        reply.stamp = ask.wants_stamp.then(|| self.index.zone_stamp());
        match ask.qtype {
            RrType::SOA => reply.answer.push(self.soa(ask.zone, ask.name.clone())),
            RrType::NS => {
                for (owner, ip) in self.name_servers(ask.name, NameServers::Internal) {
                    if !reply.answer.iter().any(|record| record.target().is_some_and(|held| held == owner)) {
                        reply.answer.push(Record::pointing(ask.name.clone(), self.options.ttl, RrType::NS, &owner));
                    }
                    reply.additional.push(Record::address(owner, self.options.ttl, ip));
                }
            }
            _ => {}
        }
        Found::Exists
    }

    /// Names outside of the grammar that every zone has.
    fn resolve_fixed(&self, ask: &Ask<'_>, reply: &mut Reply) -> Found {
        reply.stamp = ask.wants_stamp.then(|| self.index.zone_stamp());
        let front = ask.name.as_wire().get(..ask.zone_at).unwrap_or(&[]);
        if fold::eq(front, b"\x0bdns-version") {
            if ask.qtype == RrType::TXT {
                reply.answer.push(Record::txt(ask.name.clone(), SCHEMA_TTL, &[SCHEMA_VERSION]));
            }
            return Found::Exists;
        }
        if fold::eq(front, b"\x02ns\x03dns") {
            if matches!(ask.qtype, RrType::A | RrType::AAAA) {
                for (_, ip) in self.name_servers(&ask.zone_name(), NameServers::Internal) {
                    let record = Record::address(ask.name.clone(), self.options.ttl, ip);
                    if record.rtype == ask.qtype && !reply.answer.contains(&record) {
                        reply.answer.push(record);
                    }
                }
            }
            return Found::Exists;
        }
        // The node between the zone and its name server.
        if fold::eq(front, b"\x03dns") { Found::Exists } else { Found::Missing }
    }

    #[inline]
    fn resolve_service(&self, ask: &Ask<'_>, parsed: &Parsed<'_>, reply: &mut Reply) -> Found {
        let hash = self.index.hash(parsed.key);
        if ask.wants_stamp {
            // Taken before the data are read. What does not exist goes by its namespace.
            reply.stamp = Some(Stamp::take(self.index.hash(parsed.namespace_label)));
        }
        if !self.is_exposed(parsed.namespace_label) {
            return Found::Missing;
        }
        if parsed.key.is_empty() {
            return Found::Exists;
        }
        let stamp = ask.wants_stamp.then(|| Stamp::take(hash));
        let found = if ask.zone.is_multicluster {
            self.index.import(parsed.key, hash)
        } else {
            self.index.service(parsed.key, hash)
        };
        let entry = found.as_ref().and_then(|found| found.entry()).filter(|entry| entry.exists());
        let Some(entry) = entry else { return Found::Missing };
        reply.stamp = stamp;
        match self.resolve_entry(ask, parsed, entry, reply) {
            Found::Missing if self.is_node_above(parsed, entry) => Found::Exists,
            found => found,
        }
    }

    #[inline]
    fn resolve_entry(&self, ask: &Ask<'_>, parsed: &Parsed<'_>, entry: &Entry, reply: &mut Reply) -> Found {
        let has_port = !(parsed.port.is_empty() && parsed.protocol.is_empty());
        if entry.is_external() {
            let is_below = has_port || !parsed.endpoint.is_empty() || parsed.scope.is_some();
            let Some(target) = entry.alias().filter(|_| !is_below) else { return Found::Missing };
            return self.resolve_alias(ask, target, reply);
        }
        if entry.is_headless() || !parsed.endpoint.is_empty() {
            if !entry.is_headless() && self.is_hidden(entry) {
                return Found::Missing;
            }
            return self.resolve_endpoints(ask, parsed, entry, reply);
        }
        let is_matched = if has_port {
            entry.ports().iter().any(|port| matches_port(port, parsed))
        } else {
            !entry.ports().is_empty()
        };
        if parsed.scope.is_some() || !is_matched || self.is_hidden(entry) {
            return Found::Missing;
        }
        let ttl = self.options.ttl;
        match ask.qtype {
            RrType::A => {
                reply.answer.extend(entry.v4().iter().map(|ip| Record::a(ask.name.clone(), ttl, *ip)));
            }
            RrType::AAAA => {
                reply.answer.extend(entry.v6().iter().map(|ip| Record::aaaa(ask.name.clone(), ttl, *ip)));
            }
            RrType::SRV => self.push_cluster_srv(ask, parsed, entry, reply),
            _ => {}
        }
        Found::Exists
    }

    /// Whether the Service is left out for want of ready endpoints: `ignore empty_service`.
    fn is_hidden(&self, entry: &Entry) -> bool {
        self.options.ignore_empty_service && !entry.has_ready_endpoint()
    }

    pub(super) fn resolve_alias(&self, ask: &Ask<'_>, target: &Name, reply: &mut Reply) -> Found {
        match ask.qtype {
            RrType::A | RrType::AAAA => return Found::Alias(target.clone()),
            RrType::CNAME => {
                let record = Record::pointing(ask.name.clone(), self.options.ttl, RrType::CNAME, target);
                reply.answer.push(record);
            }
            _ => {}
        }
        Found::Exists
    }

    fn resolve_endpoints(&self, ask: &Ask<'_>, parsed: &Parsed<'_>, entry: &Entry, reply: &mut Reply) -> Found {
        let mut wanted = Wanted::new(parsed, self.options.endpoint_pod_names, entry.is_import());
        if let Some(scope) = parsed.scope {
            if !entry.is_headless() {
                return Found::Missing;
            }
            let has_any = wanted.of(entry).next().is_some();
            if !has_any && !scope.prefer {
                return Found::Exists;
            }
            if !has_any {
                wanted.scope = None;
            }
            self.push_endpoints(ask, &wanted, entry, reply);
            return Found::Exists;
        }
        let Some((_, first)) = wanted.of(entry).next() else { return Found::Missing };
        if wanted.is_everything() && matches!(ask.qtype, RrType::A | RrType::AAAA) {
            let ttl = self.options.ttl;
            if ask.qtype == RrType::A {
                reply.answer.extend(entry.v4().iter().map(|ip| Record::a(ask.name.clone(), ttl, *ip)));
            } else {
                reply.answer.extend(entry.v6().iter().map(|ip| Record::aaaa(ask.name.clone(), ttl, *ip)));
            }
            let no_address = entry.v4().is_empty() && entry.v6().is_empty();
            // A slice of names instead of addresses; a name has one alias at most (RFC 1034 §3.6.2).
            return match super::super::index::address_alias(&first.address).filter(|_| no_address) {
                Some(target) => Found::Alias(target),
                None => Found::Exists,
            };
        }
        self.push_endpoints(ask, &wanted, entry, reply);
        Found::Exists
    }

    /// Whether a name without records of its own has names with records below it, and so exists (RFC 8020).
    fn is_node_above(&self, parsed: &Parsed<'_>, entry: &Entry) -> bool {
        if entry.is_external() || parsed.scope.is_some() {
            return false;
        }
        let is_zone_node =
            |label: &[u8]| self.options.zonal && entry.is_headless() && !entry.is_import() && fold::eq(label, b"zone");
        if !parsed.endpoint.is_empty() {
            let label = parsed.endpoint.strip_prefix(b"_").unwrap_or(parsed.endpoint);
            let own = if entry.is_headless() { &[] } else { entry.ports() };
            let of_slices = entry.slices().iter().filter(|slice| entry.is_headless() && !slice.endpoints.is_empty());
            let ports = own.iter().chain(of_slices.flat_map(|slice| &slice.ports));
            let is_protocol =
                ports.map(|port| port.protocol.as_str()).any(|one| !one.is_empty() && fold::eq(one.as_bytes(), label));
            let is_cluster = parsed.cluster.is_empty()
                && entry.slices().iter().any(|slice| {
                    slice.source.as_ref().is_some_and(|source| {
                        entry.is_import()
                            && !slice.endpoints.is_empty()
                            && fold::eq(source.cluster.as_bytes(), parsed.endpoint)
                    })
                });
            return (is_protocol && parsed.cluster.is_empty() && !self.is_hidden_for(entry))
                || is_cluster
                || (label.len() < parsed.endpoint.len() && is_zone_node(label));
        }
        is_zone_node(parsed.protocol) && (fold::eq(parsed.port, b"pin") || fold::eq(parsed.port, b"prefer"))
    }

    fn is_hidden_for(&self, entry: &Entry) -> bool {
        !entry.is_headless() && self.is_hidden(entry)
    }

    fn resolve_pod(&self, ask: &Ask<'_>, parsed: &Parsed<'_>, reply: &mut Reply) -> Found {
        if ask.wants_stamp {
            reply.stamp = Some(Stamp::take(self.index.hash(parsed.namespace_label)));
        }
        if self.options.pods == PodMode::Disabled || !self.is_exposed(parsed.namespace_label) {
            return Found::Missing;
        }
        if parsed.key.is_empty() {
            return Found::Exists;
        }
        let Some(ip) = label_address(parsed.service) else { return Found::Missing };
        if self.options.pods == PodMode::Verified {
            if ask.wants_stamp {
                reply.stamp = Some(Stamp::take(self.index.address_hash(ip)));
            }
            let pods = self.index.pods(ip);
            if !pods.iter().any(|row| fold::eq(row.object().namespace.as_bytes(), parsed.namespace)) {
                return Found::Missing;
            }
        }
        self.push_pod(ask, parsed, ip, reply);
        Found::Exists
    }

    fn resolve_address(&self, ask: &Ask<'_>, ip: std::net::IpAddr, reply: &mut Reply) -> Found {
        if ask.wants_stamp {
            reply.stamp = Some(Stamp::take(self.index.address_hash(ip)));
        }
        let is_open = |namespace: &str| {
            self.options.namespaces.is_empty() || {
                self.options.namespaces.iter().any(|one| **one == *namespace)
                    && self.index.has_namespace_named(namespace)
            }
        };
        let mut push = |labels: &[&[u8]]| {
            let Ok(target) = self.options.primary_zone.prepend_all(labels.iter().copied()) else { return false };
            let record = Record::pointing(ask.name.clone(), self.options.ttl, RrType::PTR, &target);
            if ask.qtype == RrType::PTR
                && reply.answer.len() < super::records::MAX_RECORDS
                && !reply.answer.contains(&record)
            {
                reply.answer.push(record);
            }
            true
        };
        let services = self.index.cluster_address(ip);
        for row in services.iter().filter(|row| is_open(&row.object().namespace)) {
            let service = row.object();
            if push(&[service.name.as_bytes(), service.namespace.as_bytes(), b"svc"]) {
                return Found::Exists;
            }
        }
        let mut exists = false;
        let rows = self.index.endpoint_address(ip);
        for row in rows.iter().filter(|row| is_open(&row.object().namespace)) {
            let slice = row.object();
            let endpoint = slice.endpoints.get(row.position());
            let label = endpoint.and_then(|one| endpoint::endpoint_label(one, self.options.endpoint_pod_names));
            let Some(label) = label else { continue };
            exists |= push(&[&label, slice.service.as_bytes(), slice.namespace.as_bytes(), b"svc"]);
        }
        if exists { Found::Exists } else { Found::Missing }
    }
}

/// Whether a port passes the labels of the name.
pub(super) fn matches_port(port: &Port, parsed: &Parsed<'_>) -> bool {
    (parsed.port.is_empty() || fold::eq(parsed.port, port.name.as_bytes()))
        && (parsed.protocol.is_empty() || fold::eq(parsed.protocol, port.protocol.as_str().as_bytes()))
}
