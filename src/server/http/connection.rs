//! One connection: its handshake, its requests, its deadlines.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use coredns_plugin::{HttpConnection, HttpRequest, HttpResponse, HttpStream};
use http::header::{ALLOW, CONTENT_LENGTH};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::listener::Listener;

/// The largest head of a request, in octets.
const HEAD_MAX: usize = 16 * 1024;
/// For the head of a request, for writing a response, and between two requests.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);
/// Requests at a time on one HTTP/2 connection.
const STREAMS_MAX: u32 = 8;

/// Serves a connection until it ends, misses a deadline, or the listener closes.
pub(super) async fn serve(listener: Arc<Listener>, stream: TcpStream, peer: SocketAddr) {
    let activity = Arc::new(Activity::new());
    let killed = listener.killed().clone();
    tokio::select! {
        () = converse(listener, stream, peer, Arc::clone(&activity)) => {}
        () = activity.expire() => {}
        () = killed.cancelled() => {}
    }
}

async fn converse(listener: Arc<Listener>, stream: TcpStream, peer: SocketAddr, activity: Arc<Activity>) {
    // Answers are small and come at once: nothing is won by waiting for more to send.
    let _ = stream.set_nodelay(true);
    let security = listener.routes().security();
    let connection = match security {
        None => HttpConnection { stream: Box::new(stream), http2: false },
        // A client that fails at the handshake has been told so by an alert.
        Some(security) => match security.accept(stream).await {
            Ok(connection) => connection,
            Err(_) => return,
        },
    };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().max_buf_size(HEAD_MAX);
    builder.http2().max_header_list_size(HEAD_MAX as u32).max_concurrent_streams(STREAMS_MAX);
    let builder = if connection.http2 { builder.http2_only() } else { builder.http1_only() };
    let stream = TokioIo::new(Watched { stream: connection.stream, activity: Arc::clone(&activity) });
    let service = service_fn(|request| {
        let (listener, busy) = (Arc::clone(&listener), Busy::begin(&activity));
        async move {
            let response = answer(&listener, request, peer).await;
            drop(busy);
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = pin!(builder.serve_connection(stream, service));
    tokio::select! {
        // What went wrong on a connection is the client's to know.
        _ = connection.as_mut() => return,
        () = listener.closing().cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

async fn answer(listener: &Listener, request: Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
    let routes = listener.routes();
    let Some(endpoint) = routes.find(request.uri().path()) else {
        return response(HttpResponse::text(404, "404 page not found\n"), request.method());
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refusal = response(HttpResponse::text(405, "Method Not Allowed\n"), request.method());
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    let headers = request.headers().iter();
    let asked = HttpRequest {
        path: request.uri().path().to_owned(),
        headers: headers.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect(),
        peer,
    };
    response(endpoint.handler.respond(&asked).await, request.method())
}

/// The response as it is sent; HEAD gets the length and no body (RFC 9110 §9.3.2).
fn response(answer: HttpResponse, method: &Method) -> Response<Full<Bytes>> {
    let length = answer.body.len();
    let body = if *method == Method::HEAD { Bytes::new() } else { Bytes::from(answer.body) };
    let mut builder = Response::builder().status(answer.status).header(CONTENT_LENGTH, length);
    for (name, value) in answer.headers {
        builder = builder.header(name, value);
    }
    builder.body(Full::new(body)).unwrap_or_else(|_| {
        let mut failure = Response::new(Full::default());
        *failure.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        failure
    })
}

/// What a connection is doing, for its deadlines.
///
/// No deadline holds while a request is being answered. Whenever none is, there are 5 s: from the start for the first
/// head, from the end of answering for writing the response, from the end of writing for the next head. Octets that
/// drip do not extend them.
struct Activity(Mutex<State>);

struct State {
    /// Requests that are being answered.
    requests: usize,
    /// A response was handed over and is not written yet.
    writing: bool,
    since: Instant,
}

impl Activity {
    fn new() -> Self {
        Self(Mutex::new(State { requests: 0, writing: false, since: Instant::now() }))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Everything so far is on its way to the client.
    fn flushed(&self) {
        self.change(|state| {
            if state.writing {
                state.writing = false;
                state.since = Instant::now();
            }
        });
    }

    /// Waits until a deadline has passed.
    async fn expire(&self) {
        loop {
            let now = Instant::now();
            let mut deadline = now + DEADLINE;
            self.change(|state| {
                if state.requests == 0 {
                    deadline = state.since + DEADLINE;
                }
            });
            if deadline <= now {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }
}

/// A request that is being answered.
struct Busy(Arc<Activity>);

impl Busy {
    fn begin(activity: &Arc<Activity>) -> Self {
        activity.change(|state| state.requests += 1);
        Self(Arc::clone(activity))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.requests = state.requests.saturating_sub(1);
            state.writing = true;
            state.since = Instant::now();
        });
    }
}

/// A stream that notices when all has been written.
struct Watched {
    stream: Box<dyn HttpStream>,
    activity: Arc<Activity>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, octets)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.activity.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, octets)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
