//! Bounds of plain TCP: time, memory, connections.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use coredns_plugin::clock;
use coredns_testkit::process::{DEADLINE, Running, read_frame, write_frame};
use coredns_wire::Rcode;

use crate::support::{frame, header, hosts_block, query, serve, serve_with_descriptors, since};

const SHORT: &str = "    timeouts {\n        read 1s\n        write 1s\n        idle 2s\n    }\n";

fn impatient() -> Running {
    serve(&format!(".:0 {{\n{SHORT}    whoami\n}}\n"))
}

/// Writes an octet whenever the server has been silent for 100 ms, until it closes; the time that took.
fn drip(stream: &mut TcpStream, octets: &[u8], start: Instant) -> Duration {
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a time-out");
    let mut octets = octets.iter();
    loop {
        if let Some(octet) = octets.next()
            && stream.write_all(&[*octet]).is_err()
        {
            return since(start);
        }
        match stream.read(&mut [0; 64]) {
            Ok(0) => return since(start),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                assert!(since(start) < DEADLINE, "the connection was not closed");
            }
            Err(_) => return since(start),
            Ok(_) => panic!("an answer to half a query"),
        }
    }
}

/// Half a second in which nothing comes and the connection stays; it paces the queries of a test.
fn silence(stream: &mut TcpStream, start: Instant) {
    stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a time-out");
    let read = stream.read(&mut [0; 1]);
    let is_silent = read.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    assert!(is_silent, "{read:?} {:?} after the start", since(start));
    stream.set_read_timeout(Some(DEADLINE)).expect("a time-out");
}

#[test]
fn slow_octets_do_not_stretch_the_read_time_out() {
    let server = impatient();
    let start = clock::now();
    let mut stream = server.client(".").connect();
    let took = drip(&mut stream, &frame(&query("www.example.org A", 1)), start);
    assert!((Duration::from_millis(900)..Duration::from_millis(1900)).contains(&took), "{took:?}");
}

#[test]
fn slow_octets_do_not_stretch_the_idle_time_out() {
    let server = impatient();
    let mut stream = server.client(".").connect();
    write_frame(&mut stream, &query("www.example.org A", 1));
    assert!(read_frame(&mut stream).is_some());
    let start = clock::now();
    let took = drip(&mut stream, &frame(&query("www.example.org A", 1)), start);
    assert!((Duration::from_millis(1900)..Duration::from_millis(2900)).contains(&took), "{took:?}");
}

#[test]
fn the_idle_time_counts_from_the_last_query() {
    // It used to count from the first: a connection in steady use was closed all the same.
    let server = impatient();
    let mut stream = server.client(".").connect();
    let start = clock::now();
    let mut asked = 0;
    while since(start) < Duration::from_millis(3500) {
        write_frame(&mut stream, &query("www.example.org A", asked));
        let reply = read_frame(&mut stream).unwrap_or_else(|| panic!("closed after {:?}", since(start)));
        assert_eq!(header(&reply).id, asked);
        asked += 1;
        silence(&mut stream, start);
    }
    assert!(asked >= 6, "{asked}");
}

