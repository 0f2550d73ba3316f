//! The directive, what queries are counted under, and the endpoint.

use std::io::Read as _;
use std::sync::Arc;

use coredns_plugin::metrics::{RequestCollector, RequestMetrics, prometheus, registry};
use coredns_plugin::{
    Answer, BlockConfig, HttpRequest, HttpResponse, Lifecycle as _, Next, Outcome, Plugin, Query, Reply, Start,
    Transport, Zones,
};
use coredns_testkit::{Ask, Harness, Scripted, query, set_up, set_up_examples};
use coredns_wire::Rcode;
use prometheus::{Registry, TextEncoder};

use super::DESCRIPTOR;
use super::enabled::Enabled;
use super::handler::Prometheus;
use crate::registry::DIRECTIVES;

#[test]
fn directives() {
    let at = |line: u32| format!("plugin/prometheus: Testfile:{line} - Error during parsing: ");
    let count = "Wrong argument count or unexpected line ending after ";
    for (stanza, expected) in [
        ("prometheus", Ok("localhost:9153")),
        ("prometheus :9153", Ok(":9153")),
        ("prometheus localhost:53 {\n runtime_metrics\n}", Ok("localhost:53")),
        ("prometheus :9153 {\n tls web.yml\n}", Ok(":9153")),
        ("prometheus {}", Err("plugin/prometheus: address {}: missing port in address".to_owned())),
        ("prometheus bla", Err("plugin/prometheus: address bla: missing port in address".to_owned())),
        ("prometheus a:1 b:2", Err(at(3) + count + "'b:2'")),
        ("prometheus {\n runtime_metrics x\n}", Err(at(4) + count + "'x'")),
        ("prometheus {\n tls\n}", Err(at(4) + count + "'tls'")),
        ("prometheus {\n tls a b\n}", Err(at(4) + count + "'b'")),
        ("prometheus {\n tls a\n tls b\n}", Err(at(5) + "tls block already specified")),
        ("prometheus {\n tlss a\n}", Err(at(4) + "unknown option: tlss")),
        ("prometheus\nprometheus", Err("plugin/prometheus: this plugin can only be used once per Server Block".into())),
    ] {
        let set = set_up(&[&DESCRIPTOR], stanza);
        let set = set.map(|block| block.http.iter().map(|endpoint| endpoint.address.clone()).collect::<Vec<_>>());
        let expected = expected.map(|address| vec![address.to_owned()]);
        assert_eq!(set.map_err(|error| error.to_string()), expected, "{stanza}");
    }
}

/// A block with `prometheus` in front of a plugin that does what a test says.
struct Bench {
    metrics: Arc<RequestMetrics>,
    plugin: Arc<Prometheus>,
    chain: Vec<Arc<dyn Plugin>>,
    start: Start,
}

impl Bench {
    fn new(zones: &[&str], below: impl Fn(&Query) -> Answer + Send + Sync + 'static) -> Self {
        Self::with(zones, vec![Arc::new(Scripted::new("below", below))])
    }

    fn with(zones: &[&str], rest: Vec<Arc<dyn Plugin>>) -> Self {
        let metrics = Arc::new(RequestMetrics::default());
        let plugin = Arc::new(Prometheus::new(Arc::clone(&metrics), false));
        let mut chain = vec![Arc::clone(&plugin) as Arc<dyn Plugin>];
        chain.extend(rest);
        let start = Start {
            servers: vec![Arc::clone(query(". A").server())],
            zones: Zones::from_args(zones),
            view: "inside".into(),
            plugins: chain.clone().into(),
            ..Start::default()
        };
        Self { metrics, plugin, chain, start }
    }

    async fn started(self) -> Self {
        self.plugin.start(&self.start).await.expect("it starts");
        self
    }

    fn ask(&self, text: &str) -> Answer {
        Harness::new(self.chain.clone()).ask_now(&query(text))
    }

    /// The lines of the exposition that begin so, without the common labels.
    fn lines(&self, prefix: &str) -> Vec<String> {
        let registry = Registry::new();
        registry.register(Box::new(RequestCollector::new(Arc::clone(&self.metrics)))).expect("fresh registry");
        let text = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
        let lines = text.lines().filter(|line| line.starts_with(prefix));
        lines.map(|line| line.replace("server=\"dns://:53\",", "").replace("view=\"inside\",", "")).collect()
    }
}

