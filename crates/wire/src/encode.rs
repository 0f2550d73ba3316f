//! Replies into bytes, within a size limit.
//!
//! The rules are CoreDNS's, since clients see them: what fits goes out uncompressed; above a threshold for UDP it is
//! compressed although it would fit; what does not fit is compressed and cut at a whole record, with TC set.
//! Compression is bounded: 128 remembered suffixes, 8 probes each, so the cost is linear whatever the names are.

use crate::name::{Labels, MAX_NAME, Name};
use crate::rdata::{Field, Part, Pointers, check_fields, has_names, layout};
use crate::record::{Record, bounded_ttl};
use crate::request::{HEADER_LEN, Header};
use crate::types::{Class, RrType};

/// No transport carries a longer message (RFC 1035 §4.2.2), whatever limit is asked for.
const MAX_MESSAGE: usize = u16::MAX as usize;
/// The length of an OPT record without options (RFC 6891 §6.1.2).
const BARE_OPT: usize = 11;

/// A message to be written.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Identifier and bits; the counts are filled in.
    pub header: Header,
    /// The question section in wire form: one question, or nothing.
    pub question: &'a [u8],
    /// Answer, authority and additional section, without OPT.
    pub sections: [&'a [Record]; 3],
    /// The whole OPT record in wire form, or nothing. Its options are left out, and TC is set, where they do not fit
    /// beside the question.
    pub opt: &'a [u8],
    /// The most octets that the message may have; 65,535 at most, whatever is said. Header, question and OPT without
    /// options (282 octets at most) are written although a smaller limit has no room for them.
    pub limit: usize,
    /// A message that fits uncompressed but is longer than this is compressed all the same.
    pub compress_above: usize,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Records or options were left out, and TC was set.
    pub truncated: bool,
}

/// The length in octets of a message without compression.
#[inline]
#[must_use]
pub fn uncompressed_len(question: &[u8], sections: [&[Record]; 3], opt: &[u8]) -> usize {
    let records: usize = sections.iter().flat_map(|section| section.iter()).map(Record::wire_len).sum();
    HEADER_LEN + question.len() + records + opt.len()
}

/// Writes `message` into `out`, which is cleared first.
#[inline]
pub fn encode(message: &Outgoing<'_>, out: &mut Vec<u8>) -> Encoded {
    out.clear();
    encode_into(message, out)
}

/// Writes `message` behind what is in `out` already (the length prefix of a stream, say).
pub fn encode_into(message: &Outgoing<'_>, out: &mut Vec<u8>) -> Encoded {
    let len = uncompressed_len(message.question, message.sections, message.opt);
    let limit = message.limit.min(MAX_MESSAGE);
    if len <= limit && len <= message.compress_above {
        write_plain(message, len, out);
        return Encoded { truncated: false };
    }
    write_compressed(message, limit, out)
}

fn write_plain(message: &Outgoing<'_>, len: usize, out: &mut Vec<u8>) {
    out.reserve(len);
    let header = Header {
        questions: u16::from(!message.question.is_empty()),
        answers: count(message.sections[0]),
        authorities: count(message.sections[1]),
        additionals: count(message.sections[2]).saturating_add(u16::from(!message.opt.is_empty())),
        ..message.header
    };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(message.question);
    for record in message.sections.iter().flat_map(|section| section.iter()) {
        out.extend_from_slice(record.owner.as_wire());
        out.extend_from_slice(&fixed_part(record, record.rdata.len()));
        out.extend_from_slice(record.rdata.as_bytes());
    }
    out.extend_from_slice(message.opt);
}

/// The number of records in a section that fits in a message: far below 65,535, since each has 11 octets or more.
#[inline]
fn count(section: &[Record]) -> u16 {
    u16::try_from(section.len()).unwrap_or(u16::MAX)
}

#[inline]
fn fixed_part(record: &Record, len: usize) -> [u8; 10] {
    let [t0, t1] = record.rtype.0.to_be_bytes();
    let [c0, c1] = record.class.0.to_be_bytes();
    // The field of an OPT record is no time (RFC 6891 §6.1.3).
    let ttl = if record.rtype == RrType::OPT { record.ttl } else { bounded_ttl(record.ttl) };
    let [a, b, c, d] = ttl.to_be_bytes();
    // Record data are never longer than their length field can say.
    let [l0, l1] = u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
    [t0, t1, c0, c1, a, b, c, d, l0, l1]
}

