//! An answer as it is kept: one block of octets, and a reply made of it again.
//!
//! The name comes first, then the records of the three sections. A record is type, class, a tag for its owner (the
//! name asked for, the owner before, or octets of its own), the length of its data and the data. Data of more than
//! 78 octets lie beside the block behind shared handles, so that a reply takes them without an allocation. Records
//! have no TTL: all of a reply have the same.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use coredns_plugin::wire::{Class, Name, Rcode, Rdata, Record, RrType, fold};
use coredns_plugin::{Answer, Failure, Query, Reply, ReplyBody, Stamp};

/// The owner is the name asked for.
const OWNER_ASKED: u8 = 0;
/// The owner is that of the record before.
const OWNER_BEFORE: u8 = 1;
/// The owner follows: a length octet and the name.
const OWNER_OWN: u8 = 2;
/// The data are the next shared ones.
const DATA_SHARED: u8 = u8::MAX;
/// Data of so many octets fit into a record's value.
const DATA_INLINE: usize = 78;
/// What the tables take for an entry, in octets, about.
const TABLE_COST: usize = 48;

/// A question as it finds entries: what two questions must share to share an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    /// The keyed hash of all the others.
    pub(super) hash: u64,
    pub(super) name: &'a Name,
    pub(super) qtype: RrType,
    pub(super) qclass: Class,
    pub(super) dnssec_ok: bool,
    pub(super) checking_disabled: bool,
}

impl<'a> Key<'a> {
    /// The key of a query; `seed` is secret and random for each process.
    #[inline]
    pub(super) fn of(query: &'a Query, seed: u64) -> Self {
        use coredns_plugin::wire::Header;
        let (name, qtype, qclass) = (query.name(), query.qtype(), query.qclass());
        let dnssec_ok = query.dnssec_ok();
        let checking_disabled = query.header().has(Header::CD);
        let rest = u64::from(qtype.0) << 24
            | u64::from(qclass.0) << 8
            | u64::from(dnssec_ok) << 1
            | u64::from(checking_disabled);
        Self { hash: fold::hash(seed ^ rest, name.as_wire()), name, qtype, qclass, dnssec_ok, checking_disabled }
    }
}

/// Hits close enough to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    last: Option<Instant>,
    count: u32,
}

impl Hits {
    /// Counts a hit at `now`; one that comes more than `window` after the last begins anew. Returns the count.
    pub fn count(&mut self, window: Duration, now: Instant) -> u32 {
        let gap = self.last.map(|last| now.saturating_duration_since(last));
        self.count = if gap.is_none_or(|gap| gap > window) { 1 } else { self.count.saturating_add(1) };
        self.last = self.last.max(Some(now));
        self.count
    }
}

/// What changes about an entry while it is kept, other than by hits.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// Hits for prefetch.
    pub(super) hits: Hits,
    /// A refresh is under way.
    pub(super) refreshing: bool,
    /// No refresh before this.
    pub(super) not_before: Option<Instant>,
}

/// What is to be kept about a reply, beside the reply.
pub(super) struct Facts {
    /// When it was received.
    pub(super) stored: Instant,
    /// How long it lasts in seconds.
    pub(super) ttl: u32,
    /// It holds what was asked for.
    pub(super) answers: bool,
    /// The metadata label `zone/wildcard`.
    pub(super) wildcard: Option<String>,
}

/// A kept answer.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) hash: u64,
    pub(super) stored: Instant,
    /// In seconds.
    pub(super) ttl: u32,
    pub(super) rcode: Rcode,
    /// NOERROR with what was asked for.
    pub(super) answers: bool,
    /// The chain failed and gave no message.
    failed: bool,
    qtype: RrType,
    qclass: Class,
    dnssec_ok: bool,
    checking_disabled: bool,
    authoritative: bool,
    authentic_data: bool,
    recursion_available: bool,
    name_len: u8,
    counts: [u16; 3],
    author: &'static str,
    pub(super) stamp: Option<Stamp>,
    octets: Box<[u8]>,
    shared: Box<[Rdata]>,
    wildcard: Option<Box<str>>,
    /// The last answer that this one, which is none, has taken the place of.
    pub(super) prior: Option<Arc<Self>>,
    /// Seconds from `stored` to the last hit; about, since workers do not wait for each other.
    used: AtomicU32,
    /// Protects what prefetch and stale serving note; neither is on the way of a plain hit.
    upkeep: Mutex<Upkeep>,
}

