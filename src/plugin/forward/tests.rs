//! The plugin as a whole, against upstreams on real sockets.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::metrics::prometheus::proto::Metric;
use coredns_plugin::wire::{Header, Rcode, Record};
use coredns_plugin::{Answer, BlockConfig, Metadata, Reply, ServerInfo, Start, Transport, clock, metrics};
use coredns_testkit::{
    Act, Ask, Harness, LogCapture, MockUpstream, Scripted, Seen, query, set_up, set_up_examples, start_parts,
    stop_parts,
};
use tokio::time::{sleep, timeout};

use super::DESCRIPTOR;

const RECORD: &str = "example.org. 3600 IN A 127.0.0.1";
const DEADLINE: Duration = Duration::from_secs(20);

/// The block of a stanza, U1, U2 … replaced by the addresses of upstreams.
fn block(stanza: &str, upstreams: &[&MockUpstream]) -> BlockConfig {
    let mut stanza = stanza.to_owned();
    for (number, upstream) in upstreams.iter().enumerate() {
        stanza = stanza.replace(&format!("U{}", number + 1), &upstream.address().to_string());
    }
    set_up(&[&DESCRIPTOR], &stanza).unwrap_or_else(|error| panic!("{stanza}: {error}"))
}

/// A chain of the stanza and a plugin that answers NOTAUTH; probes run.
async fn harness(stanza: &str, upstreams: &[&MockUpstream]) -> Harness {
    let block = block(stanza, upstreams);
    start_parts(&block).await.expect("it starts");
    let mut chain = block.plugins;
    chain.push(Arc::new(Scripted::new("next", |_| Reply::with_rcode("next", Rcode::NOTAUTH).into())));
    Harness::new(chain)
}

fn records(answer: &Answer) -> Vec<String> {
    match answer {
        Answer::Reply(reply) => reply.answer.iter().map(ToString::to_string).collect(),
        answer => panic!("{answer:?}"),
    }
}

fn error(answer: &Answer) -> String {
    match answer {
        Answer::Failed(failure) => failure.error.as_ref().map_or_else(String::new, ToString::to_string),
        answer => panic!("{answer:?}"),
    }
}

fn silent() -> MockUpstream {
    MockUpstream::start(|_| Vec::new())
}

/// A port that nobody listens on, of an address that no other test uses.
fn closed_port() -> SocketAddr {
    std::net::UdpSocket::bind("127.0.0.99:0").and_then(|socket| socket.local_addr()).expect("a port")
}

fn counter(name: &str, label: Option<(&str, &str)>) -> f64 {
    let families = metrics::registry().gather();
    let family = families.iter().find(|family| family.name() == name).unwrap_or_else(|| panic!("no {name}"));
    let fits = |metric: &&Metric| {
        label.is_none_or(|(key, value)| {
            metric.get_label().iter().any(|pair| pair.name() == key && pair.value() == value)
        })
    };
    family.get_metric().iter().filter(fits).map(|metric| metric.get_counter().get_value()).sum()
}

#[tokio::test]
async fn a_reply_comes_with_flags_records_and_options() {
    let upstream = MockUpstream::start(|seen| {
        let mut reply = vec![0, 0, 0x85, 0xb3, 0, 1, 0, 1, 0, 0, 0, 1];
        let name = seen.message.questions[0].name.as_wire().to_vec();
        reply.extend_from_slice(&name);
        reply.extend_from_slice(&[0, 1, 0, 1]);
        reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 14, 16, 0, 4, 127, 0, 0, 1]);
        reply.extend_from_slice(&[0, 0, 41, 16, 0, 1, 0, 0x80, 0, 0, 6, 0, 15, 0, 2, 0, 22]);
        vec![Act::Raw(reply)]
    });
    let harness = harness("forward . U1", &[&upstream]).await;
    let Answer::Reply(reply) = harness.ask(&query("example.org A DO")).await else { panic!("no reply") };
    assert_eq!(reply.rcode, Rcode(16 | 3), "the upper bits come from OPT");
    assert!(reply.authoritative && reply.recursion_available && reply.authentic_data && !reply.truncated);
    assert_eq!(reply.answer.iter().map(ToString::to_string).collect::<Vec<_>>(), [RECORD]);
    assert!(reply.additional.is_empty());
    let edns = reply.edns.as_ref().expect("options");
    assert_eq!((edns.flags, edns.options.as_slice()), (0x8000, &[0, 15, 0, 2, 0, 22][..]));
    assert_eq!(reply.author, "forward");
}

