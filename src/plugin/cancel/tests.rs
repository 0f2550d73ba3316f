use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::wire::Rcode;
use coredns_plugin::{Answer, Next, Outcome, Plugin, Query, Reply};
use coredns_testkit::{Harness, query, set_up, set_up_examples};
use tokio::time::{Instant, sleep};

use super::DESCRIPTOR;
use crate::registry::DIRECTIVES;

/// A plugin that answers after a while.
struct Slow(Duration);

impl Plugin for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn serve<'a>(&'a self, _query: &'a Query, _next: Next<'a>) -> Outcome<'a> {
        if self.0.is_zero() {
            return Outcome::from(Reply::new("slow"));
        }
        Outcome::of(async {
            sleep(self.0).await;
            Answer::Reply(Reply::new("slow"))
        })
    }
}

fn harness(stanza: &str, delay: Duration) -> Harness {
    let mut chain = set_up(&[&DESCRIPTOR], stanza).expect(stanza).plugins;
    chain.push(Arc::new(Slow(delay)));
    Harness::new(chain)
}

/// The code of the answer, on a clock that jumps to the next timer, and how long it took by that clock.
fn ask(stanza: &str, delay: Duration) -> (Option<Rcode>, Duration) {
    // A runtime for each query: the deadline counts from its arrival, which the real clock tells.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let started = Instant::now();
        let answer = harness(stanza, delay).ask(&query("example.org A")).await;
        (answer.rcode(), started.elapsed())
    })
}

#[test]
fn what_waits_longer_gets_no_answer() {
    for (stanza, delay, code) in [
        ("cancel 200ms", 100, Some(Rcode::NOERROR)),
        ("cancel 2s", 30_000, None),
        ("cancel", 4000, Some(Rcode::NOERROR)),
        ("cancel", 6000, None),
        ("cancel 1s\ncancel 30s", 2000, Some(Rcode::NOERROR)),
        ("cancel 9223372036s", 10_000, Some(Rcode::NOERROR)),
    ] {
        let (answer, waited) = ask(stanza, Duration::from_millis(delay));
        assert_eq!(answer, code, "{stanza} after {delay} ms");
        assert_eq!(waited < Duration::from_millis(delay), code.is_none(), "{stanza} after {delay} ms: {waited:?}");
    }
}

#[test]
fn what_is_there_passes() {
    // Without a runtime: no timer is made.
    let answer = harness("cancel 1ns", Duration::ZERO).ask_now(&query("example.org A"));
    assert_eq!(answer.rcode(), Some(Rcode::NOERROR));
}

#[test]
fn errors() {
    for (stanza, error) in [
        ("cancel 5", "invalid duration: \"5\""),
        ("cancel soon", "invalid duration: \"soon\""),
        ("cancel -1s", "invalid negative duration: \"-1s\""),
        ("cancel 0s", "invalid negative duration: \"0s\""),
        (
            "cancel 5s 6s",
            "Testfile:3 - Error during parsing: Wrong argument count or unexpected line ending after '6s'",
        ),
        ("cancel 5s {\n}", "Testfile:3 - Error during parsing: Unexpected token '{', expecting argument"),
    ] {
        let refused = set_up(&[&DESCRIPTOR], stanza).expect_err(stanza).to_string();
        assert_eq!(refused, format!("plugin/cancel: {error}"), "{stanza}");
    }
}

#[test]
fn readme() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    assert_eq!(blocks.iter().map(|block| block.plugins.len()).collect::<Vec<_>>(), [1, 1]);
}
