//! Misbehaving by the number of the query.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use coredns_plugin::services::AutoPath;
use coredns_plugin::wire::{Name, Rcode, RrType};
use coredns_plugin::{Answer, Failure, Next, Outcome, Plugin, Query, Reply};

use super::records;
use super::setup::Options;

/// The plugin is ready while it has seen so many queries: it comes and goes.
const READY: std::ops::Range<u64> = 3..5;

/// Answers every query itself, or does not.
#[derive(Debug)]
pub(super) struct Erratic {
    options: Options,
    /// Queries so far, of all workers.
    seen: AtomicU64,
}

impl Erratic {
    /// A plugin that has seen no query yet.
    pub(super) const fn new(options: Options) -> Self {
        Self { options, seen: AtomicU64::new(0) }
    }

    fn answer(&self, query: &Query, truncate: bool) -> Answer {
        let mut reply = Reply::authoritative(self.name());
        let name = query.name();
        match query.qtype() {
            RrType::A => {
                let copies = if self.options.large { records::LARGE } else { 1 };
                reply.answer.extend((0..copies).map(|_| records::address_v4(name)));
                reply.truncated = truncate;
            }
            RrType::AAAA => {
                reply.answer.push(records::address_v6(name));
                reply.truncated = truncate;
            }
            // A transfer has no TC: without its last record it has no end (RFC 5936 §2.2).
            RrType::AXFR => reply.answer = records::zone(name, !truncate),
            _ => return Answer::Failed(Failure::silent(Rcode::SERVFAIL)),
        }
        Answer::Reply(reply)
    }
}

impl Plugin for Erratic {
    fn name(&self) -> &'static str {
        "erratic"
    }

    fn serve<'a>(&'a self, query: &'a Query, _next: Next<'a>) -> Outcome<'a> {
        // Relaxed: the number is all that is shared.
        let number = self.seen.fetch_add(1, Ordering::Relaxed);
        let is_hit = |amount: u32| amount > 0 && number.is_multiple_of(u64::from(amount));
        if is_hit(self.options.drop) {
            return Outcome::Now(Answer::Dropped);
        }
        let truncate = is_hit(self.options.truncate);
        if is_hit(self.options.delay) {
            return Outcome::of(async move {
                tokio::time::sleep(self.options.duration).await;
                self.answer(query, truncate)
            });
        }
        Outcome::Now(self.answer(query, truncate))
    }

    fn ready(&self) -> Option<bool> {
        Some(READY.contains(&self.seen.load(Ordering::Relaxed)))
    }

    fn auto_path(&self) -> Option<&dyn AutoPath> {
        Some(self)
    }
}

impl AutoPath for Erratic {
    fn search_path(&self, _client: IpAddr, _name: &Name) -> Vec<Option<Name>> {
        records::search_path()
    }
}
