//! Queries as they come in: one function accepts or rejects a header, for every transport, before anything else.
//!
//! Budget: a plain question costs no allocation and is read once; a [`Request`] holds offsets, not copies.

use crate::edns::{Edns, EdnsOptions};
use crate::message::{MessageError, read_fixed};
use crate::name::{Name, NameError, read_name};
use crate::rdata::check_rdata;
use crate::types::{Class, Opcode, Rcode, RrType};

/// The length of a header in octets (RFC 1035 §4.1.1).
pub const HEADER_LEN: usize = 12;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// The identifier.
    pub id: u16,
    /// QR, opcode, flags and response code as sent.
    pub bits: u16,
    /// QDCOUNT.
    pub questions: u16,
    /// ANCOUNT.
    pub answers: u16,
    /// NSCOUNT.
    pub authorities: u16,
    /// ARCOUNT.
    pub additionals: u16,
}

impl Header {
    /// The bit QR: this is a response.
    pub const QR: u16 = 0x8000;
    /// The bit AA: authoritative answer.
    pub const AA: u16 = 0x0400;
    /// The bit TC: truncated.
    pub const TC: u16 = 0x0200;
    /// The bit RD: recursion desired.
    pub const RD: u16 = 0x0100;
    /// The bit RA: recursion available.
    pub const RA: u16 = 0x0080;
    /// The reserved bit Z.
    pub const Z: u16 = 0x0040;
    /// The bit AD: authentic data (RFC 4035).
    pub const AD: u16 = 0x0020;
    /// The bit CD: checking disabled (RFC 4035).
    pub const CD: u16 = 0x0010;

    /// Reads the first twelve octets; `None` where there are fewer.
    #[inline]
    #[must_use]
    pub fn parse(octets: &[u8]) -> Option<Self> {
        let h = octets.first_chunk::<HEADER_LEN>()?;
        let field = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
        Some(Self {
            id: field(0),
            bits: field(2),
            questions: field(4),
            answers: field(6),
            authorities: field(8),
            additionals: field(10),
        })
    }

    /// The operation code.
    #[must_use]
    pub const fn opcode(self) -> Opcode {
        Opcode((self.bits >> 11 & 0xf) as u8)
    }

    /// The four bits of the response code that the header holds.
    #[must_use]
    pub const fn rcode(self) -> Rcode {
        Rcode(self.bits & 0xf)
    }

    /// Tells whether all bits of `mask` are set.
    #[must_use]
    pub const fn has(self, mask: u16) -> bool {
        self.bits & mask == mask
    }

    /// The header in wire form.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut octets = [0; HEADER_LEN];
        let fields = [self.id, self.bits, self.questions, self.answers, self.authorities, self.additionals];
        for (place, field) in octets.chunks_exact_mut(2).zip(fields) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        octets
    }
}

/// What to do with octets that are no query to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// Say nothing: too short for a header, or itself a response.
    Ignore,
    /// Answer with this code; `question` is the length of the question section to repeat, in octets behind the
    /// header, 0 where none was read.
    Answer {
        /// FORMERR or NOTIMP.
        rcode: Rcode,
        /// Octets of the question to repeat.
        question: usize,
    },
}

/// A query whose header was accepted and whose body was read.
///
/// `question` is `None` for a message that is a bare header although it claims a question; CoreDNS answers it
/// SERVFAIL.
#[derive(Clone, Debug)]
pub struct Request {
    /// The header as sent.
    pub header: Header,
    /// Name, type and class; a question that breaks off behind its name has type and class 0.
    pub question: Option<(Name, RrType, Class)>,
    /// Where the question section ends, in octets from the start of the message.
    pub question_end: usize,
    /// The fixed part of the OPT record.
    pub edns: Option<Edns>,
    /// Where the data of the OPT record lie, from the start of the message.
    pub options: std::ops::Range<usize>,
}

impl Request {
    /// Accepts or rejects the octets of one message.
    ///
    /// # Errors
    /// What to do instead, as a [`Reject`].
    #[inline]
    pub fn parse(octets: &[u8]) -> Result<Self, Reject> {
        let header = accept_header(octets)?;
        if octets.len() == HEADER_LEN {
            return Ok(Self { header, question: None, question_end: HEADER_LEN, edns: None, options: 0..0 });
        }
        let form_error = |question| Reject::Answer { rcode: Rcode::FORMERR, question };
        let (question, question_end) = read_question(octets).map_err(|_| form_error(0))?;
        let mut request = Self { header, question: Some(question), question_end, edns: None, options: 0..0 };
        if header.answers | header.authorities | header.additionals != 0 {
            request.read_records(octets).map_err(|_| form_error(question_end - HEADER_LEN))?;
        }
        Ok(request)
    }

