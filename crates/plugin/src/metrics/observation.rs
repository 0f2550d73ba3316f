//! One query in the numbers of its server, zone and view.
//!
//! Budget: one look at the thread's row, then a load and a store for each of nine numbers, all in a few cache lines that
//! belong to the worker; no allocation. A code above 23, which only a strange upstream sends, takes a lock.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coredns_wire::{Rcode, RrType};

use crate::metrics::cells::Cells;
use crate::outcome::Answer;
use crate::query::{Query, Transport};

/// The values of the label `proto`.
pub(super) const PROTOS: [&str; 2] = ["udp", "tcp"];
/// The values of the label `family`: IPv4 and IPv6.
pub(super) const FAMILIES: [&str; 2] = ["1", "2"];
/// The values of the label `type`; the last stands for all the others.
pub(super) const TYPES: [&str; 20] = [
    "A", "AAAA", "CNAME", "DNSKEY", "DS", "MX", "NSEC3", "NSEC", "NS", "PTR", "RRSIG", "SOA", "SRV", "TXT", "HTTPS",
    "SVCB", "IXFR", "AXFR", "ANY", "other",
];
/// The index of `other` in [`TYPES`].
const OTHER: usize = 19;
/// Bounds of sizes in octets; 8291 is what CoreDNS has.
pub(super) const SIZES: [u16; 14] = [0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16000, 32000, 48000, 64000];
/// Bounds of durations in nanoseconds: 0.25 ms doubled fifteen times.
pub(super) const DURATIONS: [u64; 16] = {
    let mut bounds = [250_000; 16];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 2;
        at += 1;
    }
    bounds
};
/// Codes with a cell of their own: 0 to 23, all that have names.
const RCODES: usize = 24;
/// Codes above that are counted apart; further ones are counted as `other`.
const RARE_RCODES: usize = 64;

/// Cells of a histogram of sizes: a bucket a bound, one above all bounds, the sum.
pub(super) const SIZE_CELLS: usize = SIZES.len() + 2;
/// Cells of the histogram of durations.
pub(super) const DURATION_CELLS: usize = DURATIONS.len() + 2;

// Where the numbers of a row lie.
pub(super) const REQUESTS_AT: usize = 0;
pub(super) const REQUEST_SIZES_AT: usize = REQUESTS_AT + PROTOS.len() * FAMILIES.len() * TYPES.len();
pub(super) const DURATIONS_AT: usize = REQUEST_SIZES_AT + PROTOS.len() * SIZE_CELLS;
pub(super) const DNSSEC_OK_AT: usize = DURATIONS_AT + DURATION_CELLS;
pub(super) const RESPONSE_SIZES_AT: usize = DNSSEC_OK_AT + 1;
pub(super) const RESPONSES_AT: usize = RESPONSE_SIZES_AT + PROTOS.len() * SIZE_CELLS;

/// What is counted about one query.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// How it came.
    pub transport: Transport,
    /// Who asked.
    pub client: SocketAddr,
    /// The type asked for.
    pub qtype: RrType,
    /// DO was set.
    pub dnssec_ok: bool,
    /// The length of the query in octets, as it came.
    pub request_size: usize,
    /// The code of the response; NOERROR where nothing is sent.
    pub rcode: Rcode,
    /// The length of the reply in octets before it is cut to size; 0 where no plugin made one.
    pub response_size: usize,
    /// The plugin that made the reply; empty where none did.
    pub author: &'static str,
    /// From the arrival to the end of the chain.
    pub elapsed: Duration,
}

impl Observation {
    /// What there is to say about a query and what a chain made of it.
    #[must_use]
    pub fn of(query: &Query, answer: &Answer, elapsed: Duration) -> Self {
        let (rcode, response_size, author) = match answer {
            Answer::Reply(reply) => (reply.rcode, reply.wire_len(query), reply.author),
            Answer::Failed(failure) => (failure.rcode, 0, ""),
            Answer::Dropped => (Rcode::NOERROR, 0, ""),
        };
        Self { rcode, response_size, author, ..Self::unanswered(query, elapsed) }
    }

    /// The same for a query that the server answers itself, with `rcode` and a reply of `response_size` octets.
    #[must_use]
    pub fn of_server(query: &Query, rcode: Rcode, response_size: usize, elapsed: Duration) -> Self {
        Self { rcode, response_size, ..Self::unanswered(query, elapsed) }
    }

    fn unanswered(query: &Query, elapsed: Duration) -> Self {
        Self {
            transport: query.transport(),
            client: query.client(),
            qtype: query.qtype(),
            dnssec_ok: query.dnssec_ok(),
            request_size: query.message().len(),
            rcode: Rcode::NOERROR,
            response_size: 0,
            author: "",
            elapsed,
        }
    }
}

