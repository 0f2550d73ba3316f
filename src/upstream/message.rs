//! The message that goes to an upstream, and what counts as its reply.

use std::fmt;

use coredns_plugin::wire::{
    Class, Edns, HEADER_LEN, Header, Message, MessageError, Name, Opcode, Outgoing, Record, RrType, encode, read_name,
};
use coredns_plugin::{Query, Reply, ReplyEdns};

/// The UDP size that upstreams are told, in octets: what passes without fragments (DNS flag day 2020).
const UDP_SIZE: u16 = 1232;
/// The UDP size that everybody takes (RFC 1035 §4.2.1).
const UDP_SIZE_MIN: u16 = 512;

/// A query that is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedError {
    /// It is signed for this server (RFC 8945); the signature would not hold behind it.
    Signed,
    /// It is no QUERY.
    Opcode(Opcode),
    /// It cannot be written with the question that it has by now.
    Unwritable,
}

impl fmt::Display for AskedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed => f.write_str("a query that is signed with TSIG is not forwarded"),
            Self::Opcode(opcode) => write!(f, "a message with opcode {opcode} is not forwarded"),
            Self::Unwritable => f.write_str("the query cannot be written"),
        }
    }
}

impl std::error::Error for AskedError {}

/// What is asked: the message, and what identifies its reply.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The message; the identifier is that of whoever sends it.
    octets: Vec<u8>,
    question: AskedQuestion,
}

/// The question and the kind of a message.
#[derive(Clone, Debug)]
pub(super) struct AskedQuestion {
    name: Name,
    qtype: RrType,
    qclass: Class,
    opcode: Opcode,
}

/// What octets from an upstream are to one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A reply to the question.
    Reply,
    /// Something with another identifier.
    OtherId,
    /// Nothing that belongs here.
    Foreign,
}

impl Asked {
    /// The message for an upstream: header, question and EDNS of `query` as they are by now.
    ///
    /// # Errors
    /// The query is of a kind that is not forwarded.
    pub fn new(query: &Query) -> Result<Self, AskedError> {
        let header = query.header();
        if header.opcode() != Opcode::QUERY {
            return Err(AskedError::Opcode(header.opcode()));
        }
        let question = AskedQuestion {
            name: query.name().clone(),
            qtype: query.qtype(),
            qclass: query.qclass(),
            opcode: header.opcode(),
        };
        let opt = opt_record(query);
        let plain = u16::from(query.edns().is_some());
        let octets = if header.answers | header.authorities == 0 && header.additionals <= plain {
            let mut octets = Vec::with_capacity(HEADER_LEN + question.name.len() + 4 + opt.len());
            let header = Header { questions: 1, answers: 0, authorities: 0, additionals: plain, ..header };
            octets.extend_from_slice(&header.to_bytes());
            question.write(&mut octets);
            octets.extend_from_slice(&opt);
            octets
        } else {
            with_records(query, &question, &opt)?
        };
        Ok(Self { octets, question })
    }

    /// A query that the server makes itself: `name` `qtype`, class IN, without EDNS.
    #[must_use]
    pub fn own(name: &Name, qtype: RrType, recursion: bool) -> Self {
        let question = AskedQuestion { name: name.clone(), qtype, qclass: Class::IN, opcode: Opcode::QUERY };
        let header = Header { bits: if recursion { Header::RD } else { 0 }, questions: 1, ..Header::default() };
        let mut octets = Vec::with_capacity(HEADER_LEN + name.len() + 4);
        octets.extend_from_slice(&header.to_bytes());
        question.write(&mut octets);
        Self { octets, question }
    }

    /// The length in octets.
    pub(super) fn len(&self) -> usize {
        self.octets.len()
    }

    /// Writes the message with an identifier into `out`, behind what is there.
    pub(super) fn write(&self, id: u16, out: &mut Vec<u8>) {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(self.octets.get(2..).unwrap_or(&[]));
    }

    /// What identifies the reply.
    pub(super) const fn question(&self) -> &AskedQuestion {
        &self.question
    }
}

impl AskedQuestion {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.name.as_wire());
        out.extend_from_slice(&self.qtype.0.to_be_bytes());
        out.extend_from_slice(&self.qclass.0.to_be_bytes());
    }

    /// Judges a message by identifier, QR, opcode and question.
    pub(super) fn judge(&self, id: u16, octets: &[u8]) -> Verdict {
        let Some(header) = Header::parse(octets) else { return Verdict::Foreign };
        if header.id != id {
            return Verdict::OtherId;
        }
        if !header.has(Header::QR) || header.opcode() != self.opcode || header.questions != 1 {
            return Verdict::Foreign;
        }
        let Ok((name, at)) = read_name(octets, HEADER_LEN) else { return Verdict::Foreign };
        let Some(&[t0, t1, c0, c1]) = octets.get(at..).and_then(<[u8]>::first_chunk::<4>) else {
            return Verdict::Foreign;
        };
        let same = u16::from_be_bytes([t0, t1]) == self.qtype.0
            && u16::from_be_bytes([c0, c1]) == self.qclass.0
            && name == self.name;
        if same { Verdict::Reply } else { Verdict::Foreign }
    }
}

