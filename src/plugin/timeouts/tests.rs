use std::time::Duration;

use coredns_plugin::Timeouts;
use coredns_testkit::{set_up, set_up_examples};

use super::DESCRIPTOR;
use crate::registry::DIRECTIVES;

const fn seconds(number: u64) -> Option<Duration> {
    Some(Duration::from_secs(number))
}

#[test]
fn values_of_the_block() {
    let none = Timeouts::default();
    for (stanza, timeouts) in [
        ("", none),
        ("timeouts {\nread 30s\n}", Timeouts { read: seconds(30), ..none }),
        ("timeouts {\nread 1m\nwrite 2m\n}", Timeouts { read: seconds(60), write: seconds(120), ..none }),
        ("timeouts {\nidle 1h\n}", Timeouts { idle: seconds(3600), ..none }),
        ("timeouts {\nread 10\n}", Timeouts { read: seconds(10), ..none }),
        ("timeouts {\nread 1s\nidle 24h\n}", Timeouts { read: seconds(1), idle: seconds(86_400), ..none }),
        ("timeouts {\nread 10\nread 20\n}", Timeouts { read: seconds(20), ..none }),
        ("timeouts {\nread 10\n}\ntimeouts {\nidle 20\n}", Timeouts { read: seconds(10), idle: seconds(20), ..none }),
        ("timeouts {\nmaxtcpqueries 128\n}", Timeouts { max_tcp_queries: Some(Some(128)), ..none }),
        ("timeouts {\nmaxtcpqueries -1\n}", Timeouts { max_tcp_queries: Some(None), ..none }),
    ] {
        let block = set_up(&[&DESCRIPTOR], stanza).expect(stanza);
        assert_eq!(block.timeouts, timeouts, "{stanza}");
        assert!(block.plugins.is_empty(), "it is no handler");
    }
}

#[test]
fn errors() {
    for (inside, line, error) in [
        ("", 3, "timeouts block with no timeouts specified"),
        (" {\n}", 4, "timeouts block with no timeouts specified"),
        (" 5s", 3, "Wrong argument count or unexpected line ending after '5s'"),
        (" {\ngiraffe 30s\n}", 4, "unknown option: 'giraffe'"),
        (" {\ngiraffe tall\n}", 4, "failed to parse duration 'tall'"),
        (" {\nread 10s 20s\n}", 4, "Wrong argument count or unexpected line ending after '20s'"),
        (" {\nread\n}", 4, "Wrong argument count or unexpected line ending after 'read'"),
        (" {\nwrite snake\n}", 4, "failed to parse duration 'snake'"),
        (" {\nidle 0s\n}", 4, "timeout provided '0s' needs to be between 1 second and 24 hours"),
        (" {\nidle -5\n}", 4, "timeout provided '-5s' needs to be between 1 second and 24 hours"),
        (" {\nread 999ms\n}", 4, "timeout provided '999ms' needs to be between 1 second and 24 hours"),
        (" {\nread 48h\n}", 4, "timeout provided '48h0m0s' needs to be between 1 second and 24 hours"),
        (" {\nmaxtcpqueries 0\n}", 4, "maxtcpqueries provided '0' needs to be -1 (unlimited) or a positive integer"),
        (" {\nmaxtcpqueries -2\n}", 4, "maxtcpqueries provided '-2' needs to be -1 (unlimited) or a positive integer"),
        (
            " {\nmaxtcpqueries snake\n}",
            4,
            "invalid value for maxtcpqueries 'snake': strconv.Atoi: parsing \"snake\": invalid syntax",
        ),
    ] {
        let refused = set_up(&[&DESCRIPTOR], &format!("timeouts{inside}")).expect_err(inside);
        let expected = format!("plugin/timeouts: Testfile:{line} - Error during parsing: {error}");
        assert_eq!(refused.to_string(), expected, "{inside:?}");
    }
}

#[test]
fn readme() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    let timeouts: Vec<Timeouts> = blocks.iter().map(|block| block.timeouts).collect();
    let none = Timeouts::default();
    let all = Timeouts { read: seconds(10), write: seconds(20), idle: seconds(60), ..none };
    assert_eq!(timeouts, [all, Timeouts { idle: seconds(30), max_tcp_queries: Some(Some(128)), ..none }]);
}