/// The numbers of one server, zone and view, for one set of plugins.
#[derive(Debug)]
pub struct Series {
    pub(super) server: String,
    pub(super) zone: String,
    pub(super) view: String,
    /// Plugins that may have made a reply; the first is the empty name.
    pub(super) authors: Box<[&'static str]>,
    pub(super) cells: Cells,
    /// Protects the counts of codes above 23 by author; touched by such codes and by scrapes.
    rare: Mutex<BTreeMap<(Rcode, usize), u64>>,
}

impl Series {
    pub(super) fn new(server: &str, zone: &str, view: &str, authors: Box<[&'static str]>) -> Self {
        let cells = Cells::new(RESPONSES_AT + RCODES * authors.len());
        let [server, zone, view] = [server, zone, view].map(str::to_owned);
        Self { server, zone, view, authors, cells, rare: Mutex::default() }
    }

    /// Counts one query.
    #[inline]
    pub fn record(&self, seen: &Observation) {
        let row = self.cells.row();
        let proto = proto_index(seen.transport);
        let family = usize::from(matches!(seen.client.ip(), IpAddr::V6(_)));
        row.add(REQUESTS_AT + (proto * FAMILIES.len() + family) * TYPES.len() + type_index(seen.qtype), 1);

        let sizes = REQUEST_SIZES_AT + proto * SIZE_CELLS;
        row.add(sizes + size_index(seen.request_size), 1);
        row.add(sizes + SIZE_CELLS - 1, seen.request_size as u64);

        let nanos = u64::try_from(seen.elapsed.as_nanos()).unwrap_or(u64::MAX);
        row.add(DURATIONS_AT + duration_index(nanos), 1);
        row.add(DURATIONS_AT + DURATION_CELLS - 1, nanos);

        if seen.dnssec_ok {
            row.add(DNSSEC_OK_AT, 1);
        }

        let sizes = RESPONSE_SIZES_AT + proto * SIZE_CELLS;
        row.add(sizes + size_index(seen.response_size), 1);
        row.add(sizes + SIZE_CELLS - 1, seen.response_size as u64);

        // A name that no plugin of the block has is counted as none: labels come from the configuration alone.
        let author = self.authors.iter().position(|author| *author == seen.author).unwrap_or(0);
        let rcode = usize::from(seen.rcode.0);
        if rcode < RCODES {
            row.add(RESPONSES_AT + author * RCODES + rcode, 1);
        } else {
            self.record_rare(seen.rcode, author);
        }
    }

    #[cold]
    fn record_rare(&self, rcode: Rcode, author: usize) {
        let mut rare = self.rare.lock().unwrap_or_else(PoisonError::into_inner);
        let full = rare.len() >= RARE_RCODES && !rare.contains_key(&(rcode, author));
        let rcode = if full { Rcode(u16::MAX) } else { rcode };
        *rare.entry((rcode, author)).or_default() += 1;
    }

    /// Gives every count of responses that is not 0 to `each`: code as text, author, count.
    pub(super) fn responses(&self, totals: &[u64], mut each: impl FnMut(String, &'static str, u64)) {
        let counts = totals.get(RESPONSES_AT..).unwrap_or(&[]);
        for (author, codes) in self.authors.iter().zip(counts.chunks(RCODES)) {
            for (rcode, count) in (0..).zip(codes).filter(|(_, count)| **count > 0) {
                each(Rcode(rcode).to_string(), author, *count);
            }
        }
        let rare = self.rare.lock().unwrap_or_else(PoisonError::into_inner);
        for ((rcode, author), count) in rare.iter() {
            let text = if *rcode == Rcode(u16::MAX) { "other".to_owned() } else { rcode.to_string() };
            each(text, self.authors.get(*author).copied().unwrap_or_default(), *count);
        }
    }
}

/// What counts as `tcp` are the streams; see [`Transport::proto`].
fn proto_index(transport: Transport) -> usize {
    usize::from(transport.is_stream())
}

fn type_index(qtype: RrType) -> usize {
    match qtype {
        RrType::A => 0,
        RrType::AAAA => 1,
        RrType::CNAME => 2,
        RrType::DNSKEY => 3,
        RrType::DS => 4,
        RrType::MX => 5,
        RrType::NSEC3 => 6,
        RrType::NSEC => 7,
        RrType::NS => 8,
        RrType::PTR => 9,
        RrType::RRSIG => 10,
        RrType::SOA => 11,
        RrType::SRV => 12,
        RrType::TXT => 13,
        RrType::HTTPS => 14,
        RrType::SVCB => 15,
        RrType::IXFR => 16,
        RrType::AXFR => 17,
        RrType::ANY => 18,
        _ => OTHER,
    }
}

/// The first bound that is not below `size`; nearly always one of the first two, so that a walk is the fastest.
fn size_index(size: usize) -> usize {
    SIZES.iter().position(|bound| size <= usize::from(*bound)).unwrap_or(SIZES.len())
}

fn duration_index(nanos: u64) -> usize {
    DURATIONS.iter().position(|bound| nanos <= *bound).unwrap_or(DURATIONS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_belong_to_their_bucket() {
        for (size, index) in [(0, 0), (1, 1), (86, 1), (100, 1), (101, 2), (512, 6), (64000, 13), (64001, 14)] {
            assert_eq!(size_index(size), index, "{size}");
        }
        for (nanos, index) in [(0, 0), (250_000, 0), (250_001, 1), (8_192_000_000, 15), (8_192_000_001, 16)] {
            assert_eq!(duration_index(nanos), index, "{nanos}");
        }
    }

    #[test]
    fn transports_count_under_their_proto() {
        use Transport::{Grpc, Https, Https3, Quic, Tcp, Tls, Udp};
        for transport in [Udp, Tcp, Tls, Https, Https3, Quic, Grpc] {
            assert_eq!(PROTOS[proto_index(transport)], transport.proto(), "{transport:?}");
        }
    }

    #[test]
    fn every_listed_type_has_its_name() {
        for number in 0..=u16::MAX {
            let qtype = RrType(number);
            let label = TYPES[type_index(qtype)];
            let listed = TYPES[..OTHER].contains(&qtype.to_string().as_str());
            assert_eq!(label, if listed { qtype.to_string() } else { "other".into() }, "{qtype}");
        }
    }
}
