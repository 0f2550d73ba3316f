//! Expositions of the metrics of queries.

use std::net::SocketAddr;
use std::time::Duration;

use coredns_wire::{Rcode, RrType};
use prometheus::{Registry, TextEncoder};

use super::super::Observation;
use super::*;
use crate::query::Transport;

fn exposition(metrics: &Arc<RequestMetrics>) -> String {
    let registry = Registry::new();
    registry.register(Box::new(RequestCollector::new(Arc::clone(metrics)))).expect("fresh registry");
    TextEncoder::new().encode_to_string(&registry.gather()).expect("text")
}

fn observation() -> Observation {
    Observation {
        transport: Transport::Udp,
        client: SocketAddr::from(([192, 0, 2, 1], 1)),
        qtype: RrType::A,
        dnssec_ok: false,
        request_size: 86,
        rcode: Rcode::NOERROR,
        response_size: 120,
        author: "whoami",
        elapsed: Duration::from_micros(300),
    }
}

#[test]
fn names_labels_and_buckets_are_those_of_coredns() {
    let metrics = Arc::new(RequestMetrics::default());
    let series = metrics.series("dns://:53", "example.org.", "", &["errors", "whoami"]);
    series.record(&observation());
    let other = Observation {
        transport: Transport::Tls,
        client: "[2001:db8::1]:1".parse().expect("an address"),
        qtype: RrType(65280),
        dnssec_ok: true,
        request_size: 512,
        rcode: Rcode(2305),
        response_size: 0,
        author: "",
        elapsed: Duration::from_secs(9),
    };
    series.record(&other);
    let golden = include_str!("requests_golden.txt");
    assert_eq!(exposition(&metrics), golden);
}

#[test]
fn nothing_is_exposed_before_the_first_query() {
    let metrics = Arc::new(RequestMetrics::default());
    let _series = metrics.series("dns://:53", ".", "", &["whoami"]);
    assert_eq!(exposition(&metrics), "");
}

#[test]
fn numbers_go_on_when_the_plugins_of_a_block_change() {
    let metrics = Arc::new(RequestMetrics::default());
    metrics.series("dns://:53", ".", "", &["whoami", "errors"]).record(&observation());
    metrics.series("dns://:53", ".", "", &["errors", "whoami"]).record(&observation());
    metrics.series("dns://:53", ".", "", &["whoami"]).record(&observation());
    assert_eq!(metrics.series.lock().expect("not poisoned").len(), 2);
    let text = exposition(&metrics);
    let line =
        "coredns_dns_responses_total{plugin=\"whoami\",rcode=\"NOERROR\",server=\"dns://:53\",view=\"\",zone=\".\"} 3";
    assert!(text.lines().any(|found| found == line), "{text}");
}

#[test]
fn the_number_of_series_does_not_depend_on_queries() {
    let metrics = Arc::new(RequestMetrics::default());
    let series = metrics.series("dns://:53", ".", "", &["whoami"]);
    // A walk through all types, many codes and sizes; every combination of labels that exists comes up.
    let mut lines = [0; 2];
    for count in &mut lines {
        for number in 0..=u16::MAX {
            let transport = if number & 1 == 0 { Transport::Udp } else { Transport::Tcp };
            let client = if number & 2 == 0 { "192.0.2.1:1" } else { "[2001:db8::1]:1" };
            let author = ["whoami", "", "made-up"][usize::from(number % 3)];
            let rcode = Rcode(number >> 4);
            let client = client.parse().expect("an address");
            let size = usize::from(number);
            let elapsed = Duration::from_micros(u64::from(number));
            series.record(&Observation {
                transport,
                client,
                qtype: RrType(number >> 2),
                dnssec_ok: number & 4 == 0,
                request_size: size,
                rcode,
                response_size: size,
                author,
                elapsed,
            });
        }
        *count = exposition(&metrics).lines().count();
    }
    assert_eq!(lines[0], lines[1]);
    // 80 requests, 80 responses at most for each of two authors and `other`, histograms.
    assert!(lines[0] < 400, "{}", lines[0]);
}

#[test]
fn odd_zone_names_make_valid_text() {
    let metrics = Arc::new(RequestMetrics::default());
    for wire in [&b"\x03a\"b\x02\xff\n\x00"[..], b"\x01\\\x00"] {
        let zone = coredns_wire::Name::from_wire(wire).expect("a name").to_string();
        metrics.series("dns://:53", &zone, "v\n\"\u{e9}\\", &[]).record(&Observation { author: "", ..observation() });
    }
    let text = exposition(&metrics);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        // Label values end at the first quote that has no backslash before it; behind the labels stands a number.
        let (_, value) = line.rsplit_once(' ').expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(!line.contains('\r') && line.is_char_boundary(0));
    }
    assert!(text.contains(r#"view="v\n\"é\\""#), "{text}");
}

#[test]
fn queries_that_no_block_serves_are_counted_as_dropped() {
    let metrics = Arc::new(RequestMetrics::default());
    let refused = Observation { rcode: Rcode::REFUSED, author: "", ..observation() };
    metrics.dropped("dns://:53").record(&refused);
    let text = exposition(&metrics);
    let line =
        "coredns_dns_responses_total{plugin=\"\",rcode=\"REFUSED\",server=\"dns://:53\",view=\"\",zone=\"dropped\"} 1";
    assert!(text.lines().any(|found| found == line), "{text}");
}
