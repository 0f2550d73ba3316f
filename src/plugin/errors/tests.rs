//! The plugin as a whole: directive, lines, timers.

use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::wire::Rcode;
use coredns_plugin::{Answer, BlockConfig, Failure, Reply};
use coredns_testkit::{Harness, LogCapture, Scripted, query, set_up, set_up_examples, start_parts, stop_parts};

use super::DESCRIPTOR;

/// The chain with a plugin behind that fails with the first label of the name as its reason.
fn harness(config: &BlockConfig) -> Harness {
    let next = Scripted::new("next", |query| {
        let label = query.name().labels().next().unwrap_or_default();
        Answer::failed(Rcode::NOTAUTH, String::from_utf8_lossy(label).into_owned())
    });
    let mut chain = config.plugins.clone();
    chain.push(Arc::new(next));
    Harness::new(chain)
}

fn fail(harness: &Harness, reasons: &[&str]) {
    for reason in reasons {
        let answer = harness.ask_now(&query(&format!("{reason}.Example.org A")));
        assert_eq!(answer.rcode(), Some(Rcode::NOTAUTH));
    }
}

#[test]
fn a_reason_is_logged_and_passed_on() {
    let config = set_up(&[&DESCRIPTOR], "errors stdout").expect("valid");
    let log = LogCapture::start();
    let mut chain = config.plugins;
    chain.push(Arc::new(Scripted::new("next", |_| Answer::failed(Rcode::NOTAUTH, "test error"))));
    let Answer::Failed(failure) = Harness::new(chain).ask_now(&query("Example.ORG A")) else { panic!("answered") };
    assert_eq!((failure.rcode, failure.error.expect("it is kept").to_string()), (Rcode::NOTAUTH, "test error".into()));
    assert_eq!(log.take(), ["[ERROR] plugin/errors: 9 example.org. A: test error"]);
}

