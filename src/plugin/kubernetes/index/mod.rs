//! The index: what the objects of a cluster mean for queries.
//!
//! Any source feeds it through [`Sink`]; queries read it through one pointer load a table, without a lock, an
//! allocation or a reference count of their own.
//!
//! | table | by | holds |
//! |---|---|---|
//! | services, imports | the octets `[length]service[length]namespace` | an [`Entry`]: the object, its slices, its addresses |
//! | namespaces | name | that it exists |
//! | cluster addresses | address | Services with that cluster IP |
//! | endpoint addresses | address | slices with that ready endpoint, and its place in them |
//! | pods | address | Pods |
//!
//! Budget of a look-up: one keyed hash of some 20 octets, one load of a shard, a binary search over a dozen rows, one
//! comparison of the whole key. Memory: an endpoint takes its object's 72 octets and host name and a row of 32.

mod edits;
mod entry;
mod shards;
mod store;

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use coredns_plugin::wire::{MAX_LABEL, fold};
use coredns_plugin::{Stamp, clock};
use tokio::sync::Notify;

use super::object::{Change, EndpointSlice, ObjectKey, ObjectKind, Pod, Relevance, Service};
use super::source::Sink;
use shards::{Row, Rows, Shards};
use store::Store;

pub use entry::{Entry, Key, Origin, Seen, address_alias, service_key};

/// Shards of the large tables, as a power of two.
const LARGE: u32 = 10;
/// Shards of the small ones.
const SMALL: u32 = 6;

/// A Service name and what is known under it.
#[derive(Clone)]
struct Keyed {
    hash: u64,
    entry: Arc<Entry>,
}

impl Row for Keyed {
    type Order = u64;

    #[inline]
    fn order(&self) -> u64 {
        self.hash
    }
}

#[derive(Clone)]
struct NamespaceRow {
    hash: u64,
    name: Box<str>,
}

impl Row for NamespaceRow {
    type Order = u64;

    #[inline]
    fn order(&self) -> u64 {
        self.hash
    }
}

/// An address and an object that carries it.
pub struct AddressRow<T> {
    ip: u128,
    object: Arc<T>,
    position: u32,
}

impl<T> AddressRow<T> {
    /// The object.
    pub fn object(&self) -> &T {
        &self.object
    }

    /// Which address of the object it is, from 0.
    pub fn position(&self) -> usize {
        self.position as usize
    }
}

impl<T> Clone for AddressRow<T> {
    fn clone(&self) -> Self {
        Self { ip: self.ip, object: Arc::clone(&self.object), position: self.position }
    }
}

impl<T> Row for AddressRow<T> {
    type Order = u128;

    #[inline]
    fn order(&self) -> u128 {
        self.ip
    }
}

/// An address as one number; IPv4 addresses in their IPv6 form.
fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// The serials of the three kinds of zones: Unix seconds of the last change that such zones show, 0 before the first.
#[derive(Debug, Default)]
pub struct Serials {
    internal: AtomicU32,
    external: AtomicU32,
    multicluster: AtomicU32,
}

impl Serials {
    /// For ordinary zones.
    pub fn internal(&self) -> u32 {
        self.internal.load(Ordering::Relaxed)
    }

    /// For zones of external addresses.
    pub fn external(&self) -> u32 {
        self.external.load(Ordering::Relaxed)
    }

    /// For multicluster zones.
    pub fn multicluster(&self) -> u32 {
        self.multicluster.load(Ordering::Relaxed)
    }

    /// Moves the serials on; a second change within a second counts one further, so that no secondary misses it.
    fn advance(&self, moved: Relevance, now: u32) {
        let serials = [
            (moved.internal, &self.internal),
            (moved.external, &self.external),
            (moved.multicluster, &self.multicluster),
        ];
        for (_, serial) in serials.into_iter().filter(|(moved, _)| *moved) {
            let old = serial.load(Ordering::Relaxed);
            let is_later = now.wrapping_sub(old) as i32 > 0;
            serial.store(if is_later { now } else { old.wrapping_add(1) }, Ordering::Relaxed);
        }
    }
}

/// The index of one instance of the plugin.
pub struct Index {
    /// Secret of this process, so that no client can aim at one shard.
    seed: u64,
    /// Whether ordinary slices are served: not `noendpoints`.
    endpoints_served: bool,
    services: Shards<Keyed>,
    imports: Shards<Keyed>,
    namespaces: Shards<NamespaceRow>,
    cluster_addresses: Shards<AddressRow<Service>>,
    endpoint_addresses: Shards<AddressRow<EndpointSlice>>,
    pods: Shards<AddressRow<Pod>>,
    serials: Serials,
    synced: AtomicBool,
    sync: Notify,
    /// What only writers need; held for one batch of changes, never by a query.
    store: Mutex<Store>,
}

impl Index {
    /// An empty index; `endpoints_served` is false under `noendpoints`.
    pub fn new(endpoints_served: bool) -> Self {
        Self {
            seed: rand::random(),
            endpoints_served,
            services: Shards::new(LARGE),
            imports: Shards::new(SMALL),
            namespaces: Shards::new(SMALL),
            cluster_addresses: Shards::new(LARGE),
            endpoint_addresses: Shards::new(LARGE),
            pods: Shards::new(LARGE),
            serials: Serials::default(),
            synced: AtomicBool::new(false),
            sync: Notify::new(),
            store: Mutex::default(),
        }
    }

