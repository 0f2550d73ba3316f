use std::time::Duration;

use coredns_plugin::ReloadSettings;
use coredns_testkit::{set_up, set_up_examples};

use super::DESCRIPTOR;
use crate::registry::DIRECTIVES;

const fn settings(interval: u64, jitter: u64) -> ReloadSettings {
    ReloadSettings { interval: Duration::from_millis(interval), jitter: Duration::from_millis(jitter) }
}

#[test]
fn values_of_the_block() {
    for (stanza, reload) in [
        ("", None),
        ("reload", Some(settings(30_000, 15_000))),
        ("reload 10s", Some(settings(10_000, 5_000))),
        ("reload 2s", Some(settings(2_000, 1_000))),
        ("reload 1h", Some(settings(3_600_000, 15_000))),
        ("reload 10s 2s", Some(settings(10_000, 2_000))),
        ("reload 10s 5s", Some(settings(10_000, 5_000))),
        ("reload 10s 9s", Some(settings(10_000, 5_000))),
        ("reload 2s 0s", Some(settings(2_000, 0))),
        ("reload 3s 0", Some(settings(3_000, 0))),
        ("reload 3s\nreload 5s 1s", Some(settings(5_000, 1_000))),
    ] {
        let block = set_up(&[&DESCRIPTOR], stanza).expect(stanza);
        assert_eq!(block.reload, reload, "{stanza}");
        assert!(block.plugins.is_empty(), "it is no handler");
    }
}

#[test]
fn errors() {
    for (stanza, error) in [
        ("reload foo", "time: invalid duration \"foo\""),
        ("reload 10s foo", "time: invalid duration \"foo\""),
        ("reload 10", "time: missing unit in duration \"10\""),
        ("reload 1s", "interval value must be greater or equal to 2s"),
        ("reload 0s", "interval value must be greater or equal to 2s"),
        ("reload -5s", "interval value must be greater or equal to 2s"),
        ("reload 3s 0.5s", "jitter value must be 0 or greater or equal to 1s"),
        ("reload 3s -1s", "jitter value must be 0 or greater or equal to 1s"),
        (
            "reload 3s 1s 5s",
            "Testfile:3 - Error during parsing: Wrong argument count or unexpected line ending after '5s'",
        ),
        ("reload 3s {\n}", "Testfile:3 - Error during parsing: Unexpected token '{', expecting argument"),
    ] {
        let refused = set_up(&[&DESCRIPTOR], stanza).expect_err(stanza);
        assert_eq!(refused.to_string(), format!("plugin/reload: {error}"), "{stanza}");
    }
}

#[test]
fn readme() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    let reload: Vec<Option<ReloadSettings>> = blocks.iter().map(|block| block.reload).collect();
    assert_eq!(reload, [Some(settings(30_000, 15_000)), Some(settings(10_000, 5_000)), None]);
}
