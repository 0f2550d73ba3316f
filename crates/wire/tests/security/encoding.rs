//! Writing replies: limits, and data that are not what they should be.

use coredns_wire::{Encoded, Header, Message, Outgoing, Rdata, Record, RrType, encode, encode_into};

use super::{QUESTION, long_wire, name, record};

fn outgoing<'a>(question: &'a [u8], answer: &'a [Record], opt: &'a [u8], limit: usize) -> Outgoing<'a> {
    let header = Header { id: 7, bits: Header::QR, ..Header::default() };
    Outgoing { header, question, sections: [answer, &[], &[]], opt, limit, compress_above: 0 }
}

fn write(message: &Outgoing<'_>) -> (Vec<u8>, Encoded) {
    let mut out = Vec::new();
    let encoded = encode(message, &mut out);
    (out, encoded)
}

/// The TTL field as it is written for a record of this type, with and without compression.
pub(crate) fn written_ttl(rtype: RrType, ttl: u32) -> u32 {
    let answer = [Record::new(name("."), ttl, rtype, Rdata::new(&[]).expect("short"))];
    let plain = write(&Outgoing { compress_above: 512, ..outgoing(b"", &answer, b"", 512) }).0;
    let compressed = write(&outgoing(b"", &answer, b"", 512)).0;
    assert_eq!(plain, compressed);
    u32::from_be_bytes(*plain[17..].first_chunk().expect("a record"))
}

/// 65,535 octets is what the length prefix of a stream can say (RFC 1035 §4.2.2); one more would be 0.
#[test]
fn no_message_is_longer_than_65535_octets_whatever_its_limit() {
    let strings = vec![b'x'; 700];
    let answer = vec![Record::txt(name("example.org"), 5, &[&strings]); 100];
    for compress_above in [0, usize::MAX] {
        let message = Outgoing { compress_above, ..outgoing(QUESTION, &answer, b"", usize::MAX) };
        let (out, encoded) = write(&message);
        assert!(encoded.truncated && out.len() <= 65535 && out.len() > 64000, "{}", out.len());
        assert_eq!(Message::parse(&out).map(|message| message.header.has(Header::TC)), Ok(true));
    }
}

/// A client may send options of any size and allow 512 octets in return; echoed, they must not break that limit
/// (RFC 6891 §6.2.3).
#[test]
fn options_that_do_not_fit_beside_the_question_are_left_out() {
    let longest = [&long_wire(61)[..], b"\x00\x01\x00\x01"].concat();
    let answer = [Record::a(name("example.org"), 5, [192, 0, 2, 1].into())];
    for question in [QUESTION, &longest[..]] {
        for padding in 0..1000 {
            let options = [&b"\x00\x0c"[..], &u16::to_be_bytes(padding), &vec![0; usize::from(padding)]].concat();
            let opt = record(b"\x00", RrType::OPT, 0x8000, options.len(), &options);
            let (out, encoded) = write(&outgoing(question, &answer, &opt, 512));
            let message = Message::parse(&out).expect("readable");
            let written = message.opt().expect("an OPT record");
            assert!(out.len() <= 512, "{padding}");
            assert_eq!(message.header.has(Header::TC), encoded.truncated);
            assert_eq!(written.ttl, 0x8000);
            let fits = 12 + question.len() + opt.len() <= 512;
            assert_eq!(written.rdata.as_bytes(), if fits { &options[..] } else { &[] }, "{padding}");
            assert!(fits || encoded.truncated, "{padding}: the client learns that something is missing");
        }
    }
}

/// Data that end amid their second name go out as they are. What the compressor noted of the first names must not
/// lead anybody, itself least of all, into these octets: here they are a pointer to themselves.
#[test]
fn malformed_data_are_never_taken_for_names_written_before() {
    // Header 12, question 5, owner `x\192\034` 5, fixed part 10: the data begin at 32. Were they in order, the second
    // name, `q`, would stand at 34, behind a pointer; in truth 34 is inside the first label, and says "go to 34".
    let owner = b"\x03x\xc0\x22\x00";
    let broken = [&owner[..], b"\x01q\x00", b"\x00\x00\x00\x01"].concat();
    let answer = [
        Record::new(name(r"x\192\034"), 5, RrType::SOA, Rdata::new(&broken).expect("short")),
        Record::a(name("q"), 5, [192, 0, 2, 1].into()),
        Record::a(name("sub.q"), 5, [192, 0, 2, 2].into()),
    ];
    let (out, encoded) = write(&outgoing(b"\x00\x00\x01\x00\x01", &answer, b"", 512));
    assert!(!encoded.truncated);
    assert_eq!(&out[32..32 + broken.len()], broken);
    let rest = [
        &b"\x01q\x00\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\xc0\x00\x02\x01"[..],
        b"\x03sub\xc0\x2c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\xc0\x00\x02\x02",
    ];
    assert_eq!(&out[32 + broken.len()..], rest.concat(), "`q` is written out where it is read first, at 44");
}

/// Pointers inside the data of a record that was made elsewhere mean places in another message.
#[test]
fn pointers_inside_given_data_are_not_followed() {
    // `c0 00` would be the preference and the name before it, taken for a message of its own.
    let data = b"\x01a\x00\xc0\x00";
    let answer = [Record::new(name("a"), 5, RrType::MINFO, Rdata::new(data).expect("short"))];
    let (out, _) = write(&outgoing(b"", &answer, b"", 512));
    assert!(out.ends_with(data));
    assert!(answer[0].to_string().ends_with(r"MINFO \# 5 016100c000"), "{}", answer[0]);
}

/// A message may stand behind a length prefix; its pointers do not count that in (RFC 1035 §4.1.4, §4.2.2).
#[test]
fn offsets_count_from_the_start_of_the_message_and_not_of_the_buffer() {
    let answer = [
        Record::pointing(name("a.example.org"), 5, RrType::CNAME, &name("b.example.ORG")),
        Record::a(name("b.example.ORG"), 5, [192, 0, 2, 1].into()),
    ];
    let message = outgoing(QUESTION, &answer, b"", 65535);
    let alone = write(&message).0;
    let mut framed = b"\x00\x00".to_vec();
    encode_into(&message, &mut framed);
    assert_eq!(framed[2..], alone);
    let read = Message::parse(&alone).expect("readable").answer;
    assert_eq!(read, answer);
    assert!(read[1].owner.eq_exact(&answer[1].owner));
}

/// Pointers have 14 bits: names that first stand at 16,384 or beyond are not pointed to (RFC 1035 §4.1.4).
#[test]
fn names_beyond_the_reach_of_pointers_are_written_out() {
    let filler = vec![b'x'; 16_300];
    let mut answer = vec![Record::txt(name("example.org"), 5, &[&filler])];
    answer.extend((0..20).map(|last| Record::a(name("late.example.net"), 5, [192, 0, 2, last].into())));
    let (out, encoded) = write(&outgoing(QUESTION, &answer, b"", 65535));
    assert!(!encoded.truncated && out.len() > 16_384);
    assert_eq!(Message::parse(&out).map(|message| message.answer), Ok(answer));
}