fn write_compressed(message: &Outgoing<'_>, limit: usize, out: &mut Vec<u8>) -> Encoded {
    let start = out.len();
    let mut bare = [0; BARE_OPT];
    let opt = fitting_opt(message, limit, &mut bare);
    let limit = limit.saturating_sub(opt.len());
    let mut compressor = Compressor::new(start);
    out.extend_from_slice(&[0; HEADER_LEN]);
    out.extend_from_slice(message.question);
    if !message.question.is_empty() {
        compressor.remember_written(out, start + HEADER_LEN, message.question);
    }
    let mut counts = [0u16; 3];
    let mut truncated = opt.len() < message.opt.len();
    'sections: for (section, count) in message.sections.iter().zip(&mut counts) {
        for record in *section {
            let before = out.len();
            let fits =
                before - start < limit && write_record(&mut compressor, record, out) && out.len() - start <= limit;
            if !fits {
                out.truncate(before);
                truncated = true;
                break 'sections;
            }
            *count += 1;
        }
    }
    let has_opt = u16::from(!opt.is_empty());
    out.extend_from_slice(opt);
    let bits = if truncated { message.header.bits | Header::TC } else { message.header.bits };
    let header = Header {
        id: message.header.id,
        bits,
        questions: u16::from(!message.question.is_empty()),
        answers: counts[0],
        authorities: counts[1],
        additionals: counts[2].saturating_add(has_opt),
    };
    out[start..start + HEADER_LEN].copy_from_slice(&header.to_bytes());
    Encoded { truncated }
}

/// The OPT record as it is, or without options in `bare` where they do not fit beside the question.
fn fitting_opt<'a>(message: &Outgoing<'a>, limit: usize, bare: &'a mut [u8; BARE_OPT]) -> &'a [u8] {
    let fits = HEADER_LEN + message.question.len() + message.opt.len() <= limit;
    match (message.opt.first_chunk::<{ BARE_OPT - 2 }>(), bare.first_chunk_mut()) {
        (Some(fixed), Some(place)) if !fits => {
            // What remains of `bare`, zeros, says that no data follow.
            *place = *fixed;
            bare
        }
        _ => message.opt,
    }
}

/// Writes one record; `false` where its data are too long for their length field.
fn write_record(compressor: &mut Compressor, record: &Record, out: &mut Vec<u8>) -> bool {
    compressor.write_name(record.owner.as_wire(), true, out);
    let at = out.len();
    out.extend_from_slice(&fixed_part(record, 0));
    let data = record.rdata.as_bytes();
    let fields = layout(record.rtype);
    let start = out.len();
    if !has_names(fields) {
        out.extend_from_slice(data);
    } else if !write_fields(compressor, fields, data, out) {
        // Data that do not have the form of their type go out as they are. What was remembered of their first names
        // stands there no more, and other octets must not be taken for it.
        compressor.forget();
        out.truncate(start);
        out.extend_from_slice(data);
    }
    let Ok(len) = u16::try_from(out.len() - start) else { return false };
    out[at + 8..at + 10].copy_from_slice(&len.to_be_bytes());
    true
}

fn write_fields(compressor: &mut Compressor, fields: &[Field], data: &[u8], out: &mut Vec<u8>) -> bool {
    // One name a field: which of them may be compressed, in order.
    let mut compressible = fields.iter().filter(|field| matches!(field, Field::Name | Field::Compressible));
    let written = check_fields(data, 0, fields, Pointers::Refuse, &mut |part| match part {
        Part::Octets(octets) => out.extend_from_slice(octets),
        Part::Name(name) => {
            let compress = compressible.next() == Some(&Field::Compressible);
            compressor.write_name(name.as_wire(), compress, out);
        }
    });
    written.is_ok()
}

const SLOTS: usize = 256;
const MAX_SUFFIXES: usize = 128;
const MAX_PROBES: usize = 8;
/// Pointers have 14 bits.
const MAX_OFFSET: u16 = 0x3fff;

/// Remembers where names and their suffixes stand in the message.
struct Compressor {
    /// Where the message begins in the output.
    start: usize,
    /// Hash and offset from the start of the message; offset 0 is an empty slot.
    slots: [(u32, u16); SLOTS],
    remembered: usize,
}

impl Compressor {
    const fn new(start: usize) -> Self {
        Self { start, slots: [(0, 0); SLOTS], remembered: 0 }
    }

    /// Forgets every name.
    fn forget(&mut self) {
        *self = Self::new(self.start);
    }

