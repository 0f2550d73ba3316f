//! What is accepted as a query, what is rejected, and what is met with silence, by UDP and by TCP alike.

use coredns_testkit::Ask;
use coredns_wire::{HEADER_LEN, Header, Opcode, Rcode};

use crate::support::{header, parsed, query, question, raw, reply_over_tcp, reply_over_udp, serve, socket, with_id};

const WHOAMI: &str = ".:0 {\n    whoami\n}\n";
const QUESTION: &[u8] = b"\x03www\x07example\x03org\x00\x00\x01\x00\x01";
const OPT: &[u8] = b"\x00\x00\x29\x10\x00\x00\x00\x80\x00\x00\x00";
const RECORD: &[u8] = b"\x00\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04\xc0\x00\x02\x01";

/// What must become of a message.
#[derive(Clone, Debug, PartialEq)]
enum Fate {
    Silence,
    /// A reply of the server itself before any plugin: code, and whether the question is repeated.
    Reject(Rcode, bool),
    /// Past the intake: the code of the reply.
    Reply(Rcode),
}

fn check(messages: &[(Vec<u8>, Fate)]) {
    let server = serve(WHOAMI);
    let client = server.client(".");
    let socket = socket(client.server);
    for (message, fate) in messages {
        for (how, reply) in [("udp", reply_over_udp(&socket, message)), ("tcp", tcp_reply(&client, message))] {
            let what = format!("{how} {message:02x?}");
            match (fate, reply) {
                (Fate::Silence, None) => {}
                (Fate::Reject(rcode, repeated), Some(reply)) => check_reject(message, &reply, *rcode, *repeated, &what),
                (Fate::Reply(rcode), Some(reply)) => check_reply(message, &reply, *rcode, &what),
                (_, reply) => panic!("{what}: wanted {fate:?}, got {reply:02x?}"),
            }
        }
    }
}

/// A frame shorter than a header gets no answer by TCP either.
fn tcp_reply(client: &coredns_testkit::process::Client, message: &[u8]) -> Option<Vec<u8>> {
    reply_over_tcp(client, message)
}

fn check_reject(message: &[u8], reply: &[u8], rcode: Rcode, repeated: bool, what: &str) {
    let (asked, got) = (header(message), header(reply));
    let echoed = Header::TC | Header::RD | Header::RA | Header::AD | Header::CD;
    let opcode = if rcode == Rcode::FORMERR { 0 } else { asked.bits & 0x7800 };
    assert_eq!(got.bits, Header::QR | opcode | asked.bits & echoed | rcode.0, "{what}");
    assert_eq!([got.answers, got.authorities, got.additionals], [0; 3], "{what}");
    assert_eq!(got.questions, u16::from(repeated), "{what}");
    if repeated {
        assert_eq!(question(reply), question(message), "{what}");
    } else {
        assert_eq!(reply.len(), HEADER_LEN, "{what}");
    }
}

fn check_reply(message: &[u8], reply: &[u8], rcode: Rcode, what: &str) {
    let (asked, got) = (header(message), header(reply));
    assert!(got.has(Header::QR), "{what}");
    assert_eq!(got.opcode(), asked.opcode(), "{what}");
    assert_eq!(got.rcode(), rcode, "{what}");
    let copied = if asked.opcode() == Opcode::QUERY { Header::RD | Header::CD } else { 0 };
    assert_eq!(got.bits & (Header::RD | Header::CD), asked.bits & copied, "{what}");
    assert_eq!(got.bits & (Header::TC | Header::RA | Header::Z | Header::AD), 0, "{what}");
    parsed(reply);
}

#[test]
fn every_opcode() {
    let fate = |opcode: u16| match opcode {
        0 | 4 => Fate::Reply(Rcode::NOERROR),
        _ => Fate::Reject(Rcode::NOTIMP, false),
    };
    let bits = |opcode: u16| opcode << 11 | Header::RD | Header::CD;
    check(&(0..16).map(|opcode| (raw(bits(opcode), [1, 0, 0, 0], QUESTION), fate(opcode))).collect::<Vec<_>>());
}

