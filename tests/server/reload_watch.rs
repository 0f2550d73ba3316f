//! Reload by the watch over the Corefile.

use coredns_testkit::process::{Running, Scratch};

use crate::support::{BINARY, addresses, hosts_block, scratch, serve, until};

const NAME: &str = "www.example.org A";

fn corefile(address: &str) -> String {
    hosts_block("example.org:0", address, "www.example.org").replacen("{\n", "{\n    reload 2s 0s\n", 1)
}

fn running(server: &Running) -> usize {
    let lines = server.lines();
    lines.iter().filter(|line| line.starts_with("[INFO] plugin/reload: Running configuration SHA512 = ")).count()
}

#[test]
fn a_changed_text_is_served() {
    let server = serve(&corefile("192.0.2.1"));
    let client = server.client("example.org.");
    server.wait_for("[INFO] plugin/reload: Running configuration SHA512 = ", 1);
    // A comment behind and more blanks are no change; the text after them is.
    server.scratch.write("Corefile", format!("{}# comment\n", corefile("192.0.2.1")));
    server.scratch.write("Corefile", corefile("192.0.2.2"));
    server.wait_for("[INFO] Reloading complete", 1);
    assert_eq!(addresses(&client.udp(NAME)), ["192.0.2.2"]);
    server.wait_for("[INFO] plugin/reload: Running configuration SHA512 = ", 2);
    // SIGUSR1 in between does not end the watch.
    server.signal("USR1");
    server.wait_for("[INFO] Reloading complete", 2);
    server.scratch.write("Corefile", corefile("192.0.2.3"));
    server.wait_for("[INFO] Reloading complete", 3);
    assert_eq!(addresses(&client.udp(NAME)), ["192.0.2.3"]);
    server.wait_for("[INFO] plugin/reload: Running configuration SHA512 = ", 4);
}

#[test]
fn bad_texts_are_logged_and_the_watch_goes_on() {
    let server = serve(&corefile("192.0.2.1"));
    let client = server.client("example.org.");
    server.scratch.write("Corefile", "example.org:0 {\n");
    server.wait_for("[WARNING] plugin/reload: Corefile parse failed: ", 1);
    assert_eq!(addresses(&client.udp(NAME)), ["192.0.2.1"]);
    server.scratch.write("Corefile", "example.org:0 {\n    nonsense\n}\n");
    server.wait_for(
        "[ERROR] plugin/reload: Corefile changed but reload failed: starting with listener file descriptors: ",
        1,
    );
    assert_eq!(addresses(&client.udp(NAME)), ["192.0.2.1"]);
    server.scratch.write("Corefile", corefile("192.0.2.2"));
    server.wait_for("[INFO] Reloading complete", 1);
    assert_eq!(addresses(&client.udp(NAME)), ["192.0.2.2"]);
    let failures = server.lines().iter().filter(|line| line.contains("reload failed")).count();
    assert_eq!(failures, 1, "the same bad text is not tried twice");
}

#[test]
fn config_maps_are_followed_through_their_links() {
    let scratch: Scratch = scratch();
    let link = |to: &str, from: &str| {
        let (path, next) = (scratch.path().join(from), scratch.path().join("next"));
        std::os::unix::fs::symlink(to, &next).and_then(|()| std::fs::rename(&next, path)).expect("ours");
    };
    scratch.write("..1/Corefile", "");
    link("..1", "..data");
    link("..data/Corefile", "Corefile");
    scratch.write("..2/Corefile", corefile("192.0.2.2"));
    let path = scratch.path().to_owned();
    let server = Running::start_in(BINARY, scratch, &corefile("192.0.2.1"), &[]);
    let client = server.client("example.org.");
    assert_eq!(addresses(&client.udp(NAME)), ["192.0.2.1"]);
    // As the kubelet does it: a new folder, the link swapped, the old folder removed.
    std::os::unix::fs::symlink("..2", path.join("next")).expect("ours");
    std::fs::rename(path.join("next"), path.join("..data")).expect("ours");
    std::fs::remove_dir_all(path.join("..1")).expect("ours");
    server.wait_for("[INFO] Reloading complete", 1);
    assert_eq!(addresses(&client.udp(NAME)), ["192.0.2.2"]);
}

#[test]
fn a_text_without_the_directive_ends_the_watch() {
    let server = serve(&corefile("192.0.2.1"));
    let client = server.client("example.org.");
    server.scratch.write("Corefile", hosts_block("example.org:0", "192.0.2.2", "www.example.org"));
    server.wait_for("[INFO] Reloading complete", 1);
    assert_eq!(addresses(&client.udp(NAME)), ["192.0.2.2"]);
    assert_eq!(running(&server), 1);
}

#[test]
fn a_missing_file_changes_nothing() {
    let server = serve(&corefile("192.0.2.1"));
    let client = server.client("example.org.");
    let path = server.scratch.path().join("Corefile");
    let opened = || std::fs::metadata(&path).is_ok();
    std::fs::remove_file(&path).expect("ours");
    assert!(!opened());
    // The watch has looked when, two periods later, a text that is back is served.
    let start = coredns_plugin::clock::now();
    until("two periods", || crate::support::since(start).as_millis() > 2_500);
    assert_eq!(addresses(&client.udp(NAME)), ["192.0.2.1"]);
    server.scratch.write("Corefile", corefile("192.0.2.4"));
    server.wait_for("[INFO] Reloading complete", 1);
    assert_eq!(addresses(&client.udp(NAME)), ["192.0.2.4"]);
    assert!(
        !server.lines().iter().any(|line| line.contains("[ERROR]") || line.contains("[WARNING]")),
        "{:?}",
        server.lines()
    );
}
