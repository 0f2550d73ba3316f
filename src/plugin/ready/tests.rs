//! The directive, and what the endpoint says at each stage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coredns_plugin::{BlockConfig, HttpRequest, HttpResponse, Next, Outcome, Plugin, Query, Shared, Start};
use coredns_testkit::{set_up, set_up_examples};
use coredns_wire::Rcode;

use super::DESCRIPTOR;
use crate::registry::DIRECTIVES;

/// Ready when it is told to be.
struct Slow {
    name: &'static str,
    ready: AtomicBool,
}

impl Plugin for Slow {
    fn name(&self) -> &'static str {
        self.name
    }

    fn serve<'a>(&'a self, _query: &'a Query, _next: Next<'a>) -> Outcome<'a> {
        Outcome::failed(Rcode::SERVFAIL, "a test")
    }

    fn ready(&self) -> Option<bool> {
        Some(self.ready.load(Ordering::Relaxed))
    }
}

fn slow(name: &'static str) -> Arc<Slow> {
    Arc::new(Slow { name, ready: AtomicBool::new(false) })
}

fn start(shared: &Arc<Shared>, plugins: &[&Arc<Slow>], first: bool) -> Start {
    let plugins: Vec<Arc<dyn Plugin>> = plugins.iter().map(|plugin| Arc::clone(plugin) as _).collect();
    Start { plugins: plugins.into(), first, shared: Arc::clone(shared), ..Start::default() }
}

async fn ask(block: &BlockConfig) -> (u16, String) {
    let peer = "127.0.0.1:1".parse().expect("an address");
    let request = HttpRequest { path: "/ready".into(), headers: Vec::new(), peer };
    let HttpResponse { status, body, .. } = block.http[0].handler.respond(&request).await;
    (status, String::from_utf8(body).expect("text"))
}

fn block(stanza: &str) -> BlockConfig {
    set_up(&[&DESCRIPTOR], stanza).expect("a good directive")
}

#[test]
fn directives() {
    let at = |line: u32| format!("plugin/ready: Testfile:{line} - Error during parsing: ");
    for (stanza, expected) in [
        ("ready", Ok(":8181")),
        ("ready localhost:1234", Ok("localhost:1234")),
        ("ready {\n monitor until-ready\n}", Ok(":8181")),
        ("ready {\n monitor continuously\n}", Ok(":8181")),
        ("ready bla", Err("plugin/ready: address bla: missing port in address".to_owned())),
        ("ready a:1 b", Err(at(3) + "Wrong argument count or unexpected line ending after 'b'")),
        ("ready {\n monitor 404\n}", Err(at(4) + "monitor type '404' not supported")),
        ("ready {\n monitor\n}", Err(at(4) + "Wrong argument count or unexpected line ending after 'monitor'")),
        ("ready {\n monitor a b\n}", Err(at(4) + "Wrong argument count or unexpected line ending after 'b'")),
        ("ready {\n monitro x\n}", Err(at(4) + "unknown property 'monitro'")),
        ("ready\nready", Err("plugin/ready: this plugin can only be used once per Server Block".to_owned())),
    ] {
        let set = set_up(&[&DESCRIPTOR], stanza);
        let set = set.map(|block| block.http.iter().map(|endpoint| endpoint.address.clone()).collect::<Vec<_>>());
        let expected = expected.map(|address| vec![address.to_owned()]);
        assert_eq!(set.map_err(|error| error.to_string()), expected, "{stanza}");
    }
}

#[tokio::test]
async fn it_waits_for_plugins_and_listeners_and_ends_with_the_process() {
    let (block, shared, slow) = (block("ready"), Arc::default(), slow("slow"));
    assert_eq!(ask(&block).await, (503, "Starting".into()));
    let start = start(&shared, &[&slow], true);
    block.parts[0].start(&start).await.expect("it starts");
    assert_eq!(ask(&block).await, (503, "slow".into()));
    slow.ready.store(true, Ordering::Relaxed);
    assert_eq!(ask(&block).await, (503, "Starting".into()));
    block.parts[0].serving(&start).await;
    assert_eq!(ask(&block).await, (200, "OK".into()));
    block.parts[0].lameduck().await;
    assert_eq!(ask(&block).await, (503, "Shutting down".into()));
}

#[tokio::test]
async fn after_a_reload_the_plugins_are_asked_anew_and_serving_goes_on() {
    let (block, shared, slow) = (block("ready"), Arc::default(), slow("slow"));
    block.parts[0].start(&start(&shared, &[&slow], false)).await.expect("it starts");
    assert_eq!(ask(&block).await, (503, "slow".into()));
    slow.ready.store(true, Ordering::Relaxed);
    assert_eq!(ask(&block).await, (200, "OK".into()));
}

#[tokio::test]
async fn the_mode_says_whether_a_plugin_is_asked_again() {
    for (stanza, expected) in [("ready", (200, "OK")), ("ready {\n monitor continuously\n}", (503, "slow"))] {
        let (block, shared, slow) = (block(stanza), Arc::default(), slow("slow"));
        block.parts[0].start(&start(&shared, &[&slow], false)).await.expect("it starts");
        slow.ready.store(true, Ordering::Relaxed);
        assert_eq!(ask(&block).await, (200, "OK".into()));
        slow.ready.store(false, Ordering::Relaxed);
        assert_eq!(ask(&block).await, (expected.0, expected.1.into()), "{stanza}");
    }
}

#[tokio::test]
async fn each_block_speaks_for_all() {
    let shared = Arc::default();
    let (one, two) = (block("ready"), block("ready {\n monitor continuously\n}"));
    let (b, a, other_a) = (slow("unready2"), slow("unready1"), slow("unready1"));
    one.parts[0].start(&start(&shared, &[&b], false)).await.expect("it starts");
    two.parts[0].start(&start(&shared, &[&b, &a, &other_a], false)).await.expect("it starts");
    assert_eq!(ask(&one).await, (503, "unready1,unready2".into()));
    assert_eq!(ask(&two).await, (503, "unready1,unready2".into()));
    for plugin in [&b, &a] {
        plugin.ready.store(true, Ordering::Relaxed);
    }
    // Two plugins of the same name: one of them still needs time.
    assert_eq!(ask(&one).await, (503, "unready1".into()));
    other_a.ready.store(true, Ordering::Relaxed);
    assert_eq!(ask(&one).await, (200, "OK".into()));
    // The second block wants the plugin that both have to be asked each time.
    b.ready.store(false, Ordering::Relaxed);
    assert_eq!(ask(&one).await, (503, "unready2".into()));
}

#[test]
fn the_examples_of_the_readme_are_good() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    let addresses: Vec<&str> =
        blocks.iter().flat_map(|block| &block.http).map(|endpoint| endpoint.address.as_str()).collect();
    assert_eq!(addresses, [":8181", ":8181", "localhost:8092"]);
}