#[tokio::test]
async fn outcomes_have_their_code_and_author() {
    let bench = Bench::new(&["."], |query| match query.name().to_string().as_str() {
        "reply.example." => Reply::with_rcode("below", Rcode::NXDOMAIN).into(),
        "stranger.example." => Reply::new("stranger").into(),
        "failed.example." => Answer::failed(Rcode::REFUSED, "no"),
        _ => Answer::Dropped,
    });
    let bench = bench.started().await;
    for text in ["reply.example. A", "stranger.example. A", "failed.example. A", "dropped.example. A"] {
        let _answer = bench.ask(text);
    }
    assert_eq!(
        bench.lines("coredns_dns_responses_total"),
        [
            "coredns_dns_responses_total{plugin=\"\",rcode=\"NOERROR\",zone=\".\"} 2",
            "coredns_dns_responses_total{plugin=\"\",rcode=\"REFUSED\",zone=\".\"} 1",
            "coredns_dns_responses_total{plugin=\"below\",rcode=\"NXDOMAIN\",zone=\".\"} 1",
        ]
    );
    // Header and question of the one reply, and of the stranger's.
    let size = 12 + "reply.example.".len() + 1 + 4 + 12 + "stranger.example.".len() + 1 + 4;
    assert_eq!(
        bench.lines("coredns_dns_response_size_bytes_sum"),
        [format!("coredns_dns_response_size_bytes_sum{{proto=\"udp\",zone=\".\"}} {size}")]
    );
}

#[tokio::test]
async fn queries_are_counted_by_kind() {
    let bench = Bench::new(&["."], |_| Reply::new("below").into()).started().await;
    for text in ["a.example. A", "a.example. A DO", "a.example. HTTPS", "a.example. TYPE65280", "a.example. MAILB"] {
        let _answer = bench.ask(text);
    }
    let ask = Ask { transport: Transport::Tls, ..Ask::new("a.example. ANY") };
    let from = ask.from("[2001:db8::1]:1".parse().expect("an address"));
    let _answer = Harness::new(bench.chain.clone()).ask_now(&from.query());
    assert_eq!(
        bench.lines("coredns_dns_requests_total"),
        [
            "coredns_dns_requests_total{family=\"1\",proto=\"udp\",type=\"A\",zone=\".\"} 2",
            "coredns_dns_requests_total{family=\"1\",proto=\"udp\",type=\"HTTPS\",zone=\".\"} 1",
            "coredns_dns_requests_total{family=\"1\",proto=\"udp\",type=\"other\",zone=\".\"} 2",
            "coredns_dns_requests_total{family=\"2\",proto=\"tcp\",type=\"ANY\",zone=\".\"} 1",
        ]
    );
    assert_eq!(bench.lines("coredns_dns_do_requests_total"), ["coredns_dns_do_requests_total{zone=\".\"} 1"]);
    assert_eq!(
        bench.lines("coredns_dns_request_duration_seconds_count"),
        ["coredns_dns_request_duration_seconds_count{zone=\".\"} 6"]
    );
}

#[tokio::test]
async fn the_longest_zone_of_the_block_is_the_label() {
    let bench = Bench::new(&["example.org", "sub.example.org"], |_| Reply::new("below").into()).started().await;
    for text in ["a.EXAMPLE.org. A", "a.sub.example.org. A", "sub.example.org. A", "example.net. A"] {
        let _answer = bench.ask(text);
    }
    assert_eq!(
        bench.lines("coredns_dns_request_duration_seconds_count"),
        [
            "coredns_dns_request_duration_seconds_count{zone=\".\"} 1",
            "coredns_dns_request_duration_seconds_count{zone=\"example.org.\"} 1",
            "coredns_dns_request_duration_seconds_count{zone=\"sub.example.org.\"} 2",
        ]
    );
}

/// Finds zones while serving.
struct Finder(arc_swap::ArcSwap<Zones>);

impl Plugin for Finder {
    fn name(&self) -> &'static str {
        "finder"
    }

    fn serve<'a>(&'a self, _query: &'a Query, _next: Next<'a>) -> Outcome<'a> {
        Reply::new("finder").into()
    }

    fn found_zones(&self) -> Option<&arc_swap::ArcSwap<Zones>> {
        Some(&self.0)
    }
}

#[tokio::test]
async fn zones_that_are_found_later_are_labels_too() {
    let finder = Arc::new(Finder(arc_swap::ArcSwap::default()));
    let bench = Bench::with(&["org"], vec![Arc::clone(&finder) as _]).started().await;
    let _answer = bench.ask("a.example.org. A");
    finder.0.store(Arc::new(Zones::from_args(&["example.org", "net"])));
    for text in ["a.example.org. A", "other.org. A", "a.net. A"] {
        let _answer = bench.ask(text);
    }
    assert_eq!(
        bench.lines("coredns_dns_responses_total"),
        [
            "coredns_dns_responses_total{plugin=\"finder\",rcode=\"NOERROR\",zone=\"example.org.\"} 1",
            "coredns_dns_responses_total{plugin=\"finder\",rcode=\"NOERROR\",zone=\"net.\"} 1",
            "coredns_dns_responses_total{plugin=\"finder\",rcode=\"NOERROR\",zone=\"org.\"} 2",
        ]
    );
}

#[tokio::test]
async fn numbers_outlive_a_reload() {
    let bench = Bench::new(&["."], |_| Reply::new("below").into()).started().await;
    let _answer = bench.ask("a.example. A");
    let next = Arc::new(Prometheus::new(Arc::clone(&bench.metrics), false));
    let chain: Vec<Arc<dyn Plugin>> = vec![Arc::clone(&next) as _, Arc::clone(&bench.chain[1])];
    next.start(&Start { first: false, ..bench.start.clone() }).await.expect("it starts");
    bench.plugin.stop().await;
    let _answer = Harness::new(chain).ask_now(&query("a.example. A"));
    assert_eq!(
        bench.lines("coredns_dns_responses_total"),
        ["coredns_dns_responses_total{plugin=\"below\",rcode=\"NOERROR\",zone=\".\"} 2"]
    );
}

