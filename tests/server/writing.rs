//! From an answer to bytes: header, question, OPT, sizes, compression.

use coredns_testkit::Ask;
use coredns_testkit::process::{Client, DEADLINE, Running};
use coredns_wire::{Header, Message, Rcode, RrType};

use crate::support::{header, parsed, query, question, serve};

/// A server whose name `nN.example.org` has N addresses.
fn many_addresses(counts: &[usize]) -> Running {
    let mut lines = String::new();
    for count in counts {
        for index in 0..*count {
            let (high, low) = (index / 250, index % 250 + 1);
            lines.extend([format!("192.0.{high}.{low} n{count}.example.org\n")]);
        }
    }
    serve(&format!("example.org:0 {{\n    hosts empty {{\n{lines}    }}\n    whoami\n}}\n.:0 {{\n    whoami\n}}\n"))
}

fn ask(name: &str, udp_size: Option<u16>) -> Ask {
    let mut ask = Ask::new(&format!("{name} A"));
    ask.udp_size = udp_size;
    ask
}

fn over_udp(client: &Client, ask: &Ask) -> Vec<u8> {
    client.exchange(&ask.message(), DEADLINE).unwrap_or_else(|| panic!("no answer to {ask:?}"))
}

fn over_tcp(client: &Client, ask: &Ask) -> Vec<u8> {
    let mut stream = client.connect();
    coredns_testkit::process::write_frame(&mut stream, &ask.message());
    coredns_testkit::process::read_frame(&mut stream).unwrap_or_else(|| panic!("no answer to {ask:?}"))
}

/// Pointers to the name of the question.
fn pointers(octets: &[u8]) -> usize {
    octets.windows(2).filter(|pair| *pair == [0xc0, 0x0c]).count()
}

/// The OPT record of a reply: size, TTL field and options.
fn opt(message: &Message) -> Option<(u16, u32, Vec<u8>)> {
    let record = message.additional.iter().find(|record| record.rtype == RrType::OPT)?;
    Some((record.class.0, record.ttl, record.rdata.as_bytes().to_vec()))
}

#[test]
fn the_question_keeps_its_case() {
    let server = many_addresses(&[1]);
    let client = server.client(".");
    for text in ["N1.eXaMpLe.OrG A", "n1.example.org A", "Foo.TEST A"] {
        let message = query(text, 7);
        let reply = client.exchange(&message, DEADLINE).expect("an answer");
        assert_eq!(question(&reply), question(&message), "{text}");
    }
}

#[test]
fn thirty_addresses_fit_into_512_octets_by_pointers() {
    let lines: String = (1..=30).map(|last| format!("        192.0.2.{last} example.org\n")).collect();
    let server = serve(&format!("example.org:0 {{\n    hosts empty {{\n{lines}    }}\n}}\n"));
    let reply = over_udp(&server.client("example.org."), &ask("example.org", None));
    assert!(reply.len() <= 512, "{}", reply.len());
    assert_eq!((pointers(&reply), header(&reply).answers), (30, 30));
    assert!(!header(&reply).has(Header::TC));
}

#[test]
fn erratic_large_is_thirty_pointers() {
    let server = serve("example.org:0 {\n    erratic {\n        drop 0\n        delay 0\n        large\n    }\n}\n");
    let reply = over_udp(&server.client("example.org."), &ask("example.org", None));
    assert!(reply.len() < 512);
    assert_eq!((pointers(&reply), header(&reply).answers), (30, 30));
}

