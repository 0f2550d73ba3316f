//! What the tests of whole servers have in common.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

use coredns_plugin::clock;
use coredns_testkit::Ask;
use coredns_testkit::process::{Client, DEADLINE, Running, Scratch, read_frame};
use coredns_wire::{HEADER_LEN, Header, Message};

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_coredns-rs");

/// Starts a server; the file `empty` lies beside the Corefile, for `hosts empty { ... }`.
pub(crate) fn serve(corefile: &str) -> Running {
    serve_in(scratch(), corefile, &[])
}

/// The same in a directory of the test's own, with arguments.
pub(crate) fn serve_in(scratch: Scratch, corefile: &str, arguments: &[&str]) -> Running {
    Running::start_in(BINARY, scratch, corefile, arguments)
}

/// A directory with the file `empty`.
pub(crate) fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("empty", "");
    scratch
}

/// Starts a server by a shell script, in which `$BINARY` is the binary and `$@` its usual arguments.
pub(crate) fn serve_with_script(script: &str, corefile: &str) -> Running {
    let scratch = scratch();
    let path = scratch.write("script", format!("#!/bin/sh\nBINARY={BINARY}\n{script}\n"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("the script is ours");
    Running::start_in(&path.display().to_string(), scratch, corefile, &[])
}

/// Starts a server whose process may open so many descriptors.
pub(crate) fn serve_with_descriptors(corefile: &str, descriptors: u32) -> Running {
    serve_with_script(&format!("ulimit -n {descriptors}\nexec $BINARY \"$@\""), corefile)
}

/// A block that answers `names` with `address`.
pub(crate) fn hosts_block(key: &str, address: &str, names: &str) -> String {
    format!("{key} {{\n    hosts empty {{\n        {address} {names}\n    }}\n}}\n")
}

/// A UDP client with a fixed port, so that all it sends goes to one worker, in order.
pub(crate) fn socket(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a client");
    socket.connect(server).expect("a server");
    socket.set_read_timeout(Some(DEADLINE)).expect("a time-out");
    socket
}

/// One datagram, or none in time.
pub(crate) fn receive(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 65_535];
    let len = socket.recv(&mut buffer).ok()?;
    buffer.truncate(len);
    Some(buffer)
}

/// The header of a message.
pub(crate) fn header(octets: &[u8]) -> Header {
    Header::parse(octets).unwrap_or_else(|| panic!("{octets:02x?} is no message"))
}

/// A message that can be read.
pub(crate) fn parsed(octets: &[u8]) -> Message {
    Message::parse(octets).unwrap_or_else(|error| panic!("{octets:02x?}: {error}"))
}

/// The query `text` in wire form with an identifier.
pub(crate) fn query(text: &str, id: u16) -> Vec<u8> {
    with_id(Ask::new(text).message(), id)
}

/// The same message with another identifier.
pub(crate) fn with_id(mut message: Vec<u8>, id: u16) -> Vec<u8> {
    message[..2].copy_from_slice(&id.to_be_bytes());
    message
}

/// A header with the counts of a message, and a body.
pub(crate) fn raw(bits: u16, counts: [u16; 4], body: &[u8]) -> Vec<u8> {
    let [questions, answers, authorities, additionals] = counts;
    let header = Header { id: 0, bits, questions, answers, authorities, additionals };
    [&header.to_bytes()[..], body].concat()
}

/// The addresses of the answer section, as text.
pub(crate) fn addresses(message: &Message) -> Vec<String> {
    message.answer.iter().filter_map(|record| record.to_string().split(' ').nth(4).map(str::to_owned)).collect()
}

/// A message with its length before it.
pub(crate) fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// Sends `message` and then a query that is always answered, both by UDP from one port: returns what came back for the
/// first, or `None` where only the second was answered.
pub(crate) fn reply_over_udp(socket: &UdpSocket, message: &[u8]) -> Option<Vec<u8>> {
    let (id, fence) = ids();
    socket.send(&with_id(message.to_vec(), id)).expect("sent");
    socket.send(&query("fence.example.org A", fence)).expect("sent");
    let mut reply = None;
    loop {
        let octets = receive(socket).unwrap_or_else(|| panic!("no answer behind {message:02x?}"));
        if header(&octets).id == fence {
            return reply;
        }
        assert_eq!(header(&octets).id, id, "an answer to something else");
        assert!(reply.replace(octets).is_none(), "two answers to {message:02x?}");
    }
}

/// The same by TCP, on a connection of its own; also checks that the connection goes on.
pub(crate) fn reply_over_tcp(client: &Client, message: &[u8]) -> Option<Vec<u8>> {
    let (id, fence) = ids();
    let mut stream = client.connect();
    let both = [frame(&with_id(message.to_vec(), id)), frame(&query("fence.example.org A", fence))].concat();
    stream.write_all(&both).expect("sent");
    let mut reply = None;
    loop {
        let octets = read_frame(&mut stream).unwrap_or_else(|| panic!("no answer behind {message:02x?}"));
        if header(&octets).id == fence {
            return reply;
        }
        assert_eq!(header(&octets).id, id, "an answer to something else");
        assert!(reply.replace(octets).is_none(), "two answers to {message:02x?}");
    }
}

fn ids() -> (u16, u16) {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let id = NEXT.fetch_add(2, Ordering::Relaxed);
    (id, id.wrapping_add(1))
}

/// The question behind a header.
pub(crate) fn question(message: &[u8]) -> &[u8] {
    let mut end = HEADER_LEN;
    while message[end] != 0 {
        end += 1 + usize::from(message[end]);
    }
    &message[HEADER_LEN..end + 5]
}

/// Asks again until `wanted` holds, for as long as anything may take.
pub(crate) fn until(what: &str, mut wanted: impl FnMut() -> bool) {
    let end = clock::now() + DEADLINE;
    while !wanted() {
        assert!(clock::now() < end, "{what} did not happen");
        std::thread::yield_now();
    }
}

/// Sets a flag when it is dropped, so that threads which look at it end also where a test fails.
pub(crate) struct SetAtEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The time since `start`.
pub(crate) fn since(start: Instant) -> Duration {
    clock::now().saturating_duration_since(start)
}

/// What a program that ended has left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the binary to its end in `directory`, with `input` as its standard input.
pub(crate) fn run_to_end(directory: &Path, arguments: &[&str], input: &str) -> Ended {
    let mut command = Command::new(BINARY);
    command.current_dir(directory).args(arguments).env_remove("GOMAXPROCS");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the binary starts");
    let mut stdin = child.stdin.take().expect("piped");
    // A program that ends without reading has closed the pipe.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let (out, err) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let end = clock::now() + DEADLINE;
    let status = loop {
        match child.try_wait().expect("our child") {
            Some(status) => break status,
            None if clock::now() < end => std::thread::sleep(Duration::from_millis(2)),
            None => {
                let _ = child.kill();
                panic!("{arguments:?} did not end");
            }
        }
    };
    let text = |reader: std::thread::JoinHandle<String>| reader.join().expect("a reader does not panic");
    Ended { code: status.code(), stdout: text(out), stderr: text(err) }
}

fn drain(stream: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut octets = Vec::new();
        let _ = stream.map(|mut stream| stream.read_to_end(&mut octets));
        String::from_utf8_lossy(&octets).into_owned()
    })
}
