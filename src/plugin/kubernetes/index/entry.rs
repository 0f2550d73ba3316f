//! What is known under one Service name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use coredns_plugin::wire::{MAX_LABEL, Name};
use smallvec::SmallVec;

use super::super::object::{Address, EndpointSlice, Port, Service, ServiceImport, ServiceKind};

/// The octets `[length]service[length]namespace`, as they stand in a query name. A pair, not joined text: no two
/// Services have the same octets.
pub type Key = SmallVec<[u8; 40]>;

/// The key of a Service; `None` where a part can be no label.
pub fn service_key(service: &str, namespace: &str) -> Option<Key> {
    let mut key = Key::new();
    for part in [service, namespace] {
        if part.is_empty() || part.len() > MAX_LABEL {
            return None;
        }
        key.push(part.len() as u8);
        key.extend_from_slice(part.as_bytes());
    }
    Some(key)
}

/// The object that gives a name its meaning.
#[derive(Clone, Debug)]
pub enum Origin {
    /// None: only slices name this Service.
    None,
    /// A Service of this cluster.
    Service(Arc<Service>),
    /// A Service of a cluster set.
    Import(Arc<ServiceImport>),
}

/// All that is known under one Service name: the object and its slices, and what queries want of them.
///
/// Entries are immutable. A change of the Service or of one slice makes a new entry of the old one.
#[derive(Clone, Debug)]
pub struct Entry {
    key: Key,
    origin: Origin,
    slices: Box<[Arc<EndpointSlice>]>,
    /// The addresses of an answer without any filter, without duplicates: cluster IPs, or ready endpoints of a
    /// headless Service.
    v4: SmallVec<[Ipv4Addr; 2]>,
    v6: SmallVec<[Ipv6Addr; 1]>,
    alias: Option<Box<Name>>,
}

/// The most endpoint addresses that an entry prepares; a reply of 65,535 octets holds fewer.
const PREPARED_MAX: usize = 4_096;

impl Entry {
    /// An entry about nothing yet.
    pub fn new(key: Key) -> Self {
        Self {
            key,
            origin: Origin::None,
            slices: Box::default(),
            v4: SmallVec::new(),
            v6: SmallVec::new(),
            alias: None,
        }
    }

    /// The same name with another object; to be [`prepared`](Self::prepared).
    #[must_use]
    pub(super) fn with_origin(&self, origin: Origin) -> Self {
        Self { key: self.key.clone(), origin, slices: self.slices.clone(), ..Self::new(Key::new()) }
    }

    /// The same name with other slices; to be [`prepared`](Self::prepared).
    #[must_use]
    pub(super) fn with_slices(&self, slices: Vec<Arc<EndpointSlice>>) -> Self {
        let (key, origin) = (self.key.clone(), self.origin.clone());
        Self { key, origin, slices: slices.into_boxed_slice(), ..Self::new(Key::new()) }
    }

    /// The entry with what queries want of its objects.
    #[must_use]
    pub(super) fn prepared(mut self) -> Self {
        self.alias = match &self.origin {
            Origin::Service(service) if service.kind == ServiceKind::ExternalName => alias(&service.external_name),
            _ => None,
        };
        let mut seen = Seen::default();
        let unique = |address: &Address| address.ip().filter(|ip| seen.insert(*ip));
        let addresses: Vec<IpAddr> = if self.is_headless() {
            let endpoints = self.slices.iter().flat_map(|slice| &slice.endpoints).map(|endpoint| &endpoint.address);
            endpoints.filter_map(unique).take(PREPARED_MAX).collect()
        } else {
            self.cluster_ips().iter().filter_map(unique).take(PREPARED_MAX).collect()
        };
        let count = |v4: bool| addresses.iter().filter(|ip| ip.is_ipv4() == v4).count();
        self.v4 = SmallVec::with_capacity(count(true));
        self.v6 = SmallVec::with_capacity(count(false));
        for ip in addresses {
            match ip {
                IpAddr::V4(ip) => self.v4.push(ip),
                IpAddr::V6(ip) => self.v6.push(ip),
            }
        }
        self
    }

    /// `[length]service[length]namespace`.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The object.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The Service, unless this is about something else.
    pub fn service(&self) -> Option<&Service> {
        match &self.origin {
            Origin::Service(service) => Some(service),
            Origin::None | Origin::Import(_) => None,
        }
    }

    /// Whether there is an object, and not only slices.
    pub fn exists(&self) -> bool {
        !matches!(self.origin, Origin::None)
    }