    /// Takes note of the name that stands at `at` of `out` already, the first thing in `written`.
    fn remember_written(&mut self, out: &[u8], at: usize, written: &[u8]) {
        let mut suffixes = Suffixes::of(written);
        while let Some((offset, hash)) = suffixes.next() {
            let position = at - self.start + offset;
            if self.find(out, hash, &written[offset..]).is_none() {
                self.remember(hash, position);
            }
        }
    }

    /// Writes the uncompressed name `wire`, ending it in a pointer where `compress` allows it.
    fn write_name(&mut self, wire: &[u8], compress: bool, out: &mut Vec<u8>) {
        let mut suffixes = Suffixes::of(wire);
        let at = out.len();
        let mut pointer = None;
        while let Some((offset, hash)) = suffixes.next() {
            if let Some(position) = self.find(out, hash, &wire[offset..]) {
                pointer = Some((offset, position));
                break;
            }
            self.remember(hash, at - self.start + offset);
        }
        match pointer {
            Some((offset, position)) if compress => {
                out.extend_from_slice(&wire[..offset]);
                out.extend_from_slice(&(0xc000 | position).to_be_bytes());
            }
            _ => out.extend_from_slice(wire),
        }
    }

    fn remember(&mut self, hash: u32, position: usize) {
        let Some(position) = u16::try_from(position).ok().filter(|position| *position <= MAX_OFFSET) else { return };
        if self.remembered >= MAX_SUFFIXES {
            return;
        }
        for probe in 0..MAX_PROBES {
            let slot = &mut self.slots[(hash as usize + probe) % SLOTS];
            if slot.1 == 0 {
                *slot = (hash, position);
                self.remembered += 1;
                return;
            }
        }
    }

    fn find(&self, out: &[u8], hash: u32, suffix: &[u8]) -> Option<u16> {
        for probe in 0..MAX_PROBES {
            let (kept, position) = self.slots[(hash as usize + probe) % SLOTS];
            if position == 0 {
                return None;
            }
            if kept == hash && self.stands_at(out, usize::from(position), suffix) {
                return Some(position);
            }
        }
        None
    }

    /// Tells whether the name at `position` of the message is exactly `suffix`, case included.
    fn stands_at(&self, out: &[u8], position: usize, suffix: &[u8]) -> bool {
        let Some(message) = out.get(self.start..) else { return false };
        let mut at = position;
        let mut rest = suffix;
        // Every turn consumes a label of `suffix` or goes strictly backwards.
        loop {
            let Some(&len) = message.get(at) else { return false };
            if len & 0xc0 == 0xc0 {
                let Some(&low) = message.get(at + 1) else { return false };
                let target = usize::from(u16::from_be_bytes([len & 0x3f, low]));
                if target >= at {
                    return false;
                }
                at = target;
                continue;
            }
            let size = 1 + usize::from(len);
            let (Some(stored), Some(wanted)) = (message.get(at..at + size), rest.get(..size)) else { return false };
            if stored != wanted {
                return false;
            }
            if len == 0 {
                return true;
            }
            at += size;
            rest = &rest[size..];
        }
    }
}

/// The suffixes of a name with a hash each, longest first, without the root.
struct Suffixes {
    offsets: [u8; MAX_NAME / 2 + 1],
    hashes: [u32; MAX_NAME / 2 + 1],
    count: usize,
    next: usize,
}

impl Suffixes {
    fn of(wire: &[u8]) -> Self {
        let mut suffixes = Self { offsets: [0; MAX_NAME / 2 + 1], hashes: [0; MAX_NAME / 2 + 1], count: 0, next: 0 };
        let mut at = 0;
        for (place, label) in suffixes.offsets.iter_mut().zip(Labels::new(wire)) {
            let Ok(offset) = u8::try_from(at) else { break };
            *place = offset;
            suffixes.count += 1;
            at += 1 + label.len();
        }
        let mut hash = 0x811c_9dc5u32;
        for index in (0..suffixes.count).rev() {
            let start = usize::from(suffixes.offsets[index]);
            let end = start + 1 + usize::from(wire[start]);
            for octet in &wire[start..end] {
                hash = (hash ^ u32::from(*octet)).wrapping_mul(0x0100_0193);
            }
            suffixes.hashes[index] = hash ^ (hash >> 15);
        }
        suffixes
    }

    fn next(&mut self) -> Option<(usize, u32)> {
        let index = self.next;
        if index >= self.count {
            return None;
        }
        self.next += 1;
        Some((usize::from(self.offsets[index]), self.hashes[index]))
    }
}

