//! What is answered when it is.

use std::net::{Ipv4Addr, Ipv6Addr};

use coredns_plugin::wire::{Name, Record, RrType};

/// Records of a large answer.
pub(super) const LARGE: usize = 30;

const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53);
const NAME_SERVER_A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xbd8, 0, 0, 0, 0, 0, 0x53);
const NAME_SERVER_B: Ipv6Addr = Ipv6Addr::new(0x2001, 0x500, 0, 0, 0, 0, 0, 0x54);
/// Serial, refresh, retry, expire, minimum.
const SOA_TIMES: [u32; 5] = [2_018_050_825, 7200, 3600, 1_209_600, 3600];

/// The answer to a query for A.
pub(super) fn address_v4(owner: &Name) -> Record {
    Record::a(owner.clone(), 0, V4)
}

/// The answer to a query for AAAA.
pub(super) fn address_v6(owner: &Name) -> Record {
    Record::aaaa(owner.clone(), 0, V6)
}

/// A small zone below `apex`; complete with its closing SOA, or broken off before it.
pub(super) fn zone(apex: &Name, complete: bool) -> Vec<Record> {
    let soa = Record::soa(apex.clone(), 0, &name("sns.dns.icann.org"), &name("noc.dns.icann.org"), SOA_TIMES);
    let mut records = vec![soa.clone()];
    // A name without room for a label more has no name servers.
    if let (Ok(a), Ok(b)) = (apex.prepend_all([&b"a"[..]]), apex.prepend_all([&b"b"[..]])) {
        records.push(Record::pointing(apex.clone(), 0, RrType::NS, &b));
        records.push(Record::pointing(apex.clone(), 0, RrType::NS, &a));
        records.push(Record::aaaa(a, 0, NAME_SERVER_A));
        records.push(Record::aaaa(b, 0, NAME_SERVER_B));
    }
    if complete {
        records.push(soa);
    }
    records
}

/// A search path for autopath, the same for all clients.
pub(super) fn search_path() -> Vec<Option<Name>> {
    vec![Some(name("a.example.org")), Some(name("b.example.org")), None]
}

/// A name written in this file.
fn name(text: &str) -> Name {
    text.parse().unwrap_or_else(|_| unreachable!("{text} is a name"))
}
