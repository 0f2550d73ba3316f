//! The start: order, lines, and what keeps a server from starting.

use std::net::{TcpListener, UdpSocket};

use coredns_testkit::process::Running;

use crate::support::{BINARY, addresses, run_to_end, scratch, serve, serve_in, serve_with_script};

/// The banner: zone lines with the port left out, then the version block.
fn banner(server: &Running) -> Vec<String> {
    let without_port = |line: &String| {
        let (zone, rest) = line.rsplit_once(".:")?;
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        Some(format!("{zone}.:{rest}"))
    };
    server
        .lines()
        .iter()
        .filter(|line| !line.starts_with('['))
        .map(|line| without_port(line).unwrap_or_else(|| line.clone()))
        .collect()
}

#[test]
fn zone_lines_are_sorted_and_come_before_the_version() {
    let server = serve("b.test:0 a.test:0 10.0.0.0/15:0 {\n    whoami\n}\n.:0 {\n    whoami\n}\n");
    server.wait_for(", rustc", 1);
    let lines = banner(&server);
    assert_eq!(lines[..5], [".:", "0.10.in-addr.arpa.:", "1.10.in-addr.arpa.:", "a.test.:", "b.test.:"]);
    assert_eq!(lines[5], "CoreDNS-1.14.7");
    assert!(lines[6].starts_with("linux/") && lines[6].contains(", rustc"), "{}", lines[6]);
}

#[test]
fn names_beyond_rfc_1035_are_warned_about() {
    let server = serve(
        "example123.com:0 -example.com:0 _tcp.service:0 abc-.example.com:0 1.0.0.2.ip6.arpa:0 1a.test:0 {\n    whoami\n}\n",
    );
    let lines = banner(&server);
    let warned = |zone: &str| format!("Warning: Domain \"{zone}\" does not follow RFC1035 preferred syntax");
    for zone in ["-example.com.", "_tcp.service.", "abc-.example.com.", "1a.test."] {
        let at = lines.iter().position(|line| *line == warned(zone)).unwrap_or_else(|| panic!("{zone}: {lines:?}"));
        assert_eq!(lines[at + 1], format!("{zone}:"), "the warning stands before its line");
    }
    for zone in ["example123.com.", "1.0.0.2.ip6.arpa."] {
        assert!(!lines.contains(&warned(zone)), "{zone}");
    }
}

#[test]
fn hosts_stand_behind_the_port() {
    let server = serve(".:0 {\n    bind 127.0.0.1 ::1\n    whoami\n}\n");
    let mut lines = banner(&server)[..2].to_vec();
    lines.sort();
    assert_eq!(lines, [".: on 127.0.0.1", ".: on ::1"]);
}

#[test]
fn multisocket_repeats_the_lines() {
    let server = serve("a.test:0 b.test:0 {\n    multisocket 2\n    whoami\n}\n");
    assert_eq!(banner(&server)[..4], ["a.test.:", "b.test.:", "a.test.:", "b.test.:"]);
}

