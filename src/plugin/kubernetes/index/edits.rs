//! A batch of changes on its way into the tables.
//!
//! A batch touches each shard once, however many of its rows change. Stamps move after everything can be read.

use std::net::IpAddr;
use std::sync::Arc;

use coredns_plugin::Stamp;
use coredns_plugin::wire::fold;
use foldhash::{HashMap, HashSet};

use super::super::metrics;
use super::super::object::{EndpointSlice, Pod, Relevance, Service};
use super::shards::{Row, Shards, insert};
use super::{AddressRow, Entry, Index, Key, Keyed, NamespaceRow, namespace_label, number};

/// Changes of one table by address.
struct AddressEdits<T> {
    removed: HashMap<usize, Vec<Arc<T>>>,
    added: HashMap<usize, Vec<AddressRow<T>>>,
}

impl<T> AddressEdits<T> {
    fn new() -> Self {
        Self { removed: HashMap::default(), added: HashMap::default() }
    }

    fn publish(mut self, table: &Shards<AddressRow<T>>) {
        let shards: Vec<usize> = self.removed.keys().chain(self.added.keys()).copied().collect();
        for shard in shards {
            let removed = self.removed.remove(&shard).unwrap_or_default();
            let added = self.added.remove(&shard).unwrap_or_default();
            if removed.is_empty() && added.is_empty() {
                continue;
            }
            table.edit(shard, |rows| {
                rows.retain(|row| !removed.iter().any(|object| Arc::ptr_eq(object, &row.object)));
                // One sort for a whole batch; it is stable, so older rows stay in front.
                rows.extend(added);
                rows.sort_by_key(Row::order);
            });
        }
    }
}

/// A change of the programming latency's data: what a slice said about its cause.
struct Trigger {
    slice: Arc<EndpointSlice>,
}

/// The changes of one batch.
pub(super) struct Edits<'i> {
    index: &'i Index,
    services: HashMap<Key, Entry>,
    imports: HashMap<Key, Entry>,
    namespaces: Vec<(Box<str>, bool)>,
    cluster: AddressEdits<Service>,
    endpoints: AddressEdits<EndpointSlice>,
    pods: AddressEdits<Pod>,
    stamps: Vec<u64>,
    triggers: Vec<Trigger>,
    moved: Relevance,
}

impl<'i> Edits<'i> {
    pub(super) fn new(index: &'i Index) -> Self {
        Self {
            index,
            services: HashMap::default(),
            imports: HashMap::default(),
            namespaces: Vec::new(),
            cluster: AddressEdits::new(),
            endpoints: AddressEdits::new(),
            pods: AddressEdits::new(),
            stamps: Vec::new(),
            triggers: Vec::new(),
            moved: Relevance::default(),
        }
    }

    /// Whether ordinary slices are served.
    pub(super) fn endpoints_served(&self) -> bool {
        self.index.endpoints_served
    }

    /// Which serials the batch moves.
    pub(super) fn moved(&self) -> Relevance {
        self.moved
    }

    pub(super) fn count(&mut self, relevance: Relevance) {
        self.moved = self.moved.union(relevance);
    }

    /// Changes what is known under a Service name.
    pub(super) fn change_entry(&mut self, imported: bool, key: &Key, change: impl FnOnce(&Entry) -> Entry) {
        let hash = self.index.hash(key);
        let (pending, table) = if imported {
            (&mut self.imports, &self.index.imports)
        } else {
            (&mut self.services, &self.index.services)
        };
        // Keys of objects differ in case at most by mistake; both would be one name on the wire.
        let key = Key::from_iter(key.iter().map(u8::to_ascii_lowercase));
        let changed = match pending.get(&key) {
            Some(entry) => change(entry),
            None => {
                let rows = table.rows(hash, hash);
                match rows.iter().find(|row| fold::eq(row.entry.key(), &key)) {
                    Some(row) => change(&row.entry),
                    None => change(&Entry::new(key.clone())),
                }
            }
        };
        pending.insert(key, changed);
    }

    pub(super) fn set_namespace(&mut self, name: &str, present: bool) {
        self.namespaces.push((name.into(), present));
    }

    pub(super) fn replace_cluster_ips(&mut self, old: Option<&Arc<Service>>, new: Option<&Arc<Service>>) {
        let ips = |service: &Service| service.cluster_ips.iter().map(super::super::object::Address::ip).collect();
        replace(self.index, &self.index.cluster_addresses, &mut self.cluster, &mut self.stamps, (old, new), ips);
    }

    pub(super) fn replace_endpoints(&mut self, old: Option<&Arc<EndpointSlice>>, new: Option<&Arc<EndpointSlice>>) {
        let ips = |slice: &EndpointSlice| slice.endpoints.iter().map(|endpoint| endpoint.address.ip()).collect();
        replace(self.index, &self.index.endpoint_addresses, &mut self.endpoints, &mut self.stamps, (old, new), ips);
    }

    pub(super) fn replace_pod(&mut self, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>) {
        let ips = |pod: &Pod| pod.addresses.iter().map(super::super::object::Address::ip).collect();
        replace(self.index, &self.index.pods, &mut self.pods, &mut self.stamps, (old, new), ips);
    }

