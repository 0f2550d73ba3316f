//! The HTTP endpoints of a whole server: probes and metrics from the start over a reload to the end.
#![forbid(unsafe_code)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use coredns_testkit::process::{DEADLINE, Running, Scratch};
use coredns_wire::Rcode;

const BINARY: &str = env!("CARGO_BIN_EXE_coredns-rs");

const COREFILE: &str = "example.org:0 {
    health 127.0.0.1:0 {
        lameduck LAMEDUCK
    }
    ready 127.0.0.1:0
    prometheus 127.0.0.1:0
    errors
    whoami
}
";

/// Where the endpoints of a server are.
fn endpoints(server: &Running) -> SocketAddr {
    let prefix = "[INFO] Listening for HTTP on ";
    server.wait_for(prefix, 1);
    let found = server.lines().iter().find_map(|line| line.strip_prefix(prefix)?.parse().ok());
    found.unwrap_or_else(|| panic!("no address:\n{}", server.lines().join("\n")))
}

/// Status and body of a page; `None` where nobody answers.
fn page(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

fn ok(body: &str) -> Option<(u16, String)> {
    Some((200, body.to_owned()))
}

/// The value of a series.
fn value(metrics: &str, series: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn probes_and_metrics_over_a_reload() {
    let server = Running::start(BINARY, &COREFILE.replace("LAMEDUCK", "0s"));
    let address = endpoints(&server);
    assert_eq!(page(address, "/health"), ok("OK"));
    assert_eq!(page(address, "/ready"), ok("OK"));
    assert_eq!(page(address, "/").map(|(status, _)| status), Some(404));

    let (_, before) = page(address, "/metrics").expect("metrics");
    for series in [
        "coredns_panics_total",
        "coredns_reload_failed_total",
        "coredns_health_request_failures_total",
        "coredns_health_request_duration_seconds_bucket{le=\"0.00025\"}",
    ] {
        assert!(value(&before, series).is_some_and(|value| value >= 0.0), "{series}\n{before}");
    }
    assert!(before.contains("coredns_build_info{goversion=\"rustc1."), "{before}");
    assert!(before.contains("version=\"1.14.7\"} 1\n"), "{before}");
    assert!(!before.contains("coredns_dns_requests_total"), "{before}");

    let client = server.client("example.org.");
    assert_eq!(client.udp("www.example.org A").header.rcode(), Rcode::NOERROR);
    assert_eq!(client.tcp("www.example.org AAAA").header.rcode(), Rcode::NOERROR);
    assert_eq!(client.udp("www.example.net A").header.rcode(), Rcode::REFUSED);
    let label = format!("server=\"dns://:{}\"", server.port_of("example.org."));
    let answered = format!(
        "coredns_dns_responses_total{{plugin=\"whoami\",rcode=\"NOERROR\",{label},view=\"\",zone=\"example.org.\"}}"
    );
    let dropped =
        format!("coredns_dns_responses_total{{plugin=\"\",rcode=\"REFUSED\",{label},view=\"\",zone=\"dropped\"}}");
    let enabled =
        |name: &str| format!("coredns_plugin_enabled{{name=\"{name}\",{label},view=\"\",zone=\"example.org.\"}}");
    let (_, text) = page(address, "/metrics").expect("metrics");
    assert_eq!((value(&text, &answered), value(&text, &dropped)), (Some(2.0), Some(1.0)), "{text}");
    for name in ["prometheus", "errors", "whoami"] {
        assert_eq!(value(&text, &enabled(name)), Some(1.0), "{name}\n{text}");
    }
    assert_eq!(value(&text, &enabled("health")), None, "health is no link of the chain");

    // The endpoints stay where they are, numbers go on, and what is gone from the chain is gone from the metrics.
    server.scratch.write("Corefile", COREFILE.replace("LAMEDUCK", "1s").replace("    errors\n", ""));
    server.signal("USR1");
    server.wait_for("Reloading complete", 1);
    assert_eq!(page(address, "/health"), ok("OK"));
    assert_eq!(page(address, "/ready"), ok("OK"));
    assert_eq!(client.udp("www.example.org A").header.rcode(), Rcode::NOERROR);
    let (_, text) = page(address, "/metrics").expect("metrics");
    assert_eq!((value(&text, &answered), value(&text, &dropped)), (Some(3.0), Some(1.0)), "{text}");
    assert_eq!(value(&text, &enabled("whoami")), Some(1.0), "{text}");
    assert_eq!(value(&text, &enabled("errors")), None, "{text}");
    assert_eq!(value(&text, "coredns_reload_failed_total"), Some(0.0), "{text}");

    // A configuration that cannot be served changes nothing.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    server.scratch.write(
        "Corefile",
        COREFILE.replace("LAMEDUCK", "0s").replace("health 127.0.0.1:0", &format!("health 127.0.0.1:{port}")),
    );
    server.signal("USR1");
    server.wait_for(&format!("listen tcp 127.0.0.1:{port}: bind: address already in use"), 1);
    assert_eq!(page(address, "/ready"), ok("OK"));
    let (_, text) = page(address, "/metrics").expect("metrics");
    assert_eq!(value(&text, "coredns_reload_failed_total"), Some(1.0), "{text}");
    assert_eq!(value(&text, &enabled("whoami")), Some(1.0), "{text}");
}

#[test]
fn at_the_end_ready_says_no_while_queries_are_answered() {
    let mut server = Running::start(BINARY, &COREFILE.replace("LAMEDUCK", "2s"));
    let address = endpoints(&server);
    assert_eq!(page(address, "/ready"), ok("OK"));
    let client = server.client("example.org.");
    server.signal("TERM");
    server.wait_for("[INFO] plugin/health: Going into lameduck mode for 2s", 1);
    assert_eq!(page(address, "/ready"), Some((503, "Shutting down".to_owned())));
    assert_eq!(page(address, "/health"), ok("OK"));
    assert_eq!(client.udp("www.example.org A").header.rcode(), Rcode::NOERROR);
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(page(address, "/health"), None);
}

#[test]
fn the_order_of_plugins_counts_over_that_of_blocks_at_the_end() {
    let corefile = "example.org:0 {
    health 127.0.0.1:0 {
        lameduck 2s
    }
    whoami
}
example.net:0 {
    ready 127.0.0.1:0
    whoami
}
";
    let mut server = Running::start(BINARY, corefile);
    let address = endpoints(&server);
    server.signal("TERM");
    server.wait_for("[INFO] plugin/health: Going into lameduck mode for 2s", 1);
    // *ready* stands before *health* in the chain, so it has said no before the lame duck begins.
    assert_eq!(page(address, "/ready"), Some((503, "Shutting down".to_owned())));
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn an_address_in_use_stops_the_start_for_health_and_is_logged_for_the_others() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let used = taken.local_addr().expect("bound").to_string();
    let text = format!("listen tcp {used}: bind: address already in use");
    let corefile = format!(".:0 {{\n ready {used}\n prometheus {used}\n whoami\n}}\n");
    let server = Running::start(BINARY, &corefile);
    server.wait_for(&format!("[ERROR] Failed to start metrics handler: {text}"), 1);
    server.wait_for(&format!("[ERROR] plugin/ready: Failed to start ready handler: {text}"), 1);
    assert_eq!(server.client(".").udp("www.example.org A").header.rcode(), Rcode::NOERROR);

    let corefile = format!(".:0 {{\n health {used}\n whoami\n}}\n");
    let mut server = Running::spawn(BINARY, Scratch::new(), &corefile, &[]);
    assert_eq!(server.wait().code(), Some(1));
    server.wait_for(&text, 1);
}
