//! Questions that are on their way, so that equal ones wait instead of being asked again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coredns_plugin::wire::{Class, Name, RrType};
use tokio::sync::watch;

use super::entry::{Entry, Key};

/// Parts of the table, each with a lock of its own.
const SHARDS: usize = 64;
/// Questions of one part that are waited for; further ones go their own way.
const SHARD_MAX: usize = 1024;

/// What became of a question.
#[derive(Debug)]
pub(super) struct Landing {
    /// The answer; `None` where it holds for the one who asked only.
    pub(super) entry: Option<Arc<Entry>>,
    /// The answer is kept.
    pub(super) kept: bool,
    /// It is good enough to take the place of an older one.
    pub(super) refreshed: bool,
}

/// The whole question; compared in full.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    name: Name,
    qtype: RrType,
    qclass: Class,
    dnssec_ok: bool,
    checking_disabled: bool,
}

impl Question {
    fn of(key: &Key<'_>) -> Self {
        let Key { qtype, qclass, dnssec_ok, checking_disabled, .. } = *key;
        Self { name: key.name.clone(), qtype, qclass, dnssec_ok, checking_disabled }
    }
}

type Wait = watch::Receiver<Option<Arc<Landing>>>;
/// The default hasher has a random key.
type Table = HashMap<Question, Wait>;

/// The questions that are on their way.
pub(super) struct Flights {
    /// Each protects its part of the table; held for one look-up or one change.
    shards: Box<[Mutex<Table>]>,
}

impl Flights {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() })
    }

    /// Waits for a question that is on its way already.
    pub(super) fn find(&self, key: &Key<'_>) -> Option<Waiting> {
        let shard = self.shard(key.hash)?;
        if shard.is_empty() {
            return None;
        }
        shard.get(&Question::of(key)).map(|wait| Waiting(wait.clone()))
    }

    /// Puts a question on its way, unless it is there already, or too many are.
    pub(super) fn begin(self: &Arc<Self>, key: &Key<'_>) -> Option<Flight> {
        let question = Question::of(key);
        let mut shard = self.shard(key.hash)?;
        if shard.len() >= SHARD_MAX || shard.contains_key(&question) {
            return None;
        }
        let (sender, wait) = watch::channel(None);
        shard.insert(question.clone(), wait);
        drop(shard);
        Some(Flight { flights: Arc::clone(self), hash: key.hash, question, sender })
    }

    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Table>> {
        let shard = self.shards.get(usize::try_from(hash % SHARDS as u64).ok()?)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A question on its way; when it is dropped, those that wait go on by themselves.
pub(super) struct Flight {
    flights: Arc<Flights>,
    hash: u64,
    question: Question,
    sender: watch::Sender<Option<Arc<Landing>>>,
}

impl Flight {
    /// Waits for this question.
    pub(super) fn wait(&self) -> Waiting {
        Waiting(self.sender.subscribe())
    }

    /// Tells all that wait what became of it.
    pub(super) fn land(self, landing: Landing) {
        self.sender.send_replace(Some(Arc::new(landing)));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(mut shard) = self.flights.shard(self.hash) {
            shard.remove(&self.question);
        }
    }
}

/// Somebody who waits for a question of somebody else.
pub(super) struct Waiting(Wait);

impl Waiting {
    /// Waits for the end; `None` where who asked has gone without an answer.
    pub(super) async fn landed(mut self) -> Option<Arc<Landing>> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}