#[test]
fn rejected_messages_count_as_use_of_a_connection() {
    let server = impatient();
    let mut stream = server.client(".").connect();
    let start = clock::now();
    while since(start) < Duration::from_millis(2500) {
        write_frame(&mut stream, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let reply = read_frame(&mut stream).unwrap_or_else(|| panic!("closed after {:?}", since(start)));
        assert_eq!(header(&reply).rcode(), Rcode::FORMERR);
        silence(&mut stream, start);
    }
}

#[test]
fn clients_that_never_read_are_closed_and_cost_little() {
    let lines: String = (0..200).map(|index| format!("        192.0.2.{} big.example.org\n", index + 1)).collect();
    let server = serve(&format!("example.org:0 {{\n{SHORT}    hosts empty {{\n{lines}    }}\n}}\n"));
    let client = server.client("example.org.");
    let _ = client.tcp("big.example.org A");
    let before = server.status_kb("VmRSS").expect("a size");
    let flood: Vec<u8> = (0..10_000).flat_map(|id| frame(&query("big.example.org A", id))).collect();
    let mut most = before;
    let mut streams: Vec<TcpStream> = (0..20).map(|_| client.connect()).collect();
    let start = clock::now();
    let mut open = streams.len();
    let mut sent = vec![0; streams.len()];
    for stream in &streams {
        stream.set_nonblocking(true).expect("a socket option");
    }
    let mut closed = vec![false; streams.len()];
    while open > 0 {
        assert!(since(start) < DEADLINE, "{open} connections are still open");
        for ((stream, sent), closed) in
            streams.iter_mut().zip(&mut sent).zip(&mut closed).filter(|(_, closed)| !**closed)
        {
            match stream.write(&flood[*sent % flood.len()..]) {
                Ok(len) => *sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => {
                    *closed = true;
                    open -= 1;
                }
            }
        }
        most = most.max(server.status_kb("VmRSS").expect("a size"));
        // The flood must not take the processor from the server that has to close the connections.
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(most - before < 20 * 1024, "{} kB for 20 connections", most - before);
    assert_eq!(client.tcp("big.example.org A").answer.len(), 200);
}

#[test]
fn clients_that_take_an_octet_at_a_time_are_closed() {
    let lines: String = (0..200).map(|index| format!("        192.0.2.{} big.example.org\n", index + 1)).collect();
    let server = serve(&format!("example.org:0 {{\n{SHORT}    hosts empty {{\n{lines}    }}\n}}\n"));
    let mut stream = server.client("example.org.").connect();
    stream.set_nonblocking(true).expect("a socket option");
    let flood: Vec<u8> = (0..100).flat_map(|id| frame(&query("big.example.org A", id))).collect();
    let (start, mut sent) = (clock::now(), 0);
    loop {
        assert!(since(start) < DEADLINE, "the connection is still open");
        match stream.write(&flood[sent % flood.len()..]) {
            Ok(len) => sent += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // All buffers are full: the client takes a little now and then.
                let _ = stream.read(&mut [0; 1]);
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(_) => break,
        }
    }
}

#[test]
fn waiting_queries_of_connections_are_bounded() {
    let slow = "slow.test:0 {\n    multisocket 1\n    erratic {\n        delay 1 1h\n    }\n}\n";
    let server = serve(&[slow, &hosts_block("example.org:0", "192.0.2.1", "www.example.org")].concat());
    let client = server.client("slow.test.");
    // A message that is rejected is answered at once: those before it have been taken.
    let fence = frame(&[0xff, 0xff, 8, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let mut refused = 0;
    let mut streams = Vec::new();
    for _ in 0..80 {
        let mut stream = client.connect();
        let all: Vec<u8> = (0..127).flat_map(|id| frame(&query("www.slow.test A", id))).collect();
        stream.write_all(&[&all[..], &fence].concat()).expect("sent");
        loop {
            match header(&read_frame(&mut stream).expect("an answer")) {
                got if got.id == 0xffff => break,
                got => assert_eq!(got.rcode(), Rcode::SERVFAIL),
            }
            refused += 1;
        }
        streams.push(stream);
    }
    assert_eq!(refused, 80 * 127 - 10_000);
    assert_eq!(client.tcp("www.example.org A").answer.len(), 1, "others are answered");
    // Those who break off make room; one that only says that no more queries come would still get its answers.
    for stream in streams.drain(70..) {
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("a socket option");
    }
    let mut stream = client.connect();
    crate::support::until("making room", || {
        stream.write_all(&[frame(&query("www.slow.test A", 1)), fence.clone()].concat()).expect("sent");
        let is_waiting = header(&read_frame(&mut stream).expect("an answer")).id == 0xffff;
        if !is_waiting {
            assert!(read_frame(&mut stream).is_some());
        }
        is_waiting
    });
}

#[test]
fn promised_octets_take_no_memory() {
    let server = serve(".:0 {\n    whoami\n}\n");
    let client = server.client(".");
    let _ = client.tcp("www.example.org A");
    let before = server.status_kb("VmRSS").expect("a size");
    let streams: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = client.connect();
            stream.write_all(&[0xff, 0xff, 1]).expect("sent");
            stream
        })
        .collect();
    assert_eq!(client.tcp("www.example.org A").header.rcode(), Rcode::NOERROR);
    let grown = server.status_kb("VmRSS").expect("a size").saturating_sub(before);
    assert!(grown < 400 * 16, "{grown} kB for {} connections", streams.len());
}

#[test]
fn at_the_bound_the_idlest_connection_makes_room() {
    // Half of the descriptors are for connections: 100 here.
    let server = serve_with_descriptors(".:0 {\n    whoami\n}\n", 200);
    let client = server.client(".");
    let open = || {
        let mut stream = client.connect();
        write_frame(&mut stream, &query("www.example.org A", 1));
        assert!(read_frame(&mut stream).is_some(), "a new client is served");
        stream
    };
    let mut streams: Vec<TcpStream> = (0..100).map(|_| open()).collect();
    // The first is used again, so that the second is idle for longest.
    write_frame(&mut streams[0], &query("www.example.org A", 2));
    assert!(read_frame(&mut streams[0]).is_some());
    let mut others: Vec<TcpStream> = (0..20).map(|_| open()).collect();
    for stream in &mut streams[1..=20] {
        assert!(read_frame(stream).is_none(), "idle for longest");
    }
    // One newcomer costs one connection: all others go on.
    others.extend(streams.drain(21..));
    others.extend(streams.drain(..1));
    for stream in &mut others {
        write_frame(stream, &query("www.example.org A", 3));
        assert!(read_frame(stream).is_some(), "used since, or younger");
    }
}

#[test]
fn more_clients_than_descriptors() {
    let server = serve_with_descriptors(&hosts_block(".:0", "192.0.2.1", "www.example.org"), 64);
    let client = server.client(".");
    let mut streams = Vec::new();
    for round in 0..300_u16 {
        let mut stream = client.connect();
        write_frame(&mut stream, &query("www.example.org A", round));
        let reply = read_frame(&mut stream).unwrap_or_else(|| panic!("client {round} was not served"));
        assert_eq!(header(&reply).id, round);
        streams.push(stream);
    }
    drop(streams);
    assert_eq!(client.tcp("www.example.org A").answer.len(), 1);
    assert_eq!(client.udp("www.example.org A").answer.len(), 1);
}

#[test]
fn a_server_out_of_descriptors_recovers() {
    // So few that accepting fails before the bound of connections is met.
    let server = serve_with_descriptors(&format!(".:0 {{\n{SHORT}    multisocket 1\n    whoami\n}}\n"), 32);
    let client = server.client(".");
    let streams: Vec<TcpStream> = (0..60).map(|_| client.connect()).collect();
    assert_eq!(client.udp("www.example.org A").header.rcode(), Rcode::NOERROR);
    let mut late = client.connect();
    write_frame(&mut late, &query("www.example.org A", 1));
    assert!(read_frame(&mut late).is_some(), "served once others have made room");
    drop(streams);
    assert_eq!(client.tcp("www.example.org A").header.rcode(), Rcode::NOERROR);
}