/// The client's OPT record with a UDP size of our own; nothing where the client has none.
fn opt_record(query: &Query) -> Vec<u8> {
    let Some(Edns { udp_size, flags, .. }) = query.edns() else { return Vec::new() };
    // The client's own size is its business and shapes its own reply. One that was lowered on the way is an
    // operator's wish, and holds here as well.
    let size = if query.udp_size_was_lowered() { udp_size.clamp(UDP_SIZE_MIN, UDP_SIZE) } else { UDP_SIZE };
    let mut opt = vec![0, 0, RrType::OPT.0 as u8];
    opt.extend_from_slice(&size.to_be_bytes());
    opt.extend_from_slice(&[0, 0]);
    opt.extend_from_slice(&flags.to_be_bytes());
    opt.extend_from_slice(&[0, 0]);
    for option in query.options() {
        opt.extend_from_slice(&option.code.to_be_bytes());
        opt.extend_from_slice(&(option.data.len() as u16).to_be_bytes());
        opt.extend_from_slice(option.data);
    }
    // The options came in one OPT record, so they fit into another.
    let [l0, l1] = (opt.len().saturating_sub(11) as u16).to_be_bytes();
    if let Some(place) = opt.get_mut(9..11) {
        place.copy_from_slice(&[l0, l1]);
    }
    opt
}

/// A query with records beside OPT, such as the SOA of IXFR (RFC 1995 §3).
fn with_records(query: &Query, question: &AskedQuestion, opt: &[u8]) -> Result<Vec<u8>, AskedError> {
    let Ok(mut message) = Message::parse(query.message()) else {
        // A count that is larger than the data is tolerated at the door: what is there is nothing but the question.
        let mut octets = Vec::new();
        let nothing: [&[Record]; 3] = [&[], &[], &[]];
        finish(query.header(), question, nothing, opt, &mut octets);
        return Ok(octets);
    };
    let signature = |record: &Record| record.rtype == RrType::TSIG || record.rtype == RrType::SIG;
    if message.additional.iter().any(signature) {
        return Err(AskedError::Signed);
    }
    message.additional.retain(|record| record.rtype != RrType::OPT);
    let mut octets = Vec::new();
    let sections: [&[Record]; 3] = [&message.answer, &message.authority, &message.additional];
    if finish(query.header(), question, sections, opt, &mut octets) { Ok(octets) } else { Err(AskedError::Unwritable) }
}

/// Writes a message; `false` where something had to be left out.
fn finish(header: Header, question: &AskedQuestion, sections: [&[Record]; 3], opt: &[u8], out: &mut Vec<u8>) -> bool {
    let mut section = Vec::new();
    question.write(&mut section);
    let limit = usize::from(u16::MAX);
    !encode(&Outgoing { header, question: &section, sections, opt, limit, compress_above: limit }, out).truncated
}

/// A message from an upstream as a reply of the plugin `author`.
///
/// # Errors
/// The octets are no message.
pub fn parse_reply(author: &'static str, octets: &[u8]) -> Result<Reply, MessageError> {
    let message = Message::parse(octets)?;
    let mut reply = Reply::with_rcode(author, message.rcode());
    take_flags(&mut reply, message.header);
    let Message { answer, authority, mut additional, .. } = message;
    if let Some(at) = additional.iter().position(|record| record.rtype == RrType::OPT) {
        let opt = additional.remove(at);
        let [_, _, high, low] = opt.ttl.to_be_bytes();
        let flags = u16::from_be_bytes([high, low]);
        reply.edns = Some(ReplyEdns { flags, options: opt.rdata.as_bytes().to_vec() });
    }
    reply.answer = answer;
    reply.authority = authority;
    reply.additional = additional;
    Ok(reply)
}

/// A reply that was cut on its way: empty, with TC, so that the client asks over TCP.
pub(super) fn cut_reply(author: &'static str, octets: &[u8]) -> Reply {
    let mut reply = Reply::new(author);
    if let Some(header) = Header::parse(octets) {
        reply.rcode = header.rcode();
        take_flags(&mut reply, header);
    }
    reply.truncated = true;
    reply
}

