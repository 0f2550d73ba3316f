//! EDNS: where OPT may stand, and its options.

use coredns_wire::{EdnsOptions, MAX_OPTIONS, MessageError, Rcode, Reject, Request, RrType};

use super::{QUESTION, header, record};

/// An OPT record with these options, sent with DO.
fn opt(owner: &[u8], options: &[u8]) -> Vec<u8> {
    record(owner, RrType::OPT, 0x8000, options.len(), options)
}

const REFUSED: Reject = Reject::Answer { rcode: Rcode::FORMERR, question: QUESTION.len() };

/// RFC 6891 §6.1.1: one OPT, with the root as owner, among the additional records. Servers that took the last of two
/// let a client past what looked at the first (CVE-2026-42004).
#[test]
fn opt_stands_once_at_the_root_in_the_additional_section() {
    let a = record(b"\x01a\x00", RrType::A, 5, 4, &[0; 4]);
    let (root, pointer_to_root) = (&b"\x00"[..], &b"\xc0\x1c"[..]);
    let table: &[(&str, [u16; 3], Vec<u8>, bool)] = &[
        ("one", [0, 0, 1], opt(root, b""), true),
        ("behind another record", [0, 0, 2], [a.clone(), opt(root, b"")].concat(), true),
        ("before another record", [0, 0, 2], [opt(root, b""), a.clone()].concat(), true),
        ("its root by a pointer", [0, 0, 1], opt(pointer_to_root, b""), true),
        ("two", [0, 0, 2], opt(root, b"").repeat(2), false),
        ("in the answer", [1, 0, 0], opt(root, b""), false),
        ("in the authority", [0, 1, 0], opt(root, b""), false),
        ("in the answer and in place", [1, 0, 1], opt(root, b"").repeat(2), false),
        ("an owner", [0, 0, 1], opt(b"\x01a\x00", b""), false),
        ("an owner by a pointer", [0, 0, 1], opt(b"\xc0\x0c", b""), false),
    ];
    for (what, counts, records, accepted) in table {
        let octets = [header(0, *counts), QUESTION.to_vec(), records.clone()].concat();
        match Request::parse(&octets) {
            Ok(request) => assert!(*accepted && request.edns.is_some_and(|edns| edns.dnssec_ok()), "{what}"),
            Err(reject) => assert!(!*accepted && reject == REFUSED, "{what}"),
        }
    }
}

/// An option that reaches past its record was read from what lay behind (CVE-2026-42944).
#[test]
fn an_option_past_the_end_of_its_record_is_a_form_error() {
    let table: &[(&[u8], bool)] = &[
        (b"", true),
        (b"\x00\x03\x00\x00", true),
        (b"\x00\x03\x00\x02ab", true),
        (b"\x00", false),
        (b"\x00\x03", false),
        (b"\x00\x03\x00", false),
        (b"\x00\x03\x00\x01", false),
        (b"\x00\x03\xff\xffab", false),
        (b"\x00\x03\x00\x02ab\x00\x03\x00\x01", false),
    ];
    for (options, accepted) in table {
        // What follows the record in the message would be there to be taken.
        let octets = [header(0, [0, 0, 1]), QUESTION.to_vec(), opt(b"\x00", options), vec![0; 300]].concat();
        match Request::parse(&octets) {
            Ok(request) => {
                assert!(accepted, "{options:?}");
                assert_eq!(&octets[request.options.clone()], *options);
            }
            Err(reject) => assert!(!accepted && reject == REFUSED, "{options:?}"),
        }
        let check = EdnsOptions::check(options);
        assert_eq!(check, if *accepted { Ok(()) } else { Err(MessageError::Option) });
    }
}

/// Lists of options without end cost others their time (CVE-2026-41292).
#[test]
fn at_most_a_hundred_options_are_looked_at() {
    for count in [0, 1, 99, 100, 101, 15_000] {
        let options = b"\x00\x03\x00\x00".repeat(count);
        let octets = [header(0, [0, 0, 1]), QUESTION.to_vec(), opt(b"\x00", &options)].concat();
        let request = Request::parse(&octets).expect("in order");
        assert_eq!(request.options(&octets).count(), count.min(MAX_OPTIONS));
    }
    // What is not looked at must still be in order.
    let options = [b"\x00\x03\x00\x00".repeat(200), vec![0]].concat();
    let octets = [header(0, [0, 0, 1]), QUESTION.to_vec(), opt(b"\x00", &options)].concat();
    assert_eq!(Request::parse(&octets).unwrap_err(), REFUSED);
}
