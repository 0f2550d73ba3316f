//! The HTTP endpoints: what the metrics grow with, and what a browser may be made to do.

use std::net::Ipv4Addr;

use crate::support::{endpoints, id, metrics, query, receive, request, serve, socket};

#[test]
fn queries_of_any_kind_make_no_series_of_their_own() {
    let server = serve(".:0 {\n    multisocket 1\n    prometheus 127.0.0.1:0\n    errors\n    whoami\n}\n");
    let address = endpoints(&server);
    let client = socket(Ipv4Addr::LOCALHOST, server.client(".").server);
    let ask = |round: u16| {
        for number in 0..1000_u16 {
            let mut message = query(&format!("n{number}.r{round}.example.org A"), number);
            let end = message.len();
            // Types that nobody has given a name, every class, every opcode and flag.
            message[end - 4..end - 2].copy_from_slice(&(300 + number + round * 1000).to_be_bytes());
            if number % 3 == 1 {
                message[end - 2..].copy_from_slice(&(number % 260).to_be_bytes());
            }
            if number % 3 == 2 {
                message[2..4].copy_from_slice(&((number / 3 % 64) << 9 & 0x7fff).to_be_bytes());
            }
            client.send(&message).expect("sent");
            client.send(&query("fence.example.org A", 5000)).expect("sent");
            while id(&receive(&client).expect("an answer")) != 5000 {}
        }
        metrics(address).lines().filter(|line| !line.starts_with('#')).count()
    };
    let series = ask(0);
    for round in 1..4 {
        assert_eq!(ask(round), series, "{}", metrics(address));
    }
}

#[test]
fn no_page_is_for_scripts_of_other_sites() {
    let corefile = ".:0 {\n    health 127.0.0.1:0\n    ready 127.0.0.1:0\n    prometheus 127.0.0.1:0\n    whoami\n}\n";
    let server = serve(corefile);
    let address = endpoints(&server);
    for path in ["/health", "/ready", "/metrics", "/", "/nothing"] {
        for method in ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "TRACE"] {
            let origin = "Origin: https://www.example.org\r\nAccess-Control-Request-Method: GET";
            let (head, _) = request(address, &format!("{method} {path} HTTP/1.1\r\n{origin}"));
            assert!(!head.to_ascii_lowercase().contains("access-control"), "{method} {path}: {head}");
            let status = head.split(' ').nth(1).expect("a status");
            let refused = !matches!(method, "GET" | "HEAD");
            assert!(!refused || matches!(status, "404" | "405"), "{method} {path}: {status}");
        }
    }
}
