//! What these tests have in common.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};

use coredns_plugin::clock;
use coredns_testkit::Ask;
use coredns_testkit::process::{DEADLINE, Running, Scratch};
use coredns_wire::{Header, Message};

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_coredns-rs");

/// Starts a server.
pub(crate) fn serve(corefile: &str) -> Running {
    Running::start(BINARY, corefile)
}

/// Starts a server whose working directory has a file.
pub(crate) fn serve_with_file(corefile: &str, name: &str, content: impl AsRef<[u8]>) -> Running {
    let scratch = Scratch::new();
    scratch.write(name, content);
    Running::start_in(BINARY, scratch, corefile, &[])
}

/// A UDP client with a port of its own.
pub(crate) fn socket(own: impl Into<IpAddr>, server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((own.into(), 0)).expect("a client");
    socket.connect(server).expect("a server");
    socket.set_read_timeout(Some(DEADLINE)).expect("a time-out");
    socket
}

/// The query `text` with an identifier.
pub(crate) fn query(text: &str, id: u16) -> Vec<u8> {
    let mut message = Ask::new(text).message();
    message[..2].copy_from_slice(&id.to_be_bytes());
    message
}

/// One datagram, or none in time.
pub(crate) fn receive(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 65_535];
    let len = socket.recv(&mut buffer).ok()?;
    buffer.truncate(len);
    Some(buffer)
}

/// Asks once and takes the next answer.
pub(crate) fn ask(socket: &UdpSocket, text: &str, id: u16) -> Message {
    socket.send(&query(text, id)).expect("sent");
    let octets = receive(socket).unwrap_or_else(|| panic!("no answer to {text}"));
    let message = Message::parse(&octets).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(message.header.id, id, "{text}");
    message
}

/// The identifier of a message.
pub(crate) fn id(octets: &[u8]) -> u16 {
    Header::parse(octets).map_or(0, |header| header.id)
}

/// Where the endpoints of a server are.
pub(crate) fn endpoints(server: &Running) -> SocketAddr {
    let prefix = "[INFO] Listening for HTTP on ";
    server.wait_for(prefix, 1);
    let found = server.lines().iter().find_map(|line| line.strip_prefix(prefix)?.parse().ok());
    found.expect("an address")
}

/// Head and body of what an endpoint answers to a request.
pub(crate) fn request(address: SocketAddr, head: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("an endpoint");
    stream.set_read_timeout(Some(DEADLINE)).expect("a time-out");
    stream.write_all(format!("{head}\r\nHost: test\r\nConnection: close\r\n\r\n").as_bytes()).expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

/// The metrics.
pub(crate) fn metrics(address: SocketAddr) -> String {
    request(address, "GET /metrics HTTP/1.1").1
}

/// The sum of all series of a metric.
pub(crate) fn total(metrics: &str, name: &str) -> f64 {
    let values = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        (rest.starts_with('{') || rest.starts_with(' ')).then_some(rest)?;
        rest.rsplit(' ').next()?.parse::<f64>().ok()
    });
    values.sum()
}

/// Asks again until `wanted` holds, for as long as anything may take.
pub(crate) fn until(what: &str, mut wanted: impl FnMut() -> bool) {
    let end = clock::now() + DEADLINE;
    while !wanted() {
        assert!(clock::now() < end, "{what} did not happen");
        std::thread::yield_now();
    }
}
