//! Plain TCP (RFC 7766), and whatever else is a stream of messages with a length before each.
//!
//! Every connection is a task of the worker that accepted it. Queries of one connection may be answered out of
//! order where one has to wait (RFC 7766 §7); at most [`IN_FLIGHT_MAX`] are under way at a time, and nothing more is
//! read while more than [`UNSENT_MAX`] octets of replies wait for the client.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coredns_plugin::{Query, Transport, clock};
use coredns_wire::{HEADER_LEN, Reject, Request, reject_reply};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::Instant;

use super::connections::Ticket;
use super::core_metrics;
use super::endpoint::Endpoint;
use super::slot::{Slot, answer};
use super::udp::{DRAIN_TIMEOUT, PENDING_MAX};

/// Queries of one connection that may be under way at the same time.
pub(crate) const IN_FLIGHT_MAX: usize = 128;
/// Octets of replies that may wait for a client that does not read.
pub(crate) const UNSENT_MAX: usize = 64 * 1024;
/// Memory for what is read grows in steps of so many octets, whatever a length prefix promises.
const READ_STEP: usize = 4096;
/// A connection that has nothing to read keeps no more than this for its buffers.
const KEPT_BUFFER: usize = 4096;

type Serving = futures_util::future::LocalBoxFuture<'static, Box<Slot>>;

/// One connection.
pub(crate) struct Connection<S> {
    endpoint: Rc<Endpoint>,
    reader: ReadHalf<S>,
    writer: WriteHalf<S>,
    peer: SocketAddr,
    local: SocketAddr,
    transport: Transport,
    ticket: Ticket,
    input: Vec<u8>,
    output: VecDeque<u8>,
    serving: FuturesUnordered<Serving>,
    #[expect(clippy::vec_box, reason = "the boxes themselves are what is reused")]
    free: Vec<Box<Slot>>,
    /// Queries taken, against the bound of queries a connection.
    taken: u32,
    /// The client has said that no more queries come.
    ended: bool,
    /// The server is stopping, and what had arrived by then has been read.
    drained: bool,
}

/// Why a connection ends.
enum End {
    /// The client ended it, or broke it.
    Client,
    /// The server closed it, for this reason.
    Server(&'static str),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// A connection that was accepted; `ticket` is its place among those of the process.
    pub(crate) fn new(
        endpoint: Rc<Endpoint>,
        stream: S,
        (peer, local): (SocketAddr, SocketAddr),
        transport: Transport,
        ticket: Ticket,
    ) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self {
            endpoint,
            reader,
            writer,
            peer,
            local,
            transport,
            ticket,
            input: Vec::new(),
            output: VecDeque::new(),
            serving: FuturesUnordered::new(),
            free: Vec::new(),
            taken: 0,
            ended: false,
            drained: false,
        }
    }

    /// Serves the connection to its end.
    pub(crate) async fn run(mut self) {
        if let End::Server(reason) = self.serve().await {
            core_metrics::closed(reason);
        }
        self.endpoint.end_waits(self.serving.len());
        // What is still to be read when a socket is closed makes the kernel send RST, which can take replies away
        // that the client has not read yet; ending our direction first lets it read them.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.writer.shutdown()).await;
    }

    async fn serve(&mut self) -> End {
        let mut query_deadline = Instant::now() + self.endpoint.limits().read;
        let mut unsent = Unsent::default();
        loop {
            if self.take_queries() {
                query_deadline = Instant::now() + self.endpoint.limits().idle;
            }
            if self.endpoint.is_stopping() && !self.drained && self.read_last() {
                continue;
            }
            let exhausted = self.ended || self.drained || self.reached_bound();
            if exhausted && self.serving.is_empty() && self.output.is_empty() {
                return if self.ended { End::Client } else { End::Server("finished") };
            }
            let write_deadline = unsent.deadline(self.output.len(), self.endpoint.limits().write);
            let idle = self.serving.is_empty() && self.output.is_empty();
            let may_read = !exhausted && self.serving.len() < IN_FLIGHT_MAX && self.output.len() <= UNSENT_MAX;
            tokio::select! {
                biased;
                Some(slot) = self.serving.next(), if !self.serving.is_empty() => {
                    self.endpoint.end_waits(1);
                    self.answer(slot);
                }
                written = write_some(&mut self.writer, &mut self.output), if !self.output.is_empty() => {
                    let Ok(written) = written else { return End::Client };
                    unsent.written(written);
                }
                read = read_some(&mut self.reader, &mut self.input), if may_read => match read {
                    Ok(0) => self.ended = true,
                    Ok(_) => self.ticket.touch(),
                    Err(_) => return End::Client,
                },
                () = tokio::time::sleep_until(query_deadline), if idle && !exhausted => {
                    return End::Server(if self.taken == 0 { "read_timeout" } else { "idle_timeout" });
                }
                () = sleep_until(write_deadline), if write_deadline.is_some() => return End::Server("write_timeout"),
                // Whoever waits for something of ours stays; whoever does not read what is there does not.
                () = self.ticket.evicted(), if self.serving.is_empty() => return End::Server("connection_limit"),
                () = self.endpoint.stopped(), if !exhausted => {}
            }
            if !(idle && self.serving.is_empty() && self.output.is_empty()) {
                query_deadline = Instant::now() + self.endpoint.limits().idle;
            }
        }
    }

