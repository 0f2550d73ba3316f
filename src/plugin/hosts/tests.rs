//! The plugin as a whole: directive, life, answers.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use coredns_plugin::wire::Rcode;
use coredns_plugin::{Answer, BlockConfig, Reply, metrics};
use coredns_testkit::{
    Harness, LogCapture, Scripted, query, same_records, set_up, set_up_examples, start_parts, stop_parts,
};

use super::DESCRIPTOR;

/// What the plugin behind answers: an empty reply with a code that *hosts* never gives.
fn harness(config: &BlockConfig) -> Harness {
    let mut chain = config.plugins.clone();
    chain.push(Arc::new(Scripted::new("next", |_| Reply::with_rcode("next", Rcode::NOTAUTH).into())));
    Harness::new(chain)
}

fn records(harness: &Harness, asked: &str) -> Vec<String> {
    match harness.ask_now(&query(asked)) {
        Answer::Reply(reply) => reply.answer.iter().map(ToString::to_string).collect(),
        answer => panic!("{asked}: {answer:?}"),
    }
}

/// Writes the file as one of another time, whatever the clock of the file system can tell apart.
fn write_at(path: &Path, text: &str, seconds: u64) {
    fs::write(path, text).expect("writable");
    let file = File::options().write(true).open(path).expect("it is there");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("settable");
}

/// Waits, in paused time, until `asked` has `expected` records.
async fn wait_for(harness: &Harness, asked: &str, expected: &[&str]) {
    for _ in 0..100 {
        if records(harness, asked) == expected {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("{asked}: {:?} instead of {expected:?}", records(harness, asked));
}

#[tokio::test(start_paused = true)]
async fn the_file_is_read_again_when_it_changes_and_kept_when_it_goes() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path().join("hosts");
    let config = set_up(&[&DESCRIPTOR], &format!("hosts {} {{\nfallthrough\n}}", path.display())).expect("valid");
    let log = LogCapture::start();
    start_parts(&config).await.expect("a missing file is no error");
    assert_eq!(log.take(), [format!("[WARNING] plugin/hosts: File does not exist: {}", path.display())]);

    let harness = harness(&config);
    let (first, second) = ("a.example.org. 3600 IN A 192.0.2.1", "a.example.org. 3600 IN A 192.0.2.2");
    assert_eq!(harness.ask_now(&query("a.example.org A")).rcode(), Some(Rcode::NOTAUTH));
    write_at(&path, "192.0.2.1 a.example.org\n", 1000);
    wait_for(&harness, "a.example.org A", &[first]).await;
    write_at(&path, "192.0.2.2 a.example.org\n", 2000);
    wait_for(&harness, "a.example.org A", &[second]).await;
    fs::remove_file(&path).expect("it is there");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(records(&harness, "a.example.org A"), [second]);

    stop_parts(&config).await;
    stop_parts(&config).await;
    write_at(&path, "192.0.2.3 a.example.org\n", 3000);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(records(&harness, "a.example.org A"), [second]);
}

#[tokio::test(start_paused = true)]
async fn without_reload_the_file_is_read_once() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path().join("hosts");
    write_at(&path, "192.0.2.1 a.example.org\n", 1000);
    let config = set_up(&[&DESCRIPTOR], &format!("hosts {} {{\nreload 0\n}}", path.display())).expect("valid");
    start_parts(&config).await.expect("it starts");
    write_at(&path, "192.0.2.2 a.example.org\n", 2000);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(records(&harness(&config), "a.example.org A"), ["a.example.org. 3600 IN A 192.0.2.1"]);
    stop_parts(&config).await;
}

