//! Reload by SIGUSR1: what is lost (nothing), what is kept, what is left behind.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use coredns_testkit::process::{Client, Running, read_frame, write_frame};
use coredns_wire::Rcode;

use crate::support::{SetAtEnd, addresses, hosts_block, parsed, query, receive, scratch, serve, serve_in, socket};

const NAME: &str = "www.example.org A";

/// The Corefile of a generation: its number is in the address.
fn corefile(generation: u32) -> String {
    hosts_block("example.org:0", &format!("10.0.{}.{}", generation / 256, generation % 256), "www.example.org")
}

fn generation(octets: &[u8]) -> u32 {
    let message = parsed(octets);
    assert_eq!(message.header.rcode(), Rcode::NOERROR, "{message:?}");
    let address = addresses(&message).first().and_then(|text| text.parse::<std::net::Ipv4Addr>().ok());
    u32::from(address.unwrap_or_else(|| panic!("{message:?}"))) & 0xffff
}

/// Writes a Corefile, asks for a reload, and waits for the end of the one with that number.
fn reload(server: &Running, corefile: &str, number: usize) {
    server.scratch.write("Corefile", corefile);
    server.signal("USR1");
    server.wait_for("[INFO] Reloading complete", number);
}

#[test]
fn a_hundred_reloads_under_load_lose_no_query() {
    let server = serve(&corefile(0));
    let client = server.client("example.org.");
    let (done, complete) = (AtomicBool::new(false), AtomicU32::new(0));
    let load = |ask: &mut dyn FnMut() -> Vec<u8>| {
        let mut count = 0_u32;
        while !done.load(Ordering::SeqCst) {
            // Whatever was complete before the query was sent must show in its answer.
            let least = complete.load(Ordering::SeqCst);
            let got = generation(&ask());
            assert!((least..=least + 2).contains(&got), "generation {got} after {least} was complete");
            count += 1;
        }
        count
    };
    let counts = std::thread::scope(|scope| {
        let over_udp = || {
            let socket = socket(client.server);
            load(&mut || {
                socket.send(&query(NAME, 1)).expect("sent");
                receive(&socket).expect("a query was lost")
            })
        };
        let over_tcp = || {
            let mut stream = client.connect();
            load(&mut || {
                write_frame(&mut stream, &query(NAME, 1));
                read_frame(&mut stream).expect("a connection was cut")
            })
        };
        let over_new_connections = || {
            load(&mut || {
                let mut stream = client.connect();
                write_frame(&mut stream, &query(NAME, 1));
                read_frame(&mut stream).expect("a connection was refused")
            })
        };
        let threads =
            [scope.spawn(over_udp), scope.spawn(over_udp), scope.spawn(over_tcp), scope.spawn(over_new_connections)];
        let end = SetAtEnd(&done);
        for next in 1..=100 {
            reload(&server, &corefile(next), next as usize);
            complete.store(next, Ordering::SeqCst);
        }
        drop(end);
        threads.map(|thread| thread.join().expect("no query is lost"))
    });
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
}

