//! `blocklist`: says no to queries for the names of a list and for all that lies below them.
//!
//! The list is read at setup and does not change; a reload of the Corefile reads it again. Budget for a query that
//! passes: one probe by hash for each label of its name, no allocation for names of up to 78 octets, no lock.

mod handler;
mod metrics;
mod names;
mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

pub use handler::Blocklist;
pub use names::{FILE_BYTES_MAX, Names};

const NAME: &str = "blocklist";

/// The plugin's declaration: what plugin.cfg leads to.
pub static DESCRIPTOR: Descriptor = Descriptor { name: NAME, setup: setup::setup, register_metrics: metrics::register };