#[test]
fn every_bit_of_the_header() {
    let fate = |bit: u16| match bit {
        Header::QR => Fate::Silence,
        0x4000 | 0x1000 | 0x0800 => Fate::Reject(Rcode::NOTIMP, false),
        _ => Fate::Reply(Rcode::NOERROR),
    };
    let all = (0..16).map(|shift| 1 << shift).map(|bit| (raw(bit, [1, 0, 0, 0], QUESTION), fate(bit)));
    check(&all.collect::<Vec<_>>());
}

#[test]
fn counts_of_sections() {
    let body = |records: usize| [QUESTION, &RECORD.repeat(records)].concat();
    let table: &[([u16; 4], usize, Fate)] = &[
        ([1, 0, 0, 0], 0, Fate::Reply(Rcode::NOERROR)),
        ([1, 1, 1, 2], 4, Fate::Reply(Rcode::NOERROR)),
        ([1, 1, 1, 2], 0, Fate::Reply(Rcode::NOERROR)),
        ([1, 1, 1, 2], 3, Fate::Reply(Rcode::NOERROR)),
        ([0, 0, 0, 0], 0, Fate::Reject(Rcode::FORMERR, false)),
        ([2, 0, 0, 0], 0, Fate::Reject(Rcode::FORMERR, false)),
        ([65_535, 0, 0, 0], 0, Fate::Reject(Rcode::FORMERR, false)),
        ([1, 2, 0, 0], 2, Fate::Reject(Rcode::FORMERR, false)),
        ([1, 0, 2, 0], 2, Fate::Reject(Rcode::FORMERR, false)),
        ([1, 0, 0, 3], 3, Fate::Reject(Rcode::FORMERR, false)),
        ([1, 65_535, 65_535, 65_535], 0, Fate::Reject(Rcode::FORMERR, false)),
    ];
    let all = table.iter().map(|(counts, records, fate)| (raw(Header::RD, *counts, &body(*records)), fate.clone()));
    check(&all.collect::<Vec<_>>());
}

#[test]
fn bodies_that_cannot_be_read() {
    let many_bits = Header::RD | Header::CD | Header::AD | Header::RA | Header::TC | Header::AA | Header::Z;
    let broken = |body: &[&[u8]], fate: Fate| (raw(many_bits, [1, 0, 0, 1], &body.concat()), fate);
    let unread = || Fate::Reject(Rcode::FORMERR, false);
    let read = || Fate::Reject(Rcode::FORMERR, true);
    check(&[
        broken(&[b"\x05ab"], unread()),
        broken(&[b"\x40ab\x00\x00\x01\x00\x01"], unread()),
        broken(&[b"\x80ab\x00\x00\x01\x00\x01"], unread()),
        broken(&[b"\xc0\x0c\x00\x01\x00\x01"], unread()),
        broken(&[b"\xc0\xff\x00\x01\x00\x01"], unread()),
        broken(&[&[1, b'a'].repeat(128), b"\x00\x00\x01\x00\x01"], unread()),
        broken(&[QUESTION, &OPT[..5]], read()),
        broken(&[QUESTION, b"\x00\x00\x29\x10\x00\x00\x00\x80\x00\x00\x04\x00\x0a\x00\x01"], read()),
        broken(&[QUESTION, b"\x01a", OPT], read()),
        (raw(0, [1, 0, 0, 2], &[QUESTION, OPT, OPT].concat()), read()),
        (raw(0, [1, 1, 0, 0], &[QUESTION, OPT].concat()), read()),
        (raw(0, [1, 0, 0, 1], &[QUESTION, OPT, b"behind the last record"].concat()), Fate::Reply(Rcode::NOERROR)),
    ]);
}

