//! The source against an API server with faults, seen through answers, the log and the server's journal.

mod credentials;
mod hostile;
mod outages;
mod refusals;
mod streams;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coredns_plugin::wire::Name;
use coredns_plugin::{Answer, Plugin, Zones};
use coredns_testkit::kube_api::{Call, ErrorBody, Fault, KubeApi, Rule, Settings, Verb};
use coredns_testkit::process::DEADLINE;
use coredns_testkit::{Harness, LogCapture, query};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::Kubernetes;
use super::super::object::{Change, ObjectKey, ObjectKind};
use super::super::options::{Options, PodMode};
use super::super::source::Sink;
use super::{Access, ApiSource, Timing};

/// Times for tests in a hurry; a watch is kept open for long unless a test says otherwise.
fn timing() -> Timing {
    Timing {
        head: Duration::from_millis(500),
        list: Duration::from_secs(5),
        watch_seconds: (60, 60),
        grace: Duration::from_millis(200),
        quiet: Duration::from_secs(20),
        settle: Duration::from_millis(100),
        backoff: (Duration::from_millis(20), Duration::from_millis(200)),
        relist: Duration::ZERO,
        credentials: Duration::from_millis(20),
        missing: Duration::from_millis(50),
        stale: Duration::from_secs(60),
        page: 500,
    }
}

/// The plugin, fed by the source.
struct Fixture {
    plugin: Arc<Kubernetes>,
    harness: Harness,
    log: LogCapture,
    /// What the sink was told, in order.
    told: Arc<Recorder>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

/// Passes everything on to the index and writes it down.
struct Recorder {
    plugin: Arc<Kubernetes>,
    lines: Mutex<Vec<String>>,
}

impl Recorder {
    fn push(&self, line: String) {
        self.lines.lock().expect("no test panics while it holds the lock").push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no test panics while it holds the lock").clone()
    }

    /// How often a line was written.
    fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|held| *held == line).count()
    }
}

impl Sink for Recorder {
    fn apply(&self, changes: Vec<Change>) {
        for change in &changes {
            self.push(match change {
                Change::Apply(object) => format!("+{}", object.name()),
                Change::Delete(key) => format!("-{}", key.name),
            });
        }
        self.plugin.index().apply(changes);
    }

    fn retain(&self, kind: ObjectKind, keep: &dyn Fn(&ObjectKey) -> bool) {
        self.push(format!("retain {}", kind.as_str()));
        Sink::retain(&**self.plugin.index(), kind, keep);
    }

    fn synced(&self) {
        self.push("synced".to_owned());
        self.plugin.index().synced();
    }
}

impl Fixture {
    /// Starts the source against a server, with the usual options.
    async fn start(api: &KubeApi, timing: Timing) -> Self {
        Self::start_with(Access::Endpoint { url: api.url(), tls: None }, timing, |_| {}).await
    }

    async fn start_with(access: Access, timing: Timing, change: impl FnOnce(&mut Options)) -> Self {
        let zone: Name = "cluster.local".parse().expect("a name");
        let mut options = Options::new(Zones::new(vec![zone.clone()]), zone);
        options.api.qps = 1_000.0;
        options.api.burst = 1_000;
        change(&mut options);
        let log = LogCapture::start();
        let plugin = Arc::new(Kubernetes::new(options.clone(), Vec::new()));
        let told = Arc::new(Recorder { plugin: Arc::clone(&plugin), lines: Mutex::default() });
        let source = ApiSource::new(access, &options.api, options.selection(), timing).await.expect("a source");
        let stop = CancellationToken::new();
        let (sink, stopped): (Arc<dyn Sink>, _) = (told.clone(), stop.clone());
        let task = tokio::spawn(source.run(sink, stopped));
        let harness = Harness::new(vec![plugin.clone()]);
        Self { plugin, harness, log, told, stop, task }
    }