#[test]
fn small_answers_are_not_compressed_and_large_ones_are() {
    // Uncompressed: 12 + 21 + 31 an address + 11 for OPT.
    let server = many_addresses(&[3, 37, 38, 46, 47]);
    let v4 = server.client(".");
    let v6 = Client::new((std::net::Ipv6Addr::LOCALHOST, v4.server.port()).into());
    for (client, name, compressed) in [
        (v4, "n3.example.org", false),
        (v4, "n46.example.org", false),
        (v4, "n47.example.org", true),
        (v6, "n37.example.org", false),
        (v6, "n38.example.org", true),
    ] {
        let reply = over_udp(&client, &ask(name, Some(4096)));
        assert_eq!(pointers(&reply) > 0, compressed, "{client:?} {name}: {} octets", reply.len());
        assert!(!header(&reply).has(Header::TC), "{name}");
        // A stream has no packets to be kept small.
        assert_eq!(pointers(&over_tcp(&client, &ask(name, Some(4096)))), 0, "{client:?} {name}");
    }
}

#[test]
fn replies_keep_within_what_the_client_takes() {
    let server = many_addresses(&[1000]);
    let client = server.client(".");
    for size in
        [None, Some(0), Some(100), Some(511), Some(512), Some(513), Some(1232), Some(1400), Some(4096), Some(16_000)]
    {
        let limit = usize::from(size.unwrap_or(512).max(512));
        let octets = over_udp(&client, &ask("n1000.example.org", size));
        let reply = parsed(&octets);
        let header_and_opt = 12 + 23 + if size.is_some() { 11 } else { 0 };
        let fitting = ((limit - header_and_opt) / 16).min(1000);
        assert!(octets.len() <= limit, "{size:?}: {}", octets.len());
        assert_eq!(reply.answer.len(), fitting, "{size:?}");
        assert_eq!(reply.header.has(Header::TC), fitting < 1000, "{size:?}");
        assert_eq!(opt(&reply).map(|(size, ..)| size), size, "OPT comes last and whole");
    }
    let reply = over_tcp(&client, &ask("n1000.example.org", None));
    assert_eq!((header(&reply).answers, header(&reply).has(Header::TC)), (1000, false));
}

#[test]
fn streams_are_cut_at_65535_octets() {
    // 2,200 addresses need compression, 4,200 do not fit even so.
    let server = many_addresses(&[2200, 4200]);
    let client = server.client(".");
    let fits = over_tcp(&client, &ask("n2200.example.org", None));
    assert_eq!((header(&fits).answers, header(&fits).has(Header::TC)), (2200, false));
    assert_eq!(pointers(&fits), 2200);
    let cut = over_tcp(&client, &ask("n4200.example.org", None));
    assert_eq!((header(&cut).answers, header(&cut).has(Header::TC)), (4093, true));
}