#[test]
fn quiet_prints_no_banner() {
    let mut server = Running::spawn(BINARY, scratch(), ".:0 {\n    log\n    reload\n    whoami\n}\n", &["-quiet"]);
    server.wait_for("plugin/reload: Running configuration SHA512 = ", 1);
    assert_eq!(banner(&server), Vec::<String>::new());
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn without_blocks_the_built_in_configuration_is_served() {
    for text in
        ["", "# nothing\n", "(snippet) {\n    whoami\n}\n", "import nothing/*.conf\n", "\"\" {\n    whoami\n}\n"]
    {
        let server = serve_in(scratch(), text, &["-p", "0"]);
        let reply = server.client(".").udp("www.example.org A");
        assert_eq!(reply.additional.len(), 2, "{text:?}");
        // The built-in configuration logs queries.
        server.wait_for("\"A IN www.example.org. udp ", 1);
    }
}

#[test]
fn without_a_file_the_built_in_configuration_is_served_until_there_is_one() {
    let server = serve_with_script("rm Corefile\nexec $BINARY -p 0", "");
    assert_eq!(server.client(".").udp("www.example.org A").additional.len(), 2);
    server.signal("USR1");
    server.wait_for("[ERROR] SIGUSR1: no Caddyfile loader with which to reload Caddyfile", 1);
    assert_eq!(server.client(".").udp("www.example.org A").additional.len(), 2);
    server.scratch.write("Corefile", ". {\n    erratic {\n        drop 0\n    }\n}\n");
    server.signal("USR1");
    server.wait_for("[INFO] Reloading complete", 1);
    assert_eq!(addresses(&server.client(".").udp("www.example.org A")), ["192.0.2.53"]);
    // Once it is gone again, what it said still holds.
    std::fs::remove_file(server.scratch.path().join("Corefile")).expect("ours");
    server.signal("USR1");
    server.wait_for("[INFO] Reloading complete", 2);
    assert_eq!(addresses(&server.client(".").udp("www.example.org A")), ["192.0.2.53"]);
}

#[test]
fn the_environment_can_set_the_number_of_workers() {
    let workers = |script: &str| {
        let server = serve_with_script(script, ".:0 {\n    whoami\n}\n");
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("a process");
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("dns-")).count()
    };
    assert_eq!(workers("GOMAXPROCS=3 exec $BINARY -conf Corefile"), 3);
    let usual = workers("unset GOMAXPROCS\nexec $BINARY -conf Corefile");
    assert_eq!(usual, std::thread::available_parallelism().expect("a number").get());
    for odd in ["0", "-1", "many", "100000"] {
        assert_eq!(workers(&format!("GOMAXPROCS={odd} exec $BINARY -conf Corefile")), usual, "{odd}");
    }
}

#[test]
fn what_keeps_a_server_from_starting() {
    let table: &[(&str, &str)] = &[
        (".:0 {\n    nonsense\n}\n", "Corefile:2 - Error during parsing: Unknown directive 'nonsense'"),
        (".:0 {\n    whoami\n", "Corefile:2 - Syntax error: Unexpected token 'whoami', expecting '}'"),
        (".:0 {\n    hosts {\n", "Corefile:2 - Error during parsing: Unexpected EOF"),
        (".:0 { whoami }\n", "Corefile:1 - Error during parsing: "),
        (".:0 {\n    bind nowhere\n}\n", "plugin/bind: "),
        (
            ".:0 {\n    trace\n    whoami\n}\n",
            "no action found for directive 'trace' with server type 'dns' (missing a plugin?)",
        ),
        (":53 {\n    whoami\n}\n", "error inspecting server blocks: zone is not a valid domain name: "),
        (".:0 {\n}\n.:0 {\n}\n", "cannot serve dns://.:0 - it is already defined"),
        (
            ".:0 {\n    bind 127.0.0.1\n}\n.:0 {\n}\n",
            "cannot serve dns://.:0 - zone overlap listener capacity with dns://.:0 on 127.0.0.1",
        ),
        (
            ".:0 {\n}\n.:0 {\n    bind 127.0.0.1\n}\n",
            "cannot serve dns://.:0 on 127.0.0.1 - zone overlap listener capacity with dns://.:0",
        ),
        (".:70000 {\n    whoami\n}\n", "address 70000: invalid port"),
        (
            ".:0 {\n    bind 192.0.2.254\n    whoami\n}\n",
            "Listen: listen tcp 192.0.2.254:0: bind: cannot assign requested address",
        ),
    ];
    for (corefile, text) in table {
        let scratch = scratch();
        scratch.write("Corefile", corefile);
        let ended = run_to_end(scratch.path(), &[], "");
        assert_eq!(ended.code, Some(1), "{corefile}: {ended:?}");
        assert!(ended.stderr.starts_with(text), "{corefile}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{corefile}: {ended:?}");
        assert!(!ended.stdout.contains("CoreDNS-"), "{corefile}: {ended:?}");
    }
}