    /// Whether neither an object nor a slice is left.
    pub fn is_empty(&self) -> bool {
        !self.exists() && self.slices.is_empty()
    }

    /// Whether it is a name of an import.
    pub fn is_import(&self) -> bool {
        matches!(self.origin, Origin::Import(_))
    }

    /// Whether the name stands for its endpoints.
    pub fn is_headless(&self) -> bool {
        match &self.origin {
            Origin::Service(service) => service.headless,
            Origin::Import(import) => import.headless,
            Origin::None => false,
        }
    }

    /// Whether the name is an alias of another name.
    pub fn is_external(&self) -> bool {
        matches!(&self.origin, Origin::Service(service) if service.kind == ServiceKind::ExternalName)
    }

    /// The target of an alias; `None` where the object names none that can be a name.
    pub fn alias(&self) -> Option<&Name> {
        self.alias.as_deref()
    }

    /// The addresses of the Service itself.
    pub fn cluster_ips(&self) -> &[Address] {
        match &self.origin {
            Origin::Service(service) if service.kind != ServiceKind::ExternalName => &service.cluster_ips,
            Origin::Import(import) => &import.ips,
            _ => &[],
        }
    }

    /// The ports of the Service itself.
    pub fn ports(&self) -> &[Port] {
        match &self.origin {
            Origin::Service(service) => &service.ports,
            Origin::Import(import) => &import.ports,
            Origin::None => &[],
        }
    }

    /// The slices, by their name.
    pub fn slices(&self) -> &[Arc<EndpointSlice>] {
        &self.slices
    }

    /// Whether some endpoint is ready.
    pub fn has_ready_endpoint(&self) -> bool {
        self.slices.iter().any(|slice| !slice.endpoints.is_empty())
    }

    /// The IPv4 addresses of an answer without filter.
    #[inline]
    pub fn v4(&self) -> &[Ipv4Addr] {
        &self.v4
    }

    /// The IPv6 addresses of an answer without filter.
    #[inline]
    pub fn v6(&self) -> &[Ipv6Addr] {
        &self.v6
    }
}

/// The target of an ExternalName Service; an address, or text that is no host name, is none.
fn alias(text: &str) -> Option<Box<Name>> {
    let is_host = text.bytes().all(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.'));
    let is_address = text.trim_end_matches('.').parse::<IpAddr>().is_ok();
    if !is_host || is_address {
        return None;
    }
    text.parse().ok().filter(|name: &Name| !name.is_root()).map(Box::new)
}

/// The target that an address of the type FQDN stands for.
pub fn address_alias(address: &Address) -> Option<Name> {
    match address {
        Address::Text(text) => alias(text).map(|name| *name),
        Address::V4(_) | Address::V6(_) => None,
    }
}

/// What has been met already: a short list is walked, a longer one hashed.
pub struct Seen<K> {
    few: SmallVec<[K; 16]>,
    many: foldhash::HashSet<K>,
}

impl<K> Default for Seen<K> {
    fn default() -> Self {
        Self { few: SmallVec::new(), many: foldhash::HashSet::default() }
    }
}

impl<K: Eq + std::hash::Hash + Copy> Seen<K> {
    /// Adds `key`; false where it has been met.
    pub fn insert(&mut self, key: K) -> bool {
        if !self.many.is_empty() {
            return self.many.insert(key);
        }
        if self.few.contains(&key) {
            return false;
        }
        if self.few.len() < self.few.inline_size() {
            self.few.push(key);
        } else {
            self.many.extend(self.few.drain(..));
            self.many.insert(key);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_pairs() {
        assert_eq!(service_key("a", "bc").as_deref(), Some(&b"\x01a\x02bc"[..]));
        assert_ne!(service_key("a.b", "c"), service_key("a", "b.c"));
        assert_eq!(service_key("", "x"), None);
        assert_eq!(service_key(&"x".repeat(64), "x"), None);
        assert!(service_key(&"x".repeat(63), "x").is_some());
    }

    #[test]
    fn external_names_that_are_none() {
        let long = "a.".repeat(150);
        for text in ["", "a b", "192.0.2.1", "192.0.2.1.", "::1", "a..b", "a.example..", ".", &long] {
            assert_eq!(alias(text), None, "{text:?}");
        }
        for text in ["example.org", "example.org.", "_x.example.org", "A.example"] {
            assert!(alias(text).is_some(), "{text:?}");
        }
    }

    #[test]
    fn many_are_seen_once() {
        let mut seen = Seen::default();
        assert!((0..100).all(|number| seen.insert(number)));
        assert!((0..100).all(|number| !seen.insert(number)));
    }
}
