use std::net::IpAddr;
use std::time::Duration;

use coredns_plugin::corefile::{Dispenser, Source, tokenize};
use coredns_plugin::wire::{Header, Name, Outgoing, Rcode, RrType, encode};
use coredns_plugin::{Answer, Reply};
use coredns_testkit::{Ask, Harness, query, same_records, set_up, set_up_examples};
use tokio::time::Instant;

use super::DESCRIPTOR;
use super::setup::{Options, read};
use crate::registry::DIRECTIVES;

fn harness(stanza: &str) -> Harness {
    Harness::new(set_up(&[&DESCRIPTOR], stanza).expect(stanza).plugins)
}

fn reply(answer: Answer) -> Reply {
    match answer {
        Answer::Reply(reply) => reply,
        other => panic!("{other:?} is no reply"),
    }
}

#[test]
fn options() {
    // Drop, truncate, delay, duration in milliseconds, large.
    for (stanza, drop, truncate, delay, duration, large) in [
        ("erratic", 2, 0, 0, 100, false),
        ("erratic {\n}", 2, 0, 0, 100, false),
        ("erratic {\ndrop\n}", 2, 0, 0, 100, false),
        ("erratic {\ndrop 3\n}", 3, 0, 0, 100, false),
        ("erratic {\ndrop 2\ndelay 3 1ms\n}", 2, 0, 3, 1, false),
        ("erratic {\ntruncate 2\ndelay 3 1ms\n}", 0, 2, 3, 1, false),
        ("erratic {\ndrop 3\ndelay\n}", 3, 0, 2, 100, false),
        ("erratic {\ndrop 3\ntruncate\n}", 3, 2, 0, 100, false),
        ("erratic {\ndrop\ntruncate\n}", 2, 2, 0, 100, false),
        ("erratic {\ndrop 0\n}", 0, 0, 0, 100, false),
        ("erratic {\ntruncate 0\n}", 2, 0, 0, 100, false),
        ("erratic {\ndelay 1 -5s\n}", 0, 0, 1, 0, false),
        ("erratic {\ndelay 1 5s\ndelay 2\n}", 0, 0, 2, 100, false),
        ("erratic {\ndrop 0\nlarge\n}", 0, 0, 0, 100, true),
    ] {
        let tokens = tokenize(&Source::new("Corefile", stanza)).expect("small text");
        let options = Options { drop, truncate, delay, duration: Duration::from_millis(duration), large };
        assert_eq!(read(&mut Dispenser::new(&tokens)), Ok(options), "{stanza}");
    }
}

#[test]
fn errors() {
    let parsing = |message: &str| format!("Testfile:4 - Error during parsing: {message}");
    for (inside, error) in [
        ("drop -1", "illegal amount value given \"-1\"".to_owned()),
        ("delay -1", "illegal amount value given \"-1\"".to_owned()),
        ("truncate -1", "illegal amount value given \"-1\"".to_owned()),
        ("delay 1 2 4", parsing("Wrong argument count or unexpected line ending after '4'")),
        ("drop 1 2", parsing("Wrong argument count or unexpected line ending after '2'")),
        ("truncate 1 2", parsing("Wrong argument count or unexpected line ending after '2'")),
        ("delay 15.a", "strconv.ParseInt: parsing \"15.a\": invalid syntax".to_owned()),
        ("truncate 15.a", "strconv.ParseInt: parsing \"15.a\": invalid syntax".to_owned()),
        ("drop 2147483648", "strconv.ParseInt: parsing \"2147483648\": value out of range".to_owned()),
        ("delay 3 bla", "time: invalid duration \"bla\"".to_owned()),
        ("explode", parsing("unknown property 'explode'")),
        ("large very", parsing("unknown property 'very'")),
    ] {
        let refused = set_up(&[&DESCRIPTOR], &format!("erratic {{\n{inside}\n}}")).expect_err(inside).to_string();
        assert_eq!(refused, format!("plugin/erratic: {error}"), "{inside}");
    }
    let refused = set_up(&[&DESCRIPTOR], "erratic now").expect_err("refused").to_string();
    assert!(refused.ends_with("Wrong argument count or unexpected line ending after 'now'"), "{refused}");
}

#[test]
fn every_second_query_is_dropped() {
    let harness = harness("erratic");
    for (question, code) in [
        ("example.org A", None),
        ("example.org A", Some(Rcode::NOERROR)),
        ("example.org HINFO", None),
        ("example.org HINFO", Some(Rcode::SERVFAIL)),
        ("example.org AXFR", None),
        ("example.org AXFR", Some(Rcode::NOERROR)),
    ] {
        assert_eq!(harness.ask_now(&query(question)).rcode(), code, "{question}");
    }
}

#[test]
fn addresses() {
    let harness = harness("erratic {\ndrop 0\n}");
    for (question, record) in [
        ("Example.org A", "Example.org. 0 IN A 192.0.2.53"),
        ("Example.org AAAA", "Example.org. 0 IN AAAA 2001:db8::53"),
    ] {
        let reply = reply(harness.ask_now(&query(question)));
        same_records(&reply.answer, &[record], true, true).unwrap_or_else(|difference| panic!("{difference}"));
        assert!(reply.authoritative && !reply.truncated, "{question}");
    }
}

