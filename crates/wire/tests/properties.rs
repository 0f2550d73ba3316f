//! Properties that hold for all inputs, with hickory-proto and a slow reader of queries as the measure.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use coredns_wire::{
    Class, Header, Message, Name, Outgoing, Rcode, Record, RrType, encode, fold, parse_record, read_name, skip_name,
    uncompressed_len,
};
use hickory_proto::op::{Message as Theirs, MessageType, OpCode, Query};
use hickory_proto::rr::{Name as TheirName, RData, Record as TheirRecord, RecordType, rdata};
use proptest::prelude::*;

#[path = "../../../fuzz/src/reference.rs"]
pub mod reference;
#[path = "../../../fuzz/src/wire.rs"]
pub mod wire;

/// Labels of any octets, few enough for every name to fit.
fn labels() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let odd = prop::collection::vec(any::<u8>(), 1..20);
    let plain =
        prop::sample::select(vec!["a", "A", "example", "EXAMPLE", "org", "xn--", "*", "_tcp", "a.b", "\\", " "]);
    let label = prop_oneof![odd, plain.prop_map(|label| label.as_bytes().to_vec())];
    prop::collection::vec(label, 0..9)
}

fn ours(labels: &[Vec<u8>]) -> Name {
    Name::from_labels(labels.iter().map(Vec::as_slice)).expect("short enough")
}

fn theirs(labels: &[Vec<u8>]) -> TheirName {
    TheirName::from_labels(labels.iter().map(Vec::as_slice)).expect("short enough")
}

fn name() -> impl Strategy<Value = Name> {
    labels().prop_map(|labels| ours(&labels))
}

/// A record in both forms.
#[derive(Clone, Debug)]
struct Pair {
    ours: Record,
    theirs: TheirRecord,
}

fn pair() -> impl Strategy<Value = Pair> {
    let strings = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..5);
    let numbers = any::<[u16; 3]>();
    (0..9usize, labels(), labels(), labels(), 0..=i32::MAX.unsigned_abs(), any::<[u8; 16]>(), numbers, strings)
        .prop_map(|(kind, owner, first, second, ttl, octets, [x, y, z], strings)| {
            let (name, target, other) = (ours(&owner), ours(&first), ours(&second));
            let (their_target, their_other) = (theirs(&first), theirs(&second));
            let times = [u32::from(x) << 16, u32::from(y), u32::from(z), 86400, ttl];
            let strings: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
            let signed = |time: u32| i32::try_from(time).expect("below 2^31");
            let pointing = |rtype| Record::pointing(name.clone(), ttl, rtype, &target);
            let [a, b, c, d, ..] = octets;
            let (ours, data) = match kind {
                0 => (Record::address(name, ttl, [a, b, c, d].into()), RData::A(rdata::A::new(a, b, c, d))),
                1 => (Record::address(name, ttl, octets.into()), RData::AAAA(rdata::AAAA(octets.into()))),
                2 => (pointing(RrType::CNAME), RData::CNAME(rdata::CNAME(their_target))),
                3 => (pointing(RrType::NS), RData::NS(rdata::NS(their_target))),
                4 => (pointing(RrType::PTR), RData::PTR(rdata::PTR(their_target))),
                5 => (Record::srv(name, ttl, x, y, z, &target), RData::SRV(rdata::SRV::new(x, y, z, their_target))),
                6 => (Record::txt(name, ttl, &strings), RData::TXT(rdata::TXT::from_bytes(strings))),
                7 => (mx(name, ttl, x, &target), RData::MX(rdata::MX::new(x, their_target))),
                _ => (
                    Record::soa(name, ttl, &target, &other, times),
                    RData::SOA(rdata::SOA::new(
                        their_target,
                        their_other,
                        times[0],
                        signed(times[1]),
                        signed(times[2]),
                        signed(times[3]),
                        times[4],
                    )),
                ),
            };
            Pair { ours, theirs: TheirRecord::from_rdata(theirs(&owner), ttl, data) }
        })
}

fn mx(owner: Name, ttl: u32, preference: u16, target: &Name) -> Record {
    let data = [&preference.to_be_bytes()[..], target.as_wire()].concat();
    Record::new(owner, ttl, RrType::MX, coredns_wire::Rdata::new(&data).expect("short"))
}

