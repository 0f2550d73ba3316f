use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::wire::{Header, Message, Name, Rcode, RrType};
use coredns_plugin::{Answer, Failure, Lifecycle as _, Plugin, ServerInfo, Start, Zones, take_fatal};
use coredns_testkit::{Ask, Harness, Scripted, set_up_block, set_up_examples};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::DESCRIPTOR;
use super::handler::LoopDetector;
use super::setup::first_zone;
use crate::registry::DIRECTIVES;

/// What a test waits at most for something that must come.
const DEADLINE: Duration = Duration::from_secs(20);

/// A server under test: a detector, the chain around it, and a socket in the place of its listener.
struct Bench {
    detector: Arc<LoopDetector>,
    harness: Harness,
    socket: UdpSocket,
    start: Start,
}

impl Bench {
    async fn new(zone: &str) -> Self {
        let zone: Name = zone.parse().expect("a name");
        let detector = Arc::new(LoopDetector::new(zone.clone()));
        let below = Scripted::new("below", |_| Answer::Failed(Failure::silent(Rcode::REFUSED)));
        let chain: [Arc<dyn Plugin>; 2] = [Arc::clone(&detector) as _, Arc::new(below)];
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket");
        let port = socket.local_addr().expect("bound").port();
        let server = |label: &str, port| ServerInfo { label: label.into(), host: "127.0.0.1".into(), port };
        let start = Start {
            servers: vec![Arc::new(server("tls://:853", 1)), Arc::new(server("dns://:53", port))],
            zones: Zones::new(vec![zone]),
            view: String::new(),
            plugins: Arc::from(&chain[..]),
            first: true,
            shared: Arc::default(),
        };
        Self { detector, harness: Harness::new(chain.to_vec()), socket, start }
    }

    /// The next probe and who sent it.
    async fn probe(&self) -> (Message, SocketAddr) {
        let mut buffer = [0; 512];
        let received = timeout(DEADLINE, self.socket.recv_from(&mut buffer)).await.expect("a probe in time");
        let (length, sender) = received.expect("a probe");
        (Message::parse(&buffer[..length]).expect("a message"), sender)
    }

    /// Passes the query `name` through the chain; true where it came out below.
    fn passes(&self, name: &str, qtype: &str) -> bool {
        let ask = Ask::new(&format!("{name} {qtype}"));
        self.harness.ask_now(&ask.query()).rcode() == Some(Rcode::REFUSED)
    }

    /// Waits until the detector gives up probing.
    async fn finished(&self) {
        let task = self.detector.task.take().expect("it was started");
        timeout(DEADLINE * 3, task).await.expect("it ends").expect("it does not panic");
    }
}

/// The name that a probe asks for.
fn probed_name(probe: &Message) -> String {
    probe.questions[0].name.to_string()
}

