//! Plain UDP: what is too long, where replies leave from, what is bounded.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use coredns_testkit::process::DEADLINE;
use coredns_wire::{HEADER_LEN, Header, Rcode};

use crate::support::{SetAtEnd, header, hosts_block, parsed, query, receive, reply_over_udp, serve, socket};

#[test]
fn datagrams_longer_than_a_slot_are_form_errors_of_twelve_octets() {
    let server = serve(".:0 {\n    whoami\n}\n");
    let socket = socket(server.client(".").server);
    let mut message = query("www.example.org A", 0);
    message.resize(4096, 0);
    assert_eq!(header(&reply_over_udp(&socket, &message).expect("an answer")).rcode(), Rcode::NOERROR, "4096 octets");
    for len in [4097, 9000, 60_000] {
        message.resize(len, 0);
        let reply = reply_over_udp(&socket, &message).expect("an answer");
        assert_eq!((reply.len(), header(&reply).rcode()), (HEADER_LEN, Rcode::FORMERR), "{len} octets");
        // A response that was cut is no query either, and gets no answer.
        let mut response = message.clone();
        response[2] |= 0x80;
        assert_eq!(reply_over_udp(&socket, &response), None, "{len} octets");
    }
    message[2] = 5 << 3;
    let reply = reply_over_udp(&socket, &message).expect("an answer");
    assert_eq!((reply.len(), header(&reply).rcode()), (HEADER_LEN, Rcode::FORMERR), "an opcode in what was cut");
}

#[test]
fn replies_leave_from_the_address_that_was_asked() {
    let server = serve(".:0 {\n    whoami\n}\n");
    let port = server.port_of(".");
    let client = UdpSocket::bind("0.0.0.0:0").expect("a client");
    client.set_read_timeout(Some(DEADLINE)).expect("a time-out");
    for last in [1, 2, 77, 254] {
        let to = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), port));
        client.send_to(&query("www.example.org A", u16::from(last)), to).expect("sent");
        let mut buffer = [0; 512];
        let (len, from) = client.recv_from(&mut buffer).expect("an answer");
        assert_eq!(from, to);
        // IPv4 clients of a dual-stack socket are shown as such.
        let reply = parsed(&buffer[..len]);
        assert!(reply.additional.iter().any(|record| record.to_string().contains(" A 127.0.0.")), "{reply:?}");
    }
    let client = UdpSocket::bind("[::1]:0").expect("a client");
    client.set_read_timeout(Some(DEADLINE)).expect("a time-out");
    client.send_to(&query("www.example.org A", 1), ("::1", port)).expect("sent");
    let mut buffer = [0; 512];
    let (_, from) = client.recv_from(&mut buffer).expect("an answer");
    assert_eq!(from, SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port)));
}

#[test]
fn broadcast_gets_no_reply() {
    let server = serve(".:0 {\n    whoami\n}\n");
    let port = server.port_of(".");
    let client = UdpSocket::bind("0.0.0.0:0").expect("a client");
    client.set_read_timeout(Some(DEADLINE)).expect("a time-out");
    client.set_broadcast(true).expect("allowed");
    for (id, address) in (1..).zip(["127.255.255.255", "127.0.0.1", "127.255.255.255", "127.0.0.2"]) {
        client.send_to(&query("www.example.org A", id), (address, port)).expect("sent");
    }
    let mut buffer = [0; 512];
    let mut answered = Vec::new();
    while answered.len() < 2 {
        let (len, _) = client.recv_from(&mut buffer).expect("an answer");
        answered.push(header(&buffer[..len]).id);
    }
    answered.sort_unstable();
    assert_eq!(answered, [2, 4]);
}

#[test]
fn garbage_is_survived() {
    let server = serve(".:0 {\n    whoami\n}\n");
    let socket = socket(server.client(".").server);
    let good = query("www.example.org A DO", 0);
    // A fixed sequence of pseudo-random numbers: a failure can be repeated.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..200_u16 {
        for _ in 0..20 {
            let mut message = match next() % 3 {
                0 => (0..next() % 600).map(|_| next() as u8).collect(),
                1 => good[..(next() as usize % (good.len() + 1))].to_vec(),
                _ => {
                    let mut message = good.clone();
                    for _ in 0..=next() % 4 {
                        let at = next() as usize % message.len();
                        message[at] = next() as u8;
                    }
                    message
                }
            };
            // Answers to these are thrown away below; none of them may look like the fence.
            message.iter_mut().take(1).for_each(|octet| *octet = 0x77);
            socket.send(&message).expect("sent");
        }
        let fence = query("fence.example.org A", round);
        socket.send(&fence).expect("sent");
        loop {
            let reply = receive(&socket).expect("a good query is answered whatever came before");
            assert!(header(&reply).has(Header::QR));
            if header(&reply).id == round {
                break;
            }
        }
    }
    assert!(!server.lines().iter().any(|line| line.starts_with('[')), "nobody logs garbage: {:?}", server.lines());
}

#[test]
fn a_saturated_socket_leaves_turns_to_everything_else() {
    let mut server = serve(".:0 {\n    multisocket 1\n    whoami\n}\n");
    let client = server.client(".");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // Answers are not read: the socket's buffer overflows, and sending goes on.
                let flood = socket(client.server);
                let message = query("www.example.org A", 1);
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = flood.send(&message);
                }
            });
        }
        let _end = SetAtEnd(&done);
        for _ in 0..20 {
            assert_eq!(client.tcp("www.example.org A").header.rcode(), Rcode::NOERROR);
        }
        server.signal("USR1");
        server.wait_for("[INFO] Reloading complete", 1);
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
    });
}

#[test]
fn unreachable_clients_cost_nobody_an_answer() {
    let server = serve(&hosts_block("example.org:0", "192.0.2.1", "www.example.org"));
    let target = server.client("example.org.").server;
    let socket = socket(target);
    for id in 1..=2_000_u16 {
        // The port is closed before the reply comes.
        let gone = UdpSocket::bind("127.0.0.1:0").expect("a client");
        gone.send_to(&query("www.example.org A", id), target).expect("sent");
        drop(gone);
        socket.send(&query("www.example.org A", id)).expect("sent");
        assert_eq!(header(&receive(&socket).expect("an answer")).id, id);
    }
}

#[test]
fn waiting_queries_are_bounded_and_others_are_answered() {
    let hosts = hosts_block("example.org:0", "192.0.2.1", "fence.example.org");
    let slow = "slow.test:0 {\n    multisocket 1\n    erratic {\n        delay 1 1h\n    }\n}\n";
    let server = serve(&[slow, &hosts].concat());
    let socket = socket(server.client("example.org.").server);
    let before = server.status_kb("VmRSS").expect("a size");
    // Answered queries in between keep the socket's buffer from overflowing: none is lost.
    let (mut refused, bound, beyond) = (0, 10_000, 2_000);
    for block in 0..(bound + beyond) / 100 {
        for id in 0..100 {
            socket.send(&query("www.slow.test A", id)).expect("sent");
        }
        socket.send(&query("fence.example.org A", 1000 + block)).expect("sent");
        loop {
            let reply = receive(&socket).expect("hits are answered while others wait");
            match header(&reply) {
                got if got.id == 1000 + block => break,
                got => {
                    assert_eq!(got.rcode(), Rcode::SERVFAIL);
                    assert!(block >= bound / 100, "refused before the bound");
                    refused += 1;
                }
            }
        }
    }
    assert_eq!(refused, beyond);
    let grown = server.status_kb("VmRSS").expect("a size") - before;
    assert!(grown < 60_000, "{grown} kB for {bound} waiting queries");
}