#[tokio::test]
async fn junk_before_the_reply_is_passed_over() {
    let upstream = MockUpstream::start(|_| {
        let mut acts = vec![Act::OtherQuestion("evil.example.org".into()), Act::Garbage(vec![1, 2, 3])];
        // As many as a socket's buffer surely holds.
        acts.extend((0..100).map(|_| Act::Raw(vec![0; 12])));
        acts.push(Act::answer(&[RECORD]));
        acts
    });
    let harness = harness("forward . U1", &[&upstream]).await;
    assert_eq!(records(&harness.ask(&query("example.org A")).await), [RECORD]);
    assert_eq!(upstream.seen().len(), 1, "neither a retry nor a probe");
    let to = upstream.address().to_string();
    assert_eq!(counter("coredns_proxy_ignored_messages_total", Some(("to", &to))), 102.0);
}

#[tokio::test]
async fn guessed_identifiers_lead_to_tcp() {
    let upstream = MockUpstream::start(|seen| match seen.proto {
        "udp" => vec![Act::WrongId(1, vec!["example.org. 1 IN A 192.0.2.66".into()]); 3],
        _ => vec![Act::answer(&[RECORD])],
    });
    let harness = harness("forward . U1", &[&upstream]).await;
    assert_eq!(records(&harness.ask(&query("example.org A")).await), [RECORD]);
    let to = upstream.address().to_string();
    assert_eq!(counter("coredns_proxy_spoof_suspicions_total", Some(("to", &to))), 1.0);
}

#[tokio::test]
async fn identifiers_and_ports_are_fresh() {
    let upstream = MockUpstream::answering(&[RECORD]);
    let harness = harness("forward . U1", &[&upstream]).await;
    for _ in 0..200 {
        let _ = harness.ask(&query("example.org A")).await;
    }
    let seen = upstream.seen();
    let ids: std::collections::BTreeSet<u16> = seen.iter().map(|seen| seen.message.header.id).collect();
    assert!(ids.len() > 190, "{} identifiers in 200 queries", ids.len());
    let mut ports = std::collections::BTreeMap::new();
    seen.iter().for_each(|seen| *ports.entry(seen.peer.port()).or_insert(0) += 1);
    assert!(ports.len() >= 4 && ports.values().all(|uses| *uses <= 64), "{ports:?}");
}