#[tokio::test(start_paused = true)]
async fn the_third_sighting_ends_the_process() {
    let bench = Bench::new("example.org").await;
    bench.detector.serving(&bench.start).await;
    let (probe, _) = bench.probe().await;
    let name = probed_name(&probe);
    assert!(bench.passes(&name, "HINFO"));
    assert!(bench.passes(&name.to_uppercase(), "HINFO"));
    for (other, qtype) in [("1.2.example.org.", "HINFO"), (name.as_str(), "A"), ("example.org.", "HINFO")] {
        assert!(bench.passes(other, qtype), "{other} {qtype}");
    }
    assert!(!bench.passes(&name, "HINFO"), "the loop is cut");
    let reason = timeout(DEADLINE, take_fatal()).await.expect("a reason");
    let port = bench.socket.local_addr().expect("bound").port();
    assert_eq!(
        reason.message,
        format!(
            "plugin/loop: Loop (10.240.0.1:40212 -> 127.0.0.1:{port}) detected for zone \"example.org.\", see \
             https://coredns.io/plugins/loop#troubleshooting. Query: \"HINFO {name}\""
        )
    );
    assert!(bench.passes(&name, "HINFO"), "it is said once");
    bench.detector.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_ends_the_watch() {
    let bench = Bench::new("example.org").await;
    assert!(bench.passes("1.2.example.org", "HINFO"), "before the start");
    bench.detector.serving(&bench.start).await;
    let (probe, sender) = bench.probe().await;
    assert!(probe.header.has(Header::RD) && !probe.header.has(Header::QR));
    assert_eq!(probe.questions[0].qtype, RrType::HINFO);
    let zone: Name = "example.org".parse().expect("a name");
    assert!(probe.questions[0].name.is_within(&zone));
    let labels: Vec<&[u8]> = probe.questions[0].name.labels().collect();
    assert_eq!(labels.len(), 4);
    assert!(labels[..2].iter().all(|label| label.iter().all(u8::is_ascii_digit)), "{labels:?}");

    let name = probed_name(&probe);
    assert!(bench.passes(&name, "HINFO") && bench.passes(&name, "HINFO"));
    // An answer to something else does not count, one to the probe does.
    for id in [probe.header.id ^ 1, probe.header.id] {
        let header = Header { id, bits: Header::QR, ..Header::default() };
        bench.socket.send_to(&header.to_bytes(), sender).await.expect("sent");
    }
    bench.finished().await;
    for _ in 0..5 {
        assert!(bench.passes(&name, "HINFO"), "a replay has no effect");
    }
    bench.detector.stop().await;
}

#[tokio::test(start_paused = true)]
async fn probes_without_an_answer_are_repeated_for_half_a_minute() {
    let bench = Bench::new(".").await;
    let started = tokio::time::Instant::now();
    bench.detector.serving(&bench.start).await;
    bench.finished().await;
    assert_eq!(started.elapsed().as_secs(), 30);
    let mut names = BTreeSet::new();
    for _ in 0..10 {
        names.insert(probed_name(&bench.probe().await.0));
    }
    assert_eq!(names.len(), 10, "each has a name of its own");
    for name in &names {
        for _ in 0..3 {
            assert!(bench.passes(name, "HINFO"), "sightings of a probe that is over do not count");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_everything() {
    let bench = Bench::new("example.org").await;
    bench.detector.stop().await;
    bench.detector.serving(&bench.start).await;
    bench.detector.serving(&bench.start).await;
    let (probe, _) = bench.probe().await;
    bench.detector.stop().await;
    bench.detector.stop().await;
    for _ in 0..3 {
        assert!(bench.passes(&probed_name(&probe), "HINFO"));
    }
    assert!(!bench.detector.task.is_running());
}

#[tokio::test(start_paused = true)]
async fn no_listener_is_no_problem() {
    let bench = Bench::new("example.org").await;
    bench.detector.serving(&Start { servers: Vec::new(), ..bench.start.clone() }).await;
    assert!(!bench.detector.task.is_running());
}

#[tokio::test(start_paused = true)]
async fn a_zone_without_room_is_not_probed() {
    let labels = [63, 63, 63, 40].map(|length| "a".repeat(length)).join(".");
    let bench = Bench::new(&labels).await;
    bench.detector.serving(&bench.start).await;
    bench.finished().await;
}

#[test]
fn zones() {
    for (key, zone) in [(".", "."), ("example.org", "example.org."), ("b.org a.org", "b.org."), ("unix:///tmp/x", ".")]
    {
        let block = set_up_block(&[&DESCRIPTOR], &format!("{key} {{\nloop\n}}\n")).expect(key);
        assert_eq!((block.plugins.len(), block.parts.len()), (1, 1), "{key}");
        assert_eq!(first_zone(&block).to_string(), zone, "{key}");
    }
}

#[test]
fn errors() {
    for (stanza, error) in [
        (
            "loop argument",
            "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'argument'",
        ),
        ("loop {\n}", "Testfile:2 - Error during parsing: Unexpected token '{', expecting argument"),
        ("loop\nloop", "this plugin can only be used once per Server Block"),
    ] {
        let refused = set_up_block(&[&DESCRIPTOR], &format!(". {{\n{stanza}\n}}\n")).expect_err(stanza).to_string();
        assert_eq!(refused, format!("plugin/loop: {error}"), "{stanza}");
    }
}

#[test]
fn readme() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    assert_eq!(blocks.iter().map(|block| block.plugins.len()).collect::<Vec<_>>(), [1]);
}
