//! Replies as values.
//!
//! A [`Reply`] is a box from a pool of the thread, so that it moves through a chain as one pointer and costs no
//! allocation once the pool is warm. The server turns it into bytes: the question, OPT, size limits, truncation and
//! compression are its business.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use coredns_wire::{Outgoing, Rcode, Record};

use crate::query::Query;
use crate::stamp::Stamp;

/// The length in octets of an OPT record without options (RFC 6891 §6.1.2).
const OPT_LEN: usize = 11;
/// Replies kept for reuse by each thread.
const POOL: usize = 256;
/// A section that has grown beyond this many records is given back to the allocator.
const KEPT_RECORDS: usize = 32;

thread_local! {
    #[expect(clippy::vec_box, reason = "the boxes themselves are what is reused")]
    static FREE: RefCell<Vec<Box<ReplyBody>>> = const { RefCell::new(Vec::new()) };
}

/// EDNS content that a plugin puts into a reply; the server adds size, version and DO of the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyEdns {
    /// Flags beyond what the query has; the low octet is cleared.
    pub flags: u16,
    /// Options in wire form: code, length, data.
    pub options: Vec<u8>,
}

/// The content of a [`Reply`].
#[derive(Clone, Debug, Default)]
pub struct ReplyBody {
    /// The response code, up to 12 bits.
    pub rcode: Rcode,
    /// AA.
    pub authoritative: bool,
    /// TC; the server sets it as well where it cuts.
    pub truncated: bool,
    /// RA.
    pub recursion_available: bool,
    /// AD.
    pub authentic_data: bool,
    /// The answer section.
    pub answer: Vec<Record>,
    /// The authority section.
    pub authority: Vec<Record>,
    /// The additional section, without OPT.
    pub additional: Vec<Record>,
    /// EDNS content beyond what the server mirrors; sent only where the query has EDNS.
    pub edns: Option<ReplyEdns>,
    /// The name of the plugin that made the reply.
    pub author: &'static str,
    /// What the reply was made from, where it can change under a cache.
    pub stamp: Option<Stamp>,
}

/// An answer on its way back through the chain; see [`ReplyBody`] for its fields.
#[derive(Debug)]
pub struct Reply(Option<Box<ReplyBody>>);

impl Reply {
    /// An empty authoritative reply without error, made by the plugin `author`.
    #[inline]
    #[must_use]
    pub fn authoritative(author: &'static str) -> Self {
        let mut reply = Self::new(author);
        reply.authoritative = true;
        reply
    }

    /// An empty reply without error and without AA, made by the plugin `author`.
    #[inline]
    #[must_use]
    pub fn new(author: &'static str) -> Self {
        let mut body = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
        body.author = author;
        Self(Some(body))
    }

    /// An empty reply with `rcode` and without AA.
    #[must_use]
    pub fn with_rcode(author: &'static str, rcode: Rcode) -> Self {
        let mut reply = Self::new(author);
        reply.rcode = rcode;
        reply
    }

    /// The length in octets of header, question and records, uncompressed and without OPT: what logs and metrics
    /// call the size of a reply.
    #[must_use]
    pub fn wire_len(&self, query: &Query) -> usize {
        coredns_wire::uncompressed_len(query.question_section(), self.sections(), &[])
    }

    fn sections(&self) -> [&[Record]; 3] {
        [&self.answer, &self.authority, &self.additional]
    }

    /// Tells whether the reply is longer than the client takes, so that the server will leave records out and set TC.
    ///
    /// Costs an encoding where it is not obvious, so this is for logs.
    #[must_use]
    pub fn exceeds_limit(&self, query: &Query) -> bool {
        let (question, sections, limit) = (query.question_section(), self.sections(), query.reply_limit());
        let options = match &self.edns {
            Some(own) => own.options.len(),
            None => query.mirrored_options().map(|option| option.data.len().saturating_add(4)).sum(),
        };
        let opt_len = query.edns().map_or(0, |_| options.saturating_add(OPT_LEN));
        if coredns_wire::uncompressed_len(question, sections, &[]).saturating_add(opt_len) <= limit {
            return false;
        }
        let opt = vec![0; opt_len];
        let message =
            Outgoing { header: query.header(), question, sections, opt: &opt, limit, compress_above: usize::MAX };
        coredns_wire::encode(&message, &mut Vec::new()).truncated
    }
}

impl Deref for Reply {
    type Target = ReplyBody;

    #[inline]
    fn deref(&self) -> &ReplyBody {
        self.0.as_deref().unwrap_or_else(|| unreachable!("the body is taken by drop only"))
    }
}

impl DerefMut for Reply {
    #[inline]
    fn deref_mut(&mut self) -> &mut ReplyBody {
        self.0.as_deref_mut().unwrap_or_else(|| unreachable!("the body is taken by drop only"))
    }
}

impl Clone for Reply {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.author);
        copy.clone_from_body(self);
        copy
    }
}

impl Reply {
    fn clone_from_body(&mut self, body: &ReplyBody) {
        self.rcode = body.rcode;
        self.authoritative = body.authoritative;
        self.truncated = body.truncated;
        self.recursion_available = body.recursion_available;
        self.authentic_data = body.authentic_data;
        self.answer.clone_from(&body.answer);
        self.authority.clone_from(&body.authority);
        self.additional.clone_from(&body.additional);
        self.edns.clone_from(&body.edns);
        self.stamp = body.stamp;
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        let Some(mut body) = self.0.take() else { return };
        let ReplyBody { answer, authority, additional, .. } = &mut *body;
        for section in [answer, authority, additional] {
            section.clear();
            if section.capacity() > KEPT_RECORDS {
                section.shrink_to(KEPT_RECORDS);
            }
        }
        body.rcode = Rcode::NOERROR;
        body.authoritative = false;
        body.truncated = false;
        body.recursion_available = false;
        body.authentic_data = false;
        body.edns = None;
        body.stamp = None;
        // At the end of a thread the pool may be gone already; then the box is simply freed.
        let _ = FREE.try_with(|free| {
            if let Ok(mut free) = free.try_borrow_mut()
                && free.len() < POOL
            {
                free.push(body);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_reply_is_empty() {
        let mut reply = Reply::authoritative("a");
        reply.rcode = Rcode::NXDOMAIN;
        reply.truncated = true;
        reply.answer.push(Record::a(coredns_wire::Name::root(), 1, std::net::Ipv4Addr::LOCALHOST));
        reply.edns = Some(ReplyEdns::default());
        drop(reply);
        let fresh = Reply::new("b");
        assert_eq!(
            (fresh.rcode, fresh.truncated, fresh.authoritative, fresh.author),
            (Rcode::NOERROR, false, false, "b")
        );
        assert!(fresh.answer.is_empty() && fresh.edns.is_none());
    }
}
