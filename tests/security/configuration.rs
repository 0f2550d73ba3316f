//! Files that a configuration may name, and words that it may hold.

use std::process::Command;

use coredns_plugin::corefile::Source;
use coredns_rs::server::check;
use coredns_testkit::process::{Running, Scratch};

use crate::support::{BINARY, until};

/// Directives in which FILE stands for a path.
const WITH_FILES: &[&str] = &[
    "import FILE",
    "root FILE",
    "hosts FILE",
    "loadbalance weighted FILE",
    "kubernetes {\n manifests FILE\n }",
    "prometheus 127.0.0.1:0 {\n tls FILE\n }",
];

#[test]
fn special_files_are_refused_at_once() {
    let scratch = Scratch::new();
    let fifo = scratch.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()));
    let socket = scratch.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    for file in [fifo.display().to_string(), socket.display().to_string(), "/dev/zero".into(), "/dev/full".into()] {
        for directive in WITH_FILES {
            let directive = directive.replace("FILE", &file);
            let corefile = format!(".:0 {{\n{directive}\nwhoami\n}}\n");
            let mut server = Running::spawn(BINARY, Scratch::new(), &corefile, &[]);
            // It serves without the file, or says what is wrong with it; it neither waits nor fills its memory.
            until(&format!("a start or an end with {directive}"), || {
                !server.is_alive() || server.lines().iter().any(|line| line.starts_with("CoreDNS-"))
            });
            let size = server.status_kb("VmHWM").unwrap_or_default();
            assert!(size < 200 * 1024, "{directive}: {size} kB");
            let lines = server.lines();
            if directive.starts_with("root") {
                // It is no file to be read; what is looked for below it is not found.
                continue;
            }
            let said = |line: &String| line.contains(&file) || line.contains("not a regular file");
            until(&format!("word of {directive}: {lines:?}"), || server.lines().iter().any(said));
        }
    }
}

#[test]
fn oversized_files_are_refused_unread() {
    let scratch = Scratch::new();
    let sparse = |name: &str, len: u64| {
        let path = scratch.path().join(name);
        std::fs::File::create(&path).and_then(|file| file.set_len(len)).expect("a sparse file");
        path.display().to_string()
    };
    for corefile in [sparse("Corefile", (16 << 20) + 1), "/dev/zero".to_owned()] {
        let ended = Command::new(BINARY).args(["-conf", &corefile, "-validate"]).output().expect("the binary runs");
        let text = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(1) && text.contains("16 MiB"), "{corefile}: {text}");
    }
    let cases = [
        ("hosts FILE", (1 << 30) + 1),
        ("loadbalance weighted FILE", (64 << 20) + 1),
        ("kubernetes {\n manifests FILE\n }", (64 << 20) + 1),
        ("import FILE", (16 << 20) + 1),
    ];
    for (directive, len) in cases {
        let file = sparse("large", len);
        let corefile = format!(".:0 {{\n{}\nwhoami\n}}\n", directive.replace("FILE", &file));
        let mut server = Running::spawn(BINARY, Scratch::new(), &corefile, &[]);
        until(directive, || !server.is_alive() || server.lines().iter().any(|line| line.starts_with("CoreDNS-")));
        until(&format!("word of {directive}"), || server.lines().iter().any(|line| line.contains(&file)));
        let size = server.status_kb("VmHWM").unwrap_or_default();
        assert!(size < 100 * 1024, "{directive}: {size} kB");
    }
}

