//! The plugin as a whole: directive, life, replies.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::wire::{Rcode, Record, parse_record};
use coredns_plugin::{Answer, BlockConfig, Reply};
use coredns_testkit::{Harness, LogCapture, Scripted, query, set_up, set_up_examples, start_parts, stop_parts};

use super::DESCRIPTOR;

fn parse(lines: &[&str]) -> Vec<Record> {
    lines.iter().map(|line| parse_record(line).expect("a record")).collect()
}

/// The chain with a plugin behind that gives these records in all three sections.
fn harness(config: &BlockConfig, rcode: Rcode, lines: &[&str]) -> Harness {
    let records = parse(lines);
    let next = Scripted::new("next", move |_| {
        let mut reply = Reply::with_rcode("next", rcode);
        reply.answer.extend_from_slice(&records);
        reply.authority.extend_from_slice(&records);
        reply.additional.extend_from_slice(&records);
        reply.into()
    });
    let mut chain = config.plugins.clone();
    chain.push(Arc::new(next));
    Harness::new(chain)
}

/// Answer, authority and additional section as text.
fn ask(harness: &Harness, asked: &str) -> [Vec<String>; 3] {
    let Answer::Reply(reply) = harness.ask_now(&query(asked)) else { panic!("no reply") };
    [&reply.answer, &reply.authority, &reply.additional]
        .map(|section| section.iter().map(ToString::to_string).collect())
}

const ADDRESSES: &[&str] =
    &["a. 5 IN A 192.0.2.1", "a. 5 IN A 192.0.2.2", "a. 5 IN A 192.0.2.3", "a. 5 IN AAAA 2001:db8::1"];

#[test]
fn every_address_comes_first_in_every_section() {
    let config = set_up(&[&DESCRIPTOR], "loadbalance").expect("valid");
    let harness = harness(&config, Rcode::NOERROR, ADDRESSES);
    let mut first = [(); 3].map(|()| std::collections::BTreeSet::new());
    for _ in 0..400 {
        for (seen, mut section) in first.iter_mut().zip(ask(&harness, "a A")) {
            seen.insert(section[0].clone());
            section.sort_unstable();
            let mut all: Vec<&str> = ADDRESSES.to_vec();
            all.sort_unstable();
            assert_eq!(section, all);
        }
    }
    // The chance that an address is never first in 400 replies is (3/4)^400.
    assert!(first.iter().all(|seen| seen.len() == ADDRESSES.len()), "{first:?}");
}

#[test]
fn authority_is_shuffled_by_round_robin_only() {
    let stanzas = ["loadbalance weighted wf", "loadbalance weighted wf\nloadbalance {\nprefer 192.0.2.2/32\n}"];
    for (stanza, is_shuffled) in stanzas.into_iter().zip([false, true]) {
        let config = set_up(&[&DESCRIPTOR], stanza).expect("valid");
        let harness = harness(&config, Rcode::NOERROR, ADDRESSES);
        let moved = (0..200).any(|_| ask(&harness, "a A")[1] != ADDRESSES);
        assert_eq!(moved, is_shuffled, "{stanza}");
    }
}

#[test]
fn the_last_policy_counts_and_preferences_add_up() {
    let stanza =
        "loadbalance {\nprefer 192.0.2.3/32\n}\nloadbalance weighted wf\nloadbalance {\nprefer 2001:db8::/32\n}";
    let config = set_up(&[&DESCRIPTOR], stanza).expect("valid");
    let harness = harness(&config, Rcode::NOERROR, ADDRESSES);
    for _ in 0..50 {
        let [answer, _, additional] = ask(&harness, "a A");
        assert_eq!(answer[..2], [ADDRESSES[2], ADDRESSES[3]]);
        assert_eq!(additional[..2], [ADDRESSES[2], ADDRESSES[3]]);
    }
}

#[test]
fn failures_and_transfers_keep_their_order() {
    let config = set_up(&[&DESCRIPTOR], "loadbalance {\nprefer 192.0.2.3/32\n}").expect("valid");
    for (asked, rcode) in [("a A", Rcode::NXDOMAIN), ("a AXFR", Rcode::NOERROR), ("a IXFR", Rcode::NOERROR)] {
        let harness = harness(&config, rcode, ADDRESSES);
        assert!((0..50).all(|_| ask(&harness, asked).iter().all(|section| section == ADDRESSES)), "{asked}");
    }
}

