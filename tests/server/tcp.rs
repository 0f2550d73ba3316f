//! Plain TCP: frames, order, ends of connections.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use coredns_testkit::process::{read_frame, write_frame};
use coredns_wire::Rcode;

use crate::support::{frame, header, hosts_block, query, serve};

const WHOAMI: &str = ".:0 {\n    whoami\n}\n";

/// The identifiers of the answers until the connection ends.
fn ids_to_the_end(stream: &mut std::net::TcpStream) -> Vec<u16> {
    std::iter::from_fn(|| read_frame(stream)).map(|reply| header(&reply).id).collect()
}

#[test]
fn a_hundred_thousand_messages_in_one_stream() {
    let server = serve(&hosts_block("example.org:0", "192.0.2.1", "www.example.org"));
    let mut stream = server.client("example.org.").connect();
    let mut reader = std::io::BufReader::new(stream.try_clone().expect("a second handle"));
    let count = 100_000_u32;
    let one = query("www.example.org A", 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let all: Vec<u8> =
                (0..count).flat_map(|id| frame(&crate::support::with_id(one.clone(), id as u16))).collect();
            stream.write_all(&all).expect("the server goes on reading");
        });
        for id in 0..count {
            let mut prefix = [0; 2];
            reader.read_exact(&mut prefix).expect("an answer");
            let mut reply = vec![0; usize::from(u16::from_be_bytes(prefix))];
            reader.read_exact(&mut reply).expect("all of it");
            assert_eq!(header(&reply).id, id as u16);
        }
    });
}

#[test]
fn short_frames_are_ignored() {
    let server = serve(WHOAMI);
    let mut stream = server.client(".").connect();
    for len in 0..12 {
        write_frame(&mut stream, &vec![0; len]);
    }
    write_frame(&mut stream, &query("www.example.org A", 5));
    assert_eq!(header(&read_frame(&mut stream).expect("an answer")).id, 5);
}

#[test]
fn a_query_in_single_octets() {
    let server = serve(WHOAMI);
    let mut stream = server.client(".").connect();
    stream.set_nodelay(true).expect("a socket option");
    for octet in frame(&query("www.example.org A", 6)) {
        stream.write_all(&[octet]).expect("sent");
    }
    assert_eq!(header(&read_frame(&mut stream).expect("an answer")).id, 6);
}

#[test]
fn the_longest_frame() {
    let server = serve(WHOAMI);
    let mut stream = server.client(".").connect();
    let mut message = query("www.example.org A", 8);
    message.resize(65_535, 0);
    write_frame(&mut stream, &message);
    assert_eq!(header(&read_frame(&mut stream).expect("an answer")).rcode(), Rcode::NOERROR);
}

#[test]
fn answers_overtake_those_that_wait() {
    let slow = "slow.test:0 {\n    erratic {\n        delay 1 300ms\n    }\n}\n";
    let server = serve(&[slow, WHOAMI].concat());
    let mut stream = server.client(".").connect();
    let all = [query("a.slow.test A", 1), query("b.test A", 2), query("c.slow.test A", 3), query("d.test A", 4)];
    stream.write_all(&all.map(|message| frame(&message)).concat()).expect("sent");
    let order: Vec<u16> = (0..4).map(|_| header(&read_frame(&mut stream).expect("an answer")).id).collect();
    assert_eq!(order[..2], [2, 4]);
    assert!(order[2..].contains(&1) && order[2..].contains(&3), "{order:?}");
}

#[test]
fn more_queries_at_once_than_are_served_at_once() {
    let server = serve("slow.test:0 {\n    erratic {\n        delay 1 20ms\n    }\n}\n");
    let mut stream = server.client("slow.test.").connect();
    let all: Vec<u8> = (0..500).flat_map(|id| frame(&query("www.slow.test A", id))).collect();
    stream.write_all(&all).expect("sent");
    let mut seen: Vec<u16> = (0..500).map(|_| header(&read_frame(&mut stream).expect("an answer")).id).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..500));
}

#[test]
fn queries_before_the_end_of_the_stream_are_answered() {
    let slow = "slow.test:0 {\n    erratic {\n        delay 1 50ms\n    }\n}\n";
    let server = serve(&[slow, WHOAMI].concat());
    let mut stream = server.client(".").connect();
    let mut all: Vec<u8> = (1..=3).flat_map(|id| frame(&query("www.example.org A", id))).collect();
    all.extend((4..=200).flat_map(|id| frame(&query("www.slow.test A", id))));
    // What is cut off at the end is nobody's query.
    all.extend(&frame(&query("www.example.org A", 999))[..9]);
    stream.write_all(&all).expect("sent");
    stream.shutdown(Shutdown::Write).expect("half closed");
    let mut seen = ids_to_the_end(&mut stream);
    seen.sort_unstable();
    assert!(seen.into_iter().eq(1..=200));
}

#[test]
fn the_bound_of_queries_is_exact() {
    let server = serve(".:0 {\n    timeouts {\n        maxtcpqueries 2\n    }\n    whoami\n}\n");
    let client = server.client(".");
    // One after another, and all at once; a short frame does not count.
    let mut stream = client.connect();
    for id in [1, 2] {
        write_frame(&mut stream, &query("www.example.org A", id));
        assert_eq!(header(&read_frame(&mut stream).expect("an answer")).id, id);
    }
    assert_eq!(ids_to_the_end(&mut stream), Vec::<u16>::new());
    let mut stream = client.connect();
    let three: Vec<u8> = (1..=3).flat_map(|id| frame(&query("www.example.org A", id))).collect();
    stream.write_all(&[frame(b"short"), three].concat()).expect("sent");
    assert_eq!(ids_to_the_end(&mut stream), [1, 2]);
}

#[test]
fn connections_that_break_off_anywhere_leave_nothing() {
    let slow = "slow.test:0 {\n    erratic {\n        delay 1 20ms\n    }\n}\n";
    let server = serve(&[slow, WHOAMI].concat());
    let client = server.client(".");
    let message = [frame(&query("www.slow.test A", 1)), frame(&query("www.example.org A", 2))].concat();
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", server.pid())).map_or(0, Iterator::count);
    let _ = client.tcp("www.example.org A");
    let before = descriptors();
    for round in 0..1000 {
        let mut stream = client.connect();
        let cut = round * 7 % (message.len() + 1);
        stream.write_all(&message[..cut]).expect("sent");
        if round % 2 == 0 {
            // Without lingering, closing sends RST.
            socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).expect("a socket option");
        }
    }
    crate::support::until("closing all connections", || descriptors() <= before);
    assert_eq!(client.tcp("www.example.org A").header.rcode(), Rcode::NOERROR);
}
