//! Many, large and broken messages: what they cost, and whom.

use std::io::Read as _;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coredns_plugin::clock;
use coredns_testkit::process::{Running, Scratch, read_frame, write_frame};

use crate::support::{BINARY, ask, id, query, receive, serve, socket, until};

const WHOAMI: &str = ".:0 {\n    multisocket 1\n    log\n    whoami\n}\n";
const MARKER: &[u8] = b"marker";

/// A response that fills a buffer, and that is met with silence.
fn filling() -> Vec<u8> {
    let mut message = query("www.example.org A", 0);
    message[2] |= 0x80;
    message.extend(MARKER.iter().cycle().take(4000));
    message
}

/// Every beginning of a query with records behind it.
fn beginnings() -> Vec<Vec<u8>> {
    let mut whole = query("www.example.org A DO", 3);
    whole[7..9].copy_from_slice(&[1, 0]);
    (0..=whole.len()).map(|len| whole[..len].to_vec()).collect()
}

fn has_marker(octets: &[u8]) -> bool {
    octets.windows(MARKER.len()).any(|window| window.eq_ignore_ascii_case(MARKER))
}

#[test]
fn what_lay_in_a_buffer_before_is_never_seen() {
    let server = serve(WHOAMI);
    let client = server.client(".");
    let udp = socket(Ipv4Addr::LOCALHOST, client.server);
    for beginning in beginnings() {
        // More than a batch, so that every buffer has been filled.
        for _ in 0..70 {
            udp.send(&filling()).expect("sent");
        }
        udp.send(&beginning).expect("sent");
        udp.send(&query("fence.example.org A", 9)).expect("sent");
        loop {
            let reply = receive(&udp).expect("the fence is answered");
            assert!(!has_marker(&reply), "{beginning:02x?}: {reply:02x?}");
            if id(&reply) == 9 {
                break;
            }
        }
    }
    let mut tcp = client.connect();
    for beginning in beginnings() {
        write_frame(&mut tcp, &filling());
        write_frame(&mut tcp, &beginning);
        write_frame(&mut tcp, &query("fence.example.org A", 9));
        loop {
            let reply = read_frame(&mut tcp).expect("the fence is answered");
            assert!(!has_marker(&reply), "{beginning:02x?}: {reply:02x?}");
            if id(&reply) == 9 {
                break;
            }
        }
    }
    server.wait_for("fence.example.org.", 2 * beginnings().len());
    assert!(!server.lines().iter().any(|line| has_marker(line.as_bytes())));
}

#[test]
fn a_flood_from_one_port_leaves_other_workers_alone() {
    const CLIENTS: usize = 64;
    let server = serve(".:0 {\n    multisocket 4\n    whoami\n}\n");
    let target = server.client(".").server;
    let done = AtomicBool::new(false);
    let answered = std::thread::scope(|scope| {
        scope.spawn(|| {
            let flood = socket(Ipv4Addr::LOCALHOST, target);
            let message = query("www.example.org A", 1);
            while !done.load(Ordering::Relaxed) {
                let _ = flood.send(&message);
            }
        });
        let clients: Vec<_> = (0..CLIENTS).map(|_| socket(Ipv4Addr::LOCALHOST, target)).collect();
        for client in &clients {
            client.set_read_timeout(Some(Duration::from_secs(2))).expect("a time-out");
            client.send(&query("www.example.org A", 2)).expect("sent");
        }
        let answered = clients.iter().filter(|client| receive(client).is_some()).count();
        done.store(true, Ordering::Relaxed);
        answered
    });
    // One worker of four has the flood; of the clients of the others none loses anything.
    assert!(answered >= CLIENTS / 2, "{answered} of {CLIENTS}");
}

/// What the process has used of the processors, in hundredths of a second.
fn ticks(server: &Running) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).expect("a process");
    let fields: Vec<&str> = text.rsplit(") ").next().expect("fields").split(' ').collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
}

#[test]
fn a_server_out_of_descriptors_waits_and_does_not_spin() {
    let scratch = Scratch::new();
    let script = scratch.write("script", format!("#!/bin/sh\nulimit -n 32\nexec {BINARY} \"$@\"\n"));
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("the script is ours");
    // A connection whose query is being served does not make room for another.
    let corefile =
        ".:0 {\n    multisocket 1\n    whoami\n}\nslow.test:0 {\n    erratic {\n        delay 1 1h\n    }\n}\n";
    let server = Running::start_in(&script.display().to_string(), scratch, corefile, &[]);
    let client = server.client(".");
    let mut streams: Vec<TcpStream> = (0..60).map(|_| client.connect()).collect();
    for stream in &mut streams {
        write_frame(stream, &query("www.slow.test A", 1));
    }
    let last = streams.last_mut().expect("a connection");
    last.set_read_timeout(Some(Duration::from_secs(2))).expect("a time-out");
    let (before, start) = (ticks(&server), clock::now());
    // Nothing comes: this is the time over which is measured.
    assert!(last.read(&mut [0]).is_err());
    let (used, time) = (ticks(&server) - before, clock::now() - start);
    assert!(u128::from(used) * 10 < time.as_millis() / 10, "{used} hundredths of a second of {time:?}");
    let udp = socket(Ipv4Addr::LOCALHOST, client.server);
    ask(&udp, "www.example.org A", 1);
}

#[test]
fn connections_are_probed_while_they_are_idle() {
    let server = serve(WHOAMI);
    let mut stream = server.client(".").connect();
    write_frame(&mut stream, &query("www.example.org A", 1));
    assert!(read_frame(&mut stream).is_some());
    let (own, port) = (stream.local_addr().expect("bound").port(), server.port_of("."));
    // `local remote state queues timer:when`: the timer of an idle connection is 2 where probes are sent.
    let timer = || {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
        tables.iter().flat_map(|table| table.lines()).find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let ends = |at: usize, port: u16| fields.get(at).is_some_and(|end| end.ends_with(&format!(":{port:04X}")));
            (ends(1, port) && ends(2, own)).then(|| fields.get(5).map_or("", |timer| &timer[..2]).to_owned())
        })
    };
    // The reply is acknowledged a moment later; until then the timer is that of the retransmission.
    until("a keep-alive timer", || timer().as_deref() == Some("02"));
}