fn take_flags(reply: &mut Reply, header: Header) {
    reply.authoritative = header.has(Header::AA);
    reply.truncated = header.has(Header::TC);
    reply.recursion_available = header.has(Header::RA);
    reply.authentic_data = header.has(Header::AD);
}

/// Tells whether a reply that cannot be read was merely cut short, so that the whole of it may come over TCP.
#[must_use]
pub const fn cuts_message(error: MessageError) -> bool {
    matches!(error, MessageError::Short)
}

#[cfg(test)]
mod tests {
    use coredns_testkit::{Ask, query};

    use super::*;

    fn sent(asked: &Asked, id: u16) -> Vec<u8> {
        let mut octets = Vec::new();
        asked.write(id, &mut octets);
        octets
    }

    #[test]
    fn a_plain_query_is_passed_on_as_it_is() {
        let ask = Ask::new("WwW.example.org AAAA CD");
        let asked = Asked::new(&ask.query()).expect("a query");
        let mut expected = ask.message();
        expected[..2].copy_from_slice(&[0xab, 0xcd]);
        assert_eq!(sent(&asked, 0xabcd), expected);
    }

    #[test]
    fn the_udp_size_is_our_own_unless_it_was_lowered() {
        for (size, lowered, expected) in
            [(4096, None, 1232), (512, None, 1232), (0, None, 1232), (4096, Some(700), 700), (4096, Some(100), 512)]
        {
            let ask = Ask { udp_size: Some(size), options: vec![0, 10, 0, 1, 7], dnssec_ok: true, ..Ask::new("a. A") };
            let query = ask.query();
            if let Some(lowered) = lowered {
                query.lower_udp_size(lowered);
            }
            let message = Message::parse(&sent(&Asked::new(&query).expect("a query"), 1)).expect("a message");
            let opt = message.opt().expect("an OPT record");
            assert_eq!(
                (opt.class.0, opt.ttl, opt.rdata.as_bytes()),
                (expected, 0x8000, &[0, 10, 0, 1, 7][..]),
                "{size}"
            );
        }
    }

    #[test]
    fn a_changed_question_is_what_is_asked() {
        let query = query("a.example.org A DO");
        let changed = query.with_question("other.example.net".parse().expect("a name"), RrType::TXT);
        let message = Message::parse(&sent(&Asked::new(&changed).expect("a query"), 1)).expect("a message");
        assert_eq!(
            (message.questions[0].name.to_string().as_str(), message.questions[0].qtype),
            ("other.example.net.", RrType::TXT)
        );
        assert!(message.opt().is_some());
    }

    #[test]
    fn only_the_reply_to_the_question_counts() {
        let asked = Asked::own(&"a.example.org".parse().expect("a name"), RrType::A, true);
        let reply = |id: u16, bits: u16, counts: u16, name: &str, rest: [u8; 4]| {
            let name: Name = name.parse().expect("a name");
            let header = Header { id, bits, questions: counts, ..Header::default() };
            [&header.to_bytes()[..], name.as_wire(), &rest].concat()
        };
        let same = [0, 1, 0, 1];
        for (what, octets, verdict) in [
            ("the reply", reply(7, Header::QR, 1, "a.example.org", same), Verdict::Reply),
            ("in other case", reply(7, Header::QR, 1, "A.EXAMPLE.org", same), Verdict::Reply),
            ("another id", reply(8, Header::QR, 1, "a.example.org", same), Verdict::OtherId),
            ("a query", reply(7, 0, 1, "a.example.org", same), Verdict::Foreign),
            ("another opcode", reply(7, Header::QR | 4 << 11, 1, "a.example.org", same), Verdict::Foreign),
            ("no question", reply(7, Header::QR, 0, "a.example.org", same), Verdict::Foreign),
            ("two questions", reply(7, Header::QR, 2, "a.example.org", same), Verdict::Foreign),
            ("another name", reply(7, Header::QR, 1, "b.example.org", same), Verdict::Foreign),
            ("another type", reply(7, Header::QR, 1, "a.example.org", [0, 28, 0, 1]), Verdict::Foreign),
            ("another class", reply(7, Header::QR, 1, "a.example.org", [0, 1, 0, 3]), Verdict::Foreign),
            (
                "a header alone",
                Header { id: 7, bits: Header::QR, questions: 1, ..Header::default() }.to_bytes().to_vec(),
                Verdict::Foreign,
            ),
            ("too short", vec![0, 7, 0x80], Verdict::Foreign),
        ] {
            assert_eq!(asked.question().judge(7, &octets), verdict, "{what}");
        }
    }
}
