//! Whole messages taken apart: for clients, transfers and tests, off the query path.

use std::fmt;

use crate::name::{Name, NameError, read_name};
use crate::rdata::{check_rdata, read_rdata};
use crate::record::{Record, bounded_ttl};
use crate::request::{HEADER_LEN, Header};
use crate::types::{Class, Rcode, RrType};

/// Why octets are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// The octets end inside a header, question or record.
    Short,
    /// A name cannot be read.
    Name(NameError),
    /// The data of a record do not fill their length exactly.
    Rdata,
    /// The data of a record are longer than 65,535 octets once names are expanded.
    LongRdata,
    /// An option reaches past the end of its OPT record.
    Option,
    /// An OPT record stands outside the additional section, has an owner, or comes twice (RFC 6891 §6.1.1).
    Opt,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("message ends early"),
            Self::Name(error) => error.fmt(f),
            Self::Rdata => f.write_str("record data do not match their length"),
            Self::LongRdata => f.write_str("record data are longer than 65535 octets"),
            Self::Option => f.write_str("EDNS option reaches past the OPT record"),
            Self::Opt => f.write_str("misplaced or repeated OPT record"),
        }
    }
}

impl std::error::Error for MessageError {}

/// A question: name, type, class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name, in the case that it was sent in.
    pub name: Name,
    /// The type.
    pub qtype: RrType,
    /// The class.
    pub qclass: Class,
}

/// A message with all its records, names expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The header as sent.
    pub header: Header,
    /// The questions.
    pub questions: Vec<Question>,
    /// The answer section.
    pub answer: Vec<Record>,
    /// The authority section.
    pub authority: Vec<Record>,
    /// The additional section, OPT included.
    pub additional: Vec<Record>,
}

impl Message {
    /// Takes a message apart; octets behind the last record are ignored.
    ///
    /// # Errors
    /// Any [`MessageError`] but [`MessageError::Opt`]. A count that is larger than the data is an error.
    pub fn parse(octets: &[u8]) -> Result<Self, MessageError> {
        let header = Header::parse(octets).ok_or(MessageError::Short)?;
        let mut at = HEADER_LEN;
        let mut questions = Vec::new();
        for _ in 0..header.questions {
            let (question, behind) = read_question(octets, at)?;
            questions.push(question);
            at = behind;
        }
        let mut sections = [Vec::new(), Vec::new(), Vec::new()];
        for (section, count) in sections.iter_mut().zip([header.answers, header.authorities, header.additionals]) {
            for _ in 0..count {
                let (record, behind) = read_record(octets, at)?;
                section.push(record);
                at = behind;
            }
        }
        let [answer, authority, additional] = sections;
        Ok(Self { header, questions, answer, authority, additional })
    }

    /// Tells whether [`Message::parse`] could take the message apart; needs no memory.
    ///
    /// # Errors
    /// As [`Message::parse`], but for data that are too long only once their names are expanded.
    pub fn check(octets: &[u8]) -> Result<(), MessageError> {
        let header = Header::parse(octets).ok_or(MessageError::Short)?;
        let mut at = HEADER_LEN;
        for _ in 0..header.questions {
            at = read_question(octets, at)?.1;
        }
        let records = [header.answers, header.authorities, header.additionals].map(usize::from);
        for _ in 0..records.iter().sum() {
            let (_, behind) = read_name(octets, at).map_err(MessageError::Name)?;
            let Fixed { rtype, start, end, .. } = read_fixed(octets, behind)?;
            check_rdata(octets, rtype, start, end)?;
            at = end;
        }
        Ok(())
    }

    /// The OPT record, where there is one.
    #[must_use]
    pub fn opt(&self) -> Option<&Record> {
        self.additional.iter().find(|record| record.rtype == RrType::OPT)
    }

    /// The response code with the bits that EDNS adds.
    #[must_use]
    pub fn rcode(&self) -> Rcode {
        let [extended, ..] = self.opt().map_or(0, |opt| opt.ttl).to_be_bytes();
        Rcode(u16::from(extended) << 4 | self.header.rcode().0)
    }
}

fn read_question(octets: &[u8], at: usize) -> Result<(Question, usize), MessageError> {
    let (name, at) = read_name(octets, at).map_err(MessageError::Name)?;
    let &[t0, t1, c0, c1] = octets.get(at..).and_then(<[u8]>::first_chunk::<4>).ok_or(MessageError::Short)?;
    let question =
        Question { name, qtype: RrType(u16::from_be_bytes([t0, t1])), qclass: Class(u16::from_be_bytes([c0, c1])) };
    Ok((question, at + 4))
}

/// What stands between the owner of a record and its data.
pub(crate) struct Fixed {
    /// The type.
    pub(crate) rtype: RrType,
    /// The class.
    pub(crate) class: Class,
    /// The four octets of the TTL, as sent.
    pub(crate) ttl: [u8; 4],
    /// Where the data begin.
    pub(crate) start: usize,
    /// Where the data end, by their length field; not yet checked against the message.
    pub(crate) end: usize,
}

/// Reads the ten octets at `at`, behind the owner of a record.
pub(crate) fn read_fixed(octets: &[u8], at: usize) -> Result<Fixed, MessageError> {
    let &[t0, t1, c0, c1, a, b, c, d, l0, l1] =
        octets.get(at..).and_then(<[u8]>::first_chunk::<10>).ok_or(MessageError::Short)?;
    let start = at + 10;
    Ok(Fixed {
        rtype: RrType(u16::from_be_bytes([t0, t1])),
        class: Class(u16::from_be_bytes([c0, c1])),
        ttl: [a, b, c, d],
        start,
        end: start + usize::from(u16::from_be_bytes([l0, l1])),
    })
}

/// Reads the record at `at`; returns it and the offset behind it.
fn read_record(octets: &[u8], at: usize) -> Result<(Record, usize), MessageError> {
    let (owner, at) = read_name(octets, at).map_err(MessageError::Name)?;
    let Fixed { rtype, class, ttl, start, end } = read_fixed(octets, at)?;
    let rdata = read_rdata(octets, rtype, start, end)?;
    let sent = u32::from_be_bytes(ttl);
    // The field of an OPT record is no time (RFC 6891 §6.1.3).
    let ttl = if rtype == RrType::OPT { sent } else { bounded_ttl(sent) };
    Ok((Record { owner, rtype, class, ttl, rdata }, end))
}
