//! Answers made of the query's envelope.

use coredns_plugin::wire::{Name, Record};
use coredns_plugin::{Next, Outcome, Plugin, Query, Reply};

/// Answers every query, whatever its name, type and class.
#[derive(Debug)]
pub(super) struct Whoami;

impl Plugin for Whoami {
    fn name(&self) -> &'static str {
        "whoami"
    }

    fn serve<'a>(&'a self, query: &'a Query, _next: Next<'a>) -> Outcome<'a> {
        let mut reply = Reply::authoritative(self.name());
        let client = query.client();
        let mut address = Record::address(query.name().clone(), 0, client.ip());
        address.class = query.qclass();
        reply.additional.push(address);
        // A name that leaves no room for one more label gets the address alone.
        let label: &[u8] = if query.transport().is_stream() { b"_tcp" } else { b"_udp" };
        if let Ok(owner) = query.name().prepend_all([label]) {
            let mut port = Record::srv(owner, 0, 0, 0, client.port(), &Name::root());
            port.class = query.qclass();
            reply.additional.push(port);
        }
        Outcome::from(reply)
    }
}
