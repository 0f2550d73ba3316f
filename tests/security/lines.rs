//! Lines of the log: nothing from outside makes or breaks one.

use std::net::Ipv4Addr;

use coredns_wire::{Message, Rcode};

use crate::support::{endpoints, id, metrics, query, receive, serve, serve_with_file, socket, total};

/// A query for a name whose first label is three times an octet.
fn about(octet: u8, number: u16) -> Vec<u8> {
    let mut message = query("aaa.example.org A", number);
    message[13..16].fill(octet);
    message
}

#[test]
fn every_octet_of_a_name_is_printable_in_the_log() {
    let corefile = "example.org:0 {\n    log\n    errors\n    hosts empty {\n        fallthrough\n    }\n}\n";
    let server = serve_with_file(corefile, "empty", "");
    let client = socket(Ipv4Addr::LOCALHOST, server.client("example.org.").server);
    for octet in 0..=255 {
        client.send(&about(octet, u16::from(octet))).expect("sent");
        let reply = Message::parse(&receive(&client).expect("an answer")).expect("a message");
        assert_eq!((reply.header.id, reply.header.rcode()), (u16::from(octet), Rcode::SERVFAIL));
    }
    // The last is sent twice: once its line of the log is there, so are all before it.
    server.wait_for(r"\255\255\255.example.org.", 2);
    let lines = server.lines();
    let of = |level: &str| lines.iter().filter(|line| line.starts_with(level)).count();
    assert_eq!((of("[INFO] 127.0.0.1:"), of("[ERROR] plugin/errors: 2 ")), (256, 256));
    for line in &lines {
        assert!(line.bytes().all(|octet| (b' '..=b'~').contains(&octet)), "{line:?}");
    }
}

#[test]
fn dropped_and_malformed_queries_are_seen() {
    let corefile = ".:0 {\n    multisocket 1\n    prometheus 127.0.0.1:0\n    log\n    erratic {\n        drop 1\n    }\n}\n\
                    fence.test:0 {\n    whoami\n}\n";
    let server = serve(corefile);
    let client = socket(Ipv4Addr::LOCALHOST, server.client(".").server);
    for number in 0..5 {
        client.send(&query("www.example.org A", number)).expect("sent");
    }
    for bits in [0x8000_u16, 0x2800, 0x7800] {
        let mut message = query("www.example.org A", 50);
        message[2..4].copy_from_slice(&bits.to_be_bytes());
        client.send(&message).expect("sent");
    }
    client.send(&query("www.fence.test A", 9)).expect("sent");
    while id(&receive(&client).expect("an answer")) != 9 {}
    server.wait_for("\"A IN www.example.org. udp", 5);
    let text = metrics(endpoints(&server));
    let requests = text.lines().filter(|line| line.contains("zone=\".\"")).collect::<Vec<_>>().join("\n");
    assert_eq!(total(&requests, "coredns_dns_requests_total"), 5.0, "{text}");
    assert_eq!(total(&text, "coredns_server_rejected_messages_total"), 3.0, "{text}");
}
