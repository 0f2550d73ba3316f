//! What octets cost: twice as many may take twice the time, with some noise, and not four times.

use std::hint::black_box;
use std::time::{Duration, Instant};

use coredns_wire::{Header, Message, Name, Outgoing, Record, Request, RrType, encode};

use super::{QUESTION, header, name, record};

/// Checks that work on twice the input takes at most three times as long; work that grows with the square of its input
/// takes four times.
///
/// The smaller input is worked on twice, so that both sides of the comparison run about equally long and meet the same
/// interruptions, and the fastest of several runs counts, since other processes only ever slow a run down.
fn assert_linear(what: &str, mut small: impl FnMut(), mut large: impl FnMut()) {
    let timed = |run: &mut dyn FnMut()| {
        #[expect(clippy::disallowed_methods, reason = "times are what is compared, and this crate has no clock module")]
        let start = Instant::now();
        run();
        start.elapsed()
    };
    let mut fastest = [Duration::MAX; 2];
    for _ in 0..200 {
        for _ in 0..3 {
            let twice_small = timed(&mut || (0..2).for_each(|_| small()));
            let runs = [twice_small, timed(&mut large)];
            fastest = [fastest[0].min(runs[0]), fastest[1].min(runs[1])];
        }
        let [twice_small, large] = fastest;
        if large * 2 <= twice_small * 3 {
            return;
        }
    }
    panic!("{what} is not linear: twice the half took {:?}, the whole {:?}", fastest[0], fastest[1]);
}

/// What it is, how many make the smaller input, and the one of each index.
type Shape<T> = (&'static str, usize, fn(usize) -> T);

fn response(count: usize, records: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let answers = u16::try_from(count).expect("a count of 16 bits");
    let records: Vec<u8> = (0..count).flat_map(records).collect();
    [header(0x8000, [answers, 0, 0]), QUESTION.to_vec(), records].concat()
}

/// Parsing is linear in the octets of a message, whatever they are (CVE-2023-4408, CVE-2026-41292).
#[test]
fn parsing_is_linear() {
    let shapes: [Shape<Vec<u8>>; 4] = [
        ("small records", 2500, |_| record(b"\x00", RrType::NULL, 5, 0, b"")),
        ("names by pointers", 1500, |_| record(b"\xc0\x0c", RrType::CNAME, 5, 2, b"\xc0\x10")),
        ("long names", 200, |_| record(&[&b"\x01x".repeat(60)[..], &[0]].concat(), RrType::NULL, 5, 0, b"")),
        // Each owner goes through all those before it, as far as that is allowed.
        ("pointers to pointers", 100, |index| {
            let place = 12 + QUESTION.len() + (index.max(1) - 1) * 12;
            let target = if index == 0 { 12 } else { u16::try_from(place).expect("within reach") };
            record(&(0xc000 | target).to_be_bytes(), RrType::NULL, 5, 0, b"")
        }),
    ];
    for (what, count, shape) in shapes {
        // Chains may not be longer than a name has labels: the same chain is read again and again.
        let (small, large) = if what == "pointers to pointers" {
            let chain = response(count, shape);
            let again = |times: usize| {
                let last = 12 + QUESTION.len() + (count - 1) * 12;
                let pointer = (0xc000 | u16::try_from(last).expect("within reach")).to_be_bytes();
                let answers = u16::try_from(count + times).expect("16 bits");
                let head = header(0x8000, [answers, 0, 0]);
                [head, chain[12..].to_vec(), record(&pointer, RrType::NULL, 5, 0, b"").repeat(times)].concat()
            };
            (again(800), again(1600))
        } else {
            (response(count, shape), response(count * 2, shape))
        };
        assert!(Message::parse(&small).is_ok() && Message::parse(&large).is_ok(), "{what}");
        let parse = |octets: &[u8]| drop(black_box(Message::parse(black_box(octets))));
        assert_linear(what, || parse(&small), || parse(&large));
    }
}

#[test]
fn reading_options_is_linear() {
    let query = |count: usize| {
        let options = b"\x00\x03\x00\x00".repeat(count);
        let opt = record(b"\x00", RrType::OPT, 0, options.len(), &options);
        [header(0, [0, 0, 1]), QUESTION.to_vec(), opt].concat()
    };
    let (small, large) = (query(8_000), query(16_000));
    let parse = |octets: &[u8]| assert!(Request::parse(black_box(octets)).is_ok());
    assert_linear("options", || parse(&small), || parse(&large));
}

/// A query costs the same however much of what is behind its last record is left over.
#[test]
fn octets_behind_the_last_record_are_not_read() {
    let query = |rest: usize| [header(0, [0, 0, 0]), QUESTION.to_vec(), vec![0; rest]].concat();
    let (small, large) = (query(0), query(60_000));
    let parse = |octets: &[u8]| (0..1000).for_each(|_| assert!(Request::parse(black_box(octets)).is_ok()));
    assert_linear("trailing octets", || parse(&small), || parse(&large));
}

/// Compression that compared each name with all before it was a way to stop a resolver (CVE-2024-8508,
/// RUSTSEC-2026-0119).
#[test]
fn compression_is_linear() {
    let shapes: [Shape<Name>; 3] = [
        ("3,000 owners that share 19 of 20 labels", 1500, |index| name(&format!("{index:03}.{}", ["s"; 19].join(".")))),
        ("owners of 20 labels that share none", 200, |index| {
            name(&(0..20).map(|label| format!("{label}x{index}")).collect::<Vec<_>>().join("."))
        }),
        ("owners that share their last labels and differ in the first of 63 octets", 400, |index| {
            name(&format!("{index:063}.{}", ["s"; 60].join(".")))
        }),
    ];
    for (what, count, owner) in shapes {
        let records = |count: usize| -> Vec<Record> {
            (0..count).map(|index| Record::a(owner(index), 5, [192, 0, 2, 1].into())).collect()
        };
        let (small, large) = (records(count), records(count * 2));
        let write = |records: &[Record], out: &mut Vec<u8>| {
            let header = Header { bits: Header::QR, ..Header::default() };
            let sections = [records, &[], &[]];
            let message = Outgoing { header, question: QUESTION, sections, opt: b"", limit: 65535, compress_above: 0 };
            assert!(!encode(black_box(&message), out).truncated, "{what}: all of it is written");
        };
        let (mut out, mut other) = (Vec::new(), Vec::new());
        assert_linear(what, || write(&small, &mut out), || write(&large, &mut other));
    }
}