    /// A slice was added, changed or removed; its annotation tells what that began with.
    pub(super) fn observe(&mut self, slice: &Arc<EndpointSlice>) {
        if slice.trigger_time.is_some() {
            self.triggers.push(Trigger { slice: Arc::clone(slice) });
        }
    }

    /// Makes everything readable, then ends the stamps of what was read before.
    pub(super) fn publish(mut self) {
        let index = self.index;
        self.endpoints.publish(&index.endpoint_addresses);
        self.cluster.publish(&index.cluster_addresses);
        self.pods.publish(&index.pods);
        let mut namespaces: Vec<Key> = Vec::new();
        for (table, entries) in [(&index.services, self.services), (&index.imports, self.imports)] {
            for (key, entry) in entries {
                let hash = index.hash(&key);
                self.stamps.push(hash);
                namespaces.extend(namespace_part(&key));
                publish_entry(table, hash, entry);
            }
        }
        let mut changed = HashSet::default();
        for (name, present) in self.namespaces {
            let Some(label) = namespace_label(&name) else { continue };
            publish_namespace(index, &label, &name, present);
            changed.insert(Key::from_iter(label.iter().map(u8::to_ascii_lowercase)));
        }
        if !changed.is_empty() {
            stamp_namespaces(index, &changed, &mut self.stamps);
            namespaces.extend(changed);
        }
        self.stamps.extend(namespaces.iter().map(|label| index.hash(label)));
        self.stamps.push(index.zone_hash());
        self.stamps.sort_unstable();
        self.stamps.dedup();
        self.stamps.iter().for_each(|hash| Stamp::advance(*hash));
        // What was there before tells nothing about how fast this server is.
        for Trigger { slice } in self.triggers.into_iter().filter(|_| index.is_synced()) {
            let found = index.service_named(&slice.service, &slice.namespace);
            let service = found.as_ref().and_then(super::Found::entry).and_then(|entry| entry.service());
            metrics::observe_programming(&slice, service);
        }
    }
}

/// Takes the rows of `old` out and those of `new` in.
fn replace<T>(
    index: &Index,
    table: &Shards<AddressRow<T>>,
    edits: &mut AddressEdits<T>,
    stamps: &mut Vec<u64>,
    (old, new): (Option<&Arc<T>>, Option<&Arc<T>>),
    ips: impl Fn(&T) -> Vec<Option<IpAddr>>,
) {
    if let Some(old) = old {
        for ip in ips(old).into_iter().flatten() {
            let hash = index.address_hash(ip);
            stamps.push(hash);
            let shard = table.shard_of(hash);
            // The object may have come with this very batch.
            if let Some(added) = edits.added.get_mut(&shard) {
                added.retain(|row| !Arc::ptr_eq(&row.object, old));
            }
            let removed = edits.removed.entry(shard).or_default();
            if !removed.last().is_some_and(|last| Arc::ptr_eq(last, old)) {
                removed.push(Arc::clone(old));
            }
        }
    }
    if let Some(new) = new {
        for (position, ip) in (0..).zip(ips(new)) {
            let Some(ip) = ip else { continue };
            let hash = index.address_hash(ip);
            stamps.push(hash);
            let row = AddressRow { ip: number(ip), object: Arc::clone(new), position };
            edits.added.entry(table.shard_of(hash)).or_default().push(row);
        }
    }
}

fn publish_entry(table: &Shards<Keyed>, hash: u64, entry: Entry) {
    table.edit(table.shard_of(hash), |rows| {
        rows.retain(|row| row.hash != hash || !fold::eq(row.entry.key(), entry.key()));
        if !entry.is_empty() {
            insert(rows, Keyed { hash, entry: Arc::new(entry.prepared()) });
        }
    });
}

fn publish_namespace(index: &Index, label: &[u8], name: &str, present: bool) {
    let hash = index.hash(label);
    index.namespaces.edit(index.namespaces.shard_of(hash), |rows| {
        rows.retain(|row| row.hash != hash || !row.name.eq_ignore_ascii_case(name));
        if present {
            insert(rows, NamespaceRow { hash, name: name.into() });
        }
    });
}

/// Namespaces came or went, and so did everything in them.
fn stamp_namespaces(index: &Index, labels: &HashSet<Key>, stamps: &mut Vec<u64>) {
    for table in [&index.services, &index.imports] {
        table.for_each(|row| {
            // Keys of entries are in lower case.
            if namespace_part(row.entry.key()).is_some_and(|namespace| labels.contains(&namespace)) {
                stamps.push(row.hash);
                let own = row.entry.cluster_ips().iter();
                let ready = row.entry.slices().iter().flat_map(|slice| &slice.endpoints).map(|one| &one.address);
                stamps.extend(own.chain(ready).filter_map(|address| Some(index.address_hash(address.ip()?))));
            }
        });
    }
}

/// The `[length]namespace` of a Service's key.
fn namespace_part(key: &[u8]) -> Option<Key> {
    let service = usize::from(*key.first()?);
    key.get(1 + service..).map(Key::from_slice)
}
