//! Packets that no socket would send, in a network namespace where that is allowed.
//!
//! Each test runs itself again inside `unshare -rn`. Where there are no such namespaces, it says so and passes.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::process::{Command, Output};

use coredns_testkit::Ask;
use coredns_testkit::process::{DEADLINE, Running};
use coredns_wire::{Header, Message};
use socket2::{Domain, Protocol, Socket, Type};

use crate::support::{ask, endpoints, id, metrics, query, receive, serve, serve_with_file, socket, total};

/// Set for a test that runs inside.
const INSIDE: &str = "COREDNS_TEST_NAMESPACE";
/// The addresses of the namespace.
const ADDRESSES: &str = "ip link set lo up && ip -6 address add fe80::1/64 dev lo nodad && \
                         ip -6 address add fe80::2/64 dev lo nodad && \
                         ip route add 224.0.0.0/4 dev lo";

fn unshare(script: &str, arguments: &[&str]) -> std::io::Result<Output> {
    let shell = ["-rn", "sh", "-c"];
    Command::new("unshare").args(shell).arg(script).args(arguments).env(INSIDE, "1").output()
}

/// Tells whether this is inside a namespace; otherwise runs the test of that name there.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !unshare(ADDRESSES, &[]).is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no network namespace can be made here (unshare -rn, and ip in it)");
        return false;
    }
    let binary = std::env::current_exe().expect("a path").display().to_string();
    let script = format!("{ADDRESSES} && exec \"$0\" \"$@\"");
    let output = unshare(&script, &[&binary, "--exact", test]).expect("it worked just now");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    false
}

/// Sends packets whose sender may be anybody.
struct Forger(Socket);

impl Forger {
    fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).expect("allowed in here");
        socket.set_header_included_v4(true).expect("a raw socket");
        Self(socket)
    }

    /// The kernel fills in length, checksum and identification of the IPv4 header (RFC 791 §3.1).
    fn send(&self, protocol: u8, from: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend(from.octets());
        packet.extend(to.octets());
        packet.extend(payload);
        self.0.send_to(&packet, &SocketAddr::from((to, 0)).into()).expect("sent");
    }

    /// A UDP datagram without checksum (RFC 768).
    fn udp(&self, from: SocketAddrV4, to: SocketAddrV4, octets: &[u8]) {
        self.send(17, *from.ip(), *to.ip(), &datagram(from.port(), to.port(), octets));
    }
}

fn datagram(from: u16, to: u16, octets: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + octets.len()).expect("short");
    [&from.to_be_bytes()[..], &to.to_be_bytes(), &len.to_be_bytes(), &[0, 0], octets].concat()
}

/// A number of this namespace's `/proc/net/snmp`.
fn counter(protocol: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/net/snmp").expect("counters");
    let mut lines = text.lines().filter(|line| line.starts_with(&format!("{protocol}: ")));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let at = names.split(' ').position(|found| found == name).unwrap_or_else(|| panic!("{name} in {names}"));
    values.split(' ').nth(at).and_then(|value| value.parse().ok()).expect("a number")
}

fn address_of(server: &Running) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, server.port_of("."))
}

#[test]
fn a_forged_packet_makes_one_reply_at_most() {
    if !inside("packets::a_forged_packet_makes_one_reply_at_most") {
        return;
    }
    let corefile = ".:0 {\n    multisocket 1\n    whoami\n}\n";
    let (one, other) = (serve(corefile), serve(corefile));
    let (forger, servers) = (Forger::new(), [address_of(&one), address_of(&other)]);
    let clients = servers.map(|server| socket(Ipv4Addr::LOCALHOST, server.into()));
    let before = counter("Udp", "OutDatagrams");
    let (mut queries, good) = (0, query("www.example.org A", 7));
    for (server, victim) in [(0, 1), (1, 0)].map(|(a, b)| (servers[a], servers[b])) {
        let elsewhere = |port| SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 9), port);
        // The other server, the server itself, and services that answer or that nothing can be sent to.
        for from in [victim, server, elsewhere(0), elsewhere(7), elsewhere(19), elsewhere(53)] {
            for bits in (0..16).flat_map(|rcode| [rcode, Header::QR | rcode, 0x2800 | rcode, 0x7800 | rcode]) {
                let mut message = good.clone();
                message[2..4].copy_from_slice(&bits.to_be_bytes());
                for len in [message.len(), 13, 12] {
                    forger.udp(from, server, &message[..len]);
                    queries += u64::from(bits & Header::QR == 0);
                }
                forger.udp(from, server, &message[..11]);
            }
        }
    }
    // Each server reads in order: with these it has read all of the above, and what the other made of it.
    let fences = 40;
    for round in 0..fences {
        for client in &clients {
            ask(client, "fence.example.org A", round);
        }
    }
    let replies = counter("Udp", "OutDatagrams") - before - 4 * u64::from(fences);
    assert!((1..=queries).contains(&replies), "{replies} replies to {queries} queries");
}

