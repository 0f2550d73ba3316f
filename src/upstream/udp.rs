//! Exchanges over UDP.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coredns_plugin::{Hexdump, Reply, clock};
use tokio::io::{Interest, Ready};
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::time::{timeout, timeout_at};

use super::error::{ExchangeError, Reason};
use super::message::{Asked, Verdict, cut_reply, cuts_message, parse_reply};
use super::metrics::UpstreamMetrics;

/// No datagram is longer, in octets; so none is ever cut here.
const BUFFER: usize = 65_535;
/// How long a datagram is still waited for once ICMP has said that nobody is there: ICMP can be forged.
const REFUSED_GRACE: Duration = Duration::from_millis(50);
/// After so many datagrams with a wrong identifier somebody may be guessing.
const WRONG_IDS_MAX: u32 = 3;
/// How long a full socket is waited for.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

thread_local! {
    /// What is received, and what is sent: neither is held across a wait.
    static RECEIVED: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
    static SENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Counts one connection while it is open.
pub(super) struct Permit(Arc<AtomicUsize>);

impl Permit {
    /// One more, unless there are `max` already.
    pub(super) fn take(open: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        // Relaxed: it is a bound, not a hand-over.
        let taken = open.fetch_add(1, Ordering::Relaxed);
        let permit = Self(Arc::clone(open));
        (taken < max).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connected socket.
pub(super) struct UdpConnection {
    socket: UdpSocket,
    local: Option<SocketAddr>,
    peer: SocketAddr,
    pub(super) created: Instant,
    pub(super) used: Instant,
    pub(super) exchanges: u32,
    _permit: Permit,
}

impl UdpConnection {
    /// A socket on a port that the system draws.
    pub(super) fn open(peer: SocketAddr, source: Option<IpAddr>, permit: Permit) -> Result<Self, ExchangeError> {
        let open = || -> io::Result<UdpSocket> {
            let socket = std::net::UdpSocket::bind((source.unwrap_or_else(|| any(peer)), 0))?;
            socket.connect(peer)?;
            socket.set_nonblocking(true)?;
            UdpSocket::from_std(socket)
        };
        let socket = open().map_err(|error| ExchangeError::dial("udp", peer, &error))?;
        let now = clock::now();
        let local = socket.local_addr().ok();
        Ok(Self { socket, local, peer, created: now, used: now, exchanges: 0, _permit: permit })
    }

    async fn send(&self, asked: &Asked, id: u16) -> Result<(), ExchangeError> {
        let failed = |reason: Reason| ExchangeError::write("udp", self.local, self.peer, String::from(reason));
        let mut again = true;
        loop {
            let sent = SENT.with_borrow_mut(|octets| {
                octets.clear();
                asked.write(id, octets);
                self.socket.try_send(octets)
            });
            match sent {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match timeout(WRITE_TIMEOUT, self.socket.writable()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return Err(failed((&error).into())),
                        Err(_) => return Err(failed(Reason::TIMEOUT.into())),
                    }
                }
                // This tells of an earlier datagram; the one at hand has not been sent.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && again => again = false,
                Err(error) => return Err(failed((&error).into())),
            }
        }
    }

    /// Sends the question and waits for its reply; whatever else comes is passed over, and the wait goes on.
    pub(super) async fn exchange(&self, asked: &Asked, waiting: &Waiting<'_>) -> Result<Reply, ExchangeError> {
        let id = rand::random();
        self.send(asked, id).await?;
        let mut deadline = tokio::time::Instant::now() + waiting.read_timeout;
        let mut refused = None;
        let mut wrong_ids = 0;
        loop {
            // What ICMP says makes a socket erroneous, not readable.
            let ready = match timeout_at(deadline, self.socket.ready(Interest::READABLE | Interest::ERROR)).await {
                Ok(Ok(ready)) => ready,
                Ok(Err(error)) => return Err(ExchangeError::read("udp", self.local, self.peer, &error)),
                Err(_) => {
                    let timed_out = || ExchangeError::read("udp", self.local, self.peer, Reason::TIMEOUT);
                    return Err(refused.unwrap_or_else(timed_out));
                }
            };
            let received = self.take_error(ready).and_then(|()| self.receive(asked, id, waiting));
            match received {
                Ok(Received::Reply(reply)) => return Ok(reply),
                Ok(Received::Ignored(verdict)) => {
                    waiting.metrics.ignored.inc();
                    wrong_ids += u32::from(verdict == Verdict::OtherId);
                    if wrong_ids == WRONG_IDS_MAX {
                        waiting.suspicious.notify_one();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    // ICMP ends the try early, but a forged message must not keep a reply out that is on its way.
                    waiting.refused.notify_one();
                    deadline = deadline.min(tokio::time::Instant::now() + REFUSED_GRACE);
                    refused = Some(ExchangeError::read("udp", self.local, self.peer, &error));
                }
            }
        }
    }

    /// The error that the socket is in, where there is one.
    fn take_error(&self, ready: Ready) -> io::Result<()> {
        if !ready.is_error() {
            return Ok(());
        }
        let taken = self.socket.try_io(Interest::ERROR, || match self.socket.take_error()? {
            Some(error) => Err(error),
            None => Err(io::ErrorKind::WouldBlock.into()),
        });
        match taken {
            // There is none any more: what can be read decides.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            taken => taken,
        }
    }

    fn receive(&self, asked: &Asked, id: u16, waiting: &Waiting<'_>) -> io::Result<Received> {
        RECEIVED.with_borrow_mut(|buffer| {
            let len = self.socket.try_recv(buffer)?;
            let octets = buffer.get(..len).unwrap_or(&[]);
            let verdict = asked.question().judge(id, octets);
            if verdict == Verdict::Reply {
                match parse_reply(waiting.author, octets) {
                    Ok(reply) => return Ok(Received::Reply(reply)),
                    Err(error) if cuts_message(error) => return Ok(Received::Reply(cut_reply(waiting.author, octets))),
                    Err(_) => {}
                }
            }
            tracing::debug!(target: "plugin/forward", "Ignored a message from {}{}", self.peer, Hexdump(octets));
            Ok(Received::Ignored(verdict))
        })
    }
}

enum Received {
    Reply(Reply),
    Ignored(Verdict),
}

/// What an exchange needs to know beside the question.
pub(super) struct Waiting<'a> {
    /// The plugin that replies are made for.
    pub(super) author: &'static str,
    /// From the sending on.
    pub(super) read_timeout: Duration,
    /// The upstream's numbers.
    pub(super) metrics: &'a UpstreamMetrics,
    /// Somebody seems to guess identifiers.
    pub(super) suspicious: &'a Notify,
    /// ICMP says that nobody is there.
    pub(super) refused: &'a Notify,
}

/// The unspecified address of a peer's family.
pub(super) const fn any(peer: SocketAddr) -> IpAddr {
    match peer {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}
