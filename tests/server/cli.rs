//! The command line: flags, texts, exit codes.

use std::process::{Command, Stdio};

use crate::support::{BINARY, run_to_end, scratch, serve_with_script};

#[test]
fn exit_codes_and_texts() {
    let table: &[(&[&str], i32, &str, &str)] = &[
        (&["-version"], 0, "CoreDNS-1.14.7\n", ""),
        (&["--version"], 0, "CoreDNS-1.14.7\n", ""),
        (&["-version=true"], 0, "CoreDNS-1.14.7\n", ""),
        (&["-version", "-plugins"], 0, "CoreDNS-1.14.7\n", ""),
        (&["-h"], 0, "", "Usage of "),
        (&["-help"], 0, "", "Usage of "),
        (&["--help"], 0, "", "Usage of "),
        (&["-nope"], 2, "", "flag provided but not defined: -nope\nUsage of "),
        (&["-log"], 2, "", "flag provided but not defined: -log\nUsage of "),
        (&["-conf"], 2, "", "flag needs an argument: -conf\nUsage of "),
        (&["-quiet=maybe"], 2, "", "invalid boolean value \"maybe\" for -quiet: parse error\nUsage of "),
        (&["-version", "a", "b"], 1, "", "extra command line arguments: [a b]\n"),
        (&["a", "-version"], 1, "", "extra command line arguments: [a -version]\n"),
        (&["-quiet", "true"], 1, "", "extra command line arguments: [true]\n"),
    ];
    let scratch = scratch();
    for (arguments, code, stdout, stderr) in table {
        let ended = run_to_end(scratch.path(), arguments, "");
        assert_eq!(ended.code, Some(*code), "{arguments:?}: {ended:?}");
        assert!(
            ended.stdout.starts_with(stdout) && stdout.is_empty() == ended.stdout.is_empty(),
            "{arguments:?}: {ended:?}"
        );
        // The complaint about surplus arguments begins with date and time.
        let complaint = if *code == 1 { ended.stderr.get(20..).unwrap_or_default() } else { &ended.stderr };
        assert!(
            complaint.starts_with(stderr) && stderr.is_empty() == ended.stderr.is_empty(),
            "{arguments:?}: {ended:?}"
        );
    }
}

#[test]
fn surplus_arguments_are_complained_about_with_date_and_time() {
    let ended = run_to_end(scratch().path(), &["x"], "");
    let stamp: String = ended.stderr.chars().take(20).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(stamp, "0000/00/00 00:00:00 ", "{ended:?}");
}

#[test]
fn the_version_block() {
    let ended = run_to_end(scratch().path(), &["-version"], "");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "CoreDNS-1.14.7");
    assert_eq!(lines[1].split(", ").count(), 3, "OS/ARCH, RUNTIME, COMMIT: {lines:?}");
    assert!(lines[1].starts_with(&format!("{}/", std::env::consts::OS)), "{lines:?}");
}

#[test]
fn plugins_are_listed_in_order_with_an_empty_line_behind() {
    let ended = run_to_end(scratch().path(), &["-plugins"], "");
    assert!(ended.stdout.ends_with("\n\n"), "{ended:?}");
    let names: Vec<&str> = ended.stdout.trim_end().lines().collect();
    let mut sorted = names.clone();
    sorted.sort_by_key(|name| (*name == "on", *name));
    assert_eq!(names, sorted);
    for name in ["bind", "errors", "hosts", "log", "whoami"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
}

#[test]
fn a_reader_that_is_gone_is_no_panic() {
    for flag in ["-plugins", "-version", "-validate", "-help"] {
        let scratch = scratch();
        let mut command = Command::new(BINARY);
        command
            .current_dir(scratch.path())
            .arg(flag)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        // Both ends are closed before the program has written, or while it does.
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().expect("our child").code(), Some(0), "{flag}");
    }
}

#[test]
fn the_default_port_is_that_of_keys_without_one() {
    for flag in [["-p", "0"], ["-dns.port", "0"], ["-dns.port=53", "-p=0"], ["--p=53", "--dns.port=0"]] {
        let server = crate::support::serve_in(scratch(), "example.org {\n    whoami\n}\n", &flag);
        assert_ne!(server.port_of("example.org."), 53);
        let _ = server.client("example.org.").udp("www.example.org A");
    }
}

#[test]
fn standard_input_is_a_corefile() {
    let directory = scratch();
    let ended = run_to_end(directory.path(), &["-conf", "stdin"], ".:0 {\n    nonsense\n}\n");
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.starts_with("/dev/stdin:2 - Error during parsing: Unknown directive 'nonsense'"), "{ended:?}");
    let ended = run_to_end(directory.path(), &["-conf", "stdin", "-validate"], ".:0 {\n    whoami\n}\n");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "0 errors, 0 warnings\n"));
}

#[test]
fn a_reload_does_not_read_standard_input_again() {
    let corefile = "example.org:0 {\n    reload 2s 0s\n    erratic {\n        drop 0\n    }\n}\n";
    let server = serve_with_script("exec $BINARY -conf stdin < Corefile", corefile);
    let client = server.client("example.org.");
    server.signal("USR1");
    server.wait_for("[ERROR] SIGUSR1: the Corefile came from standard input", 1);
    // A period of the watch goes by: its end of the input must not mean the built-in configuration.
    let start = coredns_plugin::clock::now();
    crate::support::until("a period", || crate::support::since(start).as_millis() > 2_500);
    assert_eq!(crate::support::addresses(&client.udp("www.example.org A")), ["192.0.2.53"]);
    assert_eq!(client.udp("a.test A").header.rcode(), coredns_wire::Rcode::REFUSED);
}
