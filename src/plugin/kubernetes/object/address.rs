//! An address as an API object carries it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of a Service, endpoint or Pod.
///
/// An IPv4 address mapped into IPv6 (`::ffff:192.0.2.1`) is its IPv4 address, so that one host has one value.
/// `Display` gives the canonical form (RFC 5952 for IPv6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address that is not IPv4-mapped.
    V6(Ipv6Addr),
    /// Anything else: a load balancer's host name, an FQDN endpoint, a zoned or misspelt address. Never empty.
    Text(Box<str>),
}

impl Address {
    /// Reads an address; empty text is no address.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        Some(text.parse::<IpAddr>().map_or_else(|_| Self::Text(text.into()), Self::from))
    }

    /// The IP address, unless the address is text.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::V4(ip) => Some(IpAddr::V4(*ip)),
            Self::V6(ip) => Some(IpAddr::V6(*ip)),
            Self::Text(_) => None,
        }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip),
            IpAddr::V6(ip) => Self::V6(ip),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(ip) => ip.fmt(f),
            Self::V6(ip) => ip.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}