#[test]
fn queries_under_way_end_in_the_configuration_they_began_in() {
    let slow = "example.org:0 {\n    erratic {\n        delay 1 400ms\n    }\n}\n";
    let server = serve(slow);
    let client = server.client("example.org.");
    let socket = socket(client.server);
    let mut stream = client.connect();
    for id in 0..20 {
        socket.send(&query(NAME, id)).expect("sent");
    }
    write_frame(&mut stream, &query(NAME, 20));
    // A message that is rejected is answered at once: those before it have been taken.
    let fence = [0, 99, 8, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    socket.send(&fence).expect("sent");
    assert_eq!(crate::support::header(&receive(&socket).expect("an answer")).id, 99);
    write_frame(&mut stream, &fence);
    assert_eq!(crate::support::header(&read_frame(&mut stream).expect("an answer")).id, 99);
    reload(&server, &corefile(7), 1);
    assert_eq!(addresses(&client.udp(NAME)), ["10.0.0.7"]);
    for _ in 0..20 {
        assert_eq!(addresses(&parsed(&receive(&socket).expect("an answer"))), ["192.0.2.53"]);
    }
    assert_eq!(addresses(&parsed(&read_frame(&mut stream).expect("an answer"))), ["192.0.2.53"]);
}

#[test]
fn a_bad_corefile_keeps_the_old_one_serving() {
    let server = serve(&corefile(1));
    let client = server.client("example.org.");
    for (number, (bad, text)) in (1..).zip([
        ("example.org:0 {\n    nonsense\n}\n", "Corefile:2 - Error during parsing: Unknown directive 'nonsense'"),
        ("example.org:0 {\n", "Unexpected"),
        ("example.org:0 {\n    bufsize x\n}\n", "plugin/bufsize: "),
        ("a.test:0 {\n}\na.test:0 {\n}\n", "cannot serve dns://a.test.:0 - it is already defined"),
        (
            "a.test:0 {\n    bind 192.0.2.254\n    whoami\n}\n",
            "Listen: listen tcp 192.0.2.254:0: bind: cannot assign requested address",
        ),
    ]) {
        server.scratch.write("Corefile", bad);
        server.signal("USR1");
        server.wait_for("[ERROR] SIGUSR1: starting with listener file descriptors: ", number);
        server.wait_for("[ERROR] Restart failed: starting with listener file descriptors: ", number);
        assert!(
            server.lines().iter().any(|line| line.starts_with("[ERROR] SIGUSR1: ") && line.contains(text)),
            "{text}: {:?}",
            server.lines()
        );
        assert_eq!(addresses(&client.udp(NAME)), ["10.0.0.1"], "{bad}");
        assert_eq!(addresses(&client.tcp(NAME)), ["10.0.0.1"], "{bad}");
    }
    reload(&server, &corefile(2), 1);
    assert_eq!(addresses(&client.udp(NAME)), ["10.0.0.2"]);
}

#[test]
fn listeners_come_and_go() {
    let bound = |address: &str| {
        hosts_block("example.org:0", "192.0.2.9", "www.example.org").replacen(
            "{\n",
            &format!("{{\n    bind {address}\n"),
            1,
        )
    };
    let server = serve(&[bound("127.0.0.1"), bound("127.0.0.2")].concat());
    let port = |address: &str| {
        let end = format!(" on {address}");
        let lines = server.lines();
        let line = lines
            .iter()
            .find_map(|line| line.strip_prefix("example.org.:")?.strip_suffix(end.as_str()))
            .map(str::to_owned);
        line.and_then(|port| port.parse::<u16>().ok()).expect("a line a listener")
    };
    let first = Client::new(([127, 0, 0, 1], port("127.0.0.1")).into());
    let second = Client::new(([127, 0, 0, 2], port("127.0.0.2")).into());
    assert_eq!(addresses(&second.udp(NAME)), ["192.0.2.9"]);
    reload(&server, &bound("127.0.0.1"), 1);
    assert_eq!(addresses(&first.udp(NAME)), ["192.0.2.9"]);
    assert!(std::net::TcpStream::connect(second.server).is_err(), "no longer listened on");
    // A listener that is new has no line; the port of 127.0.0.2 is free again and can be taken by number.
    let again = bound("127.0.0.2").replace(":0 ", &format!(":{} ", second.server.port()));
    reload(&server, &[bound("127.0.0.1"), again].concat(), 2);
    assert_eq!(addresses(&second.udp(NAME)), ["192.0.2.9"]);
    assert_eq!(addresses(&second.tcp(NAME)), ["192.0.2.9"]);
    assert_eq!(addresses(&first.tcp(NAME)), ["192.0.2.9"]);
}

#[test]
fn sockets_grow_and_shrink_and_connections_stay() {
    let with = |sockets: u32| corefile(sockets).replacen("{\n", &format!("{{\n    multisocket {sockets}\n"), 1);
    let server = serve(&with(1));
    let client = server.client("example.org.");
    let mut stream = client.connect();
    for (number, sockets) in (1..).zip([4, 1, 3, 2]) {
        reload(&server, &with(sockets), number);
        let wanted = [format!("10.0.0.{sockets}")];
        for _ in 0..20 {
            assert_eq!(addresses(&client.udp(NAME)), wanted);
            assert_eq!(addresses(&client.tcp(NAME)), wanted);
        }
        write_frame(&mut stream, &query(NAME, 1));
        assert_eq!(addresses(&parsed(&read_frame(&mut stream).expect("the first socket stays"))), wanted);
    }
}

#[test]
fn a_hundred_reloads_leave_nothing_behind() {
    let server = serve(&corefile(0));
    let client = server.client("example.org.");
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", server.pid())).map_or(0, Iterator::count);
    let measure = |from: u32, to: u32| {
        for next in from..to {
            reload(&server, &corefile(next), next as usize);
        }
        assert_eq!(addresses(&client.udp(NAME)), [format!("10.0.0.{}", to - 1)]);
        (descriptors(), server.status_kb("Threads"), server.status_kb("VmRSS").expect("a size"))
    };
    let (files, threads, size) = measure(1, 40);
    let (files_after, threads_after, size_after) = measure(40, 140);
    assert_eq!(files_after, files);
    // Threads for reading files come and go by themselves; a leak would be a hundred.
    let (threads, threads_after) = (threads.expect("a number"), threads_after.expect("a number"));
    assert!(threads_after <= threads + 4, "{threads} threads grew to {threads_after}");
    assert!(size_after < size + 1024, "{size} kB grew to {size_after} kB");
}

#[test]
fn two_reloads_and_the_end_at_once() {
    for _ in 0..3 {
        let mut server = serve(&corefile(1));
        server.scratch.write("Corefile", corefile(2));
        for signal in ["USR1", "USR1", "TERM"] {
            server.signal(signal);
        }
        assert_eq!(server.wait().code(), Some(0), "{:?}", server.lines());
    }
}

#[test]
fn a_corefile_that_is_gone_is_not_replaced_by_the_built_in_one() {
    let server = serve(&corefile(3));
    let client = server.client("example.org.");
    std::fs::remove_file(server.scratch.path().join("Corefile")).expect("ours");
    server.signal("USR1");
    server.wait_for("[ERROR] SIGUSR1: loading updated Caddyfile: loading Caddyfile via flag: open Corefile: ", 1);
    assert_eq!(addresses(&client.udp(NAME)), ["10.0.0.3"]);
}

#[test]
fn warnings_of_the_new_text_are_logged() {
    let server = serve(&corefile(1));
    reload(&server, &format!("{}import nothing/here/*.conf\n", corefile(2)), 1);
    server.wait_for("[WARNING] No files matching import glob pattern: ", 1);
}

#[test]
fn environment_and_imports_are_read_again() {
    let scratch = scratch();
    scratch.write("blocks/a.conf", hosts_block("a.test:0", "192.0.2.1", "www.a.test"));
    let server = serve_in(scratch, "import blocks/*.conf\n", &[]);
    let client = server.client("a.test.");
    server.scratch.write("blocks/b.conf", hosts_block("b.test:0", "192.0.2.2", "www.b.test"));
    assert_eq!(client.udp("www.b.test A").header.rcode(), Rcode::REFUSED);
    reload(&server, "import blocks/*.conf\n", 1);
    assert_eq!(addresses(&client.udp("www.b.test A")), ["192.0.2.2"]);
}
