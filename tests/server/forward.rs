//! Queries that are forwarded: through real workers, with many under way, across a reload.

use std::collections::BTreeSet;
use std::time::Duration;

use coredns_testkit::{Act, Ask, MockUpstream, Seen};
use coredns_wire::{Header, Rcode};

use crate::support::{addresses, header, query, receive, serve, socket};

/// Answers every name with an address, after a pause.
fn upstream(pause: Duration, records: usize) -> MockUpstream {
    MockUpstream::start(move |seen: &Seen| {
        let name = seen.message.questions[0].name.to_string();
        let lines = (0..records).map(|number| format!("{name} 60 IN A 192.0.2.{number}")).collect();
        vec![Act::Delay(pause), Act::Answer(lines)]
    })
}

#[test]
fn a_reply_goes_to_the_client_as_its_transport_and_size_allow() {
    let upstream = upstream(Duration::ZERO, 60);
    let server = serve(&format!(".:0 {{\n    forward . {}\n}}\n", upstream.address()));
    let client = server.client(".");
    let small = client.udp("Big.Example.org A");
    assert!(small.header.has(Header::TC | Header::RA) && small.answer.len() < 60);
    assert_eq!(small.questions[0].name.to_string(), "Big.Example.org.");
    let large = client.udp_ask(&Ask { udp_size: Some(4096), ..Ask::new("big.example.org A") });
    assert_eq!((large.header.has(Header::TC), large.answer.len()), (false, 60));
    assert_eq!(client.tcp("big.example.org A").answer.len(), 60);
    let protos: Vec<&str> = upstream.seen().iter().map(|seen| seen.proto).collect();
    assert_eq!(protos, ["udp", "udp", "tcp"]);
    let sizes: Vec<Option<u16>> =
        upstream.seen().iter().map(|seen| seen.message.opt().map(|opt| opt.class.0)).collect();
    assert_eq!(sizes, [None, Some(1232), None]);
}

#[test]
fn other_classes_are_forwarded_too() {
    let upstream = MockUpstream::start(|_| vec![Act::Rcode(Rcode::NXDOMAIN)]);
    let server = serve(&format!(".:0 {{\n    forward . {}\n}}\n", upstream.address()));
    assert_eq!(server.client(".").udp("version.bind TXT CH").header.rcode(), Rcode::NXDOMAIN);
}

#[test]
fn many_queries_wait_at_once_and_each_gets_its_own_answer() {
    const COUNT: u16 = 300;
    let upstream = MockUpstream::start(|seen: &Seen| {
        let name = seen.message.questions[0].name.to_string();
        let number = name.trim_start_matches('n').split('.').next().unwrap_or_default().parse().unwrap_or(0_u16);
        let record = format!("{name} 60 IN A 192.0.{}.{}", number >> 8, number & 0xff);
        vec![Act::Delay(Duration::from_millis(20)), Act::Answer(vec![record])]
    });
    for options in ["", "force_tcp"] {
        let server =
            serve(&format!(".:0 {{\n    forward . {} {{\n        {options}\n    }}\n}}\n", upstream.address()));
        let socket = socket(server.client(".").server);
        for number in 0..COUNT {
            socket.send(&query(&format!("n{number}.example.org A"), number)).expect("sent");
        }
        let mut seen = BTreeSet::new();
        while seen.len() < usize::from(COUNT) {
            let octets = receive(&socket).unwrap_or_else(|| panic!("{options}: only {} answers", seen.len()));
            let number = header(&octets).id;
            let message = crate::support::parsed(&octets);
            assert_eq!(addresses(&message), [format!("192.0.{}.{}", number >> 8, number & 0xff)]);
            seen.insert(number);
        }
    }
}

#[test]
fn a_reload_loses_no_query_that_waits() {
    let upstream = upstream(Duration::from_millis(300), 1);
    let server = serve(&format!(".:0 {{\n    forward . {}\n}}\n", upstream.address()));
    let socket = socket(server.client(".").server);
    for round in 0..3_u16 {
        for number in 0..20 {
            socket.send(&query("waiting.example.org A", round * 20 + number)).expect("sent");
        }
        upstream.wait_for(|seen| seen.len() >= usize::from(round + 1) * 20);
        server.signal("USR1");
        server.wait_for("Reloading complete", usize::from(round) + 1);
        let answered: BTreeSet<u16> = (0..20).filter_map(|_| Some(header(&receive(&socket)?).id)).collect();
        assert_eq!(answered, (round * 20..round * 20 + 20).collect());
    }
}