#[test]
fn the_drawn_address_follows_the_weights() {
    let weights = super::Weights::parse("A\n192.0.2.1 1\n192.0.2.2 7\n192.0.2.3 1\n", "wf").expect("valid");
    let mut hits = 0;
    for _ in 0..10_000 {
        let mut records = parse(ADDRESSES);
        super::weighted_top(&mut records, &weights);
        hits += u32::from(records[0].to_string() == ADDRESSES[1]);
    }
    // 7 of 10; the standard deviation is 46.
    assert!((6700..7300).contains(&hits), "{hits}");
}

/// Waits, in paused time, for a log line.
async fn wait_for(log: &LogCapture, expected: &str) {
    for _ in 0..100 {
        let lines = log.take();
        if lines.iter().any(|line| line == expected) {
            assert_eq!(lines, [expected]);
            return;
        }
        assert!(lines.is_empty(), "{lines:?} instead of {expected}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("no line {expected:?}");
}

fn weighted(path: &Path, options: &str) -> BlockConfig {
    set_up(&[&DESCRIPTOR], &format!("loadbalance weighted {} {options}", path.display())).expect("valid")
}

#[tokio::test(start_paused = true)]
async fn the_weight_file_is_read_when_it_changes() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path().join("weights");
    let file = path.display();
    let config = weighted(&path, "");
    let log = LogCapture::start();
    start_parts(&config).await.expect("a missing file may come");
    let missing = format!("open {file}: no such file or directory");
    let expected = format!("[WARNING] plugin/loadbalance: Failed to open weight file:{missing}. Will try again in 30s");
    assert_eq!(log.take(), [expected]);

    let harness = harness(&config, Rcode::NOERROR, ADDRESSES);
    let read = format!("[INFO] plugin/loadbalance: Successfully reloaded weight file {file}");
    fs::write(&path, "a\n192.0.2.1 1\n").expect("writable");
    wait_for(&log, &read).await;
    fs::write(&path, "a\n192.0.2.1 0\n").expect("writable");
    let wrong = format!("wrong weight value:\"0\" in weight file {file}");
    wait_for(&log, &format!("[ERROR] plugin/loadbalance: {wrong}")).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(log.take().is_empty(), "the same error once");
    fs::write(&path, "a\n192.0.2.3 255\n").expect("writable");
    wait_for(&log, &read).await;
    let hits = (0..100).filter(|_| ask(&harness, "a A")[0][0] == ADDRESSES[2]).count();
    assert!(hits > 80, "{hits} of 100 by weight 255 of 258");
    stop_parts(&config).await;
    stop_parts(&config).await;
}

#[tokio::test]
async fn a_wrong_weight_file_ends_the_start() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path().join("weights");
    let file = path.display();
    let error = start_parts(&weighted(&path, "{\nreload 0s\n}")).await.expect_err("missing for good");
    assert_eq!(error.to_string(), format!("plugin/loadbalance: open {file}: no such file or directory"));
    fs::write(&path, "192.0.2.1 1\n").expect("writable");
    let error = start_parts(&weighted(&path, "")).await.expect_err("no domain");
    assert_eq!(error.to_string(), format!("plugin/loadbalance: missing domain name in weight file {file}"));
}

#[test]
fn error_texts() {
    let at = |line: u32, text: &str| format!("plugin/loadbalance: Testfile:{line} - Error during parsing: {text}");
    for (stanza, error) in [
        ("loadbalance x", "plugin/loadbalance: unknown policy: x".to_owned()),
        ("loadbalance round_robin x", at(3, "unknown property for round_robin")),
        ("loadbalance weighted", at(3, "missing weight file argument")),
        ("loadbalance weighted a b", at(3, "unexpected argument(s)")),
        ("loadbalance weighted a {\nreload\n}", at(4, "reload duration value is missing")),
        ("loadbalance weighted a {\nreload 1s 2s\n}", at(4, "unexpected argument")),
        ("loadbalance weighted a {\nreload x\n}", at(4, "invalid reload duration 'x'")),
        ("loadbalance weighted a {\nreload -1s\n}", at(4, "invalid reload duration '-1s'")),
        ("loadbalance {\nprefer 10.0.0.0\n}", at(4, "invalid CIDR \"10.0.0.0\": invalid CIDR address: 10.0.0.0")),
        ("loadbalance {\nreload 1s\n}", at(4, "unknown property 'reload'")),
    ] {
        let found = set_up(&[&DESCRIPTOR], stanza).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(found, Err(error), "{stanza}");
    }
}

#[test]
fn the_examples_are_accepted() {
    let blocks = set_up_examples(&[&DESCRIPTOR], &["loadbalance"], include_str!("README.md"));
    assert_eq!(blocks.len(), 3);
    assert!(blocks.iter().all(|block| block.warnings.is_empty() && block.plugins.len() == 1));
}
