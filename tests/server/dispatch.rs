//! Which block serves a query.

use coredns_testkit::process::Client;
use coredns_wire::{Message, Rcode};

use crate::support::{addresses, hosts_block, serve};

fn code(message: &Message) -> Rcode {
    message.header.rcode()
}

/// Starts `corefile` and asks its listener of `zone` by UDP and by TCP; each query with the wanted code and the wanted
/// addresses.
fn check(corefile: &str, zone: &str, queries: &[(&str, Rcode, &[&str])]) {
    let server = serve(corefile);
    let client = server.client(zone);
    for (text, rcode, wanted) in queries {
        for (how, message) in [("udp", client.udp(text)), ("tcp", client.tcp(text))] {
            assert_eq!(code(&message), *rcode, "{how} {text}");
            assert_eq!(addresses(&message), *wanted, "{how} {text}");
        }
    }
}

#[test]
fn the_longest_zone_wins() {
    let names = "a.test www.example.org www.sub.example.org www.xsub.example.org example.org sub.example.org";
    let corefile = [
        hosts_block(".:0", "192.0.2.1", names),
        hosts_block("example.org:0", "192.0.2.2", names),
        hosts_block("SUB.Example.ORG:0", "192.0.2.3", names),
    ];
    check(
        &corefile.concat(),
        ".",
        &[
            ("a.test A", Rcode::NOERROR, &["192.0.2.1"]),
            ("example.org A", Rcode::NOERROR, &["192.0.2.2"]),
            ("WWW.EXAMPLE.ORG A", Rcode::NOERROR, &["192.0.2.2"]),
            ("www.xsub.example.org A", Rcode::NOERROR, &["192.0.2.2"]),
            ("sub.example.org A", Rcode::NOERROR, &["192.0.2.3"]),
            ("www.sub.example.org A", Rcode::NOERROR, &["192.0.2.3"]),
        ],
    );
}

#[test]
fn many_zones_are_found_as_few_are() {
    let mut corefile = hosts_block(".:0", "192.0.2.1", "a.test www.z7.example www.b.z7.example");
    for zone in 0..40 {
        let names = format!("www.z{zone}.example www.b.z{zone}.example");
        corefile.push_str(&hosts_block(&format!("z{zone}.example:0"), &format!("192.0.2.{}", zone + 100), &names));
    }
    corefile.push_str(&hosts_block("b.z7.example:0", "192.0.2.2", "www.b.z7.example"));
    check(
        &corefile,
        ".",
        &[
            ("a.test A", Rcode::NOERROR, &["192.0.2.1"]),
            ("www.z0.example A", Rcode::NOERROR, &["192.0.2.100"]),
            ("WWW.Z39.EXAMPLE A", Rcode::NOERROR, &["192.0.2.139"]),
            ("www.z7.example A", Rcode::NOERROR, &["192.0.2.107"]),
            ("www.b.z7.example A", Rcode::NOERROR, &["192.0.2.2"]),
        ],
    );
}

#[test]
fn what_no_block_serves_is_refused() {
    check(
        "example.org:0 {\n    whoami\n}\nempty.example.org:0 {\n}\n",
        "example.org.",
        &[
            ("www.example.org A", Rcode::NOERROR, &[]),
            ("example.org SOA", Rcode::NOERROR, &[]),
            ("notexample.org A", Rcode::REFUSED, &[]),
            ("org A", Rcode::REFUSED, &[]),
            (". NS", Rcode::REFUSED, &[]),
            // A block without plugins refuses its names; those above do not get them.
            ("empty.example.org A", Rcode::REFUSED, &[]),
            ("www.empty.example.org A", Rcode::REFUSED, &[]),
        ],
    );
}

#[test]
fn a_block_without_plugins_refuses() {
    check(
        "example.org:0 {\n}\n",
        "example.org.",
        &[("example.org A", Rcode::REFUSED, &[]), ("a.test A", Rcode::REFUSED, &[])],
    );
    check(".:0 {\n}\n", ".", &[("example.org A", Rcode::REFUSED, &[])]);
}

#[test]
fn the_root_takes_the_rest() {
    check(
        ".:0 {\n    whoami\n}\n",
        ".",
        &[
            ("www.example.org A", Rcode::NOERROR, &[]),
            (". NS", Rcode::NOERROR, &[]),
            ("1.0.0.127.in-addr.arpa PTR", Rcode::NOERROR, &[]),
        ],
    );
}