#[test]
fn replies_that_cannot_be_sent_take_none_with_them() {
    if !inside("packets::replies_that_cannot_be_sent_take_none_with_them") {
        return;
    }
    let server = serve(".:0 {\n    multisocket 1\n    prometheus 127.0.0.1:0\n    whoami\n}\n");
    let (forger, target) = (Forger::new(), address_of(&server));
    let client = socket(Ipv4Addr::LOCALHOST, target.into());
    let good = query("www.example.org A", 0);
    let unreachable = [
        SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 9), 0),
        SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 9), 4000),
        SocketAddrV4::new(Ipv4Addr::BROADCAST, 4000),
    ];
    let (rounds, window) = (300, 30_u16);
    for round in 0..rounds {
        for number in 0..window {
            let mut message = good.clone();
            message[..2].copy_from_slice(&number.to_be_bytes());
            forger.udp(unreachable[usize::from(number) % unreachable.len()], target, &message);
            client.send(&message).expect("sent");
        }
        let mut answered = vec![0; usize::from(window)];
        for _ in 0..window {
            let reply = receive(&client).unwrap_or_else(|| panic!("round {round}: {answered:?}"));
            answered[usize::from(id(&reply))] += 1;
        }
        assert_eq!(answered, vec![1; usize::from(window)], "round {round}");
    }
    let dropped = total(&metrics(endpoints(&server)), "coredns_server_udp_send_errors_total");
    assert!(dropped >= f64::from(rounds * window / 3), "{dropped} counted");
}

#[test]
fn forged_words_of_a_small_path_change_nothing() {
    if !inside("packets::forged_words_of_a_small_path_change_nothing") {
        return;
    }
    let lines: String = (0..100).map(|index| format!("192.0.2.{index} big.example.org\n")).collect();
    let server = serve_with_file("example.org:0 {\n    hosts hosts\n}\n", "hosts", lines);
    let own = Ipv4Addr::new(127, 0, 0, 9);
    let target = SocketAddrV4::new(Ipv4Addr::LOCALHOST, server.port_of("example.org."));
    let client = socket(own, target.into());
    let port = client.local_addr().expect("bound").port();
    let mut wanted = Ask::new("big.example.org A");
    wanted.udp_size = Some(4096);
    let answers = || {
        client.send(&wanted.message()).expect("sent");
        Message::parse(&receive(&client).expect("an answer")).expect("a message").answer.len()
    };
    assert_eq!(answers(), 100);
    // Fragmentation needed, MTU 552 (RFC 1191 §4), about a datagram from the server to the client.
    let mut about = vec![0x45, 0, 8, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
    about.extend([target.ip().octets(), own.octets()].concat());
    about.extend(datagram(target.port(), port, &[0; 1000]));
    let mut word = [&[3, 4, 0, 0, 0, 0, 2, 40][..], &about[..28]].concat();
    let sum = checksum(&word);
    word[2..4].copy_from_slice(&sum.to_be_bytes());
    let (heard, made) = (counter("Icmp", "InDestUnreachs"), counter("Ip", "FragCreates"));
    Forger::new().send(1, own, *target.ip(), &word);
    assert_eq!(counter("Icmp", "InDestUnreachs"), heard + 1, "the word was heard");
    assert_eq!(answers(), 100);
    assert_eq!(counter("Ip", "FragCreates"), made, "replies are in one piece as before");
}

/// The checksum of RFC 1071 over an even number of octets.
fn checksum(octets: &[u8]) -> u16 {
    let sum: u32 = octets.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or(0)
}

/// The kernel's number of the loopback interface.
fn loopback() -> u32 {
    std::fs::read_to_string("/sys/class/net/lo/ifindex").expect("lo").trim().parse().expect("a number")
}

#[test]
fn link_local_clients_are_answered_over_their_link() {
    if !inside("packets::link_local_clients_are_answered_over_their_link") {
        return;
    }
    let index = loopback();
    let scoped = |last, port| SocketAddrV6::new([0xfe80, 0, 0, 0, 0, 0, 0, last].into(), port, 0, index);
    for corefile in [".:0 {\n    whoami\n}\n", ".:0 {\n    bind lo\n    whoami\n}\n"] {
        let server = serve(corefile);
        // With `bind`, each address has a port of its own.
        let own = server.lines().into_iter().find(|line| line.ends_with(" on fe80::1%lo"));
        let own = own.and_then(|line| line.strip_prefix(".:")?.split(' ').next()?.parse().ok());
        let client = UdpSocket::bind(scoped(2, 0)).expect("a client");
        client.set_read_timeout(Some(DEADLINE)).expect("a time-out");
        let to = scoped(1, own.unwrap_or_else(|| server.port_of(".")));
        client.send_to(&query("www.example.org A", 1), to).expect("sent");
        let mut buffer = [0; 512];
        let (_, from) = client.recv_from(&mut buffer).unwrap_or_else(|error| {
            panic!("{error} from {to}, as {:?}:\n{}", client.local_addr(), server.lines().join("\n"))
        });
        assert_eq!(from, SocketAddr::from(to), "{corefile}");
    }
}

#[test]
fn groups_get_no_reply() {
    if !inside("packets::groups_get_no_reply") {
        return;
    }
    // A socket of IPv4 gets what is sent to the groups that the host is in.
    let server = serve(".:0 {\n    bind 0.0.0.0\n    multisocket 1\n    log\n    whoami\n}\n");
    let port = server.port_of(".");
    let client = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a client");
    client.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).expect("an interface");
    client.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a port");
    let client = UdpSocket::from(client);
    client.set_read_timeout(Some(DEADLINE)).expect("a time-out");
    for (number, to) in (0..).zip([Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::LOCALHOST]) {
        client.send_to(&query("www.example.org A", number), (to, port)).expect("sent");
    }
    let reply = receive(&client).expect("an answer");
    assert_eq!(id(&reply), 1, "only the query to an address of the host is answered");
    // Both were served: the silence is not that of a query that never arrived.
    server.wait_for("www.example.org.", 2);
}