fn sections() -> impl Strategy<Value = [Vec<Pair>; 3]> {
    let section = || prop::collection::vec(pair(), 0..8);
    [section(), section(), section()]
}

/// Tells whether two lists of records are equal, case included.
fn same(a: &[Record], b: &[Record]) -> bool {
    a == b && a.iter().zip(b).all(|(a, b)| a.owner.eq_exact(&b.owner))
}

fn write(question: &[u8], sections: &[Vec<Record>; 3], opt: &[u8], limit: usize, above: usize) -> (Vec<u8>, bool) {
    let header = Header { id: 77, bits: Header::QR | Header::RD, ..Header::default() };
    let sections = sections.each_ref().map(Vec::as_slice);
    let message = Outgoing { header, question, sections, opt, limit, compress_above: above };
    let mut out = Vec::new();
    let truncated = encode(&message, &mut out).truncated;
    (out, truncated)
}

/// What hickory-proto makes of a record, in a form of its own that sees case.
fn their_view(record: &TheirRecord) -> String {
    let labels: Vec<&[u8]> = record.name.iter().collect();
    format!("{labels:?} {} {:?} {:?}", record.ttl, record.dns_class, exact(&record.data))
}

fn exact(data: &RData) -> String {
    let labels = |name: &TheirName| format!("{:?}", name.iter().collect::<Vec<_>>());
    match data {
        RData::CNAME(name) => format!("CNAME {}", labels(name)),
        RData::NS(name) => format!("NS {}", labels(name)),
        RData::PTR(name) => format!("PTR {}", labels(name)),
        RData::MX(mx) => format!("MX {} {}", mx.preference, labels(&mx.exchange)),
        RData::SRV(srv) => format!("SRV {} {} {} {}", srv.priority, srv.weight, srv.port, labels(&srv.target)),
        RData::SOA(soa) => {
            let times = (soa.serial, soa.refresh, soa.retry, soa.expire, soa.minimum);
            format!("SOA {} {} {times:?}", labels(&soa.mname), labels(&soa.rname))
        }
        other => format!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn what_hickory_writes_is_read_as_it_was_meant(question in labels(), sections in sections()) {
        let mut message = Theirs::new(77, MessageType::Response, OpCode::Query);
        message.add_query(Query::query(theirs(&question), RecordType::SRV));
        let [answer, authority, additional] = &sections;
        message.answers.extend(answer.iter().map(|pair| pair.theirs.clone()));
        message.authorities.extend(authority.iter().map(|pair| pair.theirs.clone()));
        message.additionals.extend(additional.iter().map(|pair| pair.theirs.clone()));
        let octets = message.to_vec().expect("small enough");

        let read = Message::parse(&octets).expect("a valid message");
        prop_assert_eq!((read.header.id, read.header.has(Header::QR), read.rcode()), (77, true, Rcode::NOERROR));
        prop_assert!(read.questions[0].name.eq_exact(&ours(&question)));
        prop_assert_eq!((read.questions[0].qtype, read.questions[0].qclass), (RrType::SRV, Class::IN));
        for (read, pairs) in [&read.answer, &read.authority, &read.additional].into_iter().zip(&sections) {
            let meant: Vec<Record> = pairs.iter().map(|pair| pair.ours.clone()).collect();
            prop_assert!(same(read, &meant), "{:?} {:?}", read, meant);
        }
    }

    #[test]
    fn what_we_write_is_read_by_hickory_as_it_was_meant(
        question in labels(), sections in sections(), above in prop_oneof![Just(0), Just(1220), Just(65535)],
    ) {
        let records = sections.each_ref().map(|pairs| pairs.iter().map(|pair| pair.ours.clone()).collect());
        let question = Outgoing::question(&ours(&question), RrType::SRV, Class::IN);
        let (octets, truncated) = write(&question, &records, b"", 65535, above);
        prop_assert!(!truncated);
        let read = Theirs::from_vec(&octets).expect("a valid message");
        prop_assert_eq!(read.metadata.id, 77);
        for (read, pairs) in [&read.answers, &read.authorities, &read.additionals].into_iter().zip(&sections) {
            let read: Vec<String> = read.iter().map(their_view).collect();
            let meant: Vec<String> = pairs.iter().map(|pair| their_view(&pair.theirs)).collect();
            prop_assert_eq!(read, meant);
        }
    }

    #[test]
    fn what_is_written_within_a_limit_is_the_beginning_of_what_was_meant(
        question in name(), sections in sections(), limit in 512..3000usize, options in 0..700usize,
        above in prop_oneof![Just(0), Just(1220), Just(65535)],
    ) {
        let records = sections.each_ref().map(|pairs| pairs.iter().map(|pair| pair.ours.clone()).collect::<Vec<_>>());
        let question = Outgoing::question(&question, RrType::A, Class::IN);
        let len = u16::try_from(options).expect("small").to_be_bytes();
        let padding = u16::try_from(options.saturating_sub(4)).expect("small").to_be_bytes();
        let data = [&[0, 12][..], &padding, &vec![0; options.saturating_sub(4)]].concat();
        let opt = match options {
            0 => Vec::new(),
            1..4 => b"\x00\x00\x29\x04\xd0\x01\x00\x80\x00\x00\x00".to_vec(),
            _ => [&b"\x00\x00\x29\x04\xd0\x01\x00\x80\x00"[..], &len, &data].concat(),
        };
        let (octets, truncated) = write(&question, &records, &opt, limit, above);
        prop_assert!(octets.len() <= limit);
        let read = Message::parse(&octets).expect("a valid message");
        prop_assert_eq!(read.header.has(Header::TC), truncated);

        // OPT is always there, with the upper bits of the response code, and comes last.
        let mut additional = read.additional;
        let written_opt = if opt.is_empty() { None } else { additional.pop() };
        prop_assert_eq!(written_opt.as_ref().map(|opt| (opt.rtype, opt.ttl)), (!opt.is_empty()).then_some((RrType::OPT, 0x0100_8000)));

        // Of the records, in order, a part is there, each where it belongs and whole.
        let kept = [read.answer, read.authority, additional];
        let (kept_all, all) = (kept.concat(), records.concat());
        prop_assert!(kept_all.len() <= all.len() && same(&kept_all, &all[..kept_all.len()]));
        let mut cut = false;
        for (kept, meant) in kept.iter().zip(&records) {
            prop_assert!(kept.len() == meant.len() || kept.len() < meant.len() && !cut || kept.is_empty());
            cut |= kept.len() < meant.len();
        }
        let lost_options = written_opt.is_some_and(|written| written.wire_len() < opt.len());
        prop_assert_eq!(truncated, kept_all.len() < all.len() || lost_options);
        let sections = records.each_ref().map(Vec::as_slice);
        if uncompressed_len(&question, sections, &opt) <= limit {
            prop_assert!(!truncated, "what fits is never cut");
        }
    }

    #[test]
    fn the_text_of_a_record_is_read_as_the_record(pair in pair()) {
        let text = pair.ours.to_string();
        let read = parse_record(&text);
        prop_assert!(read.as_ref().is_ok_and(|read| same(std::slice::from_ref(read), &[pair.ours])), "{} {:?}", text, read);
    }

    #[test]
    fn a_name_survives_text_and_wire_and_agrees_with_hickory(labels in labels(), cut in 0..9usize) {
        let name = ours(&labels);
        prop_assert!(name.to_string().parse::<Name>().is_ok_and(|again| again.eq_exact(&name)));
        prop_assert!(Name::from_wire(name.as_wire()).is_ok_and(|again| again.eq_exact(&name)));
        prop_assert_eq!(read_name(name.as_wire(), 0).map(|(_, end)| end), Ok(name.len()));
        prop_assert_eq!(skip_name(name.as_wire(), 0), Ok(name.len()));
        let other = theirs(&labels);
        prop_assert_eq!(name.labels().collect::<Vec<_>>(), other.iter().collect::<Vec<_>>());
        prop_assert_eq!(name.label_count(), labels.len());
        match name.suffix(cut) {
            Some(suffix) => {
                prop_assert!(suffix.eq_exact(&ours(&labels[cut..])));
                prop_assert!(name.is_within(&suffix) && (cut == 0 || !suffix.is_within(&name)));
            }
            None => prop_assert!(cut > labels.len()),
        }
    }

    #[test]
    fn equal_names_hash_alike_and_equality_is_that_of_hickory(a in labels(), b in labels(), flip in any::<bool>()) {
        let b = if flip { a.iter().map(|label| swap_case(label)).collect() } else { b };
        let (left, right) = (ours(&a), ours(&b));
        prop_assert_eq!(left == right, theirs(&a) == theirs(&b));
        prop_assert_eq!(left == right, left.to_lowercase().eq_exact(&right.to_lowercase()));
        let hash = |name: &Name| {
            let mut state = DefaultHasher::new();
            name.hash(&mut state);
            state.finish()
        };
        // Unequal names with equal hashes would be a wonder of one in 2^64.
        prop_assert_eq!(left == right, hash(&left) == hash(&right));
        prop_assert_eq!(left == right, fold::hash(9, left.as_wire()) == fold::hash(9, right.as_wire()));
        prop_assert_eq!(left.is_within(&right), theirs(&b).zone_of(&theirs(&a)));
    }

    #[test]
    fn folding_is_that_of_ascii(a in prop::collection::vec(any::<u8>(), 0..40), at in any::<prop::sample::Index>(), bit in 0..8u32) {
        let mut changed = swap_case(&a);
        prop_assert!(fold::eq(&a, &changed));
        prop_assert_eq!(fold::hash(3, &a), fold::hash(3, &changed));
        if !changed.is_empty() {
            let at = at.index(changed.len());
            changed[at] ^= 1 << bit;
        }
        prop_assert_eq!(fold::eq(&a, &changed), a.eq_ignore_ascii_case(&changed));
        let mut lower = vec![0; a.len()];
        fold::lower_into(&a, &mut lower);
        prop_assert_eq!(lower, a.to_ascii_lowercase());
    }
}

fn swap_case(octets: &[u8]) -> Vec<u8> {
    octets.iter().map(|octet| if octet.is_ascii_alphabetic() { octet ^ 0x20 } else { *octet }).collect()
}

/// Octets that look like a query: headers that are often accepted, names, pointers, records.
fn query_like() -> impl Strategy<Value = Vec<u8>> {
    let count = || prop_oneof![4 => 0..=2u16, 1 => any::<u16>()];
    let bits = prop_oneof![4 => Just(0x0100u16), 1 => any::<u16>()];
    let questions = prop_oneof![9 => Just(1u16), 1 => any::<u16>()];
    let head = (any::<u16>(), bits, questions, count(), count(), count()).prop_map(
        |(id, bits, questions, answers, authorities, additionals)| {
            Header { id, bits, questions, answers, authorities, additionals }.to_bytes().to_vec()
        },
    );
    let piece = prop_oneof![
        name().prop_map(|name| name.as_wire().to_vec()),
        (0..60u16).prop_map(|target| (0xc000 | target).to_be_bytes().to_vec()),
        prop::sample::select(vec![1u16, 2, 5, 6, 15, 16, 33, 35, 41, 46, 64, 250]).prop_map(|rtype| [
            &rtype.to_be_bytes()[..],
            b"\x00\x01\x00\x00\x00\x05"
        ]
        .concat()),
        (0..20u16).prop_map(|len| len.to_be_bytes().to_vec()),
        Just(b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00".to_vec()),
        Just(b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x08\x00\x0a\x00\x04abcd".to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    let question = name().prop_map(|name| Outgoing::question(&name, RrType::A, Class::IN));
    let start = prop_oneof![3 => question, 1 => Just(Vec::new())];
    (head, start, prop::collection::vec(piece, 0..8))
        .prop_map(|(head, start, pieces)| [head, start, pieces.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_octets_are_read_as_the_slow_reader_reads_them(octets in prop::collection::vec(any::<u8>(), 0..600)) {
        wire::question_view(&octets);
        wire::name(&octets);
        wire::opt(&octets);
        wire::rdata(&octets);
    }

    #[test]
    fn octets_like_a_query_are_read_as_the_slow_reader_reads_them(octets in query_like(), cut in any::<prop::sample::Index>(), whole in any::<bool>()) {
        let len = if whole { octets.len() } else { cut.index(octets.len() + 1) };
        wire::question_view(&octets[..len]);
    }
}
