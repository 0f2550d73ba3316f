//! The objects as they were delivered last, for telling what a change changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coredns_plugin::clock;
use foldhash::HashMap;
use tracing::warn;

use super::super::metrics;
use super::super::object::{
    Change, EndpointSlice, Namespace, Object, ObjectKey, ObjectKind, Pod, Relevance, Service, ServiceImport,
};
use super::edits::Edits;
use super::entry::{Origin, service_key};

/// One warning an object in this time.
const WARNING_PERIOD: Duration = Duration::from_secs(60);
/// Objects that warnings are remembered of.
const WARNED_MAX: usize = 1_024;
/// Namespaces of these names let a client's search path reach names that are not the cluster's.
const CONFUSING: &[&str] =
    &["svc", "pod", "com", "net", "org", "edu", "gov", "mil", "int", "arpa", "info", "biz", "dev", "app", "cloud"];

#[derive(Clone)]
enum Held {
    Namespace(Namespace),
    Service(Arc<Service>),
    Slice(Arc<EndpointSlice>),
    Pod(Arc<Pod>),
    Import(Arc<ServiceImport>),
}

impl Held {
    const fn kind(&self) -> ObjectKind {
        match self {
            Self::Namespace(_) => ObjectKind::Namespace,
            Self::Service(_) => ObjectKind::Service,
            Self::Slice(_) => ObjectKind::EndpointSlice,
            Self::Pod(_) => ObjectKind::Pod,
            Self::Import(_) => ObjectKind::ServiceImport,
        }
    }
}

impl From<Object> for Held {
    fn from(object: Object) -> Self {
        match object {
            Object::Namespace(namespace) => Self::Namespace(namespace),
            Object::Service(service) => Self::Service(Arc::new(service)),
            Object::EndpointSlice(slice) => Self::Slice(Arc::new(slice)),
            Object::Pod(pod) => Self::Pod(Arc::new(pod)),
            Object::ServiceImport(import) => Self::Import(Arc::new(import)),
        }
    }
}

/// All objects of the index.
#[derive(Default)]
pub(super) struct Store {
    objects: HashMap<ObjectKey, Held>,
    warned: HashMap<ObjectKey, Instant>,
}

impl Drop for Store {
    fn drop(&mut self) {
        for held in self.objects.values() {
            metrics::count_object(held.kind(), -1);
        }
    }
}

impl Store {
    /// The objects that there are, in no order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.objects.keys()
    }

    /// Takes one change and says what it does to the tables.
    pub(super) fn take(&mut self, change: Change, edits: &mut Edits<'_>) {
        match change {
            Change::Apply(object) => self.apply(object, edits),
            Change::Delete(key) => {
                if let Some(old) = self.objects.remove(&key) {
                    metrics::count_object(key.kind, -1);
                    self.replace(Some(&old), None, edits);
                }
            }
        }
    }

    fn apply(&mut self, object: Object, edits: &mut Edits<'_>) {
        let key = object.key();
        let old = self.objects.get(&key).cloned();
        let new = Held::from(object);
        if let Some(old) = &old
            && is_same(old, &new)
        {
            if let (Held::Slice(_), Held::Slice(slice)) = (old, &new) {
                edits.observe(slice);
            }
            return;
        }
        if old.is_none() {
            metrics::count_object(key.kind, 1);
        }
        if let Some(problem) = problem_of(&new) {
            self.warn(&key, problem);
        }
        self.replace(old.as_ref(), Some(&new), edits);
        self.objects.insert(key, new);
    }

    fn replace(&mut self, old: Option<&Held>, new: Option<&Held>, edits: &mut Edits<'_>) {
        edits.count(relevance(old, new));
        match (new.or(old), old, new) {
            (Some(Held::Namespace(namespace)), ..) => edits.set_namespace(&namespace.name, new.is_some()),
            (Some(Held::Service(service)), ..) => {
                edits.replace_cluster_ips(old.and_then(service_of), new.and_then(service_of));
                let origin = new.and_then(service_of).map_or(Origin::None, |new| Origin::Service(Arc::clone(new)));
                if let Some(key) = service_key(&service.name, &service.namespace) {
                    edits.change_entry(false, &key, |entry| entry.with_origin(origin));
                }
            }
            (Some(Held::Import(import)), ..) => {
                let origin = match new {
                    Some(Held::Import(new)) => Origin::Import(Arc::clone(new)),
                    _ => Origin::None,
                };
                if let Some(key) = service_key(&import.name, &import.namespace) {
                    edits.change_entry(true, &key, |entry| entry.with_origin(origin));
                }
            }
            (Some(Held::Pod(_)), ..) => edits.replace_pod(old.and_then(pod_of), new.and_then(pod_of)),
            (Some(Held::Slice(_)), ..) => replace_slice(old.and_then(slice_of), new.and_then(slice_of), edits),
            (None, ..) => {}
        }
    }

    /// Warns about an object that is served in part or not at all.
    fn warn(&mut self, key: &ObjectKey, problem: &str) {
        let now = clock::now();
        if self.warned.len() >= WARNED_MAX {
            self.warned.clear();
        }
        let last = self.warned.insert(key.clone(), now);
        if last.is_none_or(|last| now.duration_since(last) >= WARNING_PERIOD) {
            metrics::count_odd_object(key.kind);
            let (kind, separator) = (key.kind.as_str(), if key.namespace.is_empty() { "" } else { "/" });
            warn!(target: "plugin/kubernetes", "{kind} {}{separator}{}: {problem}", key.namespace, key.name);
        }
    }
}

