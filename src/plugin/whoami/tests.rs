use std::net::SocketAddr;

use coredns_plugin::wire::{Name, Rcode};
use coredns_plugin::{Answer, Transport};
use coredns_testkit::{Ask, Harness, same_records, set_up, set_up_examples};

use super::DESCRIPTOR;
use crate::registry::DIRECTIVES;

fn harness() -> Harness {
    Harness::new(set_up(&[&DESCRIPTOR], "whoami").expect("valid").plugins)
}

fn check(ask: &Ask, additional: &[&str]) {
    let Answer::Reply(reply) = harness().ask_now(&ask.query()) else { panic!("no reply to {ask:?}") };
    assert_eq!((reply.rcode, reply.authoritative, reply.author), (Rcode::NOERROR, true, "whoami"));
    assert!(reply.answer.is_empty() && reply.authority.is_empty());
    same_records(&reply.additional, additional, true, true).unwrap_or_else(|difference| panic!("{difference}"));
}

#[test]
fn clients_see_themselves() {
    for (question, additional) in [
        ("example.org A", ["example.org. 0 IN A 10.240.0.1", "_udp.example.org. 0 IN SRV 0 0 40212 ."]),
        ("Example.ORG A", ["Example.ORG. 0 IN A 10.240.0.1", "_udp.Example.ORG. 0 IN SRV 0 0 40212 ."]),
        (". NS", [". 0 IN A 10.240.0.1", "_udp. 0 IN SRV 0 0 40212 ."]),
        ("version.bind TXT CH", ["version.bind. 0 CH A 10.240.0.1", "_udp.version.bind. 0 CH SRV 0 0 40212 ."]),
        (
            "17.0.0.10.in-addr.arpa PTR DO",
            ["17.0.0.10.in-addr.arpa. 0 IN A 10.240.0.1", "_udp.17.0.0.10.in-addr.arpa. 0 IN SRV 0 0 40212 ."],
        ),
    ] {
        check(&Ask::new(question), &additional);
    }
}

#[test]
fn ipv6_clients_get_aaaa() {
    let client: SocketAddr = "[2001:db8::1]:1053".parse().expect("an address");
    check(
        &Ask::new("example.org A").from(client),
        &["example.org. 0 IN AAAA 2001:db8::1", "_udp.example.org. 0 IN SRV 0 0 1053 ."],
    );
}

#[test]
fn transports() {
    for (transport, label) in [
        (Transport::Udp, "_udp"),
        (Transport::Quic, "_udp"),
        (Transport::Https3, "_udp"),
        (Transport::Tcp, "_tcp"),
        (Transport::Tls, "_tcp"),
        (Transport::Https, "_tcp"),
        (Transport::Grpc, "_tcp"),
    ] {
        let ask = Ask { transport, ..Ask::new("example.org A") };
        check(&ask, &["example.org. 0 IN A 10.240.0.1", &format!("{label}.example.org. 0 IN SRV 0 0 40212 .")]);
    }
}

#[test]
fn the_longest_name_leaves_no_room_for_the_port() {
    let long = Name::from_labels([&[b'a'; 63][..], &[b'b'; 63], &[b'c'; 63], &[b'd'; 61]]).expect("255 octets");
    let ask = Ask { name: long.clone(), ..Ask::new("example.org A") };
    check(&ask, &[&format!("{long} 0 IN A 10.240.0.1")]);
}

#[test]
fn setup() {
    assert_eq!(set_up(&[&DESCRIPTOR], "whoami\nwhoami").expect("valid").plugins.len(), 1);
    for (stanza, error) in [
        ("whoami a", "Wrong argument count or unexpected line ending after 'a'"),
        ("whoami {\n}", "Unexpected token '{', expecting argument"),
    ] {
        let refused = set_up(&[&DESCRIPTOR], stanza).expect_err(stanza).to_string();
        assert_eq!(refused, format!("plugin/whoami: Testfile:3 - Error during parsing: {error}"));
    }
}

#[test]
fn readme() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    assert_eq!(blocks.iter().map(|block| block.plugins.len()).collect::<Vec<_>>(), [1]);
}
