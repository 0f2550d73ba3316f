//! The network interfaces of this host.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

/// Addresses as hosts to listen on, by the name of their interface.
#[derive(Debug, Default)]
pub(super) struct Interfaces(BTreeMap<String, Vec<String>>);

impl Interfaces {
    /// What the host has now; an interface without an address is there, with an empty list.
    pub(super) fn of_host() -> io::Result<Self> {
        let addresses = if_addrs::get_if_addrs()?.into_iter().map(|interface| (interface.name.clone(), interface.ip()));
        let mut interfaces = Self::new(addresses);
        // The list above has no interface without an address. Where the folder is missing, such a name is unknown.
        for entry in std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten() {
            interfaces.0.entry(entry.file_name().to_string_lossy().into_owned()).or_default();
        }
        Ok(interfaces)
    }

    /// Interfaces with the given addresses, in their order.
    pub(super) fn new(addresses: impl IntoIterator<Item = (String, IpAddr)>) -> Self {
        let mut interfaces: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, address) in addresses {
            let host = listen_host(&name, address);
            interfaces.entry(name).or_default().push(host);
        }
        Self(interfaces)
    }

    /// The hosts of the interface `name`; `None` where there is no such interface.
    pub(super) fn hosts(&self, name: &str) -> Option<&[String]> {
        self.0.get(name).map(Vec::as_slice)
    }
}

/// The address as a host to listen on; one that is valid on one link only names its interface (RFC 4007 §11).
fn listen_host(interface: &str, address: IpAddr) -> String {
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() || is_link_local_multicast(v6) => format!("{v6}%{interface}"),
        _ => address.to_string(),
    }
}

/// Multicast of link-local scope (RFC 4291 §2.7).
const fn is_link_local_multicast(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xff0f == 0xff02
}