/// Stanzas with a word that may be of any length; those whose word is a path may show more of it.
const WITH_WORDS: &[(&str, usize)] = &[
    ("WORD", 64),
    ("whoami WORD", 64),
    ("debug WORD", 64),
    ("metadata WORD", 64),
    ("loop a WORD", 64),
    ("import WORD", 1024),
    ("root WORD", 1024),
    ("bind WORD", 64),
    ("bind lo {\n WORD\n }", 64),
    ("bind lo {\n except WORD\n }", 64),
    ("bufsize WORD", 64),
    ("bufsize 1232 WORD", 64),
    ("multisocket WORD", 64),
    ("cancel WORD", 64),
    ("reload WORD", 64),
    ("reload 10s WORD", 64),
    ("timeouts {\n WORD 1s\n }", 64),
    ("timeouts {\n read WORD\n }", 64),
    ("timeouts {\n maxtcpqueries WORD\n }", 64),
    ("health WORD", 64),
    ("health :0 {\n WORD\n }", 64),
    ("health :0 {\n lameduck WORD\n }", 64),
    ("ready WORD", 64),
    ("ready :0 {\n WORD\n }", 64),
    ("ready :0 {\n monitor WORD\n }", 64),
    ("prometheus WORD", 64),
    ("prometheus :0 {\n WORD\n }", 64),
    ("errors WORD", 64),
    ("errors {\n WORD\n }", 64),
    ("errors {\n consolidate WORD a\n }", 64),
    ("errors {\n consolidate 1s (WORD\n }", 64),
    ("errors {\n consolidate 1s a WORD\n }", 64),
    ("log . a {\n WORD\n }", 64),
    ("log {WORD", 64),
    ("log {\n class WORD\n }", 64),
    ("loadbalance WORD", 64),
    ("loadbalance {\n WORD\n }", 64),
    ("loadbalance {\n prefer WORD\n }", 64),
    ("loadbalance weighted f {\n reload WORD\n }", 64),
    ("hosts a WORD..", 64),
    ("hosts {\n WORD\n }", 64),
    ("hosts {\n ttl WORD\n }", 64),
    ("hosts {\n reload WORD\n }", 64),
    ("hosts {\n reload -1s WORD\n }", 64),
    ("hosts {\n fallthrough\n WORD\n }", 64),
    ("kubernetes {\n WORD\n }", 64),
    ("kubernetes {\n endpoint WORD WORD\n }", 64),
    ("kubernetes {\n labels WORD(\n }", 64),
    ("kubernetes {\n labels a=WORD\n }", 64),
    ("kubernetes {\n namespace_labels WORD in b\n }", 64),
    ("kubernetes {\n pods WORD\n }", 64),
    ("kubernetes {\n ttl WORD\n }", 64),
    ("kubernetes {\n ignore WORD\n }", 64),
    ("kubernetes {\n apiserver_qps WORD\n }", 64),
    ("kubernetes {\n apiserver_burst WORD\n }", 64),
    ("kubernetes {\n startup_timeout WORD\n }", 64),
    ("kubernetes {\n multicluster WORD.\n }", 300),
    ("cache WORD", 64),
    ("cache {\n WORD\n }", 64),
    ("cache {\n success WORD\n }", 64),
    ("cache {\n denial 1 WORD\n }", 64),
    ("cache {\n prefetch 1 WORD\n }", 64),
    ("cache {\n serve_stale WORD\n }", 64),
    ("cache {\n servfail WORD\n }", 64),
    ("cache {\n disable WORD\n }", 64),
    ("forward WORD 192.0.2.1", 64),
    ("forward . WORD:x:y", 64),
    ("forward . WORD://192.0.2.1", 64),
    ("forward . tls://192.0.2.1:WORD", 64),
    ("forward . 192.0.2.1 {\n WORD\n }", 64),
    ("forward . 192.0.2.1 {\n policy WORD\n }", 64),
    ("forward . 192.0.2.1 {\n expire WORD\n }", 64),
    ("forward . 192.0.2.1 {\n max_fails WORD\n }", 64),
    ("forward . 192.0.2.1 {\n health_check WORD\n }", 64),
    ("forward . 192.0.2.1 {\n max_concurrent WORD\n }", 64),
    ("forward . 192.0.2.1 {\n next WORD\n }", 64),
    ("forward . 192.0.2.1 {\n failover WORD\n }", 64),
    ("forward . 192.0.2.1 {\n except WORD\n }", 64),
    ("erratic {\n WORD\n }", 64),
    ("erratic {\n drop WORD\n }", 64),
    ("erratic {\n delay 1 WORD\n }", 64),
];

/// The longest run of one letter.
fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != 'q').map(str::len).max().unwrap_or_default()
}

#[test]
fn errors_quote_little_and_in_printable_form() {
    for (stanza, shown) in WITH_WORDS {
        for word in
            ["q".repeat(5000), format!("{}\u{1b}[31m\u{7}", "q".repeat(40)), format!("\"{}\n\"", "q".repeat(200))]
        {
            let text = format!(".:0 {{\n{}\n}}\n", stanza.replace("WORD", &word));
            let findings = check(&Source::new("Corefile", text.as_bytes()), "53");
            let errors = findings.errors.iter().map(|error| error.explain());
            for line in errors.chain(findings.warnings) {
                assert!(longest_run(&line) <= *shown, "{stanza}: {} in {line}", longest_run(&line));
                assert!(!line.chars().any(char::is_control), "{stanza}: {line:?}");
            }
        }
    }
}