    /// Reads the few records that a query may have; only OPT is kept.
    fn read_records(&mut self, octets: &[u8]) -> Result<(), MessageError> {
        let mut at = self.question_end;
        let ordinary = self.header.answers + self.header.authorities;
        for index in 0..ordinary + self.header.additionals {
            // Counts larger than the data are tolerated where the data end at the end of a record.
            if at == octets.len() {
                return Ok(());
            }
            let (is_root, behind) = skip_owner(octets, at)?;
            let record = read_fixed(octets, behind)?;
            check_rdata(octets, record.rtype, record.start, record.end)?;
            if record.rtype == RrType::OPT {
                if index < ordinary || self.edns.is_some() || !is_root {
                    return Err(MessageError::Opt);
                }
                let [extended_rcode, version, high, low] = record.ttl;
                let flags = u16::from_be_bytes([high, low]);
                self.edns = Some(Edns { udp_size: record.class.0, extended_rcode, version, flags });
                self.options = record.start..record.end;
            }
            at = record.end;
        }
        Ok(())
    }

    /// The options of the OPT record; `octets` is the message that this was read from.
    #[must_use]
    pub fn options<'a>(&self, octets: &'a [u8]) -> EdnsOptions<'a> {
        EdnsOptions::new(octets.get(self.options.clone()).unwrap_or(&[]))
    }
}

fn accept_header(octets: &[u8]) -> Result<Header, Reject> {
    let header = Header::parse(octets).ok_or(Reject::Ignore)?;
    if header.has(Header::QR) {
        return Err(Reject::Ignore);
    }
    if !matches!(header.opcode(), Opcode::QUERY | Opcode::NOTIFY) {
        return Err(Reject::Answer { rcode: Rcode::NOTIMP, question: 0 });
    }
    if header.questions != 1 || header.answers > 1 || header.authorities > 1 || header.additionals > 2 {
        return Err(Reject::Answer { rcode: Rcode::FORMERR, question: 0 });
    }
    Ok(header)
}

/// Tells whether the owner at `at` is the root, and where it ends. OPT has the root; most records here are OPT.
#[inline]
fn skip_owner(octets: &[u8], at: usize) -> Result<(bool, usize), MessageError> {
    if octets.get(at) == Some(&0) {
        return Ok((true, at + 1));
    }
    let (owner, behind) = read_name(octets, at).map_err(MessageError::Name)?;
    Ok((owner.is_root(), behind))
}

type QuestionFields = (Name, RrType, Class);

fn read_question(octets: &[u8]) -> Result<(QuestionFields, usize), MessageError> {
    let (name, at) = read_name(octets, HEADER_LEN).map_err(MessageError::Name)?;
    // Nothing but the header lies before the first name. A pointer into it would mean another name in the reply,
    // whose header differs, so that the question could not be repeated.
    if at - HEADER_LEN != name.len() {
        return Err(MessageError::Name(NameError::Pointer));
    }
    let field = |at: usize| match octets.get(at..) {
        Some(&[a, b, ..]) => Ok(u16::from_be_bytes([a, b])),
        Some([]) | None => Ok(0),
        Some(_) => Err(MessageError::Short),
    };
    let (qtype, qclass) = (field(at)?, field(at + 2)?);
    Ok(((name, RrType(qtype), Class(qclass)), (at + 4).min(octets.len())))
}

