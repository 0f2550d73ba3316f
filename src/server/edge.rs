//! From an answer to the bytes that leave: header, question, OPT, size limits.
//!
//! Everything that holds for all replies is done here and nowhere else. Budget: one copy of the records' bytes.

use coredns_plugin::{Answer, Query, Reply, ReplyEdns};
use coredns_wire::{Edns, Encoded, Header, Opcode, Outgoing, Rcode, Record, encode_into};

/// UDP replies above these sizes are compressed although they fit, so that they stay in one packet: the Ethernet MTU
/// less the headers for IPv4, and what DNS flag day 2020 recommends for IPv6. As CoreDNS has them, in octets.
const COMPRESS_ABOVE_V4: usize = 1480;
const COMPRESS_ABOVE_V6: usize = 1220;

/// What was written, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The code that the client gets.
    pub(crate) rcode: Rcode,
    /// Records were left out.
    pub(crate) truncated: bool,
}

/// Writes the reply to `query` behind what is in `out`; `None` where nothing is to be sent.
pub(crate) fn write(query: &Query, answer: &Answer, out: &mut Vec<u8>) -> Option<Written> {
    match answer {
        Answer::Reply(reply) => Some(write_reply(query, reply, out)),
        Answer::Failed(failure) if failure.rcode == Rcode::BADVERS => Some(write_bad_version(query, out)),
        Answer::Failed(failure) => Some(write_error(query, failure.rcode, out)),
        Answer::Dropped => None,
    }
}

fn write_reply(query: &Query, reply: &Reply, out: &mut Vec<u8>) -> Written {
    let flag = |set: bool, bit: u16| if set { bit } else { 0 };
    let bits = flag(reply.authoritative, Header::AA)
        | flag(reply.truncated, Header::TC)
        | flag(reply.recursion_available, Header::RA)
        | flag(reply.authentic_data, Header::AD);
    let sections: [&[Record]; 3] = [&reply.answer, &reply.authority, &reply.additional];
    finish(query, reply.rcode, bits, sections, reply.edns.as_ref(), out)
}

/// Writes an empty reply with a code.
pub(crate) fn write_error(query: &Query, rcode: Rcode, out: &mut Vec<u8>) -> Written {
    finish(query, rcode, 0, [&[], &[], &[]], None, out)
}

/// RFC 6891 §6.1.3: the version that is spoken here, no options.
fn write_bad_version(query: &Query, out: &mut Vec<u8>) -> Written {
    let mut opt = OptRecord::new(0, 0);
    opt.set_rcode(Rcode::BADVERS);
    put(query, Rcode::BADVERS, 0, [&[], &[], &[]], opt.finish(), out)
}

fn finish(
    query: &Query,
    rcode: Rcode,
    bits: u16,
    sections: [&[Record]; 3],
    own: Option<&ReplyEdns>,
    out: &mut Vec<u8>,
) -> Written {
    let Some(edns) = query.edns() else {
        // Without OPT there is no room for the upper bits of the code.
        let rcode = if rcode.0 > 0xf { Rcode::SERVFAIL } else { rcode };
        return put(query, rcode, bits, sections, &[], out);
    };
    let mut opt = match own {
        Some(own) => {
            let mut opt = OptRecord::new(edns.udp_size, (own.flags | edns.flags & Edns::DO) & 0xff00);
            opt.push(&own.options);
            opt
        }
        None => mirror(query, edns),
    };
    opt.set_rcode(rcode);
    put(query, rcode, bits, sections, opt.finish(), out)
}

/// The client's own OPT record with what may be repeated of it; each option once.
fn mirror(query: &Query, edns: Edns) -> OptRecord {
    let mut opt = OptRecord::new(edns.udp_size, edns.flags & 0xff00);
    for option in query.mirrored_options() {
        opt.push(&option.code.to_be_bytes());
        opt.push(&(option.data.len() as u16).to_be_bytes());
        opt.push(option.data);
    }
    opt
}

fn put(query: &Query, rcode: Rcode, bits: u16, sections: [&[Record]; 3], opt: &[u8], out: &mut Vec<u8>) -> Written {
    let asked = query.header();
    let opcode = asked.opcode();
    let copied = if opcode == Opcode::QUERY { asked.bits & (Header::RD | Header::CD) } else { 0 };
    let header = Header {
        id: asked.id,
        bits: Header::QR | u16::from(opcode.0) << 11 | copied | bits | rcode.0 & 0xf,
        ..Header::default()
    };
    let compress_above = match query.client() {
        _ if query.transport().is_stream() => usize::MAX,
        client if client.is_ipv4() => COMPRESS_ABOVE_V4,
        _ => COMPRESS_ABOVE_V6,
    };
    let start = out.len();
    let outgoing = Outgoing {
        header,
        question: query.question_section(),
        sections,
        opt,
        limit: query.reply_limit(),
        compress_above,
    };
    let Encoded { truncated } = encode_into(&outgoing, out);
    debug_assert!(coredns_wire::Message::check(&out[start..]).is_ok(), "unreadable reply to {:?}", query.name());
    Written { rcode, truncated }
}

/// An OPT record being written; on the stack unless a client sends long options.
struct OptRecord {
    octets: smallvec::SmallVec<[u8; 96]>,
}

impl OptRecord {
    fn new(udp_size: u16, flags: u16) -> Self {
        let [s0, s1] = udp_size.to_be_bytes();
        let [f0, f1] = flags.to_be_bytes();
        Self { octets: smallvec::SmallVec::from_slice(&[0, 0, 41, s0, s1, 0, 0, f0, f1, 0, 0]) }
    }

    fn set_rcode(&mut self, rcode: Rcode) {
        self.octets[5] = (rcode.0 >> 4) as u8;
    }

    fn push(&mut self, octets: &[u8]) {
        self.octets.extend_from_slice(octets);
    }

    fn finish(&mut self) -> &[u8] {
        // What came in one OPT record fits into another; a plugin's options are bounded by the message.
        let len = (self.octets.len() - 11).min(usize::from(u16::MAX)) as u16;
        self.octets[9..11].copy_from_slice(&len.to_be_bytes());
        &self.octets
    }
}
