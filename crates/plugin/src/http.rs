//! HTTP endpoints of plugins: health, readiness, metrics.
//!
//! A plugin says what it serves; the server opens the listener, keeps it over reloads, and holds the limits: GET and
//! HEAD only, 16 KiB of headers within 5 s, 64 connections, 5 s for a slow reader.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::lifecycle::{BoxError, BoxFuture};

/// A request, as far as endpoints care.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The path without the query string.
    pub path: String,
    /// Header fields with lower-case names.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The client.
    pub peer: SocketAddr,
}

impl HttpRequest {
    /// The first value of a header field, as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code, such as 200.
    pub status: u16,
    /// Header fields; length and date are added by the server.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// A response of plain text.
    #[must_use]
    pub fn text(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: vec![("content-type", "text/plain; charset=utf-8".into())], body: body.into() }
    }
}

/// Answers the requests for one path.
pub trait HttpHandler: Send + Sync {
    /// Answers one request.
    fn respond<'a>(&'a self, request: &'a HttpRequest) -> BoxFuture<'a, HttpResponse>;

    /// The listener is open at `address`, which has the true port where port 0 was asked for.
    fn listening(&self, address: SocketAddr) {
        let _ = address;
    }
}

/// A connection that HTTP is spoken on.
pub trait HttpStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> HttpStream for T {}

/// A connection that is ready for HTTP.
pub struct HttpConnection {
    /// The octets.
    pub stream: Box<dyn HttpStream>,
    /// HTTP/2 was agreed upon.
    pub http2: bool,
}

/// What stands between the sockets of an address and HTTP: TLS.
pub trait HttpSecurity: Send + Sync {
    /// Makes sure that connections can be secured; called before the address is listened on.
    fn prepare(&self) -> BoxFuture<'_, Result<(), BoxError>>;

    /// Takes a new connection through its handshake.
    fn accept(&self, stream: TcpStream) -> BoxFuture<'_, io::Result<HttpConnection>>;
}

/// What becomes of an endpoint's listener; a plugin words it for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpEvent<'a> {
    /// It is open. Comes again after each reload.
    Opened,
    /// It could not be opened, for this reason; only where the endpoint is not required.
    OpenFailed(&'a str),
    /// It could not be closed in time, for this reason.
    CloseFailed(&'a str),
}

/// A path on an address.
#[derive(Clone)]
pub struct HttpEndpoint {
    /// The plugin that asked for it.
    pub plugin: &'static str,
    /// `HOST:PORT` as configured; an empty host means all addresses.
    pub address: String,
    /// The exact path, such as `/health`; anything else on the address is 404.
    pub path: &'static str,
    /// Who answers.
    pub handler: Arc<dyn HttpHandler>,
    /// The start fails where the address cannot be listened on; otherwise that is logged and the rest goes on.
    pub required: bool,
    /// TLS; `None` for plain HTTP. All endpoints of one address share that of the first which has some.
    pub security: Option<Arc<dyn HttpSecurity>>,
    /// Logs what becomes of the listener.
    pub report: fn(HttpEvent<'_>),
}

impl fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} http://{}{}", self.plugin, self.address, self.path)
    }
}