#[tokio::test]
async fn many_queries_share_a_connection_and_overtake_each_other() {
    let upstream = MockUpstream::start(|seen| {
        let name = seen.question();
        let record = format!("{} 60 IN A 192.0.2.1", name.split(' ').next().unwrap_or_default());
        let pause = if name.starts_with("slow") { 300 } else { 0 };
        vec![Act::Delay(Duration::from_millis(pause)), Act::Answer(vec![record])]
    });
    let harness = Arc::new(harness("forward . U1 {\nforce_tcp\n}", &[&upstream]).await);
    let (slow, quick) = (query("slow.example.org A"), query("quick.example.org A"));
    let mut slow = std::pin::pin!(harness.ask(&slow));
    tokio::select! {
        _ = &mut slow => panic!("the slow one came first"),
        answer = harness.ask(&quick) => assert_eq!(records(&answer), ["quick.example.org. 60 IN A 192.0.2.1"]),
    }
    assert_eq!(records(&slow.await), ["slow.example.org. 60 IN A 192.0.2.1"]);
    let peers: std::collections::BTreeSet<SocketAddr> = upstream.seen().iter().map(|seen| seen.peer).collect();
    assert_eq!(peers.len(), 1);
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_no_failure() {
    let upstream =
        MockUpstream::start(|_| vec![Act::answer(&[RECORD]), Act::Delay(Duration::from_millis(1)), Act::Close]);
    let harness = harness("forward . U1 {\nforce_tcp\nmax_connect_attempts 1\n}", &[&upstream]).await;
    for _ in 0..20 {
        assert_eq!(records(&harness.ask(&query("example.org A")).await), [RECORD]);
        sleep(Duration::from_millis(3)).await;
    }
    assert_eq!(upstream.queries(), upstream.seen().len(), "no probes");
}

#[tokio::test]
async fn a_truncated_reply_is_asked_for_again_where_that_is_wanted() {
    let script = |seen: &Seen| match seen.proto {
        "udp" => vec![Act::Truncated],
        _ => vec![Act::answer(&[RECORD])],
    };
    for (options, transport, expected) in [
        ("", Transport::Udp, None),
        ("prefer_udp", Transport::Udp, Some(["udp", "tcp"])),
        ("prefer_udp", Transport::Tcp, Some(["udp", "tcp"])),
        ("", Transport::Quic, Some(["udp", "tcp"])),
    ] {
        let upstream = MockUpstream::start(script);
        let harness = harness(&format!("forward . U1 {{\n{options}\n}}"), &[&upstream]).await;
        let ask = Ask { transport, ..Ask::new("example.org A") };
        let Answer::Reply(reply) = harness.ask(&ask.query()).await else { panic!("no reply") };
        let protos: Vec<&str> = upstream.seen().iter().map(|seen| seen.proto).collect();
        match expected {
            Some(expected) => {
                assert_eq!((reply.truncated, protos.as_slice()), (false, &expected[..]), "{options} {transport:?}")
            }
            None => assert_eq!((reply.truncated, protos.as_slice()), (true, &["udp"][..])),
        }
    }
}

#[tokio::test]
async fn another_upstream_is_asked_when_one_is_late() {
    let (late, prompt) = (silent(), MockUpstream::answering(&[RECORD]));
    let harness =
        harness("forward . U1 U2 {\npolicy round_robin\nmax_fails 1\nread_timeout 20s\n}", &[&late, &prompt]).await;
    let start = clock::now();
    // Every other query begins with the silent one.
    for _ in 0..2 {
        assert_eq!(records(&harness.ask(&query("example.org A")).await), [RECORD]);
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let waiting = async {
        while !late.seen().iter().any(|seen| seen.question() == ". NS") {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(DEADLINE, waiting).await.expect("a probe");
}

#[tokio::test]
async fn a_sequence_is_kept_while_the_first_may_answer() {
    let late = MockUpstream::start(|_| vec![Act::Delay(Duration::from_millis(700)), Act::answer(&[RECORD])]);
    let second = MockUpstream::answering(&["example.org. 1 IN A 192.0.2.2"]);
    let harness = harness("forward . U1 U2 {\npolicy sequential\n}", &[&late, &second]).await;
    assert_eq!(records(&harness.ask(&query("example.org A")).await), [RECORD]);
    assert_eq!(second.seen().len(), 0);
}

#[tokio::test]
async fn a_refusal_leads_to_the_next_at_once() {
    let prompt = MockUpstream::answering(&[RECORD]);
    for options in ["policy sequential", "policy sequential\nforce_tcp", "policy round_robin"] {
        let stanza = format!("forward . {} U1 {{\n{options}\nmax_fails 0\nread_timeout 20s\n}}", closed_port());
        let harness = harness(&stanza, &[&prompt]).await;
        let start = clock::now();
        for _ in 0..2 {
            assert_eq!(records(&harness.ask(&query("example.org A")).await), [RECORD]);
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{options}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn failures_say_what_failed() {
    let address = closed_port();
    for (options, expected) in [
        ("", format!("->{address}: connection refused")),
        ("force_tcp", format!("dial tcp {address}: connect: connection refused")),
    ] {
        let harness = harness(&format!("forward . {address} {{\n{options}\n}}"), &[]).await;
        let answer = harness.ask(&query("example.org A")).await;
        assert_eq!(answer.rcode(), Some(Rcode::SERVFAIL));
        assert!(error(&answer).ends_with(&expected), "{}", error(&answer));
    }
    let upstream = silent();
    let harness = harness("forward . U1 {\nread_timeout 50ms\n}", &[&upstream]).await;
    let text = error(&harness.ask(&query("example.org A")).await);
    assert!(
        text.starts_with("read udp 127.0.0.1:") && text.ends_with(&format!("->{}: i/o timeout", upstream.address())),
        "{text}"
    );
    assert_eq!(upstream.queries(), 2);
}

#[tokio::test]
async fn too_many_queries_at_once_are_refused() {
    let upstream = silent();
    let harness = harness("forward . U1 {\nmax_concurrent 1\nread_timeout 300ms\n}", &[&upstream]).await;
    let before = counter("coredns_forward_max_concurrent_rejects_total", None);
    let (first, second) = (query("a.example.org A"), query("b.example.org A"));
    let (first, second) = tokio::join!(harness.ask(&first), harness.ask(&second));
    assert_eq!(first.rcode(), Some(Rcode::SERVFAIL));
    assert_eq!(
        (second.rcode(), error(&second).as_str()),
        (Some(Rcode::REFUSED), "concurrent queries exceeded maximum 1")
    );
    assert!(counter("coredns_forward_max_concurrent_rejects_total", None) > before);
    assert_eq!(harness.ask(&query("c.example.org A")).await.rcode(), Some(Rcode::SERVFAIL), "the place is free again");
}

#[tokio::test]
async fn an_upstream_is_down_until_a_probe_is_answered() {
    let well = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen_well = Arc::clone(&well);
    let upstream = MockUpstream::start(move |_| match seen_well.load(std::sync::atomic::Ordering::Relaxed) {
        true => vec![Act::answer(&[RECORD])],
        false => Vec::new(),
    });
    let stanza = "forward . U1 {\nread_timeout 20ms\nmax_fails 1\nhealth_check 5ms no_rec domain example.net\n\
                  failfast_all_unhealthy_upstreams\n}";
    let harness = harness(stanza, &[&upstream]).await;
    let wait_for = async |expected: &str| {
        let waiting = async {
            loop {
                let answer = harness.ask(&query("example.org A")).await;
                let found = match &answer {
                    Answer::Reply(_) => "well".to_owned(),
                    answer => error(answer),
                };
                if found == expected {
                    break;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(DEADLINE, waiting).await.unwrap_or_else(|_| panic!("it was never {expected}"));
    };
    wait_for("no healthy proxies").await;
    let probe = upstream.seen().into_iter().find(|seen| seen.question() == "example.net. NS").expect("a probe");
    assert!(!probe.message.header.has(Header::RD) && probe.message.opt().is_none());
    well.store(true, std::sync::atomic::Ordering::Relaxed);
    wait_for("well").await;
}

#[tokio::test]
async fn resolv_conf_is_followed() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path().join("resolv.conf");
    std::fs::write(&path, "nameserver 127.0.0.77\n").expect("writable");
    let block = block(&format!("forward . {}", path.display()), &[]);
    start_parts(&block).await.expect("it starts");
    std::fs::write(&path, "nameserver 127.0.0.78\nnameserver 127.0.0.79\n").expect("writable");
    let log = LogCapture::start();
    let waiting = async {
        while !log
            .take()
            .iter()
            .any(|line| line == "[INFO] plugin/forward: Upstreams have changed: 127.0.0.78:53 127.0.0.79:53")
        {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(DEADLINE, waiting).await.expect("the file was read again");
    stop_parts(&block).await;
    stop_parts(&block).await;
}

/// A resolver that knows the addresses of one name.
fn resolver(records: &'static [&'static str]) -> MockUpstream {
    MockUpstream::start(move |seen| {
        let asked = &seen.message.questions[0];
        let fits =
            |line: &&&str| line.starts_with(&asked.name.to_string()) && line.contains(&format!(" {} ", asked.qtype));
        let answers: Vec<&str> = records.iter().filter(fits).copied().collect();
        vec![if answers.is_empty() { Act::Rcode(Rcode::NXDOMAIN) } else { Act::answer(&answers) }]
    })
}

#[tokio::test]
async fn host_names_are_resolved_by_the_resolvers_in_turn() {
    let unwell = MockUpstream::start(|_| vec![Act::Rcode(Rcode::SERVFAIL)]);
    let knowing = resolver(&["dns.example. 5 IN A 127.0.0.1", "dns.example. 5 IN AAAA ::1"]);
    let upstream = MockUpstream::answering(&[RECORD]);
    let port = upstream.address().port();
    let stanza = format!("forward . dns.example:{port} {{\nresolver U1 U2\npolicy sequential\n}}");
    let harness = harness(&stanza, &[&unwell, &knowing]).await;
    assert_eq!(records(&harness.ask(&query("example.org A")).await), [RECORD]);

    let failing = block(&format!("forward . other.example:{port} {{\nresolver U1 U2\n}}"), &[&unwell, &knowing]);
    let error = start_parts(&failing).await.expect_err("nobody knows it").to_string();
    assert!(error.starts_with("plugin/forward: failed to resolve \"other.example\": NXDOMAIN from "), "{error}");
    stop_parts(&failing).await;
}

#[tokio::test]
async fn metadata_and_metrics_tell_the_upstream() {
    let upstream = MockUpstream::answering(&[RECORD]);
    let harness = harness("forward . U1", &[&upstream]).await;
    let mut asked = query("example.org A");
    let store = Arc::new(Metadata::new());
    asked.enter(None, Some(Arc::clone(&store)));
    for _ in 0..3 {
        let _ = harness.ask(&asked).await;
    }
    let to = upstream.address().to_string();
    assert_eq!(store.get("forward/upstream"), Some(to.clone()));
    assert_eq!(counter("coredns_proxy_conn_cache_misses_total", Some(("to", &to))), 1.0);
    assert_eq!(counter("coredns_proxy_conn_cache_hits_total", Some(("to", &to))), 2.0);
    let families = metrics::registry().gather();
    let family =
        families.iter().find(|family| family.name() == "coredns_proxy_request_duration_seconds").expect("registered");
    let metric = family.get_metric().iter().find(|metric| metric.get_label().iter().any(|pair| pair.value() == to));
    let metric = metric.expect("observed");
    let labels: Vec<(&str, &str)> = metric.get_label().iter().map(|pair| (pair.name(), pair.value())).collect();
    assert_eq!(labels, [("proxy_name", "forward"), ("rcode", "NOERROR"), ("to", to.as_str())]);
    let histogram = metric.get_histogram();
    assert_eq!((histogram.get_sample_count(), histogram.get_bucket().len()), (3, 16));
    assert_eq!((histogram.get_bucket()[0].upper_bound(), histogram.get_bucket()[15].upper_bound()), (0.000_25, 8.192));
}

#[tokio::test]
async fn what_is_not_forwarded_is_refused() {
    let upstream = MockUpstream::answering(&[RECORD]);
    let harness = harness("forward . U1", &[&upstream]).await;
    let mut notify = Ask::new("example.org SOA");
    notify.flags = 4 << 11;
    assert_eq!(harness.ask(&notify.query()).await.rcode(), Some(Rcode::NOTIMP));
    assert_eq!(upstream.seen().len(), 0);
}

#[tokio::test]
async fn loops_are_warned_about() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path().join("resolv.conf");
    std::fs::write(&path, "nameserver 127.0.0.53\n").expect("writable");
    let block = block(&format!("forward . 127.0.0.1:1053 192.0.2.1:1053 {}", path.display()), &[]);
    let server = ServerInfo { label: "dns://:1053".into(), host: String::new(), port: 1053 };
    let start = Start { servers: vec![Arc::new(server)], ..Start::default() };
    let log = LogCapture::start();
    block.parts[0].start(&start).await.expect("it starts");
    stop_parts(&block).await;
    let lines = log.take();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("Upstream 127.0.0.1:1053 is this server itself"), "{lines:?}");
    assert!(lines[1].contains("Name server 127.0.0.53"), "{lines:?}");
}

#[tokio::test]
async fn without_a_reply_in_any_class_nothing_grows() {
    let upstream = silent();
    let harness = harness("forward . U1 {\nforce_tcp\nread_timeout 50ms\nmax_fails 0\n}", &[&upstream]).await;
    let asked: Vec<_> = (0..200).map(|number| query(&format!("n{number}.example.org A"))).collect();
    let answers = futures_util::future::join_all(asked.iter().map(|asked| harness.ask(asked))).await;
    assert!(answers.iter().all(|answer| answer.rcode() == Some(Rcode::SERVFAIL)));
    let peers: std::collections::BTreeSet<SocketAddr> = upstream.seen().iter().map(|seen| seen.peer).collect();
    assert!(peers.len() <= 100, "{} connections for 200 queries of two tries", peers.len());
}

#[test]
fn the_examples_are_accepted() {
    let directives = ["forward", "errors", "cache", "tls", "log"];
    let blocks = set_up_examples(&[&DESCRIPTOR], &directives, include_str!("README.md"));
    assert!(blocks.len() >= 8);
    assert!(blocks.iter().all(|block| block.warnings.is_empty() && !block.plugins.is_empty()));
}

#[test]
fn all_metrics_are_there_from_the_start() {
    (DESCRIPTOR.register_metrics)();
    let names: Vec<String> = metrics::registry().gather().iter().map(|family| family.name().to_owned()).collect();
    for name in ["coredns_forward_healthcheck_broken_total", "coredns_forward_max_concurrent_rejects_total"] {
        assert!(names.iter().any(|known| known == name), "{name}");
    }
}

#[test]
fn files_for_tls_are_read_at_setup() {
    let missing = Path::new("/nonexistent/file.pem");
    for (args, expected) in [
        (format!("tls {}", missing.display()), "error reading /nonexistent/file.pem: no such file or directory"),
        (
            format!("tls {0} {0}", missing.display()),
            "could not load TLS cert: open /nonexistent/file.pem: no such file or directory",
        ),
        ("tls a b c d".to_owned(), "Wrong argument count or unexpected line ending after 'd'"),
    ] {
        let error = set_up(&[&DESCRIPTOR], &format!("forward . 127.0.0.1 {{\n{args}\n}}")).expect_err("refused");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Records of the kinds that are easily mistaken for one another.
#[tokio::test]
async fn a_large_reply_is_taken_whole() {
    let records_sent: Vec<String> = (0..60).map(|number| format!("example.org. 60 IN A 192.0.2.{number}")).collect();
    let texts: Vec<&str> = records_sent.iter().map(String::as_str).collect();
    let upstream = MockUpstream::answering(&texts);
    let harness = harness("forward . U1", &[&upstream]).await;
    let Answer::Reply(reply) = harness.ask(&query("example.org A")).await else { panic!("no reply") };
    assert_eq!((reply.truncated, reply.answer.len()), (false, 60));
    assert!(reply.answer.iter().all(|record: &Record| record.ip().is_some()));
}

#[test]
fn a_server_name_without_tls_is_remarked_on() {
    for (to, warnings) in [("127.0.0.1", 1), ("tls://127.0.0.1", 0), ("127.0.0.1 tls://127.0.0.2", 0)] {
        let stanza = format!("forward . {to} {{\ntls_servername dns.example\n}}");
        let config = set_up(&[&DESCRIPTOR], &stanza).expect("legal");
        let texts: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
        let remarks = texts.iter().filter(|text| text.contains("tls_servername has no effect"));
        assert_eq!(remarks.count(), warnings, "{to}: {texts:?}");
    }
}