#[test]
fn options_that_may_be_repeated_are_repeated_once() {
    let server = many_addresses(&[1]);
    let client = server.client(".");
    let cookie = [0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
    let (nsid, expire, keepalive, padding) = ([0, 3, 0, 0], [0, 9, 0, 0], [0, 11, 0, 2, 0, 9], [0, 12, 0, 3, 0, 0, 0]);
    let subnet = [0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2];
    let other_cookie = [0, 10, 0, 8, 8, 7, 6, 5, 4, 3, 2, 1];
    let unknown = [0xff, 0xf0, 0, 1, 9];
    let mut ask = ask("n1.example.org", Some(1232));
    ask.options = [&nsid[..], &subnet, &cookie, &other_cookie, &unknown, &expire, &nsid, &keepalive, &padding].concat();
    for octets in [over_udp(&client, &ask), over_tcp(&client, &ask)] {
        let (size, ttl, options) = opt(&parsed(&octets)).expect("an OPT record");
        assert_eq!((size, ttl), (1232, 0));
        assert_eq!(options, [&nsid[..], &cookie, &expire, &keepalive, &padding].concat());
    }
}

#[test]
fn flags_of_opt_are_masked() {
    let server = many_addresses(&[1]);
    let client = server.client(".");
    for (flags, wanted) in [(0_u16, 0_u32), (0x8000, 0x8000), (0xffff, 0xff00), (0x00ff, 0), (0x4001, 0x4000)] {
        let [high, low] = flags.to_be_bytes();
        // The upper bits of a code in a query mean nothing and come back cleared.
        let opt_record = [0, 0, 41, 16, 0, 0xab, 0, high, low, 0, 0];
        let mut message = query("n1.example.org A", 3);
        message[11] = 1;
        message.extend(opt_record);
        let reply = parsed(&client.exchange(&message, DEADLINE).expect("an answer"));
        assert_eq!(opt(&reply), Some((4096, wanted, Vec::new())), "{flags:04x}");
    }
}

#[test]
fn without_opt_there_is_none_in_the_reply() {
    let server = many_addresses(&[1]);
    let client = server.client(".");
    for text in ["n1.example.org A", "nowhere.example.org A", "a.test A"] {
        assert_eq!(opt(&client.udp(text)), None, "{text}");
    }
}

#[test]
fn opt_comes_last_behind_records_of_the_additional_section() {
    let server = serve(".:0 {\n    whoami\n}\n");
    let reply = server.client(".").udp("www.example.org SOA DO");
    assert_eq!(reply.additional.last().map(|record| record.rtype), Some(RrType::OPT));
    assert_eq!(reply.additional.len(), 3);
}

#[test]
fn other_versions_of_edns_are_badvers() {
    let server = serve("example.org:0 {\n    whoami\n}\n");
    let client = server.client("example.org.");
    for (name, version) in [("www.example.org", 1), ("www.example.org", 255), ("not.served.test", 1)] {
        let mut message = query(&format!("{name} A"), 9);
        message[11] = 1;
        message.extend([0, 0, 41, 16, 0, 0, version, 0x80, 0, 0, 4, 0, 3, 0, 0]);
        let octets = client.exchange(&message, DEADLINE).expect("an answer");
        let reply = parsed(&octets);
        assert_eq!(reply.header.rcode(), Rcode::NOERROR, "the lower four bits");
        assert_eq!(opt(&reply), Some((0, 0x0100_0000, Vec::new())), "{name} {version}");
        assert_eq!(question(&octets), question(&message));
        assert!(reply.answer.is_empty() && reply.header.has(Header::QR | Header::RD));
    }
    // A class that nobody takes is refused before that.
    let mut other_class = Ask::new("www.example.org A CH").message();
    other_class[11] = 1;
    other_class.extend([0, 0, 41, 16, 0, 0, 1, 0, 0, 0, 0]);
    let reply = parsed(&client.exchange(&other_class, DEADLINE).expect("an answer"));
    assert_eq!((reply.header.rcode(), opt(&reply)), (Rcode::REFUSED, Some((4096, 0, Vec::new()))));
}

#[test]
fn errors_have_opt_and_no_records() {
    let server = serve("example.org:0 {\n    erratic {\n        drop 0\n    }\n}\n");
    let client = server.client("example.org.");
    for (text, rcode) in [("www.example.org HINFO DO CD AD", Rcode::SERVFAIL), ("a.test A DO CD AD", Rcode::REFUSED)] {
        let reply = client.udp(text);
        assert_eq!(reply.header.rcode(), rcode, "{text}");
        assert_eq!(reply.header.bits, Header::QR | Header::RD | Header::CD | rcode.0, "{text}");
        assert!(reply.answer.is_empty() && reply.authority.is_empty(), "{text}");
        assert_eq!(opt(&reply), Some((4096, 0x8000, Vec::new())), "{text}");
        assert_eq!(reply.additional.len(), 1, "{text}");
    }
}

#[test]
fn bufsize_bounds_reply_and_opt() {
    let lines: String = (1..=100).map(|index| format!("        192.0.2.{index} n.example.org\n")).collect();
    let server = serve(&format!(".:0 {{\n    bufsize 600\n    hosts empty {{\n{lines}    }}\n}}\n"));
    let octets = over_udp(&server.client("."), &ask("n.example.org", Some(4096)));
    assert!(octets.len() <= 600 && octets.len() > 600 - 16, "{}", octets.len());
    let reply = parsed(&octets);
    assert!(reply.header.has(Header::TC));
    assert_eq!(opt(&reply).map(|(size, ..)| size), Some(600));
}