#[tokio::test]
async fn the_metrics_tell_values_and_time_of_the_file() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path().join("hosts");
    write_at(&path, "192.0.2.1 a b\n2001:db8::1 a\n192.0.2.2 *.c\n", 1000);
    (DESCRIPTOR.register_metrics)();
    let stanza = format!("hosts {} {{\n192.0.2.3 d\n}}", path.display());
    let config = set_up(&[&DESCRIPTOR], &stanza).expect("valid");
    start_parts(&config).await.expect("it starts");
    stop_parts(&config).await;
    let families = metrics::registry().gather();
    let entries = families.iter().find(|family| family.name() == "coredns_hosts_entries").expect("registered");
    let label = path.display().to_string();
    let metric = entries.get_metric().iter().find(|metric| metric.get_label()[0].value() == label).expect("set");
    // Three addresses of names and three names of addresses, the wildcard's address, and two values of the inline entry.
    assert_eq!((metric.get_label()[0].name(), metric.get_gauge().get_value()), ("hostsfile", 9.0));
    let time = families.iter().find(|family| family.name() == "coredns_hosts_reload_timestamp_seconds");
    assert!(time.expect("registered").get_metric()[0].get_label().is_empty());
}

#[tokio::test]
async fn what_is_no_regular_file_is_an_error_but_a_directory_a_warning() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let log = LogCapture::start();
    let config = set_up(&[&DESCRIPTOR], &format!("hosts {}", directory.path().display())).expect("valid");
    start_parts(&config).await.expect("it starts");
    stop_parts(&config).await;
    let expected = format!("[WARNING] plugin/hosts: Hosts file \"{}\" is a directory", directory.path().display());
    assert_eq!(log.take(), [expected]);
    let config = set_up(&[&DESCRIPTOR], "hosts /dev/null").expect("valid");
    let error = start_parts(&config).await.expect_err("a device");
    assert_eq!(error.to_string(), "plugin/hosts: unable to access hosts file '/dev/null': not a regular file");
}

#[test]
fn lines_that_cannot_be_meant_are_warned_about() {
    for (line, warnings) in [
        ("192.0.2.1 a", 0),
        ("fe80::1%lo a", 0),
        ("reloud 5s", 1),
        ("192.0.2.1", 1),
        ("192.0.2.300 a", 1),
        ("ttl 5 6", 1),
    ] {
        let config = set_up(&[&DESCRIPTOR], &format!("hosts {{\n{line}\n}}")).expect("valid");
        assert_eq!(config.warnings.len(), warnings, "{line}: {:?}", config.warnings);
    }
    let config = set_up(&[&DESCRIPTOR], "hosts {\nreloud 5s\n}").expect("valid");
    let warning = &config.warnings[0];
    assert_eq!(
        (warning.line(), warning.message()),
        (4, "'reloud' is neither an option of hosts nor an address: the line has no effect")
    );
}

#[test]
fn an_address_with_very_many_names_gets_a_bounded_answer() {
    let lines: String = (0..5000).map(|n| format!("192.0.2.1 a{n}\n")).collect();
    let config = set_up(&[&DESCRIPTOR], &format!("hosts {{\n{lines}\n}}")).expect("valid");
    assert_eq!(records(&harness(&config), "1.2.0.192.in-addr.arpa PTR").len(), 4096);
}

#[test]
fn without_a_next_plugin_what_is_passed_on_fails() {
    let config = set_up(&[&DESCRIPTOR], "hosts {\n192.0.2.1 a\nfallthrough\n}").expect("valid");
    let harness = Harness::new(config.plugins);
    let Answer::Failed(failure) = harness.ask_now(&query("b A")) else { panic!("answered") };
    assert_eq!(failure.rcode, Rcode::SERVFAIL);
    assert_eq!(failure.error.expect("a reason").to_string(), "plugin/hosts: no next plugin found");
}

#[test]
fn the_class_is_not_looked_at_and_records_are_of_class_in() {
    let config = set_up(&[&DESCRIPTOR], "hosts {\n192.0.2.1 a\n}").expect("valid");
    let Answer::Reply(reply) = harness(&config).ask_now(&query("A A CH")) else { panic!("no reply") };
    assert!(reply.authoritative);
    assert_eq!(same_records(&reply.answer, &["a. 3600 IN A 192.0.2.1"], true, true), Ok(()));
}

#[test]
fn the_examples_are_accepted() {
    let blocks = set_up_examples(&[&DESCRIPTOR], &["hosts"], include_str!("README.md"));
    assert_eq!(blocks.len(), 3);
    assert!(blocks.iter().all(|block| block.warnings.is_empty() && block.plugins.len() == 1));
}
