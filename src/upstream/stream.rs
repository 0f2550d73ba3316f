//! Exchanges over TCP and TLS: many queries on one connection, told apart by their identifiers (RFC 7766 §6.2.1.1).
//!
//! A task drives each connection, from setting it up to its end. Queries are handed to it at once, also while the
//! connection is still being set up, so that a burst after a pause opens one connection and not a hundred.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use coredns_plugin::clock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::timeout;

use super::error::{ExchangeError, Reason};
use super::message::{Asked, AskedQuestion, Verdict};
use super::udp::Permit;

/// How long the peer may take to accept octets.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// Octets to and from a peer, plain or encrypted.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection that has been set up.
pub(super) struct Connected {
    /// Its octets.
    pub(super) io: Box<dyn Io>,
    /// The address at this end.
    pub(super) local: Option<SocketAddr>,
    /// The peer has chosen HTTP/2.
    pub(super) is_http2: bool,
}

#[derive(Clone, Debug)]
enum Phase {
    Dialing,
    Open,
    Closed(ExchangeError),
}

struct Waiter {
    /// Tells it from a later one with the same identifier.
    serial: u64,
    question: AskedQuestion,
    reply: oneshot::Sender<Vec<u8>>,
}

struct State {
    waiting: HashMap<u16, Waiter>,
    /// Queries so far.
    serial: u64,
    /// Takes no more queries, and ends with its last one.
    retired: bool,
    used: Instant,
}

/// A connection.
pub(super) struct Stream {
    network: &'static str,
    peer: SocketAddr,
    created: Instant,
    /// Protects who waits for what; held for a look-up.
    state: Mutex<State>,
    phase: watch::Sender<Phase>,
    frames: mpsc::UnboundedSender<Vec<u8>>,
    /// Something was retired or has ended.
    changed: Notify,
}

impl Stream {
    /// A connection that `dial` sets up, driven by a task of its own; `ignored` is told of messages that nobody waits for.
    pub(super) fn open(
        network: &'static str,
        peer: SocketAddr,
        permit: Permit,
        dial: impl Future<Output = Result<Connected, ExchangeError>> + Send + 'static,
        ignored: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (frames, queue) = mpsc::unbounded_channel();
        let now = clock::now();
        let stream = Arc::new(Self {
            network,
            peer,
            created: now,
            state: Mutex::new(State { waiting: HashMap::new(), serial: 0, retired: false, used: now }),
            phase: watch::Sender::new(Phase::Dialing),
            frames,
            changed: Notify::new(),
        });
        let driven = Arc::clone(&stream);
        tokio::spawn(async move {
            let error = tokio::select! {
                error = driven.drive(dial, queue, &ignored) => error,
                // Nobody waits, and nobody will.
                () = driven.finished() => driven.error("use of closed network connection"),
            };
            driven.close(error);
            drop(permit);
        });
        stream
    }

    async fn drive(
        &self,
        dial: impl Future<Output = Result<Connected, ExchangeError>>,
        queue: mpsc::UnboundedReceiver<Vec<u8>>,
        ignored: &(dyn Fn() + Send + Sync),
    ) -> ExchangeError {
        let Connected { io, local, .. } = match dial.await {
            Ok(connected) => connected,
            Err(error) => return error,
        };
        self.phase.send_replace(Phase::Open);
        let (reader, writer) = tokio::io::split(io);
        tokio::select! {
            error = self.read(reader, ignored) => ExchangeError::read(self.network, local, self.peer, &error).closing(),
            error = write(writer, queue) => ExchangeError::write(self.network, local, self.peer, &error).closing(),
        }
    }

    async fn read(&self, mut reader: impl AsyncRead + Unpin, ignored: &(dyn Fn() + Send + Sync)) -> io::Error {
        loop {
            let mut len = [0; 2];
            if let Err(error) = reader.read_exact(&mut len).await {
                return error;
            }
            let mut octets = vec![0; usize::from(u16::from_be_bytes(len))];
            if let Err(error) = reader.read_exact(&mut octets).await {
                return error;
            }
            if !self.deliver(octets) {
                ignored();
            }
        }
    }

