//! A place for one query and its reply, used again and again.

use std::sync::Arc;

use coredns_plugin::{Answer, Query};

use super::dispatch::{Dispatcher, serve};
use super::edge::{self, Written};
use super::panics;

/// A query, its reply, and nothing that depends on the transport.
pub(crate) struct Slot {
    /// The query; filled by the transport.
    pub(crate) query: Query,
    /// The message had a question.
    pub(crate) has_question: bool,
    /// The reply in wire form; empty where nothing is to be sent.
    pub(crate) reply: Vec<u8>,
    /// Octets kept free before the reply: the length prefix of a stream.
    pub(crate) prefix: usize,
}

/// A worker's own handle on the blocks of a listener.
///
/// Queries hold one while they are served. Each worker has its own, so that workers do not fight over the reference
/// count of what they share.
pub(crate) struct Handle {
    /// The blocks.
    pub(crate) dispatcher: Arc<Dispatcher>,
}

/// Serves the query in `slot` and writes its reply there.
pub(crate) async fn answer(handle: Arc<Handle>, mut slot: Box<Slot>) -> Box<Slot> {
    let served = serve(&handle.dispatcher, &mut slot.query, slot.has_question).await;
    let Slot { query, reply, prefix, .. } = &mut *slot;
    reply.clear();
    reply.resize(*prefix, 0);
    let written = write_guarded(&handle.dispatcher, query, &served.answer, reply);
    finish(reply, *prefix, written);
    if served.by_core
        && let Some(written) = written
    {
        super::core_metrics::answered_by_core(query, written.rcode, reply.len() - *prefix);
    }
    slot
}

/// Writes the reply; one that cannot be written ends this query and nothing else.
fn write_guarded(dispatcher: &Dispatcher, query: &Query, answer: &Answer, reply: &mut Vec<u8>) -> Option<Written> {
    let start = reply.len();
    let writing = std::panic::AssertUnwindSafe(|| edge::write(query, answer, &mut *reply));
    std::panic::catch_unwind(writing).unwrap_or_else(|panic| {
        if dispatcher.debug {
            panics::crash(&dispatcher.info.label, &*panic);
        }
        panics::caught(&dispatcher.info.label, dispatcher.stacktrace, &*panic);
        reply.truncate(start);
        let writing = std::panic::AssertUnwindSafe(|| edge::write_error(query, coredns_wire::Rcode::SERVFAIL, reply));
        std::panic::catch_unwind(writing).ok()
    })
}

/// Fills in the length prefix; a reply that was not written leaves nothing.
fn finish(reply: &mut Vec<u8>, prefix: usize, written: Option<Written>) {
    match (written, u16::try_from(reply.len() - prefix)) {
        (Some(_), Ok(len)) => {
            if prefix == 2 {
                reply[..2].copy_from_slice(&len.to_be_bytes());
            }
        }
        _ => reply.clear(),
    }
}

impl Slot {
    /// Replaces the reply by SERVFAIL: too much is waiting already.
    pub(crate) fn refuse(&mut self) {
        let Self { query, reply, prefix, .. } = self;
        reply.clear();
        reply.resize(*prefix, 0);
        let written = edge::write_error(query, coredns_wire::Rcode::SERVFAIL, reply);
        finish(reply, *prefix, Some(written));
    }
}
