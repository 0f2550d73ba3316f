//! Objects of any kind, their keys, and what a change of one means.

use super::types::{EndpointSlice, Namespace, Pod, Service, ServiceImport};

/// The kinds that the plugin reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// `v1` Namespace.
    Namespace,
    /// `v1` Service.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice,
    /// `v1` Pod.
    Pod,
    /// `multicluster.x-k8s.io/v1alpha1` ServiceImport.
    ServiceImport,
}

impl ObjectKind {
    /// The kind as manifests write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Pod => "Pod",
            Self::ServiceImport => "ServiceImport",
        }
    }
}

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The kind.
    pub kind: ObjectKind,
    /// The namespace; empty for a Namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

/// An object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// A Namespace.
    Namespace(Namespace),
    /// A Service.
    Service(Service),
    /// An EndpointSlice, ordinary or multicluster.
    EndpointSlice(EndpointSlice),
    /// A Pod.
    Pod(Pod),
    /// A ServiceImport.
    ServiceImport(ServiceImport),
}

impl Object {
    /// The kind.
    pub fn kind(&self) -> ObjectKind {
        match self {
            Self::Namespace(_) => ObjectKind::Namespace,
            Self::Service(_) => ObjectKind::Service,
            Self::EndpointSlice(_) => ObjectKind::EndpointSlice,
            Self::Pod(_) => ObjectKind::Pod,
            Self::ServiceImport(_) => ObjectKind::ServiceImport,
        }
    }

    /// The namespace; empty for a Namespace.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Namespace(_) => "",
            Self::Service(object) => &object.namespace,
            Self::EndpointSlice(object) => &object.namespace,
            Self::Pod(object) => &object.namespace,
            Self::ServiceImport(object) => &object.namespace,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        match self {
            Self::Namespace(object) => &object.name,
            Self::Service(object) => &object.name,
            Self::EndpointSlice(object) => &object.name,
            Self::Pod(object) => &object.name,
            Self::ServiceImport(object) => &object.name,
        }
    }

    /// The identity.
    pub fn key(&self) -> ObjectKey {
        ObjectKey { kind: self.kind(), namespace: self.namespace().into(), name: self.name().into() }
    }
}

/// One thing that happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object is new or has this new state.
    Apply(Object),
    /// The object is gone. Deleting an unknown object is no error.
    Delete(ObjectKey),
}

impl Change {
    /// The news in an object that was added or updated.
    ///
    /// None for a Pod that is being deleted: its last state stands until the deletion itself is reported.
    pub fn of(object: Object) -> Option<Self> {
        match object {
            Object::Pod(pod) if pod.terminating => None,
            object => Some(Self::Apply(object)),
        }
    }
}

/// Which of the three serials a change moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relevance {
    /// Names inside the cluster.
    pub internal: bool,
    /// Names of k8s_external.
    pub external: bool,
    /// Names of multicluster zones.
    pub multicluster: bool,
}

impl Relevance {
    /// Both together.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            internal: self.internal || other.internal,
            external: self.external || other.external,
            multicluster: self.multicluster || other.multicluster,
        }
    }
}

/// Which serials move when `old` becomes `new`; none stands for an object that does not exist.
///
/// An unchanged serial does not mean an unchanged object: `==` tells that. Cluster IPs, import IPs and target names,
/// for instance, move no serial (they do not change in the life of an object, or are not served).
pub fn relevance(old: Option<&Object>, new: Option<&Object>) -> Relevance {
    match (old, new) {
        (Some(Object::Service(old)), Some(Object::Service(new))) => old.relevance_of(new),
        (Some(Object::EndpointSlice(old)), Some(Object::EndpointSlice(new))) => old.relevance_of(new),
        (Some(Object::Pod(old)), Some(Object::Pod(new))) => old.relevance_of(new),
        (Some(Object::ServiceImport(old)), Some(Object::ServiceImport(new))) => old.relevance_of(new),
        (Some(Object::Namespace(_)), Some(Object::Namespace(_))) | (None, None) => Relevance::default(),
        (None, Some(object)) | (Some(object), None) => presence(object),
        // Two objects of different kinds: one went and the other came.
        (Some(old), Some(new)) => presence(old).union(presence(new)),
    }
}

/// Which serials move when the object comes or goes.
fn presence(object: &Object) -> Relevance {
    match object {
        Object::Namespace(_) => Relevance::default(),
        Object::Service(service) => service.presence(),
        Object::EndpointSlice(slice) => slice.presence(),
        Object::Pod(pod) => pod.presence(),
        Object::ServiceImport(import) => import.presence(),
    }
}

impl Pod {
    /// Which serials move when the Pod comes or goes.
    pub fn presence(&self) -> Relevance {
        Relevance { internal: true, ..Relevance::default() }
    }

    /// Which serials move when the Pod becomes `new`.
    pub fn relevance_of(&self, new: &Self) -> Relevance {
        let internal = !self.version.is_same(new.version) && self.addresses != new.addresses;
        Relevance { internal, ..Relevance::default() }
    }
}

impl ServiceImport {
    /// Which serials move when the import comes or goes.
    pub fn presence(&self) -> Relevance {
        Relevance { internal: true, external: false, multicluster: true }
    }

    /// Which serials move when the import becomes `new`.
    pub fn relevance_of(&self, new: &Self) -> Relevance {
        let content = self.headless != new.headless || self.ports != new.ports;
        Relevance { multicluster: !self.version.is_same(new.version) && content, ..Relevance::default() }
    }
}

impl Service {
    /// Which serials move when the Service comes or goes.
    pub fn presence(&self) -> Relevance {
        Relevance { internal: true, external: !self.external_ips.is_empty(), multicluster: false }
    }

    /// Which serials move when the Service becomes `new`.
    pub fn relevance_of(&self, new: &Self) -> Relevance {
        if self.version.is_same(new.version) {
            return Relevance::default();
        }
        let ports = self.ports != new.ports;
        Relevance {
            internal: ports || self.external_name != new.external_name,
            external: ports || self.external_ips != new.external_ips,
            multicluster: false,
        }
    }
}

impl EndpointSlice {
    /// Which serials move when the slice comes or goes.
    pub fn presence(&self) -> Relevance {
        Relevance { internal: true, external: false, multicluster: self.source.is_some() }
    }

    /// Which serials move when the slice becomes `new`.
    pub fn relevance_of(&self, new: &Self) -> Relevance {
        if self.version.is_same(new.version) {
            return Relevance::default();
        }
        let content = !self.serves_same(new);
        Relevance {
            internal: content,
            external: false,
            multicluster: (self.source.is_some() || new.source.is_some()) && (content || self.source != new.source),
        }
    }

    /// Whether both slices have the same ports and the same addresses, host names and zones in the same order.
    pub fn serves_same(&self, other: &Self) -> bool {
        self.service == other.service
            && self.ports == other.ports
            && self.endpoints.len() == other.endpoints.len()
            && self
                .endpoints
                .iter()
                .zip(&other.endpoints)
                .all(|(a, b)| a.address == b.address && a.hostname == b.hostname && a.zone == b.zone)
    }
}
