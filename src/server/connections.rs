//! The connections of the process: how many there may be, and which one makes room for a new one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use coredns_plugin::clock;
use tokio::sync::Notify;

use super::core_metrics;
use super::syscall::descriptor_limit;

/// The most TCP connections of a process, whatever the limit of descriptors is.
pub(crate) const CONNECTIONS_MAX: u64 = 10_000;
/// How long a new connection waits for the one that makes room to end.
const ROOM_TIMEOUT: Duration = Duration::from_millis(200);

/// At most half of the descriptors are for connections: the rest is for sockets, files and upstreams.
static BOUND: LazyLock<usize> = LazyLock::new(|| CONNECTIONS_MAX.min(descriptor_limit() / 2).max(1) as usize);

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);
static FREED: Notify = Notify::const_new();

#[derive(Default)]
struct Table {
    next: u64,
    entries: HashMap<u64, Arc<Entry>>,
}

struct Entry {
    /// When something last came, in microseconds since the process began.
    active: AtomicU64,
    evicted: Notify,
}

fn table() -> std::sync::MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn microseconds() -> u64 {
    static BEGIN: LazyLock<std::time::Instant> = LazyLock::new(clock::now);
    let begin = *BEGIN;
    clock::now().duration_since(begin).as_micros() as u64
}

/// A place for one connection; given back when it is dropped.
pub(crate) struct Ticket {
    id: u64,
    entry: Arc<Entry>,
}

impl Ticket {
    /// Something came from the client.
    pub(crate) fn touch(&self) {
        // Relaxed: a hint for choosing the one that is idle for longest.
        self.entry.active.store(microseconds(), Ordering::Relaxed);
    }

    /// Waits until the connection has to make room.
    pub(crate) async fn evicted(&self) {
        self.entry.evicted.notified().await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        table().entries.remove(&self.id);
        core_metrics::CONNECTIONS.dec();
        FREED.notify_one();
    }
}

/// Gives a place to a new connection; at the bound, the one that is idle for longest makes room. `None` where all are
/// busy: then the new one is closed.
pub(crate) async fn admit() -> Option<Ticket> {
    admit_within(*BOUND).await
}

async fn admit_within(bound: usize) -> Option<Ticket> {
    if let Some(ticket) = try_admit(bound) {
        return Some(ticket);
    }
    make_room();
    let deadline = tokio::time::Instant::now() + ROOM_TIMEOUT;
    loop {
        let freed = FREED.notified();
        if let Some(ticket) = try_admit(bound) {
            return Some(ticket);
        }
        tokio::time::timeout_at(deadline, freed).await.ok()?;
    }
}

fn try_admit(bound: usize) -> Option<Ticket> {
    let mut table = table();
    (table.entries.len() < bound).then(|| insert(&mut table))
}

/// Makes the connection that is idle for longest end.
pub(crate) fn make_room() {
    let table = table();
    let idlest = table.entries.iter().min_by_key(|(id, entry)| (entry.active.load(Ordering::Relaxed), **id));
    if let Some((_, entry)) = idlest {
        // Moves it to the end of the line, so that the next newcomer does not wait for the same one.
        entry.active.store(u64::MAX, Ordering::Relaxed);
        entry.evicted.notify_one();
    }
}

fn insert(table: &mut Table) -> Ticket {
    let id = table.next;
    table.next += 1;
    let entry = Arc::new(Entry { active: AtomicU64::new(microseconds()), evicted: Notify::new() });
    table.entries.insert(id, Arc::clone(&entry));
    core_metrics::CONNECTIONS.inc();
    Ticket { id, entry }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_newcomer_costs_one_connection() {
        const BOUND: usize = 3;
        // An earlier end leaves a notice that nobody waited for.
        drop(admit_within(BOUND).await);
        let [first, second, third] = [admit_within(BOUND).await, admit_within(BOUND).await, admit_within(BOUND).await];
        let [first, second, third] = [first, second, third].map(|ticket| ticket.expect("there is room"));
        first.touch();
        // All are busy: the newcomer has to go.
        assert!(admit_within(BOUND).await.is_none());
        assert!(second.evicted().now_or_never().is_some(), "it is idle for longest");
        // The next newcomer has its turn with another one, which ends.
        let third = tokio::spawn(async move { third.evicted().await });
        let fourth = admit_within(BOUND).await.expect("the third has made room");
        assert!(third.await.is_ok());
        for (name, ticket) in [("first", &first), ("second", &second), ("fourth", &fourth)] {
            assert!(ticket.evicted().now_or_never().is_none(), "{name} need not end");
        }
    }
}