#[test]
fn every_prefix_of_a_query() {
    let mut ask = Ask::new("www.example.org A DO");
    ask.options = vec![0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
    let whole = ask.message();
    let name_end = HEADER_LEN + 17;
    let fate = |len: usize| match len {
        0..HEADER_LEN => Fate::Silence,
        HEADER_LEN => Fate::Reply(Rcode::SERVFAIL),
        // Type and class, or the class alone, count as 0, and no plugin takes that class.
        len if len == name_end || len == name_end + 2 => Fate::Reply(Rcode::REFUSED),
        len if len < name_end + 4 => Fate::Reject(Rcode::FORMERR, false),
        len if len == name_end + 4 || len == whole.len() => Fate::Reply(Rcode::NOERROR),
        _ => Fate::Reject(Rcode::FORMERR, true),
    };
    // A message without room for an identifier cannot be told apart by it, and is silent anyway.
    check(&(2..=whole.len()).map(|len| (whole[..len].to_vec(), fate(len))).collect::<Vec<_>>());
}

#[test]
fn every_class_but_in_is_refused() {
    let server = serve(WHOAMI);
    let socket = socket(server.client(".").server);
    let classes = (0..=260).chain([1 << 9, 1 << 12, 0x7fff, 0x8001, 0xfffe, 0xffff]);
    for class in classes {
        let mut message = query("www.example.org A", 0);
        let end = message.len();
        message[end - 2..].copy_from_slice(&u16::to_be_bytes(class));
        let reply = reply_over_udp(&socket, &message).expect("an answer");
        let wanted = if class == 1 { Rcode::NOERROR } else { Rcode::REFUSED };
        assert_eq!(header(&reply).rcode(), wanted, "class {class}");
        assert_eq!(question(&reply), question(&message), "class {class}");
    }
}

#[test]
fn notify_with_a_class_of_updates_is_a_form_error() {
    let server = serve(WHOAMI);
    let socket = socket(server.client(".").server);
    for (class, wanted) in [(1, Rcode::NOERROR), (3, Rcode::REFUSED), (254, Rcode::FORMERR), (255, Rcode::FORMERR)] {
        let mut message = raw(4 << 11, [1, 0, 0, 0], QUESTION);
        let end = message.len();
        message[end - 2..].copy_from_slice(&u16::to_be_bytes(class));
        let reply = reply_over_udp(&socket, &message).expect("an answer");
        assert_eq!((header(&reply).rcode(), header(&reply).opcode()), (wanted, Opcode::NOTIFY), "class {class}");
    }
}

#[test]
fn every_type_gets_one_readable_answer() {
    let server = serve(WHOAMI);
    let socket = socket(server.client(".").server);
    let types = (0..=300).chain((0..16).map(|shift| 1 << shift)).chain([32_768, 32_769, 65_280, 65_534, 65_535]);
    for qtype in types {
        let mut message = query("www.example.org A", 0);
        let end = message.len();
        message[end - 4..end - 2].copy_from_slice(&u16::to_be_bytes(qtype));
        let reply = reply_over_udp(&socket, &message).expect("an answer");
        assert_eq!(question(&reply), question(&message), "type {qtype}");
        assert_eq!(header(&reply).rcode(), Rcode::NOERROR, "type {qtype}");
    }
}

#[test]
fn rejected_messages_never_reach_a_plugin() {
    // The first query that the plugin sees is dropped: were it a rejected one, the next would be answered.
    let server = serve("example.org:0 {\n    erratic {\n        drop 3\n    }\n}\n.:0 {\n    whoami\n}\n");
    let socket = socket(server.client("example.org.").server);
    let rejected = [
        raw(1 << 11, [1, 0, 0, 0], QUESTION),
        raw(0, [2, 0, 0, 0], QUESTION),
        raw(Header::QR, [1, 0, 0, 0], QUESTION),
        raw(0, [1, 0, 0, 1], &[QUESTION, &OPT[..3]].concat()),
    ];
    for message in rejected.iter().cycle().take(40) {
        socket.send(message).expect("sent");
    }
    assert_eq!(silent_then_answered(&socket), [false, true, true, false]);
}

/// Asks the block with `erratic` four times, each with a query behind it that the other block answers.
fn silent_then_answered(socket: &std::net::UdpSocket) -> [bool; 4] {
    let mut answered = [false; 4];
    for (id, answered) in (100_u16..).zip(&mut answered) {
        socket.send(&query("www.example.org A", id)).expect("sent");
        socket.send(&with_id(query("fence.test A", 0), id + 1000)).expect("sent");
        loop {
            let got = header(&crate::support::receive(socket).expect("the fence is answered")).id;
            match got {
                _ if got == id => *answered = true,
                _ if got == id + 1000 => break,
                _ => {}
            }
        }
    }
    answered
}