fn request(fields: &[(&str, &str)]) -> HttpRequest {
    let headers = fields.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    HttpRequest { path: "/metrics".into(), headers, peer: "127.0.0.1:1".parse().expect("an address") }
}

fn block(stanza: &str) -> BlockConfig {
    set_up(&[&DESCRIPTOR], stanza).expect("a good directive")
}

fn field<'a>(response: &'a HttpResponse, name: &str) -> Option<&'a str> {
    response.headers.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str())
}

#[tokio::test]
async fn the_endpoint_exposes_the_registry_plain_or_compressed() {
    (DESCRIPTOR.register_metrics)();
    let endpoint = &block("prometheus").http[0];
    assert!(!endpoint.required);
    let plain = endpoint.handler.respond(&request(&[])).await;
    assert_eq!(plain.status, 200);
    assert_eq!(field(&plain, "content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(field(&plain, "content-encoding"), None);
    let plain = String::from_utf8(plain.body).expect("text");
    for name in [
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_max_fds",
        "process_virtual_memory_bytes",
        "process_virtual_memory_max_bytes",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_network_receive_bytes_total",
        "process_network_transmit_bytes_total",
    ] {
        let line = plain.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value: f64 = line.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {name} in {plain}"));
        assert!(value >= 0.0, "{name} {value}");
    }
    let names: Vec<&str> = plain.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert!(names.is_sorted(), "{names:?}");

    let zipped = endpoint.handler.respond(&request(&[("accept-encoding", "gzip, deflate")])).await;
    assert_eq!(field(&zipped, "content-encoding"), Some("gzip"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&zipped.body[..]).read_to_string(&mut text).expect("gzip");
    assert!(text.contains("# TYPE process_open_fds gauge\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scrapes_at_the_same_time_share_one_gathering() {
    let all = futures_util::future::join_all((0..16).map(|_| super::exposition::gather())).await;
    let first = all[0].as_ref().expect("gathered");
    assert!(all.iter().all(|one| one.as_ref().is_ok_and(|one| Arc::ptr_eq(one, first))));
    let next = super::exposition::gather().await.expect("gathered");
    assert!(!Arc::ptr_eq(&next, first));
}

#[tokio::test]
async fn runtime_metrics_stay_on() {
    let block = block("prometheus {\n runtime_metrics\n}");
    block.parts[0].start(&Start::default()).await.expect("it starts");
    block.parts[0].stop().await;
    let families = registry().gather();
    let workers = families.iter().find(|family| family.name() == "tokio_runtime_workers").expect("exposed");
    assert!(workers.get_metric()[0].get_gauge().get_value() >= 1.0);
    for name in ["process_threads", "process_context_switches_total", "process_page_faults_total"] {
        assert!(families.iter().any(|family| family.name() == name), "{name}");
    }
}

#[tokio::test]
async fn enabled_plugins_are_those_of_living_instances() {
    (DESCRIPTOR.register_metrics)();
    let series = |zone: &str| {
        let families = registry().gather();
        let family = families.iter().find(|family| family.name() == "coredns_plugin_enabled");
        let labels = family.into_iter().flat_map(|family| family.get_metric()).map(|metric| {
            assert_eq!(metric.get_gauge().get_value(), 1.0);
            metric
                .get_label()
                .iter()
                .map(|pair| format!("{}={}", pair.name(), pair.value()))
                .collect::<Vec<_>>()
                .join(",")
        });
        labels.filter(|labels| labels.contains(zone)).collect::<Vec<_>>()
    };
    let bench = Bench::new(&["enabled.example", "second.example"], |_| Reply::new("below").into());
    let expected = [
        "name=below,server=dns://:53,view=inside,zone=enabled.example.",
        "name=prometheus,server=dns://:53,view=inside,zone=enabled.example.",
    ];
    let old = Enabled::new(&bench.start);
    assert_eq!(series("enabled.example."), expected);
    assert!(series("second.example.").is_empty());
    let fewer = Start { plugins: Arc::from(&bench.chain[1..]), first: false, ..bench.start.clone() };
    let new = Enabled::new(&fewer);
    assert_eq!(series("enabled.example."), expected);
    drop(old);
    assert_eq!(series("enabled.example."), expected[..1]);
    drop(new);
    assert!(series("enabled.example.").is_empty());
}

#[test]
fn the_examples_of_the_readme_are_good() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    let addresses: Vec<&str> =
        blocks.iter().flat_map(|block| &block.http).map(|endpoint| endpoint.address.as_str()).collect();
    assert_eq!(addresses, [":9153", "localhost:9153", "localhost:9153", "localhost:9154"]);
}
