//! Records of Services, endpoints and Pods.

use std::net::IpAddr;

use coredns_plugin::Reply;
use coredns_plugin::wire::{Labels, Name, Record, RrType, fold};

use super::super::Kubernetes;
use super::super::endpoint::{dashed_address, endpoint_label, given_name, is_named};
use super::super::index::{Entry, Seen};
use super::super::object::{Endpoint, EndpointSlice, Port};
use super::super::parse::{Parsed, ZoneScope};
use super::Ask;
use super::resolve::matches_port;

/// The most records of one section. A reply of 65,535 octets has room for fewer, so it is cut and marked all the same.
pub(super) const MAX_RECORDS: usize = 4_096;

/// Which endpoints of an entry a name asks for.
pub(super) struct Wanted<'n> {
    parsed: &'n Parsed<'n>,
    /// The address that the endpoint's label spells.
    ip: Option<IpAddr>,
    pod_names: bool,
    imported: bool,
    /// The topology zone, while it restricts.
    pub(super) scope: Option<ZoneScope<'n>>,
}

impl<'n> Wanted<'n> {
    pub(super) fn new(parsed: &'n Parsed<'n>, pod_names: bool, imported: bool) -> Self {
        Self { parsed, ip: dashed_address(parsed.endpoint), pod_names, imported, scope: parsed.scope }
    }

    /// Whether nothing is left out.
    pub(super) fn is_everything(&self) -> bool {
        self.parsed.endpoint.is_empty()
            && self.parsed.port.is_empty()
            && self.parsed.protocol.is_empty()
            && self.scope.is_none()
    }

    /// The ports of a slice that are asked for.
    fn ports<'e>(&self, slice: &'e EndpointSlice) -> impl Iterator<Item = &'e Port> {
        slice.ports.iter().filter(|port| matches_port(port, self.parsed))
    }

    /// The endpoints that are asked for, each with its slice.
    pub(super) fn of<'e>(&self, entry: &'e Entry) -> impl Iterator<Item = (&'e EndpointSlice, &'e Endpoint)> {
        let slices = entry.slices().iter().map(|slice| &**slice).filter(|slice| {
            let cluster = slice.source.as_ref().map_or(&b""[..], |source| source.cluster.as_bytes());
            let is_elsewhere =
                self.imported && !self.parsed.endpoint.is_empty() && !fold::eq(cluster, self.parsed.cluster);
            !is_elsewhere && self.ports(slice).next().is_some()
        });
        slices.flat_map(|slice| slice.endpoints.iter().map(move |endpoint| (slice, endpoint))).filter(
            |(_, endpoint)| {
                let is_in_scope =
                    || self.scope.is_none_or(|scope| endpoint.zone.as_deref().is_some_and(|zone| scope.is(zone)));
                let label = self.parsed.endpoint;
                (label.is_empty() || is_named(endpoint, label, self.ip, self.pod_names)) && is_in_scope()
            },
        )
    }
}

/// The weight of each of `count` equal records.
pub(in super::super) fn weight(count: usize) -> u16 {
    u16::try_from(100_usize.checked_div(count).unwrap_or(100)).unwrap_or(100).max(1)
}

impl Kubernetes {
    /// `service.namespace.svc.ZONE` as the object spells it.
    fn service_name(&self, ask: &Ask<'_>, entry: &Entry) -> Option<Name> {
        ask.zone_name().prepend_all(Labels::new(entry.key()).chain([&b"svc"[..]])).ok()
    }

