//! Names: pointers, limits, escapes.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use coredns_wire::{Name, NameError, fold, read_name, skip_name};

use super::{long_wire, name};

/// RFC 1035 §4.1.4 says "a prior occurrence"; anything else made decoders run forever (RUSTSEC-2018-0007, RFC 9267 §2).
#[test]
fn a_pointer_leads_strictly_backwards() {
    let table: &[(&str, &[u8], usize)] = &[
        ("to itself", b"\xc0\x00", 0),
        ("to itself behind a label", b"\x01a\xc0\x02", 0),
        ("to the start of its own run", b"\x01a\xc0\x00", 0),
        ("into its own run", b"\x01a\x01b\xc0\x02", 0),
        ("forwards", b"\xc0\x02\x00", 0),
        ("past the end", b"\xc0\xff", 0),
        ("by the largest offset", b"\xff\xff", 0),
        ("backwards to one that leads forwards", b"\x01a\xc0\x05\x00\x01b\xc0\x00", 5),
        ("backwards to itself in two steps", b"\x00\xc0\x03\xc0\x01", 3),
    ];
    for (what, message, start) in table {
        assert_eq!(read_name(message, *start), Err(NameError::Pointer), "{what}");
    }
    assert_eq!(read_name(b"\x00\xc0\x00\xc0\x01", 3), Ok((Name::root(), 5)), "two steps backwards are fine");
    assert_eq!(read_name(b"\x00\xc0", 1), Err(NameError::Short), "half a pointer");
}

/// A name of 255 octets has room for 127 labels and so for 126 pointers between them (RFC 1035 §2.3.4).
#[test]
fn at_most_126_pointers_are_followed() {
    // The root at 0, then pointers, each to the one before.
    let chain = |pointers: u16| -> (Vec<u8>, usize) {
        let targets = (0..pointers).map(|index| (2 * index).saturating_sub(1));
        let message = [vec![0], targets.flat_map(|target| (0xc000 | target).to_be_bytes()).collect()].concat();
        let last = message.len() - 2;
        (message, last)
    };
    let (message, last) = chain(126);
    assert_eq!(read_name(&message, last), Ok((Name::root(), last + 2)));
    let (message, last) = chain(127);
    assert_eq!(read_name(&message, last), Err(NameError::Pointer));
}

/// RFC 1035 §2.3.4: 63 octets a label, 255 a name; the top two bits 01 and 10 are no label types (RFC 6891 §5).
#[test]
fn labels_and_names_have_their_limits() {
    assert!(read_name(&long_wire(61), 0).is_ok_and(|(name, end)| name.len() == 255 && end == 255));
    assert_eq!(read_name(&long_wire(62), 0), Err(NameError::LongName));
    // Octets that come through a pointer count as well: 193 + 60 of them here, with a label of 1 and of 2 before.
    let message = [&long_wire(59)[..], b"\x01x\xc0\x00", b"\x02xx\xc0\x00"].concat();
    assert!(read_name(&message, 253).is_ok_and(|(name, end)| name.len() == 255 && end == 257));
    assert_eq!(read_name(&message, 257), Err(NameError::LongName));
    for length in 64..=191u8 {
        let message = [&[length][..], &[b'a'; 200]].concat();
        assert_eq!(read_name(&message, 0), Err(NameError::LabelType), "{length:#x}");
        assert_eq!(skip_name(&message, 0), Err(NameError::LabelType), "{length:#x}");
        assert_eq!(Name::from_wire(&message), Err(NameError::LabelType), "{length:#x}");
    }
}

/// A derived name that does not fit is an error and is never cut: cut names answered for others (CVE-2026-11331).
#[test]
fn a_derived_name_longer_than_255_octets_is_an_error() {
    let longest = Name::from_wire(&long_wire(61)).expect("255 octets");
    assert_eq!(longest.prepend_all([&b"x"[..]]), Err(NameError::LongName));
    let shorter = Name::from_wire(&long_wire(59)).expect("253 octets");
    assert_eq!(shorter.prepend_all([&b"x"[..]]).map(|name| name.len()), Ok(255));
    assert_eq!(shorter.prepend_all([&b"xx"[..]]), Err(NameError::LongName));
    assert_eq!(shorter.prepend_all([&b"x"[..], b"y"]), Err(NameError::LongName));
    assert_eq!(Name::from_labels([&[b'a'; 63][..]; 4]), Err(NameError::LongName));
    assert_eq!(Name::from_labels([&[b'a'; 64][..]]), Err(NameError::LongLabel));
    assert_eq!(Name::from_labels([&[b'a'; 256 + 3][..]]), Err(NameError::LongLabel));
    assert_eq!(Name::from_labels([&b""[..]]), Err(NameError::EmptyLabel));
    assert_eq!(Name::from_labels(std::iter::repeat_n(&b"x"[..], 127)).map(|name| name.len()), Ok(255));
    assert_eq!(Name::from_labels(std::iter::repeat_n(&b"x"[..], 128)), Err(NameError::LongName));
    let text = |last: usize| format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(last));
    assert_eq!(text(61).parse::<Name>().map(|name| name.len()), Ok(255));
    assert_eq!(text(62).parse::<Name>(), Err(NameError::LongName));
}