#[test]
fn a_port_that_is_taken() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = tcp.local_addr().expect("bound").port();
    let scratch = scratch();
    scratch.write("Corefile", format!(".:{port} {{\n    bind 127.0.0.1\n    whoami\n}}\n"));
    let ended = run_to_end(scratch.path(), &[], "");
    let text = format!("Listen: listen tcp 127.0.0.1:{port}: bind: address already in use\n");
    assert_eq!((ended.code, ended.stderr), (Some(1), text));
    drop(tcp);
    let _udp = UdpSocket::bind(("127.0.0.1", port)).expect("the port by UDP");
    let ended = run_to_end(scratch.path(), &[], "");
    let text = format!("ListenPacket: listen udp 127.0.0.1:{port}: bind: address already in use\n");
    assert_eq!((ended.code, ended.stderr), (Some(1), text));
    // On all addresses the text has none.
    scratch.write("Corefile", format!(".:{port} {{\n    whoami\n}}\n"));
    let ended = run_to_end(scratch.path(), &[], "");
    let text = format!("ListenPacket: listen udp :{port}: bind: address already in use\n");
    assert_eq!((ended.code, ended.stderr), (Some(1), text));
}

#[test]
fn two_processes_share_a_port() {
    let first = serve(".:0 {\n    bind 127.0.0.1\n    whoami\n}\n");
    let port = first.port_of(".");
    let second = serve(&format!(".:{port} {{\n    bind 127.0.0.1\n    whoami\n}}\n"));
    assert_eq!(second.port_of("."), port);
    let _ = second.client(".").udp("www.example.org A");
}

#[test]
fn nothing_to_listen_on_ends_with_success() {
    let scratch = scratch();
    scratch.write("Corefile", ".:0 {\n    bind 127.0.0.1 {\n        except 127.0.0.1\n    }\n    whoami\n}\n");
    let ended = run_to_end(scratch.path(), &["-pidfile", "pid"], "");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("CoreDNS-1.14.7\n"), "{ended:?}");
    assert!(!scratch.path().join("pid").exists());
}

#[test]
fn a_pidfile_that_cannot_be_written_is_logged_and_the_server_serves() {
    let server = serve_in(scratch(), ".:0 {\n    whoami\n}\n", &["-pidfile", "missing/pid"]);
    server.wait_for("[ERROR] Could not write pidfile: open missing/pid: no such file or directory", 1);
}

#[test]
fn a_pattern_that_matches_nothing_is_warned_about_where_the_built_in_corefile_serves() {
    let server = serve_in(scratch(), "import none*\n", &["-p", "0"]);
    server.wait_for("[WARNING] No files matching import glob pattern: none*", 1);
    let scratch = scratch();
    scratch.write("Corefile", "import none*\n");
    let ended = run_to_end(scratch.path(), &["-validate"], "");
    let expected = "[WARNING] No files matching import glob pattern: none* (Corefile:1)\n";
    assert!(ended.stdout.starts_with(expected), "{ended:?}");
}

#[test]
fn corefiles_that_cannot_be_read() {
    let scratch = scratch();
    std::fs::create_dir(scratch.path().join("folder")).expect("ours");
    for (name, text) in [
        ("missing", "loading Caddyfile via flag: open missing: no such file or directory"),
        ("folder", "loading Caddyfile via flag: "),
        ("-", "loading Caddyfile via flag: open -: no such file or directory"),
    ] {
        let ended = run_to_end(scratch.path(), &["-conf", name], "");
        assert_eq!(ended.code, Some(1), "{name}: {ended:?}");
        assert!(ended.stderr.starts_with(text), "{name}: {ended:?}");
    }
    std::fs::create_dir(scratch.path().join("Corefile")).expect("ours");
    let ended = run_to_end(scratch.path(), &[], "");
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

#[test]
fn invalid_texts_end_and_do_not_hang() {
    for text in [
        &b"\xff\xfe\x00 {\n whoami\n"[..],
        b"{{{{{{{{{{{",
        b"}",
        b"import Corefile\n",
        b"(a) {\n import a\n}\nimport a\n",
        b". {\n {$A{$B}} \n",
        b"\\ \\ \\ {",
        &[b'{'; 100_000],
    ] {
        let scratch = scratch();
        scratch.write("Corefile", text);
        let ended = run_to_end(scratch.path(), &["-dns.port", "0", "-validate"], "");
        assert!(matches!(ended.code, Some(0 | 1)), "{text:02x?}: {ended:?}");
    }
}
