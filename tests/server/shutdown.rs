//! Signals, and the end of the process.

use std::io::Write as _;
use std::net::TcpStream;

use coredns_testkit::process::{Running, read_frame};

use crate::support::{frame, header, query, receive, scratch, serve, serve_in, socket, until};

const SLOW: &str = ".:0 {\n    erratic {\n        delay 1 500ms\n    }\n}\n";

#[test]
fn what_has_arrived_is_answered_before_the_end() {
    for signal in ["TERM", "INT"] {
        let mut server = serve(SLOW);
        let target = server.client(".").server;
        let sockets: Vec<_> = (0..10).map(|_| socket(target)).collect();
        for socket in &sockets {
            for id in 0..10 {
                socket.send(&query("www.example.org A", id)).expect("sent");
            }
        }
        let mut streams: Vec<TcpStream> = (0..5).map(|_| server.client(".").connect()).collect();
        for stream in &mut streams {
            let all: Vec<u8> = (0..10).flat_map(|id| frame(&query("www.example.org A", id))).collect();
            stream.write_all(&all).expect("sent");
        }
        server.signal(signal);
        for socket in &sockets {
            let mut seen: Vec<u16> = (0..10).map(|_| header(&receive(socket).expect("an answer")).id).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..10), "SIG{signal} UDP");
        }
        for stream in &mut streams {
            let mut seen: Vec<u16> = std::iter::from_fn(|| read_frame(stream)).map(|reply| header(&reply).id).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..10), "SIG{signal} TCP");
        }
        assert_eq!(server.wait().code(), Some(0), "SIG{signal}");
        let line = match signal {
            "TERM" => "[INFO] SIGTERM: Shutting down servers then terminating",
            _ => "[INFO] SIGINT: Shutting down",
        };
        assert!(server.lines().iter().any(|one| one == line), "{:?}", server.lines());
    }
}

#[test]
fn idle_connections_do_not_hold_the_end() {
    let mut server = serve(".:0 {\n    whoami\n}\n");
    let client = server.client(".");
    let mut idle: Vec<TcpStream> = (0..5).map(|_| client.connect()).collect();
    let mut half = client.connect();
    half.write_all(&[0, 40, 1, 2, 3]).expect("sent");
    let _ = client.tcp("www.example.org A");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert!(idle.iter_mut().chain([&mut half]).all(|stream| read_frame(stream).is_none()));
}

#[test]
fn a_second_interrupt_forces_the_end() {
    let mut server = serve(".:0 {\n    erratic {\n        delay 1 1h\n    }\n}\n");
    let _stream = hang(&server);
    server.signal("INT");
    server.wait_for("[INFO] SIGINT: Shutting down", 1);
    server.signal("INT");
    assert_eq!(server.wait().code(), Some(2));
    assert!(server.lines().iter().any(|line| line == "[INFO] SIGINT: Force quit"));
}

#[test]
fn quit_does_not_wait_for_a_shutdown() {
    let mut server = serve(".:0 {\n    erratic {\n        delay 1 1h\n    }\n}\n");
    let _stream = hang(&server);
    server.signal("TERM");
    server.wait_for("[INFO] SIGTERM: Shutting down", 1);
    server.signal("QUIT");
    assert_eq!(server.wait().code(), Some(0));
}

/// Leaves a query waiting in the server, on a connection that is to be kept.
fn hang(server: &Running) -> TcpStream {
    let mut stream = server.client(".").connect();
    stream.write_all(&frame(&query("www.example.org A", 1))).expect("sent");
    // A message that is rejected is answered at once: the query before it has been taken.
    stream.write_all(&frame(&[0, 7, 8, 0, 0, 1, 0, 0, 0, 0, 0, 0])).expect("sent");
    assert_eq!(header(&read_frame(&mut stream).expect("an answer")).id, 7);
    stream
}

#[test]
fn the_pid_file_lives_as_long_as_the_process() {
    for (signal, code) in [("TERM", 0), ("INT", 0), ("QUIT", 0)] {
        let mut server = serve_in(scratch(), ".:0 {\n    whoami\n}\n", &["-pidfile", "pid"]);
        let path = server.scratch.path().join("pid");
        let wanted = format!("{}\n", server.pid());
        until("writing the pid file", || std::fs::read_to_string(&path).is_ok_and(|text| text == wanted));
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(code), "SIG{signal}");
        assert!(!path.exists(), "SIG{signal}");
    }
}

#[test]
fn a_pid_file_that_cannot_be_written_is_logged() {
    let server = serve_in(scratch(), ".:0 {\n    whoami\n}\n", &["-pidfile", "no/such/directory/pid"]);
    server.wait_for("[ERROR] Could not write pidfile: ", 1);
    let _ = server.client(".").udp("www.example.org A");
}

#[test]
fn some_signals_end_nothing() {
    let mut server = serve(".:0 {\n    whoami\n}\n");
    for signal in ["HUP", "HUP", "USR2"] {
        server.signal(signal);
    }
    server.wait_for("[ERROR] SIGUSR2: upgrading: ", 1);
    let _ = server.client(".").udp("www.example.org A");
    assert!(server.is_alive());
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_start_that_waits_can_be_interrupted() {
    for signal in ["INT", "TERM", "QUIT"] {
        let scratch = scratch();
        let pipe = scratch.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        // Nobody writes into the pipe: the Corefile is waited for.
        let mut server = Running::spawn(crate::support::BINARY, scratch, "", &["-conf", "pipe", "-pidfile", "pid"]);
        let status = format!("/proc/{}/status", server.pid());
        // SIGINT, SIGQUIT and SIGTERM are signals 2, 3 and 15 of the mask of those that are caught.
        let catches = |mask: u64| mask & 0x4006 == 0x4006;
        until("listening to signals", || {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(catches)
        });
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "SIG{signal}");
    }
}