impl Outgoing<'_> {
    /// The octets of a question for `name`.
    #[must_use]
    pub fn question(name: &Name, qtype: RrType, qclass: Class) -> Vec<u8> {
        let mut octets = Vec::with_capacity(name.len() + 4);
        octets.extend_from_slice(name.as_wire());
        octets.extend_from_slice(&qtype.0.to_be_bytes());
        octets.extend_from_slice(&qclass.0.to_be_bytes());
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;
    use std::net::Ipv4Addr;

    fn addresses(owner: &str, count: u8) -> Vec<Record> {
        let owner: Name = owner.parse().expect("valid");
        (0..count).map(|last| Record::a(owner.clone(), 30, Ipv4Addr::new(192, 0, 2, last))).collect()
    }

    fn write(question: &str, answer: &[Record], limit: usize, above: usize) -> (Vec<u8>, Encoded) {
        let question = Outgoing::question(&question.parse().expect("valid"), RrType::A, Class::IN);
        let header = Header { id: 7, bits: Header::QR, ..Header::default() };
        let message = Outgoing {
            header,
            question: &question,
            sections: [answer, &[], &[]],
            opt: &[],
            limit,
            compress_above: above,
        };
        let mut out = Vec::new();
        let encoded = encode(&message, &mut out);
        (out, encoded)
    }

    #[test]
    fn what_fits_is_not_compressed() {
        let (out, encoded) = write("example.org", &addresses("example.org", 2), 512, 1480);
        assert!(!encoded.truncated);
        assert_eq!(out.len(), 12 + 17 + 2 * (13 + 10 + 4));
        let message = Message::parse(&out).expect("readable");
        assert_eq!(message.answer, addresses("example.org", 2));
    }

    #[test]
    fn thirty_addresses_fit_in_512_octets_by_pointers_to_the_question() {
        let (out, encoded) = write("example.org", &addresses("example.org", 30), 512, 1480);
        assert!(!encoded.truncated);
        assert_eq!(out.len(), 12 + 17 + 30 * 16);
        assert_eq!(out.windows(2).filter(|pair| *pair == [0xc0, 12]).count(), 30);
    }

    #[test]
    fn the_first_record_that_does_not_fit_ends_the_message() {
        for limit in 29..12 + 17 + 40 * 16 {
            let (out, encoded) = write("example.org", &addresses("example.org", 40), limit, 1480);
            let room = (limit - 29) / 16;
            assert!(out.len() <= limit);
            assert!(encoded.truncated);
            let message = Message::parse(&out).expect("readable");
            assert!(message.header.has(Header::TC));
            assert_eq!(message.answer.len(), room, "limit {limit}");
        }
    }

    #[test]
    fn large_answers_are_compressed_although_they_fit() {
        let (plain, _) = write("example.org", &addresses("example.org", 60), 4096, 4096);
        let (packed, _) = write("example.org", &addresses("example.org", 60), 4096, 1480);
        assert_eq!(plain.len(), 12 + 17 + 60 * 27);
        assert_eq!(packed.len(), 12 + 17 + 60 * 16);
    }

    #[test]
    fn targets_of_rfc_1035_types_are_compressed_and_others_are_not() {
        let owner: Name = "a.example.org".parse().expect("valid");
        let target: Name = "b.example.org".parse().expect("valid");
        let records = [
            Record::pointing(owner.clone(), 1, RrType::CNAME, &target),
            Record::srv(owner.clone(), 1, 0, 100, 53, &target),
            Record::a(target.clone(), 1, Ipv4Addr::LOCALHOST),
        ];
        let (out, _) = write("a.example.org", &records, 4096, 0);
        assert_eq!(Message::parse(&out).expect("readable").answer, records);
        // Owner pointer, fixed part, `\x01b` and a pointer; owner pointer, fixed part, whole target; pointer to `b…`.
        assert_eq!(out.len(), 12 + 19 + (12 + 4) + (12 + 6 + 15) + (12 + 4));
    }

    #[test]
    fn case_is_kept_and_never_shared_across_cases() {
        let owner: Name = "a.EXAMPLE.org".parse().expect("valid");
        let (out, _) = write("a.example.org", &[Record::a(owner.clone(), 1, Ipv4Addr::LOCALHOST)], 4096, 0);
        assert!(Message::parse(&out).expect("readable").answer[0].owner.eq_exact(&owner));
    }
}