#[test]
fn delegation_signers_lie_with_the_topmost_zone() {
    // `erratic` knows no DS and answers SERVFAIL; `whoami` answers everything without error.
    let parent = "example.org:0 {\n    whoami\n}\n";
    let child = "a.sub.example.org:0, sub.example.org:0 {\n    erratic {\n        drop 0\n    }\n}\n";
    let root = ".:0 {\n    whoami\n}\n";
    let erratic: &[&str] = &["192.0.2.53"];
    check(
        &[parent, child].concat(),
        "example.org.",
        &[
            ("sub.example.org A", Rcode::NOERROR, erratic),
            ("sub.example.org DS", Rcode::NOERROR, &[]),
            ("www.sub.example.org DS", Rcode::NOERROR, &[]),
            ("a.sub.example.org DS", Rcode::NOERROR, &[]),
            ("example.org DS", Rcode::NOERROR, &[]),
        ],
    );
    // The root is not considered while another zone matches.
    check(
        &[root, child].concat(),
        ".",
        &[
            ("sub.example.org DS", Rcode::SERVFAIL, &[]),
            ("a.sub.example.org DS", Rcode::SERVFAIL, &[]),
            ("other.example.org DS", Rcode::NOERROR, &[]),
        ],
    );
}

#[test]
fn ranges_of_addresses_are_reverse_zones() {
    let whoami = |key: &str| format!("{key} {{\n    whoami\n}}\n");
    check(
        &whoami("10.0.0.0/15:0"),
        "0.10.in-addr.arpa.",
        &[
            ("whoami.0.10.in-addr.arpa A", Rcode::NOERROR, &[]),
            ("whoami.1.10.in-addr.arpa A", Rcode::NOERROR, &[]),
            ("whoami.2.10.in-addr.arpa A", Rcode::REFUSED, &[]),
        ],
    );
    for key in ["192.168.1.0/24:0", "1.168.192.in-addr.arpa:0"] {
        check(
            &whoami(key),
            "1.168.192.in-addr.arpa.",
            &[
                ("1.168.192.in-addr.arpa SOA", Rcode::NOERROR, &[]),
                ("77.1.168.192.in-addr.arpa PTR", Rcode::NOERROR, &[]),
                ("2.168.192.in-addr.arpa PTR", Rcode::REFUSED, &[]),
            ],
        );
    }
    check(
        &whoami("192.168.1.0/25:0"),
        "0.1.168.192.in-addr.arpa.",
        &[
            ("127.1.168.192.in-addr.arpa PTR", Rcode::NOERROR, &[]),
            ("128.1.168.192.in-addr.arpa PTR", Rcode::REFUSED, &[]),
        ],
    );
    check(
        &whoami("2001:db8::/31:0"),
        "8.b.d.0.1.0.0.2.ip6.arpa.",
        &[
            ("1.9.b.d.0.1.0.0.2.ip6.arpa PTR", Rcode::NOERROR, &[]),
            ("1.a.b.d.0.1.0.0.2.ip6.arpa PTR", Rcode::REFUSED, &[]),
        ],
    );
}

#[test]
fn one_zone_on_several_addresses() {
    let block = |address: &str, answer: &str| {
        let block = hosts_block("example.org:0", answer, "www.example.org");
        block.replace("{\n    hosts", &format!("{{\n    bind {address}\n    hosts"))
    };
    let server = serve(&[block("127.0.0.1", "192.0.2.1"), block("127.0.0.2", "192.0.2.2")].concat());
    let lines = server.lines();
    for (address, answer) in [("127.0.0.1", "192.0.2.1"), ("127.0.0.2", "192.0.2.2")] {
        let line = lines.iter().find(|line| line.ends_with(&format!(" on {address}"))).expect("a line a listener");
        let port = line.strip_prefix("example.org.:").and_then(|rest| rest.split(' ').next()?.parse::<u16>().ok());
        let client = Client::new((address.parse::<std::net::IpAddr>().expect("given"), port.expect("a port")).into());
        assert_eq!(addresses(&client.tcp("www.example.org A")), [answer]);
        assert_eq!(addresses(&client.udp("www.example.org A")), [answer]);
    }
}

#[test]
fn keys_of_one_block_share_its_plugins() {
    // The plugin counts over all keys of the block: of four queries to four zones one in two is answered.
    let server = serve(
        "a.test:0 b.test:0, c.test:0,\nd.test:0 {\n    erratic {\n        delay 2 1ms\n        truncate 2\n    }\n}\n",
    );
    let client = server.client("a.test.");
    let cut = ["a.test A", "b.test A", "c.test A", "d.test A"]
        .map(|text| client.tcp(text).header.has(coredns_wire::Header::TC));
    assert_eq!(cut, [true, false, true, false]);
}
