//! What happens to a reply on its way back: it is judged, kept where it may be, and adapted to the client.

use std::sync::Arc;
use std::time::Instant;

use coredns_plugin::wire::{Rcode, Record, RrType};
use coredns_plugin::{Answer, Query, Reply, ReplyBody};

use super::entry::{Entry, Facts, Key, wants_authentic_data};
use super::flights::Landing;
use super::handler::{Inner, WILDCARD};
use super::judge::{Side, Verdict, failure_ttl};
use super::metrics::Count;

/// Why somebody below was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// There was nothing to serve. `waited` where the answer took I/O.
    Miss {
        /// It did not come at once.
        waited: bool,
    },
    /// There is an answer, which only a better one may replace.
    Refresh,
}

/// What has become of an answer.
pub(super) struct Kept {
    /// For the one who asked.
    pub(super) answer: Answer,
    /// For those who wait for it.
    pub(super) landing: Landing,
}

impl Inner {
    /// Takes an answer that came from below at `stored`.
    pub(super) fn keep(&self, query: &Query, key: &Key<'_>, answer: Answer, stored: Instant, why: Purpose) -> Kept {
        let verdict = Verdict::of(query, &answer, self.wall_seconds(), &self.config);
        match (answer, verdict) {
            (Answer::Reply(reply), Some(verdict)) => self.keep_reply(query, key, reply, &verdict, stored, why),
            (Answer::Failed(failure), _) => {
                let entry = self.keep_failure(query, key, failure.rcode, stored, why);
                let landing = Landing { entry: Some(entry), kept: false, refreshed: false };
                Kept { answer: Answer::Failed(failure), landing }
            }
            (answer, _) => Kept { answer, landing: Landing { entry: None, kept: false, refreshed: false } },
        }
    }

    fn keep_reply(
        &self,
        query: &Query,
        key: &Key<'_>,
        mut reply: Reply,
        verdict: &Verdict,
        stored: Instant,
        why: Purpose,
    ) -> Kept {
        let (side, refreshed) = self.plan(verdict, reply.rcode, why);
        if verdict.foreign && verdict.side.is_none() {
            self.count(query, Count::Drops);
        }
        let wildcard = query.metadata().and_then(|metadata| metadata.get(WILDCARD));
        let facts = Facts { stored, ttl: verdict.ttl, answers: verdict.answers, wildcard };
        let shareable = !reply.truncated && !verdict.scoped;
        let made = if shareable { Entry::of(key, &reply, facts) } else { None };
        let (entry, kept) = match (made, side) {
            (Some(entry), Some(side)) => {
                let kept = !self.is_disabled(side, query);
                let entry = if kept { self.put(query, key, entry, side, why) } else { Arc::new(entry) };
                self.note_entries(query);
                (Some(entry), kept)
            }
            (Some(entry), None) => (Some(Arc::new(entry)), false),
            (None, _) => (None, false),
        };
        adapt(&mut reply, verdict, query);
        Kept { answer: reply.into(), landing: Landing { entry, kept, refreshed } }
    }

    /// Where a reply goes, and whether it takes the place of an older one.
    fn plan(&self, verdict: &Verdict, rcode: Rcode, why: Purpose) -> (Option<Side>, bool) {
        let prefer_positive = self.config.stale.prefer_positive;
        let denies_or_answers = verdict.whole && matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN);
        let refreshed = if prefer_positive { verdict.whole && verdict.answers } else { denies_or_answers };
        let side = match why {
            Purpose::Miss { .. } => verdict.side,
            // The older positive answer stays in view, so that a denial may be noted beside it.
            Purpose::Refresh => verdict.side.filter(|_| refreshed || prefer_positive && verdict.whole),
        };
        (side, refreshed)
    }

    /// Remembers that the chain failed after it had waited for somebody (RFC 9520 §3.2).
    ///
    /// A failure that came at once costs nothing to find out again, and may be over at once.
    fn keep_failure(&self, query: &Query, key: &Key<'_>, rcode: Rcode, stored: Instant, why: Purpose) -> Arc<Entry> {
        let ttl = failure_ttl(&self.config);
        let entry = Entry::failure(key, stored, ttl, rcode);
        let remembered = rcode == Rcode::SERVFAIL && ttl > 0 && why == Purpose::Miss { waited: true };
        if !remembered || self.is_disabled(Side::Denial, query) {
            return Arc::new(entry);
        }
        let entry = self.put(query, key, entry, Side::Denial, why);
        self.note_entries(query);
        entry
    }

    fn put(&self, query: &Query, key: &Key<'_>, entry: Entry, side: Side, why: Purpose) -> Arc<Entry> {
        let (now, answers) = (entry.stored, entry.answers);
        let prefer_positive = self.config.stale.prefer_positive;
        let store = match side {
            Side::Success => &self.success,
            Side::Denial => &self.denial,
        };
        let inserted = store.put(entry, now, |entry, before| {
            if why == Purpose::Refresh {
                let hits = before.upkeep().hits;
                entry.upkeep().hits = hits;
            }
            if prefer_positive && side == Side::Success && !answers {
                entry.prior = if before.answers { Some(Arc::clone(before)) } else { before.prior.clone() };
            }
        });
        if inserted.evicted > 0 {
            self.numbers(query, |numbers| numbers.add(Count::Evictions(side), inserted.evicted));
        }
        // A denial that is older than a positive answer must not hide it.
        if side == Side::Success && (answers || !prefer_positive) {
            self.denial.remove(key);
        }
        inserted.entry
    }

    fn note_entries(&self, query: &Query) {
        self.numbers(query, |numbers| numbers.set_entries(self.success.len(), self.denial.len()));
    }
}

/// Makes of a reply what the client gets: one TTL for all, no OPT of others, AD for those only who asked for it.
fn adapt(reply: &mut Reply, verdict: &Verdict, query: &Query) {
    let ReplyBody { answer, authority, additional, edns, authentic_data, .. } = &mut **reply;
    additional.retain(|record| record.rtype != RrType::OPT);
    let records = answer.iter_mut().chain(authority).chain(additional);
    records.for_each(|record: &mut Record| record.ttl = verdict.ttl);
    // Who keeps an answer for some subnets must be told so.
    if !verdict.scoped {
        *edns = None;
    }
    *authentic_data &= wants_authentic_data(query);
}
