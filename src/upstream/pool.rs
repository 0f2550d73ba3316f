//! Connections to one upstream that belong to one thread.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::error::ExchangeError;
use super::https::Session;
use super::message::Asked;
use super::stream::Stream;
use super::udp::{Permit, UdpConnection};

/// A UDP socket ends after so many exchanges, so that its port is not known for long.
const UDP_EXCHANGES_MAX: u32 = 64;
/// A UDP socket ends at this age.
const UDP_AGE_MAX: Duration = Duration::from_secs(5);
/// A stream that has so many queries under way takes no more while another can be opened.
const PIPELINE: usize = 16;
/// The most queries that a stream has under way.
const PIPELINE_MAX: usize = 1024;

thread_local! {
    /// The pools of this thread by the number of their upstream. A handful: a walk is faster than a hash.
    static POOLS: RefCell<Vec<(u64, Weak<Pool>)>> = const { RefCell::new(Vec::new()) };
}

/// How long connections are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    /// Without use.
    pub(super) expire: Duration,
    /// At all; zero for as long as there is use.
    pub(super) max_age: Duration,
}

impl Keep {
    fn holds(self, created: Instant, used: Instant, now: Instant) -> bool {
        let age = now.saturating_duration_since(created);
        now.saturating_duration_since(used) <= self.expire && (self.max_age.is_zero() || age <= self.max_age)
    }
}

/// The connections of one thread to one upstream.
#[derive(Default)]
pub(super) struct Pool {
    /// Protects the free sockets; only the cleaner and the end of an instance ever meet the owning thread here.
    udp: Mutex<Vec<UdpConnection>>,
    /// Protects the streams, likewise.
    streams: Mutex<Vec<Arc<Stream>>>,
    /// Protects the connections that speak HTTP, likewise.
    sessions: Mutex<Vec<PooledSession>>,
}

/// A connection that speaks HTTP.
pub(super) struct PooledSession {
    session: Session,
    created: Instant,
    used: Instant,
    /// Shared by all handles on the connection.
    permit: Arc<Permit>,
}

impl PooledSession {
    pub(super) fn new(session: Session, permit: Permit, now: Instant) -> Self {
        Self { session, created: now, used: now, permit: Arc::new(permit) }
    }

    pub(super) async fn exchange(
        &mut self,
        author: &'static str,
        asked: &Asked,
        peer: SocketAddr,
        get: bool,
    ) -> Result<coredns_plugin::Reply, ExchangeError> {
        self.session.exchange(author, asked, peer, get).await
    }

    fn share(&self, now: Instant) -> Option<Self> {
        let (created, permit) = (self.created, Arc::clone(&self.permit));
        self.session.share().map(|session| Self { session, created, used: now, permit })
    }
}

impl Pool {
    /// This thread's pool of the upstream `id`; `adopt` is told of a new one.
    pub(super) fn of_thread(id: u64, adopt: impl FnOnce(&Arc<Self>)) -> Arc<Self> {
        POOLS.with_borrow_mut(|pools| {
            if let Some(pool) = pools.iter().find(|(other, _)| *other == id).and_then(|(_, pool)| pool.upgrade()) {
                return pool;
            }
            pools.retain(|(_, pool)| pool.strong_count() > 0);
            let pool = Arc::new(Self::default());
            pools.push((id, Arc::downgrade(&pool)));
            adopt(&pool);
            pool
        })
    }

    /// A free socket, any of them: which port comes next is not to be foreseen.
    pub(super) fn take_udp(&self, keep: Keep, now: Instant) -> Option<UdpConnection> {
        let mut free = self.udp.lock().unwrap_or_else(PoisonError::into_inner);
        retain_udp(&mut free, keep, now);
        if free.is_empty() {
            return None;
        }
        let at = rand::random_range(0..free.len());
        Some(free.swap_remove(at))
    }

