//! The API objects that the plugin serves from, trimmed to the fields it reads.
//!
//! | module | contents |
//! |---|---|
//! | `types` | Service, EndpointSlice, Pod, Namespace, ServiceImport |
//! | `address` | an address of an object: IPv4, IPv6 or text |
//! | `labels` | sorted label sets |
//! | `change` | one object or its removal; which changes move a serial |
//! | `raw` | the API's JSON and YAML shapes, and how they become trimmed types |
//! | `lenient` | decoding that survives fields of the wrong type |
//!
//! All types implement `Deserialize` from the API's shape (`v1`, `discovery.k8s.io/v1`, `multicluster.x-k8s.io/v1alpha1`)
//! and drop everything else while decoding, so an object never exists in full in memory. A field of the wrong type or
//! out of range counts as absent: an odd object is served as far as it makes sense and never hides its neighbours.

mod address;
mod change;
mod labels;
mod lenient;
pub(super) mod raw;
mod types;

#[cfg(test)]
mod tests;

pub use address::Address;
pub use change::{Change, Object, ObjectKey, ObjectKind, Relevance, relevance};
pub use labels::Labels;
pub use types::{
    Endpoint, EndpointSlice, Namespace, Pod, Port, Protocol, Service, ServiceImport, ServiceKind, SourceCluster,
    Version,
};