    fn reached_bound(&self) -> bool {
        self.endpoint.limits().max_tcp_queries.is_some_and(|bound| self.taken >= bound)
    }

    /// Reads what has arrived when the server stops; `false` where nothing more has.
    fn read_last(&mut self) -> bool {
        let read = read_some(&mut self.reader, &mut self.input).now_or_never();
        self.drained = !matches!(read, Some(Ok(1..)));
        !self.drained
    }

    /// Serves the whole messages that have been read, as far as the bounds allow; tells whether there were any.
    fn take_queries(&mut self) -> bool {
        let mut at = 0;
        while self.serving.len() < IN_FLIGHT_MAX && self.output.len() <= UNSENT_MAX && !self.reached_bound() {
            let Some(&[high, low]) = self.input.get(at..at + 2).and_then(<[u8]>::first_chunk) else { break };
            let end = at + 2 + usize::from(u16::from_be_bytes([high, low]));
            if self.input.len() < end {
                break;
            }
            self.take_query(at + 2, end);
            at = end;
        }
        if at == self.input.len() && self.input.capacity() > KEPT_BUFFER {
            self.input = Vec::new();
        } else {
            self.input.drain(..at);
        }
        at > 0
    }

    fn take_query(&mut self, start: usize, end: usize) {
        // A frame shorter than a header is ignored, and the connection stays, as in CoreDNS.
        if end - start < HEADER_LEN {
            core_metrics::ignored();
            return;
        }
        self.taken = self.taken.saturating_add(1);
        let now = clock::now();
        let mut slot = self.free.pop().unwrap_or_else(|| self.fresh_slot(now));
        let message = &self.input[start..end];
        match Request::parse(message) {
            Ok(request) => {
                slot.has_question = slot.query.receive(message, request, self.peer, self.local, now);
                if !self.start(slot) {
                    self.refuse(start, end);
                }
            }
            Err(Reject::Answer { rcode, question }) => {
                core_metrics::rejected(rcode);
                let mut reply = Vec::new();
                reject_reply(message, rcode, question, &mut reply);
                self.output.extend((reply.len() as u16).to_be_bytes());
                self.output.extend(reply);
                self.free.push(slot);
            }
            Err(Reject::Ignore) => {
                core_metrics::ignored();
                self.free.push(slot);
            }
        }
    }

    fn fresh_slot(&self, now: std::time::Instant) -> Box<Slot> {
        let query = Query::empty(Arc::clone(&self.endpoint.info), self.transport, now);
        Box::new(Slot { query, has_question: false, reply: Vec::new(), prefix: 2 })
    }

    /// Runs a query as far as it goes without waiting; `false` where it would have to wait and too many do.
    fn start(&mut self, slot: Box<Slot>) -> bool {
        let mut serving: Serving = Box::pin(answer(self.endpoint.handle(), slot));
        // Polled again, with a waker, when it enters the set.
        match serving.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(slot) => self.answer(slot),
            Poll::Pending if self.endpoint.waiting() >= PENDING_MAX => return false,
            Poll::Pending => {
                self.endpoint.begin_wait();
                self.serving.push(serving);
            }
        }
        true
    }

    /// Answers the message at `start..end` of the input with SERVFAIL.
    fn refuse(&mut self, start: usize, end: usize) {
        core_metrics::PENDING_REJECTED.inc();
        let now = clock::now();
        let mut slot = self.fresh_slot(now);
        let message = &self.input[start..end];
        let Ok(request) = Request::parse(message) else { return };
        slot.query.receive(message, request, self.peer, self.local, now);
        slot.refuse();
        self.answer(slot);
    }

    fn answer(&mut self, slot: Box<Slot>) {
        self.output.extend(&slot.reply);
        if self.free.is_empty() {
            self.free.push(slot);
        }
    }
}