    /// Gives a socket back after an exchange that went well, unless it has come to its end.
    pub(super) fn give_udp(&self, mut connection: UdpConnection, now: Instant) {
        connection.exchanges += 1;
        connection.used = now;
        if connection.exchanges < UDP_EXCHANGES_MAX {
            self.udp.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }

    /// Free sockets.
    pub(super) fn free_udp(&self) -> usize {
        self.udp.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Streams without a query.
    pub(super) fn idle_streams(&self) -> usize {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.iter().filter(|stream| stream.under_way() == 0).count()
    }

    /// The stream for the next query: the oldest one that has room. `may_open` says whether a further one is possible; where
    /// it is not, streams are filled to their limit.
    pub(super) fn take_stream(&self, keep: Keep, now: Instant, may_open: bool) -> Option<Arc<Stream>> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        retain_streams(&mut streams, keep, now);
        let with_room = streams.iter().find(|stream| stream.under_way() < PIPELINE);
        let found = with_room.or_else(|| {
            let fullest = if may_open { 0 } else { PIPELINE_MAX };
            streams.iter().min_by_key(|stream| stream.under_way()).filter(|stream| stream.under_way() < fullest)
        });
        found.map(Arc::clone)
    }

    /// Takes a new stream in.
    pub(super) fn add_stream(&self, stream: &Arc<Stream>) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(stream));
    }

    /// Takes a stream out, which ends once its queries are answered.
    pub(super) fn retire(&self, stream: &Arc<Stream>) {
        stream.retire();
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| !Arc::ptr_eq(other, stream));
    }

    /// A connection that speaks HTTP: a share of one that takes several requests, or the whole of one that does not.
    pub(super) fn take_session(&self, keep: Keep, now: Instant) -> Option<PooledSession> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        retain_sessions(&mut sessions, keep, now);
        if let Some(first) = sessions.first_mut()
            && let Some(share) = first.share(now)
        {
            first.used = now;
            return Some(share);
        }
        if sessions.is_empty() { None } else { Some(sessions.remove(0)) }
    }

    /// Keeps a share of a connection that takes several requests; tells whether there is one in the pool.
    pub(super) fn share_session(&self, session: &PooledSession) -> bool {
        let Some(share) = session.share(session.used) else { return false };
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.is_empty() {
            sessions.push(share);
        }
        true
    }

    /// Gives a connection back that takes one request at a time.
    pub(super) fn give_session(&self, mut session: PooledSession, now: Instant) {
        session.used = now;
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }

    /// Connections that speak HTTP and wait for requests.
    pub(super) fn idle_sessions(&self) -> usize {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Closes what has not been used for long.
    pub(super) fn clean(&self, keep: Keep, now: Instant) {
        retain_udp(&mut self.udp.lock().unwrap_or_else(PoisonError::into_inner), keep, now);
        retain_streams(&mut self.streams.lock().unwrap_or_else(PoisonError::into_inner), keep, now);
        retain_sessions(&mut self.sessions.lock().unwrap_or_else(PoisonError::into_inner), keep, now);
    }

    /// Closes everything; streams once their queries are answered.
    pub(super) fn close(&self) {
        self.udp.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let streams = std::mem::take(&mut *self.streams.lock().unwrap_or_else(PoisonError::into_inner));
        streams.iter().for_each(|stream| stream.retire());
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

fn retain_udp(free: &mut Vec<UdpConnection>, keep: Keep, now: Instant) {
    free.retain(|one| {
        keep.holds(one.created, one.used, now) && now.saturating_duration_since(one.created) <= UDP_AGE_MAX
    });
}

fn retain_sessions(sessions: &mut Vec<PooledSession>, keep: Keep, now: Instant) {
    sessions.retain(|one| one.session.is_open() && keep.holds(one.created, one.used, now));
}

fn retain_streams(streams: &mut Vec<Arc<Stream>>, keep: Keep, now: Instant) {
    streams.retain(|stream| {
        let kept = stream.is_usable() && keep.holds(stream.created(), stream.used(now), now);
        if !kept {
            stream.retire();
        }
        kept
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept() {
        let start = coredns_plugin::clock::now();
        let at = |millis| start + Duration::from_millis(millis);
        let keep = |max_age| Keep { expire: Duration::from_millis(100), max_age: Duration::from_millis(max_age) };
        for (max_age, used, now, kept) in [
            (0, 0, 100, true),
            (0, 0, 101, false),
            (0, 10_000, 10_100, true),
            (150, 200, 200, false),
            (200, 200, 200, true),
        ] {
            assert_eq!(keep(max_age).holds(start, at(used), at(now)), kept, "{max_age} {used} {now}");
        }
    }
}
