//! Plain UDP.
//!
//! Each worker has a socket of its own for each listener (SO_REUSEPORT) and one task that drives it: receive a
//! batch, run every query through its chain in place, send a batch. Queries that wait for I/O are parked beside the
//! socket and their replies leave with the next batch.
//!
//! Budget beyond the system calls, a query: one parse, one look at the blocks, one reusable future (no allocation),
//! one copy of the message in and of the records out. The readiness of the socket costs one turn of epoll a batch.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coredns_plugin::{Query, Transport, clock};
use coredns_wire::{Rcode, Reject, Request, reject_reply};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio_util::sync::ReusableBoxFuture;

use super::core_metrics;
use super::endpoint::Endpoint;
use super::slot::{Slot, answer};
use super::syscall::{BATCH, Departure, Local, Receiver, Sender};

/// Queries of one worker's socket that may wait for I/O at the same time; beyond, the answer is SERVFAIL at once.
pub(crate) const PENDING_MAX: usize = 10_000;
/// How long queries in flight are waited for when a socket is closed.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Batches that are still received when a socket is closed: as many small datagrams as its buffer can hold.
const DRAIN_BATCHES: usize = 256;
/// Slots kept for reuse.
const FREE_MAX: usize = 2 * BATCH;

/// A query on its way, with where its reply goes.
struct Flight {
    slot: Box<Slot>,
    peer: std::net::SocketAddr,
    local: Option<Local>,
}

type Serving = ReusableBoxFuture<'static, Flight>;

/// A socket with its buffers.
pub(crate) struct UdpServer {
    endpoint: Rc<Endpoint>,
    socket: UdpSocket,
    bound: std::net::SocketAddr,
    receiver: Receiver,
    sender: Sender,
    servings: Vec<Serving>,
    pending: FuturesUnordered<Serving>,
    #[expect(clippy::vec_box, reason = "the boxes themselves are what is reused")]
    free: Vec<Box<Slot>>,
    done: Vec<Flight>,
}

async fn fly(handle: Arc<super::slot::Handle>, mut flight: Flight) -> Flight {
    flight.slot = answer(handle, flight.slot).await;
    flight
}

impl UdpServer {
    /// A server on a bound socket.
    ///
    /// # Errors
    /// Where the socket does not tell its address.
    pub(crate) fn new(endpoint: Rc<Endpoint>, socket: UdpSocket) -> io::Result<Self> {
        let bound = socket.local_addr()?;
        Ok(Self {
            endpoint,
            socket,
            bound,
            receiver: Receiver::new(),
            sender: Sender::new(bound.is_ipv6()),
            servings: Vec::with_capacity(BATCH),
            pending: FuturesUnordered::new(),
            free: Vec::with_capacity(FREE_MAX),
            done: Vec::with_capacity(BATCH),
        })
    }