    /// SRV records of a Service with addresses of its own, and those addresses.
    pub(super) fn push_cluster_srv(&self, ask: &Ask<'_>, parsed: &Parsed<'_>, entry: &Entry, reply: &mut Reply) {
        let Some(target) = self.service_name(ask, entry) else { return };
        let ports = || entry.ports().iter().filter(|port| matches_port(port, parsed));
        let weight = weight(ports().count() * entry.cluster_ips().len());
        let mut seen = Seen::default();
        if entry.v4().is_empty() && entry.v6().is_empty() {
            return;
        }
        for number in ports().filter_map(|port| port.number).filter(|number| seen.insert(*number)) {
            reply.answer.push(Record::srv(ask.name.clone(), self.options.ttl, 0, weight, number, &target));
        }
        if !reply.answer.is_empty() {
            let ips = entry.v4().iter().map(|ip| IpAddr::V4(*ip)).chain(entry.v6().iter().map(|ip| IpAddr::V6(*ip)));
            reply.additional.extend(ips.map(|ip| Record::address(target.clone(), self.options.ttl, ip)));
        }
    }

    /// Records of endpoints, of whichever type is asked for.
    pub(super) fn push_endpoints(&self, ask: &Ask<'_>, wanted: &Wanted<'_>, entry: &Entry, reply: &mut Reply) {
        match ask.qtype {
            RrType::A | RrType::AAAA => {
                let mut seen = Seen::default();
                let ips = wanted.of(entry).filter_map(|(_, endpoint)| endpoint.address.ip());
                let ips = ips.filter(|ip| ip.is_ipv4() == (ask.qtype == RrType::A) && seen.insert(*ip));
                reply
                    .answer
                    .extend(ips.take(MAX_RECORDS).map(|ip| Record::address(ask.name.clone(), self.options.ttl, ip)));
            }
            RrType::SRV => self.push_endpoint_srv(ask, wanted, entry, reply),
            _ => {}
        }
    }

    fn push_endpoint_srv(&self, ask: &Ask<'_>, wanted: &Wanted<'_>, entry: &Entry, reply: &mut Reply) {
        let Some(base) = self.service_name(ask, entry) else { return };
        let ttl = self.options.ttl;
        let weight = weight(wanted.of(entry).map(|(slice, _)| wanted.ports(slice).count()).sum());
        let (mut targets, mut addresses) = (Seen::default(), Seen::default());
        for (slice, endpoint) in wanted.of(entry) {
            let Some(ip) = endpoint.address.ip() else { continue };
            if reply.answer.len() >= MAX_RECORDS || reply.additional.len() >= MAX_RECORDS {
                break;
            }
            let cluster = slice.source.as_ref().map_or("", |source| &source.cluster);
            let cluster = if entry.is_import() { cluster } else { "" };
            let given = given_name(endpoint, wanted.pod_names);
            // What tells targets apart, without making the name.
            let identity = (cluster, given, given.is_none().then_some(ip));
            let Some(label) = endpoint_label(endpoint, wanted.pod_names) else { continue };
            let labels = [&label[..], cluster.as_bytes()].into_iter().filter(|label| !label.is_empty());
            let Ok(target) = base.prepend_all(labels) else { continue };
            let mut has_port = false;
            for number in wanted.ports(slice).filter_map(|port| port.number) {
                has_port = true;
                if targets.insert((identity, number)) {
                    reply.answer.push(Record::srv(ask.name.clone(), ttl, 0, weight, number, &target));
                }
            }
            if has_port && addresses.insert((identity, ip)) {
                reply.additional.push(Record::address(target, ttl, ip));
            }
        }
    }

    /// Records of a Pod's address.
    pub(super) fn push_pod(&self, ask: &Ask<'_>, parsed: &Parsed<'_>, ip: IpAddr, reply: &mut Reply) {
        let ttl = self.options.ttl;
        match ask.qtype {
            RrType::A | RrType::AAAA => {
                let record = Record::address(ask.name.clone(), ttl, ip);
                if record.rtype == ask.qtype {
                    reply.answer.push(record);
                }
            }
            RrType::SRV => {
                let labels = [parsed.service, parsed.namespace, &b"pod"[..]];
                if let Ok(target) = ask.zone_name().prepend_all(labels) {
                    reply.answer.push(Record::srv(ask.name.clone(), ttl, 0, weight(1), 0, &target));
                    reply.additional.push(Record::address(target, ttl, ip));
                }
            }
            _ => {}
        }
    }
}