#[test]
fn one_answer_in_so_many_is_truncated() {
    for (amount, expected) in
        [(2, [true, false, true, false, true, false]), (3, [true, false, false, true, false, false])]
    {
        let harness = harness(&format!("erratic {{\ntruncate {amount}\n}}"));
        let truncated = [(); 6].map(|()| reply(harness.ask_now(&query("example.org A"))).truncated);
        assert_eq!(truncated, expected, "{amount}");
    }
}

#[test]
fn a_transfer_ends_with_its_soa_unless_truncated() {
    let zone = [
        "example.org. 0 IN SOA sns.dns.icann.org. noc.dns.icann.org. 2018050825 7200 3600 1209600 3600",
        "example.org. 0 IN NS b.example.org.",
        "example.org. 0 IN NS a.example.org.",
        "a.example.org. 0 IN AAAA 2001:bd8::53",
        "b.example.org. 0 IN AAAA 2001:500::54",
        "example.org. 0 IN SOA sns.dns.icann.org. noc.dns.icann.org. 2018050825 7200 3600 1209600 3600",
    ];
    let harness = harness("erratic {\ntruncate 2\n}");
    for records in [&zone[..5], &zone[..]] {
        let reply = reply(harness.ask_now(&query("example.org AXFR")));
        same_records(&reply.answer, records, true, true).unwrap_or_else(|difference| panic!("{difference}"));
        assert!(reply.authoritative && !reply.truncated);
    }
}

#[test]
fn the_longest_names_are_survived() {
    let long = Name::from_labels([&[b'a'; 63][..], &[b'b'; 63], &[b'c'; 63], &[b'd'; 61]]).expect("255 octets");
    let harness = harness("erratic {\ndrop 0\n}");
    for (qtype, count) in [(RrType::AXFR, 2), (RrType::A, 1)] {
        let ask = Ask { name: long.clone(), qtype, ..Ask::new("example.org A") };
        assert_eq!(reply(harness.ask_now(&ask.query())).answer.len(), count);
    }
}

#[tokio::test(start_paused = true)]
async fn one_answer_in_so_many_comes_late() {
    let harness = harness("erratic {\ndelay 2 300ms\n}");
    for (question, delay, code) in [
        ("example.org A", 300, Rcode::NOERROR),
        ("example.org A", 0, Rcode::NOERROR),
        ("example.org HINFO", 300, Rcode::SERVFAIL),
        ("example.org HINFO", 0, Rcode::SERVFAIL),
    ] {
        let started = Instant::now();
        let answer = harness.ask(&query(question)).await;
        assert_eq!(answer.rcode(), Some(code), "{question}");
        let waited = started.elapsed();
        let late = Duration::from_millis(delay);
        assert!(waited >= late && waited < late + Duration::from_millis(50), "{question}: {waited:?}");
    }
}

#[test]
fn a_large_answer_fits_by_compression() {
    let query = query("example.org A");
    let reply = reply(harness("erratic {\ndrop 0\nlarge\n}").ask_now(&query));
    assert_eq!(reply.answer.len(), 30);
    let message = Outgoing {
        header: Header { bits: Header::QR, ..Header::default() },
        question: query.question_section(),
        sections: [&reply.answer, &[], &[]],
        opt: &[],
        limit: query.reply_limit(),
        compress_above: 1480,
    };
    let mut out = Vec::new();
    assert!(!encode(&message, &mut out).truncated);
    assert!(out.len() < 512, "{} octets", out.len());
    assert_eq!(out.windows(2).filter(|pair| *pair == [0xc0, 12]).count(), 30);
}

#[test]
fn ready_comes_and_goes() {
    let plugins = set_up(&[&DESCRIPTOR], "erratic").expect("valid").plugins;
    let harness = Harness::new(plugins.clone());
    let ready = [(); 7].map(|()| {
        let ready = plugins[0].ready();
        let _ = harness.ask_now(&query("example.org A"));
        ready
    });
    assert_eq!(ready, [false, false, false, true, true, false, false].map(Some));
}

#[test]
fn a_search_path() {
    let plugins = set_up(&[&DESCRIPTOR], "erratic").expect("valid").plugins;
    let provider = plugins[0].auto_path().expect("it has one");
    let client: IpAddr = "192.0.2.1".parse().expect("an address");
    let path = provider.search_path(client, &Name::root());
    let path: Vec<String> = path.iter().map(|name| name.as_ref().map(Name::to_string).unwrap_or_default()).collect();
    assert_eq!(path, ["a.example.org.", "b.example.org.", ""]);
}

#[test]
fn readme() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    assert_eq!(blocks.iter().map(|block| block.plugins.len()).collect::<Vec<_>>(), [1, 1, 1, 1]);
}
