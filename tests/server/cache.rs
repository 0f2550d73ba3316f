//! The plugin *cache* in a server: kept answers, and refreshes that run on its workers.

use std::time::{Duration, Instant};

use coredns_plugin::clock;
use coredns_testkit::process::{Client, Running};
use coredns_wire::{Header, Record};

use crate::support::BINARY;

/// How long the server may take for a refresh.
const PATIENCE: Duration = Duration::from_secs(10);

/// The address that *whoami* saw, and whether the answer has AA.
fn seen(client: &Client) -> (Option<std::net::IpAddr>, bool) {
    let message = client.udp("a.example.org A");
    (message.additional.iter().find_map(Record::ip), message.header.has(Header::AA))
}

#[test]
fn a_popular_name_is_fetched_again_behind_the_clients() {
    let server = Running::start(BINARY, ".:0 {\n cache {\n  prefetch 2 1m 90%\n }\n whoami\n}\n");
    let client = server.client(".");
    let first = seen(&client);
    assert_eq!(first, (Some([127, 0, 0, 1].into()), true));
    assert_eq!(seen(&client), first);
    // The TTL is 5, so that the second hit is early enough for the whole life of the answer.
    let deadline: Instant = clock::now() + PATIENCE;
    while seen(&client).0 != Some([0, 0, 0, 0].into()) {
        assert!(clock::now() < deadline, "no refresh, which has no client");
    }
}

#[test]
fn an_answer_serves_other_clients_until_a_reload() {
    let server = Running::start(BINARY, "example.org:0 {\n cache\n whoami\n}\n");
    // The port of the client that the answer was made for.
    let port = || {
        let message = server.client("example.org.").udp("a.example.org A");
        message.additional.iter().map(ToString::to_string).next_back()
    };
    let first = port();
    assert!(first.is_some());
    assert_eq!(port(), first);
    server.signal("USR1");
    server.wait_for("Reloading complete", 1);
    assert_ne!(port(), first);
}
