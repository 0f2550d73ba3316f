//! Exchanges over HTTPS (RFC 8484): HTTP/2 where the upstream speaks it, else HTTP/1.1.

use std::net::SocketAddr;
use std::time::Duration;

use coredns_plugin::Reply;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::error::ExchangeError;
use super::message::{Asked, Verdict, parse_reply};
use super::stream::Connected;

/// From the beginning of an exchange to its end.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);
/// The longest body that is read, in octets.
const BODY_MAX: usize = 65_536;
/// The media type of messages (RFC 8484 §6).
const MEDIA_TYPE: &str = "application/dns-message";

type Body = Full<Bytes>;

/// A connection that requests can be sent on.
pub(super) enum Session {
    /// Many at a time.
    Http2(http2::SendRequest<Body>),
    /// One at a time.
    Http1(http1::SendRequest<Body>),
}

impl Session {
    /// Begins to speak HTTP on a connection; a task of its own drives it for as long as the session lives.
    pub(super) async fn begin(connected: Connected, peer: SocketAddr) -> Result<Self, ExchangeError> {
        let failed = |error: hyper::Error| ExchangeError::dial("tcp", peer, error.to_string());
        let io = TokioIo::new(connected.io);
        if connected.is_http2 {
            let (session, connection) = http2::handshake(TokioExecutor::new(), io).await.map_err(failed)?;
            tokio::spawn(async move { drop(connection.await) });
            return Ok(Self::Http2(session));
        }
        let (session, connection) = http1::handshake(io).await.map_err(failed)?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self::Http1(session))
    }

    /// The same connection for another request, where it takes several at a time.
    pub(super) fn share(&self) -> Option<Self> {
        match self {
            Self::Http2(session) => Some(Self::Http2(session.clone())),
            Self::Http1(_) => None,
        }
    }

    /// Tells whether the connection is still there.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Http2(session) => !session.is_closed(),
            Self::Http1(session) => !session.is_closed(),
        }
    }

    async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>, hyper::Error> {
        match self {
            Self::Http2(session) => session.send_request(request).await,
            Self::Http1(session) => {
                session.ready().await?;
                session.send_request(request).await
            }
        }
    }

    /// Sends the question and waits for its reply. The identifier is 0, so that caches on the way can help (RFC 8484
    /// §4.1).
    pub(super) async fn exchange(
        &mut self,
        author: &'static str,
        asked: &Asked,
        peer: SocketAddr,
        get: bool,
    ) -> Result<Reply, ExchangeError> {
        let failed = |reason: String| ExchangeError::read("tcp", None, peer, reason);
        let request = self.request(asked, peer, get).map_err(|error| failed(error.to_string()))?;
        // What fails before there is a response may be the end of a connection that was idle.
        let response = self.send(request).await.map_err(|error| failed(error.to_string()).closing())?;
        if response.status() != StatusCode::OK {
            return Err(failed(format!("unexpected HTTP status {}", response.status())));
        }
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case(MEDIA_TYPE) {
            return Err(failed(format!("unexpected media type {media_type:?}")));
        }
        let body = Limited::new(response.into_body(), BODY_MAX).collect().await;
        let octets = body.map_err(|error| failed(error.to_string()))?.to_bytes();
        if asked.question().judge(0, &octets) != Verdict::Reply {
            return Err(failed("the body is no reply to the question".to_owned()));
        }
        parse_reply(author, &octets).map_err(|error| failed(error.to_string()))
    }

    fn request(&self, asked: &Asked, peer: SocketAddr, get: bool) -> http::Result<Request<Body>> {
        let mut octets = Vec::with_capacity(asked.len());
        asked.write(0, &mut octets);
        let mut path = "/dns-query".to_owned();
        if get {
            path.push_str("?dns=");
            encode_base64url(&octets, &mut path);
        }
        let request = Request::builder().method(if get { Method::GET } else { Method::POST });
        let request = match self {
            Self::Http2(_) => request.version(Version::HTTP_2).uri(format!("https://{peer}{path}")),
            Self::Http1(_) => request.uri(path).header(HOST, peer.to_string()),
        };
        let body = if get { Bytes::new() } else { Bytes::from(octets) };
        request.header(CONTENT_TYPE, MEDIA_TYPE).header(ACCEPT, MEDIA_TYPE).body(Full::new(body))
    }
}

/// Base64 for URLs, without padding (RFC 4648 §5).
fn encode_base64url(octets: &[u8], out: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for chunk in octets.chunks(3) {
        let mut bits = 0_u32;
        for at in 0..3 {
            bits = bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0));
        }
        for at in 0..=chunk.len() {
            let digit = bits >> (18 - 6 * at) & 0x3f;
            out.push(DIGITS.get(digit as usize).copied().map_or('A', char::from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::encode_base64url;

    #[test]
    fn base64_as_rfc_4648_has_it() {
        for (octets, expected) in [
            (&b""[..], ""),
            (b"f", "Zg"),
            (b"fo", "Zm8"),
            (b"foo", "Zm9v"),
            (b"foobar", "Zm9vYmFy"),
            (&[0xff, 0xef, 0xfe], "_-_-"),
        ] {
            let mut text = String::new();
            encode_base64url(octets, &mut text);
            assert_eq!(text, expected);
        }
    }
}
