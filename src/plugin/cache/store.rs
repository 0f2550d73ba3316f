//! A store: shards of entries, bounded in entries and in octets.
//!
//! What has to go is chosen among a few entries drawn by a secret random number: one that is of no use any more, else
//! the one that was not used for longest. So a flood of new names wears out what nobody asks for, and cannot be aimed.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::entry::{Entry, Key};

/// Parts of a store, each with a lock of its own.
pub const SHARDS: usize = 256;
/// The fewest entries of a shard.
const SHARD_MIN: usize = 4;
/// What a store may take in octets, unless more entries are configured than fit into it.
const STORE_OCTETS: usize = 64 << 20;
/// Octets for each entry that is configured.
const ENTRY_OCTETS: usize = 1024;
/// Entries that are looked at when one has to go.
const CANDIDATES: usize = 5;

/// The entries that one shard holds at most, for a capacity as configured.
#[must_use]
pub fn shard_capacity(configured: i64) -> usize {
    (usize::try_from(configured).unwrap_or(0) / SHARDS).max(SHARD_MIN)
}

/// The keys are keyed hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _octets: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

struct Shard {
    /// From hashes to places in `entries`.
    places: HashMap<u64, usize, BuildHasherDefault<Identity>>,
    entries: Vec<Arc<Entry>>,
    octets: usize,
    random: u64,
}

/// What became of an entry that was to be kept.
pub(super) struct Inserted {
    /// The entry; it may have been too large to stay.
    pub(super) entry: Arc<Entry>,
    /// Other entries that had to go.
    pub(super) evicted: u64,
}

/// A store.
pub(super) struct Store {
    /// Each protects its entries; held for one look-up or one change.
    shards: Box<[Mutex<Shard>]>,
    len: AtomicUsize,
    shard_entries: usize,
    shard_octets: usize,
    /// How long entries are of use beyond their time.
    stale: Duration,
}

impl Store {
    /// A store for about `capacity` entries that are of use for `stale` beyond their time.
    pub(super) fn new(capacity: i64, stale: Duration, seed: u64) -> Self {
        let shard_entries = shard_capacity(capacity);
        let octets = STORE_OCTETS.max(shard_entries.saturating_mul(SHARDS).saturating_mul(ENTRY_OCTETS));
        let shard = |number: u64| {
            // Never 0, for which the generator stands still.
            let random = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1;
            Mutex::new(Shard { places: HashMap::default(), entries: Vec::new(), octets: 0, random })
        };
        Self {
            shards: (0..SHARDS as u64).map(shard).collect(),
            len: AtomicUsize::new(0),
            shard_entries,
            shard_octets: octets / SHARDS,
            stale,
        }
    }

    /// The entry for a question.
    #[inline]
    pub(super) fn get(&self, key: &Key<'_>) -> Option<Arc<Entry>> {
        let shard = self.shard(key.hash)?;
        let entry = shard.entries.get(*shard.places.get(&key.hash)?)?;
        entry.is_for(key).then(|| Arc::clone(entry))
    }

    /// Keeps an entry in the place of the one for its question.
    ///
    /// `adapt` sees the one that it replaces.
    pub(super) fn put(&self, mut entry: Entry, now: Instant, adapt: impl FnOnce(&mut Entry, &Arc<Entry>)) -> Inserted {
        let hash = entry.hash;
        let Some(mut shard) = self.shard(hash) else { return Inserted { entry: Arc::new(entry), evicted: 0 } };
        let before = shard.places.get(&hash).and_then(|at| shard.entries.get(*at)).map(Arc::clone);
        if let Some(before) = before.filter(|before| before.is_same_question(&entry)) {
            adapt(&mut entry, &before);
        }
        let cost = entry.cost();
        let entry = Arc::new(entry);
        let mut inserted = Inserted { entry: Arc::clone(&entry), evicted: 0 };
        if cost > self.shard_octets {
            return inserted;
        }
        // The one that it replaces leaves before others have to.
        let mut gone = usize::from(shard.remove(hash));
        while shard.entries.len() >= self.shard_entries || shard.octets + cost > self.shard_octets {
            let Some(victim) = shard.victim(now, self.stale) else { break };
            if shard.remove(victim) {
                inserted.evicted += 1;
                gone += 1;
            }
        }
        shard.octets += cost;
        let place = shard.entries.len();
        shard.places.insert(hash, place);
        shard.entries.push(entry);
        // Relaxed: a number for people.
        self.len.fetch_add(1, Ordering::Relaxed);
        self.len.fetch_sub(gone, Ordering::Relaxed);
        inserted
    }

    /// Forgets the entry for a question.
    pub(super) fn remove(&self, key: &Key<'_>) {
        let Some(mut shard) = self.shard(key.hash) else { return };
        let found = shard.places.get(&key.hash).and_then(|at| shard.entries.get(*at));
        if found.is_some_and(|entry| entry.is_for(key)) && shard.remove(key.hash) {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn octets(&self) -> usize {
        (0..SHARDS as u64).filter_map(|shard| self.shard(shard << SHARD_SHIFT)).map(|shard| shard.octets).sum()
    }

    #[inline]
    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        // Neither the low nor the high bits: those the table of the shard goes by.
        let number = usize::from((hash >> SHARD_SHIFT) as u8);
        Some(self.shards.get(number)?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where in a hash the number of its shard stands.
const SHARD_SHIFT: u32 = 40;

impl Shard {
    fn remove(&mut self, hash: u64) -> bool {
        let Some(at) = self.places.remove(&hash) else { return false };
        if at >= self.entries.len() {
            return false;
        }
        let gone = self.entries.swap_remove(at);
        self.octets = self.octets.saturating_sub(gone.cost());
        if let Some(moved) = self.entries.get(at) {
            self.places.insert(moved.hash, at);
        }
        true
    }

    /// The hash of an entry that has to go.
    fn victim(&mut self, now: Instant, stale: Duration) -> Option<u64> {
        let count = self.entries.len();
        let mut worst: Option<(bool, Instant, u64)> = None;
        for _ in 0..CANDIDATES {
            let at = self.draw().checked_rem(count as u64)?;
            let entry = self.entries.get(usize::try_from(at).ok()?)?;
            let useful =
                entry.is_current() && entry.remaining(now).map_or_else(|past| past < stale.as_secs(), |_| true);
            let candidate = (useful, entry.last_used(), entry.hash);
            worst = Some(worst.map_or(candidate, |worst| worst.min(candidate)));
        }
        worst.map(|(.., hash)| hash)
    }

    /// A number from a generator with a secret start (xorshift64*).
    fn draw(&mut self) -> u64 {
        let mut state = self.random;
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random = state;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}