#[test]
fn without_a_reason_nothing_is_logged() {
    let config = set_up(&[&DESCRIPTOR], "errors").expect("valid");
    let log = LogCapture::start();
    let answers: [fn() -> Answer; 3] = [
        || Answer::Failed(Failure::silent(Rcode::SERVFAIL)),
        || Reply::with_rcode("next", Rcode::SERVFAIL).into(),
        || Answer::Dropped,
    ];
    for answer in answers {
        let mut chain = config.plugins.clone();
        chain.push(Arc::new(Scripted::new("next", move |_| answer())));
        drop(Harness::new(chain).ask_now(&query("example.org A")));
    }
    assert!(log.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn errors_of_a_kind_become_one_line() {
    let stanza = "errors {\nconsolidate 5m ^time warning\nconsolidate 1m ti\n}";
    let config = set_up(&[&DESCRIPTOR], stanza).expect("valid");
    let harness = harness(&config);
    let log = LogCapture::start();
    start_parts(&config).await.expect("it starts");
    fail(&harness, &["timeout", "timely", "notion", "other", "timeout"]);
    assert_eq!(log.take(), ["[ERROR] plugin/errors: 9 other.example.org. A: other"]);
    tokio::time::sleep(Duration::from_secs(59)).await;
    fail(&harness, &["notion"]);
    assert!(log.take().is_empty());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(log.take(), ["[ERROR] plugin/errors: 2 errors like 'ti' occurred in last 1m0s"]);
    tokio::time::sleep(Duration::from_secs(240)).await;
    assert_eq!(log.take(), ["[WARNING] plugin/errors: 3 errors like '^time' occurred in last 5m0s"]);
    // A period begins with its first error, not with the end of the one before.
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert!(log.take().is_empty());
    fail(&harness, &["timeout"]);
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(log.take(), ["[WARNING] plugin/errors: 1 errors like '^time' occurred in last 5m0s"]);
    stop_parts(&config).await;
}

#[tokio::test(start_paused = true)]
async fn show_first_logs_the_first_and_a_summary_of_several() {
    let config = set_up(&[&DESCRIPTOR], "errors {\nconsolidate 2s .* info show_first\n}").expect("valid");
    let harness = harness(&config);
    let log = LogCapture::start();
    start_parts(&config).await.expect("it starts");
    fail(&harness, &["a", "b", "c"]);
    assert_eq!(log.take(), ["[INFO] plugin/errors: 9 a.example.org. A: a"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(log.take(), ["[INFO] plugin/errors: 3 errors like '.*' occurred in last 2s"]);
    fail(&harness, &["d"]);
    assert_eq!(log.take(), ["[INFO] plugin/errors: 9 d.example.org. A: d"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(log.take().is_empty());
    stop_parts(&config).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_all_periods_and_later_errors_stand_alone() {
    let config = set_up(&[&DESCRIPTOR], "errors {\nconsolidate 5m .* debug\n}").expect("valid");
    let harness = harness(&config);
    let log = LogCapture::start();
    fail(&harness, &["early"]);
    assert_eq!(log.take(), ["[ERROR] plugin/errors: 9 early.example.org. A: early"]);
    start_parts(&config).await.expect("it starts");
    fail(&harness, &["a", "b"]);
    stop_parts(&config).await;
    assert_eq!(log.take(), ["[DEBUG] plugin/errors: 2 errors like '.*' occurred in last 5m0s"]);
    stop_parts(&config).await;
    fail(&harness, &["late"]);
    assert_eq!(log.take(), ["[ERROR] plugin/errors: 9 late.example.org. A: late"]);
}

#[tokio::test]
async fn no_error_is_lost_when_the_stop_comes_in_between() {
    for _ in 0..50 {
        let config = set_up(&[&DESCRIPTOR], "errors {\nconsolidate 1h .*\n}").expect("valid");
        start_parts(&config).await.expect("it starts");
        let worker = std::thread::spawn({
            let harness = harness(&config);
            move || {
                let log = LogCapture::start();
                fail(&harness, &["x"; 40]);
                log.take()
            }
        });
        let log = LogCapture::start();
        stop_parts(&config).await;
        let mut lines = worker.join().expect("no panic");
        lines.extend(log.take());
        let counted: usize = lines
            .iter()
            .map(|line| match line.strip_prefix("[ERROR] plugin/errors: ").and_then(|line| line.split_once(' ')) {
                Some((count, rest)) if rest.starts_with("errors like") => count.parse().expect("a number"),
                _ => 1,
            })
            .sum();
        assert_eq!(counted, 40, "{lines:?}");
    }
}

#[test]
fn directives_and_their_errors() {
    let at = |line: u32, text: &str| Some(format!("plugin/errors: Testfile:{line} - {text}"));
    let parsing = |line: u32, text: &str| at(line, &format!("Error during parsing: {text}"));
    let consolidate = |rest: &str| format!("errors {{\nconsolidate {rest}\n}}");
    let arguments = |word: &str| parsing(4, &format!("Wrong argument count or unexpected line ending after '{word}'"));
    let long = "a".repeat(10_001);
    for (stanza, error) in [
        ("errors".to_owned(), None),
        ("errors stdout".to_owned(), None),
        ("errors {\nstacktrace\n}".to_owned(), None),
        (consolidate("1m \"format error\""), None),
        (consolidate("1m error\nconsolidate 5s .*"), None),
        (consolidate("1m error show_first"), None),
        (consolidate("1m error warning show_first"), None),
        (consolidate("1m error debug"), None),
        ("errors errors.txt".to_owned(), parsing(3, "invalid log file: errors.txt")),
        ("errors a b".to_owned(), parsing(3, "Wrong argument count or unexpected line ending after 'b'")),
        (
            "errors {\nlog visible\n}".to_owned(),
            at(4, "Syntax error: Unexpected token 'log', expecting 'Unknown field log'"),
        ),
        (
            "errors\nerrors".to_owned(),
            Some("plugin/errors: this plugin can only be used once per Server Block".to_owned()),
        ),
        (consolidate(""), arguments("consolidate")),
        (consolidate("1m"), arguments("1m")),
        (consolidate("1m .* warning show_first x"), arguments("x")),
        (consolidate("1m .* extra"), parsing(4, "unknown option in consolidate: extra")),
        (consolidate("abc .*"), parsing(4, "time: invalid duration \"abc\"")),
        (consolidate("1 .*"), parsing(4, "time: missing unit in duration \"1\"")),
        (consolidate("1m ())"), parsing(4, "error parsing regexp: unexpected ): `())`")),
        (consolidate(&format!("1m {long}")), parsing(4, "regex pattern too long: 10001 > 10000")),
        (consolidate("1m error warning error"), parsing(4, "multiple log levels specified in consolidate")),
        (consolidate("1m error info debug"), parsing(4, "multiple log levels specified in consolidate")),
        (
            consolidate("1m error show_first warning"),
            parsing(4, "log level must come before show_first in consolidate"),
        ),
    ] {
        let found = set_up(&[&DESCRIPTOR], &stanza).err().map(|error| error.to_string());
        assert_eq!(found, error, "{stanza}");
    }
}

#[test]
fn stacktrace_is_a_property_of_the_block() {
    for (stanza, expected) in [("errors", false), ("errors {\nstacktrace\n}", true)] {
        assert_eq!(set_up(&[&DESCRIPTOR], stanza).expect("valid").stacktrace, expected);
    }
}

#[test]
fn the_examples_are_accepted() {
    let blocks = set_up_examples(&[&DESCRIPTOR], &["errors"], include_str!("README.md"));
    assert_eq!(blocks.len(), 2);
    assert!(blocks.iter().all(|block| block.warnings.is_empty() && block.plugins.len() == 1));
}