    /// Serves until the endpoint is stopped; then answers what has arrived, and what is under way.
    pub(crate) async fn run(mut self) {
        loop {
            let mut full = false;
            tokio::select! {
                biased;
                flight = self.pending.next(), if !self.pending.is_empty() => self.landed(flight),
                ready = self.socket.readable() => full = ready.is_ok() && self.receive(),
                () = self.endpoint.stopped() => break,
            }
            self.send().await;
            if full {
                // More is there: connections, timers and commands of this worker get their turn all the same.
                tokio::task::yield_now().await;
                if self.endpoint.is_stopping() {
                    break;
                }
            }
        }
        // What has arrived by now is less than the socket's buffer holds; what comes later is not waited for.
        for _ in 0..DRAIN_BATCHES {
            if !self.receive() {
                break;
            }
            self.send().await;
        }
        self.send().await;
        let drain = async {
            while !self.pending.is_empty() {
                let flight = self.pending.next().await;
                self.landed(flight);
                self.send().await;
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, drain).await;
        core_metrics::PENDING.sub(self.pending.len() as i64);
    }

    /// Takes what has become ready among the parked queries.
    fn landed(&mut self, first: Option<Flight>) {
        let mut context = Context::from_waker(Waker::noop());
        let mut landed = first;
        while let Some(flight) = landed {
            core_metrics::PENDING.dec();
            self.finished(flight);
            if self.done.len() >= BATCH {
                break;
            }
            landed = match self.pending.poll_next_unpin(&mut context) {
                Poll::Ready(next) => next,
                Poll::Pending => None,
            };
        }
    }

    /// Receives a batch and serves it; returns whether there may be more.
    fn receive(&mut self) -> bool {
        let mut count = 0;
        let Self { socket, receiver, .. } = self;
        let received = socket.try_io(Interest::READABLE, || {
            count = receiver.receive(socket.as_fd())?;
            // Fewer than asked for: the socket is empty, which saves asking again to be told so.
            if count < BATCH { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        // Other errors are about earlier packets (ICMP) or passing shortages; the next call tells more.
        let more = received.is_ok();
        let now = clock::now();
        for index in 0..count {
            self.start(index, now);
        }
        more
    }

    fn start(&mut self, index: usize, now: std::time::Instant) {
        let Some(datagram) = self.receiver.datagram(index) else { return };
        let (peer, local) = (datagram.peer, datagram.local);
        let request = match Request::parse(datagram.octets) {
            // A query that was cut is not parsed at all, but a response still gets no answer.
            Ok(_) if datagram.cut => Err(Reject::Answer { rcode: Rcode::FORMERR, question: 0 }),
            Err(Reject::Answer { .. }) if datagram.cut => Err(Reject::Answer { rcode: Rcode::FORMERR, question: 0 }),
            parsed => parsed,
        };
        let mut slot = self.free.pop().unwrap_or_else(|| {
            let query = Query::empty(Arc::clone(&self.endpoint.info), Transport::Udp, now);
            Box::new(Slot { query, has_question: false, reply: Vec::new(), prefix: 0 })
        });
        match request {
            Ok(request) => {
                let to = local.map_or_else(|| self.bound.ip(), |local| local.address);
                let to = std::net::SocketAddr::new(to, self.bound.port());
                slot.has_question = slot.query.receive(datagram.octets, request, peer, to, now);
                self.serve(Flight { slot, peer, local }, index);
            }
            Err(Reject::Answer { rcode, question }) => {
                core_metrics::rejected(rcode);
                reject_reply(datagram.octets, rcode, question, &mut slot.reply);
                self.finished(Flight { slot, peer, local });
            }
            Err(Reject::Ignore) => {
                core_metrics::ignored();
                self.recycle(slot);
            }
        }
    }

    /// Runs a query as far as it goes without waiting, and parks it where it has to wait.
    fn serve(&mut self, flight: Flight, index: usize) {
        let future = fly(self.endpoint.handle(), flight);
        let place = match self.servings.get_mut(index) {
            Some(serving) => {
                serving.set(future);
                index
            }
            None => {
                self.servings.push(ReusableBoxFuture::new(future));
                self.servings.len() - 1
            }
        };
        // A parked future is polled again, with a waker, when it enters the set.
        match self.servings[place].poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(flight) => self.finished(flight),
            Poll::Pending if self.pending.len() >= PENDING_MAX => self.overflow(place, index),
            Poll::Pending => {
                core_metrics::PENDING.inc();
                let parked = self.servings.swap_remove(place);
                self.pending.push(parked);
            }
        }
    }

    /// Gives a query up that would have to wait where too many wait already: SERVFAIL, at once.
    fn overflow(&mut self, place: usize, index: usize) {
        core_metrics::PENDING_REJECTED.inc();
        drop(self.servings.swap_remove(place));
        let Some(datagram) = self.receiver.datagram(index) else { return };
        let Ok(request) = Request::parse(datagram.octets) else { return };
        let now = clock::now();
        let mut query = Query::empty(Arc::clone(&self.endpoint.info), Transport::Udp, now);
        query.receive(datagram.octets, request, datagram.peer, self.bound, now);
        let mut slot = Box::new(Slot { query, has_question: true, reply: Vec::new(), prefix: 0 });
        slot.refuse();
        let (peer, local) = (datagram.peer, datagram.local);
        self.finished(Flight { slot, peer, local });
    }

    /// Takes a query that has been served: its reply leaves with the next batch, if there is one.
    fn finished(&mut self, flight: Flight) {
        // A query to a group or a broadcast address gets no reply: it would leave from an address nobody asked.
        if flight.slot.reply.is_empty() || flight.local.is_some_and(|local| !answerable(&local)) {
            self.recycle(flight.slot);
        } else {
            self.done.push(flight);
        }
    }

    fn recycle(&mut self, slot: Box<Slot>) {
        if self.free.len() < FREE_MAX {
            self.free.push(slot);
        }
    }

    /// Sends the replies that are done. One that cannot be sent is dropped and counted, and the rest go on.
    async fn send(&mut self) {
        let mut at = 0;
        while at < self.done.len() {
            let Self { socket, sender, done, .. } = &mut *self;
            let departures = done[at..].iter().map(|flight| Departure {
                octets: &flight.slot.reply,
                peer: flight.peer,
                local: flight.local,
            });
            match socket.try_io(Interest::WRITABLE, || sender.send(socket.as_fd(), departures)) {
                Ok(sent) => at += sent.max(1),
                // The socket's own buffer is full: waiting for it also slows the receiving down.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if socket.writable().await.is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    core_metrics::SEND_ERRORS.inc();
                    at += 1;
                }
            }
        }
        while let Some(flight) = self.done.pop() {
            self.recycle(flight.slot);
        }
    }
}

fn answerable(local: &Local) -> bool {
    match local.address {
        std::net::IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast(),
        std::net::IpAddr::V6(v6) => !v6.is_multicast(),
    }
}