    /// The answer in short: addresses, or the rcode where there are none.
    fn ask(&self, name: &str) -> String {
        match self.harness.ask_now(&query(&format!("{name}.cluster.local A"))) {
            Answer::Reply(reply) if reply.answer.is_empty() => reply.rcode.to_string(),
            Answer::Reply(reply) => {
                let data = |record: &coredns_plugin::wire::Record| {
                    record.to_string().rsplit(' ').next().unwrap_or_default().to_owned()
                };
                reply.answer.iter().map(data).collect::<Vec<_>>().join(" ")
            }
            other => panic!("{name}: {other:?}"),
        }
    }

    /// Waits until the answer is `expected`.
    async fn answers(&self, name: &str, expected: &str) {
        let what = format!("{name} -> {expected}");
        eventually(&what, || self.ask(name) == expected, || format!("{}\n{:#?}", self.ask(name), self.told.lines()))
            .await;
    }

    async fn synced(&self) {
        let wait = self.plugin.index().wait_synced();
        assert!(tokio::time::timeout(DEADLINE, wait).await.is_ok(), "not synced: {:#?}", self.log.take());
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("no panic");
    }
}

/// Waits until something holds.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool, state: impl Fn() -> String) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    if tokio::time::timeout(DEADLINE, wait).await.is_err() {
        panic!("{what} does not come about: {}", state());
    }
}

/// Makes sure that something holds all the time while another thing comes about.
async fn meanwhile<T>(mut holds: impl FnMut() -> bool, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    loop {
        assert!(holds(), "it held no more");
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
    }
}

fn namespace(name: &str) -> Value {
    json!({"kind": "Namespace", "metadata": {"name": name}, "status": {"phase": "Active"}})
}

fn service(name: &str, ip: &str) -> Value {
    json!({"kind": "Service", "metadata": {"name": name, "namespace": "shop", "labels": {"app": name}},
        "spec": {"type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip], "selector": {"app": name},
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": "web"}]}})
}

fn headless(name: &str) -> Value {
    service(name, "None")
}

fn slice(service: &str, ips: &[&str]) -> Value {
    let endpoints: Vec<Value> =
        ips.iter().map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}})).collect();
    json!({"kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": format!("{service}-x7f"), "namespace": "shop", "labels": {"kubernetes.io/service-name": service}},
        "endpoints": endpoints, "ports": [{"name": "http", "protocol": "TCP", "port": 8080}]})
}

fn pod(name: &str, ip: &str, phase: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
        "status": {"phase": phase, "podIP": ip, "podIPs": [{"ip": ip}]}})
}

/// A server with the namespace `shop`, a Service `web` and a headless one, `db`.
async fn shop(settings: Settings) -> KubeApi {
    let api = KubeApi::start_with(settings).await;
    api.apply(namespace("shop"));
    api.apply(service("web", "10.0.0.1"));
    api.apply(headless("db"));
    api.apply(slice("db", &["10.1.0.1", "10.1.0.2"]));
    api
}

/// Settings of a server that does not stream lists.
fn paged() -> Settings {
    Settings { streaming_lists: false, ..Settings::default() }
}

/// How often everything was read since the journal was cleared, by resource; the pages of a list count once.
fn reads(calls: &[Call]) -> BTreeMap<&'static str, usize> {
    let mut reads = BTreeMap::new();
    for call in calls {
        if call.is_streaming_list() || (call.verb == Verb::List && call.parameter("continue").is_none()) {
            *reads.entry(call.resource).or_default() += 1;
        }
    }
    reads
}

/// The requests of a kind.
fn count(calls: &[Call], verb: Verb, resource: &str) -> usize {
    calls.iter().filter(|call| call.verb == verb && call.resource == resource).count()
}

/// Warnings of the log.
fn warnings(log: &LogCapture) -> Vec<String> {
    log.take().into_iter().filter(|line| line.starts_with("[WARNING]") || line.starts_with("[ERROR]")).collect()
}