fn service_of(held: &Held) -> Option<&Arc<Service>> {
    if let Held::Service(service) = held { Some(service) } else { None }
}

fn slice_of(held: &Held) -> Option<&Arc<EndpointSlice>> {
    if let Held::Slice(slice) = held { Some(slice) } else { None }
}

fn pod_of(held: &Held) -> Option<&Arc<Pod>> {
    if let Held::Pod(pod) = held { Some(pod) } else { None }
}

fn replace_slice(old: Option<&Arc<EndpointSlice>>, new: Option<&Arc<EndpointSlice>>, edits: &mut Edits<'_>) {
    if edits.endpoints_served() {
        edits.replace_endpoints(old, new);
        move_slice(false, old.zip(old.and_then(|old| service_key(&old.service, &old.namespace))), None, edits);
        move_slice(false, None, new.zip(new.and_then(|new| service_key(&new.service, &new.namespace))), edits);
    }
    let imported = |slice: &Arc<EndpointSlice>| service_key(&slice.source.as_ref()?.import, &slice.namespace);
    move_slice(true, old.zip(old.and_then(imported)), None, edits);
    move_slice(true, None, new.zip(new.and_then(imported)), edits);
    if let Some(slice) = new.or(old) {
        edits.observe(slice);
    }
}

type Placed<'a> = Option<(&'a Arc<EndpointSlice>, super::Key)>;

/// Takes a slice from one Service name and puts it under another; slices of a name are sorted by their own.
fn move_slice(imported: bool, from: Placed<'_>, to: Placed<'_>, edits: &mut Edits<'_>) {
    if let Some((old, key)) = from {
        edits.change_entry(imported, &key, |entry| {
            let rest = entry.slices().iter().filter(|held| !Arc::ptr_eq(held, old)).cloned();
            entry.with_slices(rest.collect())
        });
    }
    if let Some((new, key)) = to {
        edits.change_entry(imported, &key, |entry| {
            let mut slices = entry.slices().to_vec();
            let at = slices.partition_point(|held| held.name <= new.name);
            slices.insert(at, Arc::clone(new));
            entry.with_slices(slices)
        });
    }
}

/// Whether the new state says nothing new: same version, or same content under another version.
fn is_same(old: &Held, new: &Held) -> bool {
    macro_rules! same {
        ($old:expr, $new:expr) => {
            $old.version.is_same($new.version) || {
                let mut probe = $new.clone();
                probe.version = $old.version;
                probe == $old
            }
        };
    }
    match (old, new) {
        (Held::Namespace(old), Held::Namespace(new)) => old.name == new.name,
        (Held::Service(old), Held::Service(new)) => same!(**old, Service::clone(new)),
        (Held::Pod(old), Held::Pod(new)) => same!(**old, Pod::clone(new)),
        (Held::Import(old), Held::Import(new)) => same!(**old, ServiceImport::clone(new)),
        // Large: compared in place. The time of the cause is no content.
        (Held::Slice(old), Held::Slice(new)) => {
            old.version.is_same(new.version)
                || (old.serves_same(new)
                    && old.source == new.source
                    && old.endpoints.iter().zip(&new.endpoints).all(|(old, new)| old.target_name == new.target_name))
        }
        _ => false,
    }
}

fn relevance(old: Option<&Held>, new: Option<&Held>) -> Relevance {
    match (old, new) {
        (Some(Held::Service(old)), Some(Held::Service(new))) => old.relevance_of(new),
        (Some(Held::Slice(old)), Some(Held::Slice(new))) => old.relevance_of(new),
        (Some(Held::Pod(old)), Some(Held::Pod(new))) => old.relevance_of(new),
        (Some(Held::Import(old)), Some(Held::Import(new))) => old.relevance_of(new),
        (None, Some(held)) | (Some(held), None) => match held {
            Held::Namespace(_) => Relevance::default(),
            Held::Service(service) => service.presence(),
            Held::Slice(slice) => slice.presence(),
            Held::Pod(pod) => pod.presence(),
            Held::Import(import) => import.presence(),
        },
        _ => Relevance::default(),
    }
}

/// What keeps an object from being served as its author surely meant it.
fn problem_of(held: &Held) -> Option<&'static str> {
    const NO_LABEL: &str = "its name or namespace is no DNS label (1 to 63 octets), so it has no records";
    match held {
        Held::Namespace(namespace) => {
            let name = &*namespace.name;
            let is_country = name.len() == 2 && name.bytes().all(|octet| octet.is_ascii_alphabetic());
            (is_country || CONFUSING.contains(&name)).then_some(
                "a namespace of this name lets names of Services be taken for public domains by search paths; rename it",
            )
        }
        Held::Service(service) => {
            if service_key(&service.name, &service.namespace).is_none() {
                return Some(NO_LABEL);
            }
            let entry =
                super::Entry::new(super::Key::new()).with_origin(Origin::Service(Arc::clone(service))).prepared();
            (entry.is_external() && entry.alias().is_none())
                .then_some("its externalName is no host name, so it has no records; use a domain name")
        }
        Held::Import(import) => service_key(&import.name, &import.namespace).is_none().then_some(NO_LABEL),
        Held::Slice(_) | Held::Pod(_) => None,
    }
}
