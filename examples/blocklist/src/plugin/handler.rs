//! Queries against the list.

use coredns_plugin::wire::{Name, Rcode, Record};
use coredns_plugin::{Next, Outcome, Plugin, Query, Reply, ReplyEdns};

use super::names::Names;
use super::{NAME, metrics};

/// How long a client may keep a refusal, in seconds.
const TTL: u32 = 300;
/// Serial, refresh, retry, expire and minimum of the SOA record; only the minimum means something here (RFC 2308 §5).
const SOA_TIMES: [u32; 5] = [1, 7200, 1800, 86_400, TTL];
/// The EDNS option that says why: Extended DNS Error (15), two octets, `Blocked` (15) (RFC 8914 §4.16).
const BLOCKED: [u8; 6] = [0, 15, 0, 2, 0, 15];

/// How a client is told no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// NXDOMAIN with an SOA record, so that it is kept for a while.
    NameError,
    /// REFUSED: resolvers go on to ask another server.
    Refused,
}

/// The plugin of one server block.
#[derive(Debug)]
pub struct Blocklist {
    names: Names,
    refusal: Refusal,
}

impl Blocklist {
    pub(super) const fn new(names: Names, refusal: Refusal) -> Self {
        Self { names, refusal }
    }

    fn refuse(&self, listed: &Name) -> Reply {
        let mut reply = match self.refusal {
            Refusal::Refused => Reply::with_rcode(NAME, Rcode::REFUSED),
            Refusal::NameError => name_error(listed),
        };
        // The server sends this to clients that speak EDNS.
        reply.edns = Some(ReplyEdns { options: BLOCKED.to_vec(), ..ReplyEdns::default() });
        reply
    }
}

impl Plugin for Blocklist {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        let Some(listed) = self.names.matching(query.name()) else {
            return next.serve(query);
        };
        metrics::BLOCKED.inc();
        self.refuse(listed).into()
    }
}

/// NXDOMAIN as if the listed name were an empty zone of ours.
fn name_error(listed: &Name) -> Reply {
    let mut reply = Reply::authoritative(NAME);
    reply.rcode = Rcode::NXDOMAIN;
    // A name that leaves no room for a label is its own server and contact: nobody asks either.
    let below = |label: &[u8]| listed.prepend_all([label]).unwrap_or_else(|_| listed.clone());
    let soa = Record::soa(listed.clone(), TTL, &below(b"ns"), &below(b"hostmaster"), SOA_TIMES);
    reply.authority.push(soa);
    reply
}