/// Writes the reply to a rejected message into `out` (cleared first): header and, where it was read, the question.
///
/// The identifier and the bits TC, RD, RA, AD and CD are repeated; the operation code becomes QUERY with FORMERR.
pub fn reject_reply(octets: &[u8], rcode: Rcode, question: usize, out: &mut Vec<u8>) {
    out.clear();
    let Some(header) = Header::parse(octets) else { return };
    let echoed = Header::TC | Header::RD | Header::RA | Header::AD | Header::CD;
    let opcode = if rcode == Rcode::FORMERR { 0 } else { header.bits & 0x7800 };
    let body = octets.get(HEADER_LEN..HEADER_LEN.saturating_add(question)).unwrap_or(&[]);
    let reply = Header {
        id: header.id,
        bits: Header::QR | opcode | header.bits & echoed | rcode.0 & 0xf,
        questions: u16::from(!body.is_empty()),
        ..Header::default()
    };
    out.extend_from_slice(&reply.to_bytes());
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(bits: u16, counts: [u16; 4], body: &[u8]) -> Vec<u8> {
        let [questions, answers, authorities, additionals] = counts;
        let header = Header { id: 0x1234, bits, questions, answers, authorities, additionals };
        [&header.to_bytes()[..], body].concat()
    }

    const QUESTION: &[u8] = b"\x03www\x03org\x00\x00\x01\x00\x01";
    const OPT: &[u8] = b"\x00\x00\x29\x10\x00\x00\x00\x80\x00\x00\x04\x00\x0a\x00\x00";

    #[test]
    fn a_plain_query_is_accepted() {
        let octets = query(Header::RD, [1, 0, 0, 0], QUESTION);
        let request = Request::parse(&octets).expect("accepted");
        let (name, qtype, qclass) = request.question.expect("a question");
        assert_eq!((name.to_string().as_str(), qtype, qclass), ("www.org.", RrType::A, Class::IN));
        assert_eq!(request.question_end, octets.len());
        assert!(request.edns.is_none());
    }

    #[test]
    fn edns_is_read() {
        let octets = query(0, [1, 0, 0, 1], &[QUESTION, OPT].concat());
        let request = Request::parse(&octets).expect("accepted");
        assert_eq!(request.edns, Some(Edns { udp_size: 4096, extended_rcode: 0, version: 0, flags: Edns::DO }));
        assert_eq!(request.options(&octets).map(|option| option.code).collect::<Vec<_>>(), [10]);
    }

    #[test]
    fn headers_are_judged_before_bodies() {
        let answer = |rcode| Reject::Answer { rcode, question: 0 };
        let table: &[(u16, [u16; 4], Reject)] = &[
            (Header::QR, [1, 0, 0, 0], Reject::Ignore),
            (1 << 11, [1, 0, 0, 0], answer(Rcode::NOTIMP)),
            (2 << 11, [1, 0, 0, 0], answer(Rcode::NOTIMP)),
            (5 << 11, [1, 0, 0, 0], answer(Rcode::NOTIMP)),
            (0, [0, 0, 0, 0], answer(Rcode::FORMERR)),
            (0, [2, 0, 0, 0], answer(Rcode::FORMERR)),
            (0, [1, 2, 0, 0], answer(Rcode::FORMERR)),
            (0, [1, 0, 2, 0], answer(Rcode::FORMERR)),
            (0, [1, 0, 0, 3], answer(Rcode::FORMERR)),
        ];
        for (bits, counts, reject) in table {
            assert_eq!(Request::parse(&query(*bits, *counts, QUESTION)).unwrap_err(), *reject, "{bits:x} {counts:?}");
        }
        assert_eq!(Request::parse(&[0; 11]).unwrap_err(), Reject::Ignore);
    }

    #[test]
    fn broken_bodies_are_form_errors() {
        let question = Reject::Answer { rcode: Rcode::FORMERR, question: QUESTION.len() };
        let table: &[(&str, [u16; 4], Vec<u8>, Reject)] = &[
            (
                "name past the end",
                [1, 0, 0, 0],
                b"\x05ab".to_vec(),
                Reject::Answer { rcode: Rcode::FORMERR, question: 0 },
            ),
            ("two OPT records", [1, 0, 0, 2], [QUESTION, OPT, OPT].concat(), question),
            ("OPT in the answer", [1, 1, 0, 0], [QUESTION, OPT].concat(), question),
            ("OPT with an owner", [1, 0, 0, 1], [QUESTION, b"\x01a", OPT].concat(), question),
            ("record cut off", [1, 0, 0, 1], [QUESTION, &OPT[..9]].concat(), question),
            ("option past the end", [1, 0, 0, 1], [QUESTION, &OPT[..14], b"\x09"].concat(), question),
        ];
        for (what, counts, body, reject) in table {
            assert_eq!(Request::parse(&query(0, *counts, body)).unwrap_err(), *reject, "{what}");
        }
    }

    #[test]
    fn what_is_tolerated() {
        assert!(Request::parse(&query(0, [1, 0, 0, 0], b"")).expect("a bare header").question.is_none());
        let cut = Request::parse(&query(0, [1, 0, 0, 0], &QUESTION[..9])).expect("cut behind the name");
        assert_eq!(cut.question.map(|(_, qtype, qclass)| (qtype.0, qclass.0)), Some((0, 0)));
        assert!(Request::parse(&query(0, [1, 0, 0, 0], &QUESTION[..10])).is_err(), "half a type");
        assert!(Request::parse(&query(0, [1, 0, 0, 1], QUESTION)).is_ok(), "count without its record");
        assert!(Request::parse(&query(0, [1, 0, 0, 0], &[QUESTION, b"rest"].concat())).is_ok(), "trailing octets");
    }

    #[test]
    fn reject_replies_repeat_what_they_should() {
        let mut out = Vec::new();
        let octets = query(0x7fff & !Header::QR, [1, 0, 0, 0], QUESTION);
        reject_reply(&octets, Rcode::NOTIMP, 0, &mut out);
        assert_eq!(out, Header { id: 0x1234, bits: 0xffb4 & !Header::AA & !Header::Z, ..Header::default() }.to_bytes());
        reject_reply(&octets, Rcode::FORMERR, QUESTION.len(), &mut out);
        let header = Header::parse(&out).expect("a header");
        assert_eq!((header.opcode(), header.questions, header.rcode()), (Opcode::QUERY, 1, Rcode::FORMERR));
        assert_eq!(&out[HEADER_LEN..], QUESTION);
    }
}
