//! What kind of response an answer is, as logs, caches and `minimal` sort them.

use std::fmt;

use coredns_wire::{Opcode, Rcode, Record, RrType};

use crate::outcome::Answer;
use crate::query::Query;
use crate::reply::Reply;

/// The kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseType {
    /// Records, or an empty reply that denies nothing.
    NoError,
    /// The name does not exist.
    NxDomain,
    /// The name exists without records of the type asked for: NOERROR with an SOA in the authority section.
    NoData,
    /// A referral: NOERROR with NS records in the authority section.
    Delegation,
    /// SERVFAIL or NOTIMP.
    ServerError,
    /// A zone transfer or a NOTIFY.
    Meta,
    /// A dynamic update.
    Update,
    /// Anything else, and no response at all.
    OtherError,
}

/// A class of [`ResponseType`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseClass {
    /// [`ResponseType::NoError`] and [`ResponseType::Delegation`].
    Success,
    /// [`ResponseType::NxDomain`] and [`ResponseType::NoData`].
    Denial,
    /// All others.
    Error,
}

impl ResponseType {
    /// The name, as in the metadata label `log/type`.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoError => "NOERROR",
            Self::NxDomain => "NXDOMAIN",
            Self::NoData => "NODATA",
            Self::Delegation => "DELEGATION",
            Self::ServerError => "SERVERERROR",
            Self::Meta => "META",
            Self::Update => "UPDATE",
            Self::OtherError => "OTHERERROR",
        }
    }

    /// The class that this kind belongs to.
    #[must_use]
    pub const fn class(self) -> ResponseClass {
        match self {
            Self::NoError | Self::Delegation => ResponseClass::Success,
            Self::NxDomain | Self::NoData => ResponseClass::Denial,
            Self::ServerError | Self::Meta | Self::Update | Self::OtherError => ResponseClass::Error,
        }
    }
}

impl ResponseClass {
    /// The name, as in the metadata label `log/class`.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Denial => "denial",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for ResponseType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl fmt::Display for ResponseClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

/// The kind of response that `answer` is; a failure counts as the empty reply with its code that the server sends.
///
/// `now` is in seconds since 1970 ([`clock::unix_seconds`](crate::clock::unix_seconds)): signatures outside their
/// validity make a reply to a client with DO an [`ResponseType::OtherError`].
#[must_use]
pub fn classify(query: &Query, answer: &Answer, now: u32) -> ResponseType {
    let (rcode, reply) = match answer {
        Answer::Reply(reply) => (reply.rcode, Some(reply)),
        Answer::Failed(failure) => (failure.rcode, None),
        Answer::Dropped => return ResponseType::OtherError,
    };
    match (query.header().opcode(), query.qtype()) {
        (Opcode::UPDATE, _) => return ResponseType::Update,
        (Opcode::NOTIFY, _) | (_, RrType::AXFR | RrType::IXFR) => return ResponseType::Meta,
        _ => {}
    }
    match reply {
        Some(reply) if query.dnssec_ok() && has_outdated_signature(reply, now) => ResponseType::OtherError,
        Some(reply) => of_records(rcode, !reply.answer.is_empty(), &reply.authority),
        None => of_records(rcode, false, &[]),
    }
}

/// The order of the tests counts: an NXDOMAIN with answers is broken whatever its authority section says.
fn of_records(rcode: Rcode, has_answer: bool, authority: &[Record]) -> ResponseType {
    let holds = |rtype| authority.iter().any(|record| record.rtype == rtype);
    match rcode {
        Rcode::NOERROR if has_answer => ResponseType::NoError,
        Rcode::NXDOMAIN if has_answer => ResponseType::OtherError,
        Rcode::NOERROR if holds(RrType::SOA) => ResponseType::NoData,
        Rcode::NXDOMAIN => ResponseType::NxDomain,
        Rcode::SERVFAIL | Rcode::NOTIMP => ResponseType::ServerError,
        Rcode::NOERROR if holds(RrType::NS) => ResponseType::Delegation,
        Rcode::NOERROR => ResponseType::NoError,
        _ => ResponseType::OtherError,
    }
}

fn has_outdated_signature(reply: &Reply, now: u32) -> bool {
    let sections = [&reply.answer, &reply.authority, &reply.additional];
    let mut signatures = sections.into_iter().flatten().filter(|record| record.rtype == RrType::RRSIG);
    signatures.any(|record| !is_valid_at(record.rdata.as_bytes(), now))
}

/// Tells whether `now` lies in the validity of an RRSIG, by serial number arithmetic (RFC 4034 §3.1.5).
fn is_valid_at(rrsig: &[u8], now: u32) -> bool {
    let Some(&[e0, e1, e2, e3, i0, i1, i2, i3]) = rrsig.get(8..).and_then(<[u8]>::first_chunk::<8>) else {
        return false;
    };
    let expiration = u32::from_be_bytes([e0, e1, e2, e3]);
    let inception = u32::from_be_bytes([i0, i1, i2, i3]);
    let not_after = |first: u32, second: u32| second.wrapping_sub(first) <= i32::MAX as u32;
    not_after(inception, now) && not_after(now, expiration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_code_and_records() {
        let record = |rtype| Record::pointing(coredns_wire::Name::root(), 5, rtype, &coredns_wire::Name::root());
        let (soa, ns) = (record(RrType::SOA), record(RrType::NS));
        let table = [
            (Rcode::NOERROR, true, None, ResponseType::NoError, ResponseClass::Success),
            (Rcode::NOERROR, true, Some(&soa), ResponseType::NoError, ResponseClass::Success),
            (Rcode::NOERROR, false, Some(&soa), ResponseType::NoData, ResponseClass::Denial),
            (Rcode::NOERROR, false, Some(&ns), ResponseType::Delegation, ResponseClass::Success),
            (Rcode::NOERROR, false, None, ResponseType::NoError, ResponseClass::Success),
            (Rcode::NXDOMAIN, true, Some(&soa), ResponseType::OtherError, ResponseClass::Error),
            (Rcode::NXDOMAIN, false, Some(&soa), ResponseType::NxDomain, ResponseClass::Denial),
            (Rcode::NXDOMAIN, false, None, ResponseType::NxDomain, ResponseClass::Denial),
            (Rcode::SERVFAIL, false, None, ResponseType::ServerError, ResponseClass::Error),
            (Rcode::NOTIMP, true, None, ResponseType::ServerError, ResponseClass::Error),
            (Rcode::REFUSED, false, Some(&ns), ResponseType::OtherError, ResponseClass::Error),
        ];
        for (rcode, has_answer, authority, kind, class) in table {
            let found = of_records(rcode, has_answer, authority.map_or(&[][..], std::slice::from_ref));
            assert_eq!((found, found.class()), (kind, class), "{rcode} {has_answer} {authority:?}");
        }
    }

    #[test]
    fn signatures_are_valid_between_their_times_also_across_the_wrap() {
        let rrsig = |inception: u32, expiration: u32| {
            [&[0; 8][..], &expiration.to_be_bytes(), &inception.to_be_bytes(), &[0; 2]].concat()
        };
        for (inception, expiration, now, valid) in [
            (100, 200, 100, true),
            (100, 200, 200, true),
            (100, 200, 99, false),
            (100, 200, 201, false),
            (u32::MAX - 10, 10, 3, true),
            (u32::MAX - 10, 10, 11, false),
        ] {
            assert_eq!(is_valid_at(&rrsig(inception, expiration), now), valid, "{inception} {expiration} {now}");
        }
        assert!(!is_valid_at(&[0; 15], 0));
    }
}
