//! What every source of objects shares: what it selects and where it delivers.

use super::object::{Change, EndpointSlice, Labels, ObjectKey, ObjectKind};
use super::selector::Selector;

/// Where a source delivers its objects.
///
/// A source calls from one thread at a time, off the query path.
pub trait Sink: Send + Sync {
    /// Takes changes in order. A source delivers large states in several batches.
    fn apply(&self, changes: Vec<Change>);

    /// Forgets, in one step, the objects of a kind that `keep` does not know: a source has read all there are.
    fn retain(&self, kind: ObjectKind, keep: &dyn Fn(&ObjectKey) -> bool);

    /// The initial state has been delivered in full. Called once.
    fn synced(&self);
}

/// What is watched and what is kept of it.
///
/// | objects | watched | label selector |
/// |---|---|---|
/// | Namespace | always | `namespace_labels` |
/// | Service | always | `labels` |
/// | Pod | with `pods`; no Pod that has ended or is lost | `labels` |
/// | EndpointSlice | with `endpoints` | `labels` |
/// | EndpointSlice with the multicluster label | with `multicluster` | `labels` |
/// | ServiceImport | with `multicluster` | `labels`; CoreDNS takes `namespace_labels` by mistake |
#[derive(Clone, Debug)]
pub struct Selection {
    /// The option `labels`.
    pub labels: Selector,
    /// The option `namespace_labels`.
    pub namespace_labels: Selector,
    /// Whether Pods are watched: `pods verified`.
    pub pods: bool,
    /// Whether ordinary slices are watched: not `noendpoints`.
    pub endpoints: bool,
    /// Whether imports and their slices are watched: `multicluster`.
    pub multicluster: bool,
    /// Whether endpoints keep their topology zone: `zonal`.
    pub zones: bool,
    /// Whether endpoints keep the name of their Pod: `endpoint_pod_names`.
    pub target_names: bool,
}

/// Services, Namespaces and ordinary slices without any restriction.
impl Default for Selection {
    fn default() -> Self {
        Self {
            labels: Selector::default(),
            namespace_labels: Selector::default(),
            pods: false,
            endpoints: true,
            multicluster: false,
            zones: false,
            target_names: false,
        }
    }
}

/// The field selector of the Pod watch.
pub const POD_FIELD_SELECTOR: &str = "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown";

impl Selection {
    /// Whether an object is watched. `imported` says that a slice carries the multicluster label, `phase` is a Pod's.
    pub fn admits(&self, kind: ObjectKind, labels: &Labels, imported: bool, phase: &str) -> bool {
        match kind {
            ObjectKind::Namespace => self.namespace_labels.matches(labels),
            ObjectKind::Service => self.labels.matches(labels),
            ObjectKind::EndpointSlice => {
                (self.endpoints || (self.multicluster && imported)) && self.labels.matches(labels)
            }
            ObjectKind::Pod => {
                self.pods && !matches!(phase, "Succeeded" | "Failed" | "Unknown") && self.labels.matches(labels)
            }
            ObjectKind::ServiceImport => self.multicluster && self.labels.matches(labels),
        }
    }

    /// Drops what is not asked for from a slice, so that a change of it is no change.
    pub fn trim(&self, slice: &mut EndpointSlice) {
        for endpoint in &mut slice.endpoints {
            if !self.zones {
                endpoint.zone = None;
            }
            if !self.target_names {
                endpoint.target_name = None;
            }
        }
    }
}
