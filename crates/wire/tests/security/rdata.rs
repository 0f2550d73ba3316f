//! Record data: bounds, every type, text.

use coredns_wire::{
    Class, Message, MessageError, Record, RrType, parse_record, rdata_from_text, rdata_to_text, read_rdata,
};

use super::{QUESTION, header, name, record};

/// Valid data of each type whose data have parts, names uncompressed, with the text that they print as.
const VALID: &[(RrType, &[u8], &str)] = &[
    (RrType::A, &[192, 0, 2, 1], "192.0.2.1"),
    (RrType::AAAA, &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "2001:db8::1"),
    (RrType::NS, b"\x02ns\x00", "ns."),
    (RrType::MD, b"\x02md\x00", "md."),
    (RrType::MF, b"\x02mf\x00", "mf."),
    (RrType::CNAME, b"\x01a\x01b\x00", "a.b."),
    (RrType::MB, b"\x02mb\x00", "mb."),
    (RrType::MG, b"\x02mg\x00", "mg."),
    (RrType::MR, b"\x02mr\x00", "mr."),
    (RrType::PTR, b"\x00", "."),
    (
        RrType::SOA,
        b"\x02ns\x00\x01h\x00\x00\x00\x00\x03\x00\x00\x1c\x20\x00\x00\x07\x08\x00\x01\x51\x80\x00\x00\x00\x05",
        "ns. h. 3 7200 1800 86400 5",
    ),
    (RrType::MINFO, b"\x01a\x00\x01b\x00", "a. b."),
    (RrType::MX, b"\x00\x0a\x02mx\x00", "10 mx."),
    (RrType::HINFO, b"\x03cpu\x02os", r#""cpu" "os""#),
    (RrType::TXT, b"\x03a b\x00\x04\"\\\x7f\xff", r#""a b" "" "\"\\\127\255""#),
    (RrType::SPF, b"\x01x", r#""x""#),
    (RrType::AVC, b"\x01x", r#""x""#),
    (RrType::NINFO, b"\x01x", r#""x""#),
    (RrType::RP, b"\x01a\x00\x01b\x00", "a. b."),
    (RrType::TALINK, b"\x01a\x00\x01b\x00", "a. b."),
    (RrType::AFSDB, b"\x00\x01\x01a\x00", "1 a."),
    (RrType::RT, b"\x00\x01\x01a\x00", "1 a."),
    (RrType::KX, b"\x00\x01\x01a\x00", "1 a."),
    (RrType::LP, b"\x00\x01\x01a\x00", "1 a."),
    (RrType::PX, b"\x00\x01\x01a\x00\x01b\x00", "1 a. b."),
    (RrType::SRV, b"\x00\x00\x00\x64\x00\x35\x01a\x00", "0 100 53 a."),
    (RrType::NAPTR, b"\x00\x01\x00\x02\x01s\x00\x00\x00", r#"1 2 "s" "" "" ."#),
    (RrType::DNAME, b"\x01a\x00", "a."),
];

/// Types whose data begin with a name and go on with anything: octets before the name.
const NAME_THEN_ANYTHING: &[(RrType, usize)] = &[
    (RrType::SIG, 18),
    (RrType::RRSIG, 18),
    (RrType::NXT, 0),
    (RrType::NSEC, 0),
    (RrType::SVCB, 2),
    (RrType::HTTPS, 2),
    (RrType::TKEY, 0),
    (RrType::TSIG, 0),
];

/// A message with one record of this type in its answer; more octets follow the record than its length says.
fn answer(rtype: RrType, len: usize, data: &[u8]) -> Result<Message, MessageError> {
    let octets = [header(0x8000, [1, 0, 0]), QUESTION.to_vec(), record(b"\xc0\x0c", rtype, 5, len, data), vec![0; 8]];
    Message::parse(&octets.concat())
}

/// Lengths inside record data that reach out of them made readers take foreign octets (CVE-2026-10822).
#[test]
fn every_part_of_record_data_ends_inside_their_length() {
    for (rtype, data, _) in VALID {
        let parsed = answer(*rtype, data.len(), data).expect("valid").answer;
        assert_eq!(parsed[0].rdata.as_bytes(), *data, "{rtype}");
        // Where the data end in a string or begin one, they may be cut there; no octet is taken from behind.
        for len in 0..data.len() {
            if let Ok(message) = answer(*rtype, len, data) {
                assert!(matches!(rtype.0, 16 | 56 | 99 | 258), "{rtype} cut to {len} octets");
                assert_eq!(message.answer[0].rdata.as_bytes(), &data[..len], "{rtype}");
            }
        }
        let longer = answer(*rtype, data.len() + 1, data);
        assert_eq!(longer.is_ok(), matches!(rtype.0, 16 | 56 | 99 | 258), "{rtype} with an octet more");
    }
    for (rtype, before) in NAME_THEN_ANYTHING {
        let data = [&vec![7; *before][..], b"\x03www\x00", b"rest"].concat();
        for len in 0..before + 5 {
            assert!(answer(*rtype, len, &data).is_err(), "{rtype} cut to {len} octets");
        }
        assert!(answer(*rtype, before + 5, &data).is_ok(), "{rtype}");
        assert!(answer(*rtype, data.len(), &data).is_ok(), "{rtype}");
    }
}

/// RFC 1035 §3.2.1: RDLENGTH says how many octets follow; they must be there.
#[test]
fn a_record_ends_inside_the_message() {
    let octets = [header(0x8000, [1, 0, 0]), QUESTION.to_vec(), record(b"\xc0\x0c", RrType::A, 5, 4, &[192, 0, 2, 1])];
    let octets = octets.concat();
    assert!(Message::parse(&octets).is_ok());
    for len in 0..octets.len() {
        assert!(Message::parse(&octets[..len]).is_err(), "cut to {len} octets");
    }
    for rtype in [RrType::A, RrType::TXT, RrType::SRV, RrType::NULL, RrType::OPT, RrType(65280)] {
        assert_eq!(answer(rtype, 65535, b"\x00").unwrap_err(), MessageError::Short, "{rtype}");
    }
}

/// Names inside the data may be expanded beyond what a length field can say (RFC 3597 §4).
#[test]
fn expanded_data_longer_than_65535_octets_are_an_error() {
    let long = [&[63][..], &[b'a'; 63]].concat().repeat(3);
    let mut octets = [header(0x8000, [1, 0, 0]), long, vec![0, 0, 1, 0, 1]].concat();
    let data = [&b"\xc0\x0c"[..], &vec![0; 65400]].concat();
    octets.extend(record(b"\x00", RrType::NSEC, 5, data.len(), &data));
    assert_eq!(Message::parse(&octets).unwrap_err(), MessageError::LongRdata);
}

/// A fixed series of numbers that look random (SplitMix64).
struct Series(u64);

impl Series {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn octets(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

/// Data of any type and content print, and what is printed is read as the same data or refused
/// (CVE-2026-46600, CVE-2026-12244, CVE-2025-13878).
fn check_text(rtype: RrType, data: &[u8]) {
    let read = read_rdata(data, rtype, 0, data.len());
    let kept = read.as_ref().map_or(data, |rdata| rdata.as_bytes());
    let text = rdata_to_text(rtype, kept);
    assert!(text.bytes().all(|octet| (b' '..=b'~').contains(&octet)), "{rtype} {text}");
    match rdata_from_text(rtype, &text) {
        Ok(again) => assert_eq!(again.as_bytes(), kept, "{rtype} {text}"),
        // Data that are in order can be read; the others can be looked at and no more.
        Err(error) => assert!(read.is_err(), "{rtype} {text}: {error}"),
    }
}

#[test]
fn known_types_with_any_data_print_and_read_back_or_are_refused() {
    let mut series = Series(1);
    let lengths: Vec<usize> = (0..=40).chain((41..=300).step_by(37)).chain([255, 256, 257, 299, 300]).collect();
    for rtype in (0..=270).chain([32768, 32769, 65280, 65535]).map(RrType) {
        for &len in &lengths {
            check_text(rtype, &vec![0; len]);
            check_text(rtype, &vec![1; len]);
            check_text(rtype, &vec![0xff; len]);
            check_text(rtype, &series.octets(len));
        }
    }
}

#[test]
fn all_types_with_some_data_print_and_read_back_or_are_refused() {
    let mut series = Series(2);
    for rtype in (0..=u16::MAX).map(RrType) {
        let len = usize::from(series.next().to_le_bytes()[0] % 32);
        let data = series.octets(len);
        check_text(rtype, &data);
        check_text(rtype, &[]);
    }
}

/// Octets that look like lengths, names and pointers reach deeper than random ones.
#[test]
fn data_that_nearly_have_the_form_of_their_type_print_and_read_back_or_are_refused() {
    let mut series = Series(3);
    let pick = |series: &mut Series, bound: usize| usize::try_from(series.next() % 1000).expect("small") % bound;
    for _ in 0..20_000 {
        let (rtype, data, _) = VALID[pick(&mut series, VALID.len())];
        let mut data = data.to_vec();
        for _ in 0..=pick(&mut series, 2) {
            let octet = [0, 1, 2, 63, 64, 0x80, 0xc0, 0xff, b'\\', b'#', b'"', b' '][pick(&mut series, 12)];
            let at = pick(&mut series, data.len() + 1);
            match (pick(&mut series, 3), data.get_mut(at)) {
                (0, Some(place)) => *place = octet,
                (1, _) => data.truncate(at),
                _ => data.insert(at, octet),
            }
        }
        check_text(rtype, &data);
    }
}

#[test]
fn data_in_order_print_in_the_form_of_their_type() {
    for (rtype, data, text) in VALID {
        assert_eq!(rdata_to_text(*rtype, data), *text, "{rtype}");
        assert_eq!(rdata_from_text(*rtype, text).map(|rdata| rdata.as_bytes().to_vec()), Ok(data.to_vec()), "{rtype}");
    }
}

/// RFC 3597 §5: only a bare `\#` begins the generic form; a string with these two octets is a string.
#[test]
fn a_string_that_looks_like_the_generic_form_is_a_string() {
    let data = b"\x02\\#\x011\x0200";
    let text = rdata_to_text(RrType::TXT, data);
    assert_eq!(text, r#""\\#" "1" "00""#);
    assert_eq!(rdata_from_text(RrType::TXT, &text).map(|rdata| rdata.as_bytes().to_vec()), Ok(data.to_vec()));
    assert_eq!(rdata_from_text(RrType::TXT, r#""\#" "1""#).map(|rdata| rdata.len()), Ok(4));
}

/// Quotes do not take the meaning from escapes inside a name: a dot that is escaped stays inside its label.
#[test]
fn a_quoted_name_keeps_its_escapes() {
    let quoted = rdata_from_text(RrType::CNAME, r#""a\.b\255.org.""#).expect("a name");
    assert_eq!(quoted.as_bytes(), b"\x04a.b\xff\x03org\x00");
}

/// RFC 3597 §5: data of a known type in generic form must still be data of that type; otherwise a record would be
/// served that no client can read.
#[test]
fn generic_form_of_a_known_type_is_checked() {
    let table = [
        (RrType::A, r"\# 3 c00002"),
        (RrType::A, r"\# 0"),
        (RrType::MX, r"\# 5 000a026d78"),
        (RrType::SOA, r"\# 25 016100c0000000000000000000000000000000000000000000"),
        (RrType::TXT, r"\# 2 0561"),
        (RrType::OPT, r"\# 4 00030001"),
    ];
    for (rtype, text) in table {
        let error = rdata_from_text(rtype, text).unwrap_err().to_string();
        assert_eq!(error, format!("data do not have the form of type {rtype}"));
    }
    assert_eq!(rdata_from_text(RrType::A, r"\# 4 c0000201").map(|rdata| rdata.len()), Ok(4));
    assert_eq!(rdata_from_text(RrType(65280), r"\# 3 c000 02").map(|rdata| rdata.len()), Ok(3));
}

/// RFC 2181 §8: a TTL with the top bit set is 0, whichever way it came.
#[test]
fn a_ttl_with_the_top_bit_set_is_zero() {
    for (sent, meant) in [(0, 0), (0x7fff_ffff, 0x7fff_ffff), (0x8000_0000, 0), (0xffff_ffff, 0)] {
        let octets = [header(0x8000, [1, 0, 0]), QUESTION.to_vec(), record(b"\xc0\x0c", RrType::A, sent, 4, &[0; 4])];
        assert_eq!(Message::parse(&octets.concat()).expect("valid").answer[0].ttl, meant);
        let line = format!("example.org. {sent} IN A 0.0.0.0");
        assert_eq!(parse_record(&line).expect("valid").ttl, meant);
        assert_eq!(super::encoding::written_ttl(RrType::A, sent), meant);
        assert_eq!(super::encoding::written_ttl(RrType::OPT, sent), sent, "no time, but bits (RFC 6891 §6.1.3)");
    }
}

/// RFC 1035 §3.3.14: one string or more, each with its length; data that do not fit are left out by whole strings.
#[test]
fn text_records_are_well_formed_whatever_they_are_made_of() {
    let long = vec![b'x'; 70_000];
    let table: &[(&[&[u8]], usize)] = &[
        (&[], 1),
        (&[b""], 1),
        (&[b"", b"a"], 3),
        (&[&long[..256]], 258),
        (&[&long], 255 * 256),
        (&[&long, b"y"], 255 * 256),
    ];
    for (strings, len) in table {
        let record = Record::txt(name("example.org"), 5, strings);
        assert_eq!(record.rdata.len(), *len);
        assert_eq!(record.class, Class::IN);
        assert!(read_rdata(record.rdata.as_bytes(), RrType::TXT, 0, *len).is_ok());
        assert!(!record.rdata.is_empty());
    }
}