impl Entry {
    /// Keeps a reply; `None` where it is too large for any message.
    pub(super) fn of(key: &Key<'_>, reply: &ReplyBody, facts: Facts) -> Option<Self> {
        let mut packer = Packer::new(key.name);
        let mut counts = [0; 3];
        for (count, section) in counts.iter_mut().zip([&reply.answer, &reply.authority, &reply.additional]) {
            let records = section.iter().filter(|record| record.rtype != RrType::OPT);
            for record in records {
                packer.push(record)?;
                *count = u16::checked_add(*count, 1)?;
            }
        }
        Some(Self {
            rcode: reply.rcode,
            answers: facts.answers,
            authoritative: reply.authoritative,
            authentic_data: reply.authentic_data,
            recursion_available: reply.recursion_available,
            author: reply.author,
            stamp: reply.stamp,
            counts,
            octets: packer.octets.into(),
            shared: packer.shared.into(),
            wildcard: facts.wildcard.map(Into::into),
            failed: false,
            ..Self::failure(key, facts.stored, facts.ttl, reply.rcode)
        })
    }

    /// Keeps that the chain failed with `rcode` and gave no message.
    pub(super) fn failure(key: &Key<'_>, stored: Instant, ttl: u32, rcode: Rcode) -> Self {
        let name = key.name.as_wire();
        Self {
            hash: key.hash,
            stored,
            ttl,
            rcode,
            answers: false,
            failed: true,
            qtype: key.qtype,
            qclass: key.qclass,
            dnssec_ok: key.dnssec_ok,
            checking_disabled: key.checking_disabled,
            authoritative: false,
            authentic_data: false,
            recursion_available: false,
            // A name has 255 octets at most.
            name_len: u8::try_from(name.len()).unwrap_or(u8::MAX),
            counts: [0; 3],
            author: "",
            stamp: None,
            octets: name.into(),
            shared: Box::default(),
            wildcard: None,
            prior: None,
            used: AtomicU32::new(0),
            upkeep: Mutex::default(),
        }
    }

    /// Tells whether this is the answer to the question of `key`: all of it is compared.
    #[inline]
    pub(super) fn is_for(&self, key: &Key<'_>) -> bool {
        self.hash == key.hash
            && (self.qtype, self.qclass) == (key.qtype, key.qclass)
            && (self.dnssec_ok, self.checking_disabled) == (key.dnssec_ok, key.checking_disabled)
            && fold::eq(self.name(), key.name.as_wire())
    }

    /// Tells whether two entries are for the same question.
    pub(super) fn is_same_question(&self, other: &Self) -> bool {
        self.hash == other.hash
            && (self.qtype, self.qclass) == (other.qtype, other.qclass)
            && (self.dnssec_ok, self.checking_disabled) == (other.dnssec_ok, other.checking_disabled)
            && fold::eq(self.name(), other.name())
    }

    fn name(&self) -> &[u8] {
        self.octets.get(..usize::from(self.name_len)).unwrap_or(&[0])
    }

    /// Whole seconds since it was stored; 0 for a query that came before.
    #[inline]
    pub(super) fn age(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.stored).as_secs()
    }

    /// Whole seconds that it still lasts; `Err` with those since its end.
    #[inline]
    pub(super) fn remaining(&self, now: Instant) -> Result<u32, u64> {
        let age = self.age(now);
        match u64::from(self.ttl).checked_sub(age) {
            Some(left) if left > 0 => Ok(u32::try_from(left).unwrap_or(u32::MAX)),
            _ => Err(age.saturating_sub(u64::from(self.ttl))),
        }
    }

    /// Tells whether what it was made from has not changed since.
    #[inline]
    pub(super) fn is_current(&self) -> bool {
        self.stamp.is_none_or(Stamp::is_current)
    }

    /// Notes a hit, for the choice of what has to go.
    #[inline]
    pub(super) fn touch(&self, now: Instant) {
        let age = u32::try_from(self.age(now)).unwrap_or(u32::MAX);
        // Relaxed: a hint. One write a second at most, so that workers do not fight over the line.
        if self.used.load(Ordering::Relaxed) < age {
            self.used.store(age, Ordering::Relaxed);
        }
    }

    /// When it was used last.
    pub(super) fn last_used(&self) -> Instant {
        self.stored + Duration::from_secs(u64::from(self.used.load(Ordering::Relaxed)))
    }

    /// What prefetch and stale serving note.
    pub(super) fn upkeep(&self) -> MutexGuard<'_, Upkeep> {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The octets that it takes, with all that hangs on it.
    pub(super) fn cost(&self) -> usize {
        let shared: usize = self.shared.iter().map(|data| size_of::<Rdata>() + data.len()).sum();
        let label = self.wildcard.as_ref().map_or(0, |label| label.len());
        let prior = self.prior.as_ref().map_or(0, |prior| prior.cost());
        size_of::<Self>() + TABLE_COST + self.octets.len() + shared + label + prior
    }

    /// The answer for a query that hits: always authoritative, all records with `ttl`.
    #[inline]
    pub(super) fn answer(&self, query: &Query, ttl: u32) -> Answer {
        match self.reply(query, ttl) {
            Some(mut reply) => {
                reply.authoritative = true;
                reply.into()
            }
            None => Answer::Failed(Failure::silent(self.rcode)),
        }
    }

    /// The answer as it came, for a query that has waited for another's.
    pub(super) fn shared_answer(&self, query: &Query) -> Answer {
        self.reply(query, self.ttl).map_or_else(|| Answer::Failed(Failure::silent(self.rcode)), Into::into)
    }

    fn reply(&self, query: &Query, ttl: u32) -> Option<Reply> {
        if self.failed {
            return None;
        }
        let mut reply = Reply::with_rcode(self.author, self.rcode);
        reply.authoritative = self.authoritative;
        reply.recursion_available = self.recursion_available;
        reply.authentic_data = self.authentic_data && wants_authentic_data(query);
        reply.stamp = self.stamp;
        let rest = self.octets.get(usize::from(self.name_len)..).unwrap_or(&[]);
        let mut unpacker = Unpacker { rest, shared: &self.shared, asked: query.name(), before: None, ttl };
        let ReplyBody { answer, authority, additional, .. } = &mut *reply;
        for (section, count) in [answer, authority, additional].into_iter().zip(self.counts) {
            section.extend((0..count).map_while(|_| unpacker.next()));
        }
        if let (Some(label), Some(metadata)) = (&self.wildcard, query.metadata()) {
            metadata.set(super::handler::WILDCARD, &**label);
        }
        Some(reply)
    }
}

