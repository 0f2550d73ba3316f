//! A client that says and shows each octet.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long anything may take before it counts as not happening.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// A response as it came.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// The status line and the fields, as text.
    pub(super) head: String,
    pub(super) body: String,
}

impl Reply {
    /// The value of a field.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

pub(super) async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap_or_else(|error| panic!("{address}: {error}"))
}

/// Sends `METHOD PATH` and further fields on a connection that stays open.
pub(super) async fn send(stream: &mut TcpStream, request: &str, fields: &str) {
    let head = format!("{request} HTTP/1.1\r\nHost: test\r\n{fields}\r\n");
    stream.write_all(head.as_bytes()).await.expect("the request is sent");
}

/// Reads one response by its length; `None` where the connection ends before.
pub(super) async fn receive(stream: &mut TcpStream, has_body: bool) -> Option<Reply> {
    let mut octets = Vec::new();
    while !octets.ends_with(b"\r\n\r\n") {
        octets.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(octets).expect("text");
    let status = head.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a status");
    let mut reply = Reply { status, head, body: String::new() };
    let length: usize = reply.field("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    if has_body {
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        reply.body = String::from_utf8(body).expect("text");
    }
    Some(reply)
}

/// One request on a connection of its own.
pub(super) async fn ask(address: SocketAddr, request: &str, fields: &str) -> Option<Reply> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        send(&mut stream, request, fields).await;
        receive(&mut stream, !request.starts_with("HEAD")).await
    };
    tokio::time::timeout(PATIENCE, exchange).await.expect("an answer in time")
}

/// Reads until the server ends the connection; how many octets came.
pub(super) async fn drain(stream: &mut TcpStream) -> usize {
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return total,
            Ok(length) => total += length,
        }
    }
}
