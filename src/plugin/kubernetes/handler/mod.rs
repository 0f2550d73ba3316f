//! Queries.
//!
//! What a name means is found by `resolve`; here stand routing, negative replies and aliases.

mod records;
mod resolve;

use coredns_plugin::services::{AutoPath, Transfer};
use coredns_plugin::wire::{Name, Rcode, Record, RrType};
use coredns_plugin::{Answer, Failure, Metadata, Next, Outcome, Plugin, Query, Reply};

use super::{Kubernetes, NAME, ServedZone};

pub(super) use records::weight;

/// Links of a chain of aliases within the zone.
const MAX_ALIASES: usize = 10;

/// One question to the index; several for one query where aliases stay within the zone.
#[derive(Clone, Copy)]
struct Ask<'a> {
    name: &'a Name,
    zone: &'a ServedZone,
    /// Where the zone begins in the name.
    zone_at: usize,
    qtype: RrType,
    wants_stamp: bool,
}

impl Ask<'_> {
    /// The zone as the name spells it.
    fn zone_name(&self) -> Name {
        let octets = self.name.as_wire().get(self.zone_at..).unwrap_or(&[0]);
        Name::from_wire(octets).unwrap_or_else(|_| self.zone.name.clone())
    }
}

/// What the index says about a name; records are in the reply already.
enum Found {
    /// The name does not exist.
    Missing,
    /// It exists, with or without records of the type.
    Exists,
    /// It is an alias of this name.
    Alias(Name),
}

impl Plugin for Kubernetes {
    fn name(&self) -> &'static str {
        NAME
    }

    #[inline]
    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        let Some((zone, zone_at)) = self.zone_of(query.name()) else { return next.serve(query) };
        let qtype = query.qtype();
        if matches!(qtype, RrType::AXFR | RrType::IXFR) {
            // Transfers that are allowed have been served by the plugin transfer.
            return Outcome::Now(Answer::Failed(Failure::silent(Rcode::REFUSED)));
        }
        let ask = Ask { name: query.name(), zone, zone_at, qtype, wants_stamp: query.wants_stamp() };
        let mut reply = Reply::authoritative(NAME);
        match self.resolve(&ask, &mut reply) {
            Found::Exists => self.finish(&ask, reply),
            Found::Alias(target) => self.follow(query, ask, next, reply, target),
            Found::Missing if self.options.fallthrough.through(query.name()) => next.serve(query),
            Found::Missing => {
                reply.rcode = if self.index.is_synced() { Rcode::NXDOMAIN } else { Rcode::SERVFAIL };
                self.finish(&ask, reply)
            }
        }
    }

    fn ready(&self) -> Option<bool> {
        Some(self.index.is_synced())
    }

    fn metadata(&self, query: &Query, store: &Metadata) {
        self.label(query, store);
    }

    fn provides_metadata(&self) -> bool {
        true
    }

    fn transfer(&self) -> Option<&dyn Transfer> {
        Some(self)
    }

    fn auto_path(&self) -> Option<&dyn AutoPath> {
        Some(self)
    }
}

impl Kubernetes {
    /// Adds the SOA to a reply without answer (RFC 2308 §3).
    fn finish(&self, ask: &Ask<'_>, mut reply: Reply) -> Outcome<'static> {
        if reply.answer.is_empty() {
            reply.authority.push(self.soa(ask.zone, ask.zone_name()));
        }
        Outcome::from(reply)
    }

    /// Follows an alias: within the zone from the index, else through the whole server.
    fn follow<'a>(
        &'a self,
        query: &'a Query,
        ask: Ask<'a>,
        next: Next<'a>,
        mut reply: Reply,
        mut target: Name,
    ) -> Outcome<'a> {
        let mut owner = ask.name.clone();
        loop {
            let is_loop = target.is_within(&owner) || reply.answer.iter().any(|link| link.owner == target);
            if is_loop || reply.answer.len() > MAX_ALIASES {
                break;
            }
            reply.answer.push(Record::pointing(owner, self.options.ttl, RrType::CNAME, &target));
            let zone_at = match self.zone_of(&target) {
                Some((zone, zone_at)) if zone.name == ask.zone.name => zone_at,
                _ => return self.look_up(query, ask, next, reply, target),
            };
            // Another name decides too, so the reply holds until anything changes.
            let stamp = ask.wants_stamp.then(|| self.index.zone_stamp());
            let links = reply.answer.len();
            let inner = Ask { name: &target, zone_at, ..ask };
            let found = self.resolve(&inner, &mut reply);
            reply.stamp = stamp;
            match found {
                Found::Alias(further) => owner = std::mem::replace(&mut target, further),
                Found::Exists if reply.answer.len() > links => return Outcome::from(reply),
                Found::Exists | Found::Missing => break,
            }
        }
        // A chain that leads to no records is left out altogether.
        reply.answer.clear();
        self.finish(&ask, reply)
    }

    /// Asks the server for the target of an alias that leads out of the zone.
    fn look_up<'a>(
        &'a self,
        query: &'a Query,
        ask: Ask<'a>,
        next: Next<'a>,
        mut reply: Reply,
        target: Name,
    ) -> Outcome<'a> {
        next.lookup(query, target, ask.qtype).then(move |answer| match answer {
            Answer::Reply(mut inner) => {
                reply.truncated |= inner.truncated;
                reply.answer.append(&mut inner.answer);
                Outcome::from(reply)
            }
            Answer::Failed(_) | Answer::Dropped => {
                reply.answer.clear();
                self.finish(&ask, reply)
            }
        })
    }
}
