//! What hostile octets must not do, a property a test.
//!
//! Each test names the RFC or the advisory of the software in which the property once failed.

mod cost;
mod encoding;
mod names;
mod options;
mod rdata;
mod requests;

use coredns_wire::{Header, Name, RrType};

/// A header with one question and these counts of records.
fn header(bits: u16, [answers, authorities, additionals]: [u16; 3]) -> Vec<u8> {
    Header { id: 0x1234, bits, questions: 1, answers, authorities, additionals }.to_bytes().to_vec()
}

/// A question in wire form for the name at offset 12 of a message.
const QUESTION: &[u8] = b"\x03www\x07example\x03org\x00\x00\x01\x00\x01";

/// A record in wire form, with an owner in wire form (a pointer, say) and any length field.
fn record(owner: &[u8], rtype: RrType, ttl: u32, len: usize, data: &[u8]) -> Vec<u8> {
    let len = u16::try_from(len).expect("a length of 16 bits");
    [owner, &rtype.0.to_be_bytes(), &[0, 1], &ttl.to_be_bytes(), &len.to_be_bytes(), data].concat()
}

fn name(text: &str) -> Name {
    text.parse().expect("a valid name")
}

/// The octets of a name of three labels of 63 octets and one of `last` octets: 194 + `last` octets.
fn long_wire(last: u8) -> Vec<u8> {
    let mut wire = [&[63][..], &[b'a'; 63]].concat().repeat(3);
    wire.push(last);
    wire.resize(wire.len() + usize::from(last), b'b');
    wire.push(0);
    wire
}
