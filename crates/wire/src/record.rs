//! Resource records.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::name::Name;
use crate::rdata::Rdata;
use crate::text::rdata_to_text;
use crate::types::{Class, RrType};

/// The time that a TTL field stands for: with the top bit set it is 0 (RFC 2181 §8).
#[inline]
pub(crate) const fn bounded_ttl(sent: u32) -> u32 {
    if sent >> 31 == 0 { sent } else { 0 }
}

/// A resource record: owner, type, class, TTL in seconds, data.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// The owner name, in the case that is sent.
    pub owner: Name,
    /// The type.
    pub rtype: RrType,
    /// The class.
    pub class: Class,
    /// The time to live in seconds; values above 2^31 − 1 mean 0 (RFC 2181 §8).
    pub ttl: u32,
    /// The data.
    pub rdata: Rdata,
}

impl Record {
    /// A record of class IN.
    #[inline]
    #[must_use]
    pub const fn new(owner: Name, ttl: u32, rtype: RrType, rdata: Rdata) -> Self {
        Self { owner, rtype, class: Class::IN, ttl, rdata }
    }

    /// An address record: A for IPv4, AAAA for IPv6.
    #[inline]
    #[must_use]
    pub fn address(owner: Name, ttl: u32, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::a(owner, ttl, v4),
            IpAddr::V6(v6) => Self::aaaa(owner, ttl, v6),
        }
    }

    /// An A record.
    #[inline]
    #[must_use]
    pub fn a(owner: Name, ttl: u32, address: Ipv4Addr) -> Self {
        Self::new(owner, ttl, RrType::A, Rdata::from_bounded(&address.octets()))
    }

    /// An AAAA record.
    #[inline]
    #[must_use]
    pub fn aaaa(owner: Name, ttl: u32, address: Ipv6Addr) -> Self {
        Self::new(owner, ttl, RrType::AAAA, Rdata::from_bounded(&address.octets()))
    }

    /// A record whose data are one name: CNAME, PTR, NS, DNAME.
    #[inline]
    #[must_use]
    pub fn pointing(owner: Name, ttl: u32, rtype: RrType, target: &Name) -> Self {
        Self::new(owner, ttl, rtype, Rdata::from_bounded(target.as_wire()))
    }

    /// An SRV record (RFC 2782).
    #[must_use]
    pub fn srv(owner: Name, ttl: u32, priority: u16, weight: u16, port: u16, target: &Name) -> Self {
        let mut octets = [0u8; 6 + 255];
        octets[..2].copy_from_slice(&priority.to_be_bytes());
        octets[2..4].copy_from_slice(&weight.to_be_bytes());
        octets[4..6].copy_from_slice(&port.to_be_bytes());
        let end = 6 + target.len();
        octets[6..end].copy_from_slice(target.as_wire());
        Self::new(owner, ttl, RrType::SRV, Rdata::from_bounded(&octets[..end]))
    }

    /// A TXT record of the given character strings; a string longer than 255 octets is split, no string at all
    /// becomes an empty one, and from the first that does not fit in 65,535 octets on they are left out.
    #[must_use]
    pub fn txt(owner: Name, ttl: u32, strings: &[&[u8]]) -> Self {
        let mut octets = Vec::new();
        let strings = if strings.is_empty() { &[&[][..]] } else { strings };
        let parts = strings.iter().flat_map(|string| {
            // Chunks of nothing are none, but an empty string is one.
            let (first, others) = string.split_at(string.len().min(255));
            std::iter::once(first).chain(others.chunks(255))
        });
        for part in parts {
            if octets.len() + 1 + part.len() > usize::from(u16::MAX) {
                break;
            }
            octets.extend(u8::try_from(part.len()));
            octets.extend_from_slice(part);
        }
        Self::new(owner, ttl, RrType::TXT, Rdata::from_bounded(&octets))
    }

    /// An SOA record; `times` are serial, refresh, retry, expire and minimum.
    #[must_use]
    pub fn soa(owner: Name, ttl: u32, mname: &Name, rname: &Name, times: [u32; 5]) -> Self {
        let mut octets = Vec::with_capacity(mname.len() + rname.len() + 20);
        octets.extend_from_slice(mname.as_wire());
        octets.extend_from_slice(rname.as_wire());
        for value in times {
            octets.extend_from_slice(&value.to_be_bytes());
        }
        Self::new(owner, ttl, RrType::SOA, Rdata::from_bounded(&octets))
    }

    /// The address of an A or AAAA record.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self.rtype {
            RrType::A => <[u8; 4]>::try_from(self.rdata.as_bytes()).ok().map(IpAddr::from),
            RrType::AAAA => <[u8; 16]>::try_from(self.rdata.as_bytes()).ok().map(IpAddr::from),
            _ => None,
        }
    }

    /// The target of a record whose data end in a name: CNAME, PTR, NS, DNAME, SRV, MX.
    #[must_use]
    pub fn target(&self) -> Option<Name> {
        let skip = match self.rtype {
            RrType::CNAME | RrType::PTR | RrType::NS | RrType::DNAME => 0,
            RrType::MX => 2,
            RrType::SRV => 6,
            _ => return None,
        };
        Name::from_wire(self.rdata.as_bytes().get(skip..)?).ok()
    }

    /// The length in octets without compression.
    #[inline]
    #[must_use]
    pub fn wire_len(&self) -> usize {
        self.owner.len() + 10 + self.rdata.len()
    }
}

/// One line of a zone file: `owner TTL class type data`, one blank between fields.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = rdata_to_text(self.rtype, self.rdata.as_bytes());
        write!(f, "{} {} {} {} {}", self.owner, self.ttl, self.class, self.rtype, data)
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