/// The octets that wait for the client, and until when it has to take them.
#[derive(Default)]
struct Unsent {
    /// What was waiting when the time was set and still is.
    octets: usize,
    until: Option<Instant>,
}

impl Unsent {
    /// When those of `waiting` octets that wait for longest must have left; a client that takes one octet at a time
    /// gets no more time for it.
    fn deadline(&mut self, waiting: usize, limit: Duration) -> Option<Instant> {
        if waiting == 0 {
            *self = Self::default();
        } else if self.octets == 0 {
            *self = Self { octets: waiting, until: Some(Instant::now() + limit) };
        }
        self.until
    }

    fn written(&mut self, octets: usize) {
        self.octets = self.octets.saturating_sub(octets);
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Reads what is there; the buffer grows by a step at a time.
async fn read_some(stream: &mut (impl AsyncRead + Unpin), input: &mut Vec<u8>) -> io::Result<usize> {
    if input.capacity() - input.len() < READ_STEP / 4 {
        input.reserve(READ_STEP);
    }
    stream.read_buf(input).await
}

/// Writes what the client takes.
async fn write_some(stream: &mut (impl AsyncWrite + Unpin), output: &mut VecDeque<u8>) -> io::Result<usize> {
    let (front, _) = output.as_slices();
    let written = stream.write(front).await?;
    if written == 0 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    output.drain(..written);
    if output.is_empty() && output.capacity() > KEPT_BUFFER {
        *output = VecDeque::new();
    }
    Ok(written)
}

/// Accepts connections until the endpoint is stopped, those that wait in the queue by then included.
pub(crate) async fn accept(endpoint: Rc<Endpoint>, listener: tokio::net::TcpListener) {
    let tasks = tokio_util::task::TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            () = endpoint.stopped() => break,
        };
        match accepted {
            Ok((stream, peer)) => admit(&endpoint, &tasks, stream, peer).await,
            Err(_) if endpoint.is_stopping() => break,
            Err(error) => back_off(&error).await,
        }
    }
    drop(listener);
    tasks.close();
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, tasks.wait()).await;
}

/// Failures to accept pass by themselves (a client that left) or need time (no descriptors, no memory).
async fn back_off(error: &io::Error) {
    core_metrics::ACCEPT_ERRORS.inc();
    let at_once = matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted);
    if !at_once {
        super::connections::make_room();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn admit(
    endpoint: &Rc<Endpoint>,
    tasks: &tokio_util::task::TaskTracker,
    stream: tokio::net::TcpStream,
    peer: SocketAddr,
) {
    let Ok(local) = stream.local_addr() else { return };
    // Small replies leave at once; keep-alive finds clients that vanished.
    let _ = stream.set_nodelay(true);
    let _ = socket2::SockRef::from(&stream).set_keepalive(true);
    let Some(ticket) = super::connections::admit().await else {
        core_metrics::closed("no_room");
        return;
    };
    let addresses = (plain(peer), plain(local));
    let connection = Connection::new(Rc::clone(endpoint), stream, addresses, Transport::Tcp, ticket);
    tasks.spawn_local(connection.run());
}

/// IPv4 peers of a dual-stack socket as plain IPv4.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn octets_taken_one_by_one_do_not_move_the_deadline() {
        let limit = Duration::from_secs(5);
        let begin = Instant::now();
        let mut unsent = Unsent::default();
        assert_eq!(unsent.deadline(0, limit), None);
        let mut waiting = 100;
        for _ in 0..100 {
            assert_eq!(unsent.deadline(waiting, limit), Some(begin + limit), "{waiting} octets");
            unsent.written(1);
            // Replies that come behind do not count among those that have to leave by then.
            waiting = waiting - 1 + 10;
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        // All that was there at first has left: what is there now has its own time.
        assert_eq!(unsent.deadline(waiting, limit), Some(Instant::now() + limit));
        assert_eq!(unsent.deadline(0, limit), None);
        assert_eq!(unsent.deadline(1, limit), Some(Instant::now() + limit));
    }
}