/// Tells whether the client may see AD (RFC 6840 §5.8).
#[inline]
pub(super) fn wants_authentic_data(query: &Query) -> bool {
    query.dnssec_ok() || query.header().has(coredns_plugin::wire::Header::AD)
}

struct Packer<'a> {
    asked: &'a Name,
    before: Option<&'a Name>,
    octets: Vec<u8>,
    shared: Vec<Rdata>,
}

impl<'a> Packer<'a> {
    fn new(asked: &'a Name) -> Self {
        Self { asked, before: None, octets: asked.as_wire().to_vec(), shared: Vec::new() }
    }

    fn push(&mut self, record: &'a Record) -> Option<()> {
        self.octets.extend_from_slice(&record.rtype.0.to_be_bytes());
        self.octets.extend_from_slice(&record.class.0.to_be_bytes());
        if record.owner == *self.asked {
            self.octets.push(OWNER_ASKED);
        } else if self.before.is_some_and(|before| before.eq_exact(&record.owner)) {
            self.octets.push(OWNER_BEFORE);
        } else {
            self.octets.push(OWNER_OWN);
            self.octets.push(u8::try_from(record.owner.len()).ok()?);
            self.octets.extend_from_slice(record.owner.as_wire());
            self.before = Some(&record.owner);
        }
        let data = record.rdata.as_bytes();
        if data.len() > DATA_INLINE {
            self.octets.push(DATA_SHARED);
            self.shared.push(record.rdata.clone());
        } else {
            self.octets.push(u8::try_from(data.len()).ok()?);
            self.octets.extend_from_slice(data);
        }
        Some(())
    }
}

struct Unpacker<'a> {
    rest: &'a [u8],
    shared: &'a [Rdata],
    asked: &'a Name,
    before: Option<Name>,
    ttl: u32,
}

impl<'a> Unpacker<'a> {
    #[inline]
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline]
    fn octet(&mut self) -> Option<u8> {
        let (octet, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*octet)
    }

    /// The next record; `None` never comes early, since the octets are the packer's own.
    #[inline]
    fn next(&mut self) -> Option<Record> {
        let (&[t0, t1, c0, c1, owner], rest) = self.rest.split_first_chunk::<5>()?;
        self.rest = rest;
        let owner = match owner {
            OWNER_ASKED => self.asked.clone(),
            OWNER_OWN => {
                let len = self.octet()?;
                let name = Name::from_wire(self.take(usize::from(len))?).ok()?;
                self.before = Some(name.clone());
                name
            }
            _ => self.before.clone()?,
        };
        let rdata = match self.octet()? {
            DATA_SHARED => {
                let (data, rest) = self.shared.split_first()?;
                self.shared = rest;
                data.clone()
            }
            len => Rdata::new(self.take(usize::from(len))?).ok()?,
        };
        let (rtype, class) = (RrType(u16::from_be_bytes([t0, t1])), Class(u16::from_be_bytes([c0, c1])));
        Some(Record { owner, rtype, class, ttl: self.ttl, rdata })
    }
}