    /// Hands a message to who waits for it; `false` where nobody does.
    fn deliver(&self, octets: Vec<u8>) -> bool {
        let Some(id) = octets.first_chunk::<2>().map(|id| u16::from_be_bytes(*id)) else { return false };
        let mut state = self.lock();
        let fits = state.waiting.get(&id).is_some_and(|waiter| waiter.question.judge(id, &octets) == Verdict::Reply);
        if !fits {
            return false;
        }
        let waiter = state.waiting.remove(&id);
        state.used = clock::now();
        drop(state);
        waiter.is_some_and(|waiter| waiter.reply.send(octets).is_ok())
    }

    /// Sends the question and waits for the octets of its reply.
    pub(super) async fn exchange(
        self: &Arc<Self>,
        asked: &Asked,
        read_timeout: Duration,
    ) -> Result<Vec<u8>, ExchangeError> {
        let (sender, reply) = oneshot::channel();
        let Some(ticket) = self.enter(asked, sender) else { return Err(self.end()) };
        let mut phase = self.phase.subscribe();
        // The task bounds the time that setting up takes, and a phase is always there to be seen.
        let _ = phase.wait_for(|phase| !matches!(phase, Phase::Dialing)).await;
        match timeout(read_timeout, reply).await {
            Ok(Ok(octets)) => Ok(octets),
            Ok(Err(_)) => Err(self.end()),
            Err(_) => {
                drop(ticket);
                Err(self.error(Reason::TIMEOUT))
            }
        }
    }

    /// Puts a query into the queue under an identifier that is free.
    fn enter(self: &Arc<Self>, asked: &Asked, reply: oneshot::Sender<Vec<u8>>) -> Option<Ticket> {
        let mut state = self.lock();
        if matches!(*self.phase.borrow(), Phase::Closed(_)) {
            return None;
        }
        // At most 1,024 of 65,536 are taken.
        let mut id: u16 = rand::random();
        while state.waiting.contains_key(&id) {
            id = rand::random();
        }
        let mut frame = Vec::with_capacity(2 + asked.len());
        frame.extend_from_slice(&u16::try_from(asked.len()).ok()?.to_be_bytes());
        asked.write(id, &mut frame);
        self.frames.send(frame).ok()?;
        state.serial += 1;
        let serial = state.serial;
        state.waiting.insert(id, Waiter { serial, question: asked.question().clone(), reply });
        state.used = clock::now();
        drop(state);
        Some(Ticket { stream: Arc::clone(self), id, serial })
    }

    /// Why it has ended.
    fn end(&self) -> ExchangeError {
        match &*self.phase.borrow() {
            Phase::Closed(error) => error.clone(),
            _ => self.error("EOF").closing(),
        }
    }

    fn error(&self, reason: &str) -> ExchangeError {
        ExchangeError::read(self.network, None, self.peer, reason)
    }

    fn close(&self, error: ExchangeError) {
        let mut state = self.lock();
        state.retired = true;
        self.phase.send_replace(Phase::Closed(error));
        // Whoever waits finds the reason in the phase.
        state.waiting.clear();
    }

    async fn finished(&self) {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.lock();
                if state.retired && state.waiting.is_empty() {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Takes no more queries; ends with its last one.
    pub(super) fn retire(&self) {
        self.lock().retired = true;
        self.changed.notify_one();
    }

    /// Tells whether it takes queries.
    pub(super) fn is_usable(&self) -> bool {
        !self.lock().retired
    }

    /// Queries under way.
    pub(super) fn under_way(&self) -> usize {
        self.lock().waiting.len()
    }

    /// When it was opened.
    pub(super) const fn created(&self) -> Instant {
        self.created
    }

    /// When it was last used; `now` while it is in use.
    pub(super) fn used(&self, now: Instant) -> Instant {
        let state = self.lock();
        if state.waiting.is_empty() { state.used } else { now }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among those that wait; given up when the query is.
struct Ticket {
    stream: Arc<Stream>,
    id: u16,
    serial: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.stream.lock();
        if state.waiting.get(&self.id).is_some_and(|waiter| waiter.serial == self.serial) {
            state.waiting.remove(&self.id);
        }
        drop(state);
        self.stream.changed.notify_one();
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut queue: mpsc::UnboundedReceiver<Vec<u8>>) -> io::Error {
    while let Some(frame) = queue.recv().await {
        let written = timeout(WRITE_TIMEOUT, async {
            writer.write_all(&frame).await?;
            writer.flush().await
        });
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(_) => return io::ErrorKind::TimedOut.into(),
        }
    }
    io::ErrorKind::BrokenPipe.into()
}
