//! The manifests source: cluster objects out of YAML and JSON files, with no API server.
//!
//! Paths name files, directories (one level: `*.yaml`, `*.yml`, `*.json`) and shell patterns. Files hold any number of
//! documents and lists; kinds that the plugin does not serve are skipped. Where a Service with a selector has no
//! EndpointSlice, its endpoints are derived from the Pods, as the cluster's controllers would.
//!
//! | module | contents |
//! |---|---|
//! | `files` | paths to files; opening and hashing them |
//! | `read` | a file's documents, one object at a time |
//! | `entry` | an object as the source holds it: what is shown, and what endpoints are derived from |
//! | `derive` | endpoints of Services without slices |
//! | `state` | what has been delivered; the difference to what the files say |
//! | `watch` | when to look |
//!
//! Memory: files are streamed, so that one object exists at a time; what stays is each object's key, a hash of its
//! content, and (for Services with selectors and Pods) what derivation needs. A changed file is read twice: once to
//! see that it is sound, then to deliver what differs, in batches.

mod derive;
mod entry;
mod error;
mod files;
mod read;
mod state;
mod watch;

#[cfg(test)]
mod tests;

pub use error::ManifestError;
pub use files::FILE_MAX_BYTES;
pub use read::{ALIASES_MAX, DEPTH_MAX};
pub use watch::{Config, Manifests, POLL_INTERVAL, Report};