/// Octets that mean something in text are escaped, so that no name turns into another one, or into two, on its way
/// through text ("Injection Attacks Reloaded", USENIX Security 2021; RFC 1035 §5.1).
#[test]
fn every_octet_in_a_label_survives_text() {
    for octet in 0..=u8::MAX {
        for label in [vec![octet], vec![b'a', octet, b'1'], vec![octet; 63]] {
            let name = Name::from_labels([&label[..], b"org"]).expect("valid");
            let text = name.to_string();
            assert!(text.bytes().all(|octet| octet.is_ascii_graphic()), "{text}");
            assert!(text.parse::<Name>().is_ok_and(|again| again.eq_exact(&name)), "{text}");
            let plain = octet.is_ascii_graphic() && !br#"";()@$.\"#.contains(&octet);
            assert_eq!(text.contains('\\'), !plain, "{text}");
        }
    }
}

/// RFC 4343: case means nothing for `A`–`Z`, and for them alone; labels keep their borders (`a\.b` is one label).
#[test]
fn names_compare_and_hash_on_wire_labels() {
    assert_eq!(name("WWW.Example.ORG"), name("www.eXample.org"));
    assert_ne!(name(r"a\.b"), name("a.b"));
    assert_ne!(name("[.org"), name("{.org"));
    assert_ne!(name("@.org"), name("`.org"));
    assert_ne!(name(r"\195\132.org"), name(r"\195\164.org"), "letters beyond ASCII have no case");
    let set: HashSet<Name> = [name("a.org"), name("A.ORG"), name(r"a\.org")].into();
    assert_eq!(set.len(), 2);
}

/// The hash of a name in a map must depend on the map's secret from the first octet on; names that collide under a
/// digest without a key would otherwise meet in one bucket of every map (algorithmic complexity, CVE-2011-4815 ff.).
#[test]
fn names_made_to_collide_without_a_key_do_not_collide_in_a_keyed_map() {
    // Two inputs of 16 octets with the same `fold::hash` for the seed 0: the second word makes up for the first one.
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        u64::try_from(product & u128::from(u64::MAX)).expect("64 bits") ^ u64::try_from(product >> 64).expect("64 bits")
    };
    let state = |first: &[u8; 8]| mix(16u64.wrapping_mul(MULTIPLIER) ^ u64::from_le_bytes(*first), MULTIPLIER);
    let one = *b"\x0faaaaaaa";
    let second_of_one = u64::from_le_bytes(*b"0123456\x00");
    let found = (0..1_000_000u32).find_map(|number| {
        let other: [u8; 8] = format!("\x0f{number:07}").as_bytes().try_into().ok()?;
        let second = (state(&one) ^ state(&other) ^ second_of_one).to_le_bytes();
        // Octets that folding leaves alone.
        second.iter().all(|octet| !octet.is_ascii_uppercase()).then_some((other, second))
    });
    let (other, second) = found.expect("about every second number will do");
    let left = [one, second_of_one.to_le_bytes()].concat();
    let right = [other, second].concat();
    assert_ne!(left, right);
    assert_eq!(fold::hash(0, &left), fold::hash(0, &right), "the collision that must not reach a map");

    let fed = |octets: &[u8]| {
        let mut recorder = Recorder::default();
        fold::feed(octets, &mut recorder);
        recorder.0
    };
    assert_ne!(fed(&left), fed(&right));
    let mut recorder = Recorder::default();
    name("WWW.example.org").hash(&mut recorder);
    assert_eq!(recorder.0, fed(b"\x03www\x07example\x03org\x00"), "a map's hasher sees every octet of a name");
}

/// A hasher that keeps what it is fed.
#[derive(Default)]
struct Recorder(Vec<u64>);

impl Hasher for Recorder {
    fn write(&mut self, octets: &[u8]) {
        self.0.extend(octets.iter().copied().map(u64::from));
    }

    fn write_u64(&mut self, word: u64) {
        self.0.push(word);
    }

    fn finish(&self) -> u64 {
        0
    }
}