    /// The keyed hash of some octets of a name, for [`Index::service`] and stamps.
    #[inline]
    pub fn hash(&self, octets: &[u8]) -> u64 {
        fold::hash(self.seed, octets)
    }

    /// The hash that answers about an address are stamped with.
    pub fn address_hash(&self, ip: IpAddr) -> u64 {
        self.hash(&number(ip).to_be_bytes())
    }

    /// The stamp of answers about a zone as a whole; every change ends it.
    pub fn zone_stamp(&self) -> Stamp {
        Stamp::take(self.zone_hash())
    }

    fn zone_hash(&self) -> u64 {
        self.hash(&[])
    }

    /// What is known under the Service name `key`, whose [`Index::hash`] is `hash`.
    #[inline]
    pub fn service(&self, key: &[u8], hash: u64) -> Option<Found> {
        Found::new(self.services.rows(hash, hash), key)
    }

    /// What is known under the name `key` in multicluster zones.
    pub fn import(&self, key: &[u8], hash: u64) -> Option<Found> {
        Found::new(self.imports.rows(hash, hash), key)
    }

    /// The entry of a Service by its names.
    pub fn service_named(&self, service: &str, namespace: &str) -> Option<Found> {
        let key = service_key(service, namespace)?;
        self.service(&key, self.hash(&key))
    }

    /// Whether a namespace exists; `label` is its name with the length in front.
    #[inline]
    pub fn has_namespace(&self, label: &[u8]) -> bool {
        let hash = self.hash(label);
        let name = label.get(1..).unwrap_or(&[]);
        self.namespaces.rows(hash, hash).iter().any(|row| fold::eq(row.name.as_bytes(), name))
    }

    /// [`Index::has_namespace`] by name.
    pub fn has_namespace_named(&self, name: &str) -> bool {
        namespace_label(name).is_some_and(|label| self.has_namespace(&label))
    }

    /// The Services with the cluster IP `ip`.
    pub fn cluster_address(&self, ip: IpAddr) -> impl Deref<Target = [AddressRow<Service>]> {
        self.cluster_addresses.rows(self.address_hash(ip), number(ip))
    }

    /// The slices with the ready endpoint `ip`; a slice comes once for each of its endpoints with that address.
    pub fn endpoint_address(&self, ip: IpAddr) -> impl Deref<Target = [AddressRow<EndpointSlice>]> {
        self.endpoint_addresses.rows(self.address_hash(ip), number(ip))
    }

    /// The Pods with the address `ip`.
    pub fn pods(&self, ip: IpAddr) -> impl Deref<Target = [AddressRow<Pod>]> {
        self.pods.rows(self.address_hash(ip), number(ip))
    }

    /// All entries of ordinary or of multicluster zones, in no order.
    pub fn entries(&self, multicluster: bool) -> Vec<Arc<Entry>> {
        let mut entries = Vec::new();
        let table = if multicluster { &self.imports } else { &self.services };
        table.for_each(|row| entries.push(Arc::clone(&row.entry)));
        entries
    }

    /// The serials.
    pub fn serials(&self) -> &Serials {
        &self.serials
    }

    /// Whether the source has delivered its whole initial state.
    #[inline]
    pub fn is_synced(&self) -> bool {
        // Acquire: whoever sees the flag sees the objects delivered before.
        self.synced.load(Ordering::Acquire)
    }

    /// Waits until [`Index::is_synced`].
    pub async fn wait_synced(&self) {
        loop {
            let notified = self.sync.notified();
            if self.is_synced() {
                return;
            }
            notified.await;
        }
    }

    /// Takes changes in order; queries see all of them, or those of some shards earlier than those of others.
    pub fn apply(&self, changes: Vec<Change>) {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let mut edits = edits::Edits::new(self);
        for change in changes {
            store.take(change, &mut edits);
        }
        let moved = edits.moved();
        edits.publish();
        self.serials.advance(moved, clock::unix_seconds());
    }

    /// The initial state is complete.
    pub fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
        Stamp::advance(self.zone_hash());
        self.sync.notify_waiters();
    }
}

impl Sink for Index {
    fn apply(&self, changes: Vec<Change>) {
        Self::apply(self, changes);
    }

    fn retain(&self, kind: ObjectKind, keep: &dyn Fn(&ObjectKey) -> bool) {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = store.keys().filter(|key| key.kind == kind && !keep(key));
        let changes: Vec<Change> = gone.cloned().map(Change::Delete).collect();
        drop(store);
        if !changes.is_empty() {
            Self::apply(self, changes);
        }
    }

    fn synced(&self) {
        self.set_synced();
    }
}

/// The label of a namespace with its length in front; `None` where it can be no label.
fn namespace_label(name: &str) -> Option<Key> {
    let mut label = Key::new();
    label.push(u8::try_from(name.len()).ok().filter(|len| (1..=MAX_LABEL).contains(&usize::from(*len)))?);
    label.extend_from_slice(name.as_bytes());
    Some(label)
}

/// An entry as it was when it was looked up.
pub struct Found {
    rows: Rows<Keyed>,
    position: usize,
}

impl Found {
    #[inline]
    fn new(rows: Rows<Keyed>, key: &[u8]) -> Option<Self> {
        let position = rows.iter().position(|row| fold::eq(row.entry.key(), key))?;
        Some(Self { rows, position })
    }

    /// The entry.
    #[inline]
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        self.rows.get(self.position).map(|row| &row.entry)
    }
}

#[cfg(test)]
pub(super) mod tests;
