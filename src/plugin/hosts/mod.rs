//! `hosts`: answers from a hosts file and from entries in the Corefile.
//!
//! The file is read when the instance starts and again when its time or size changes, beside the table that queries
//! see, which is then swapped. Budget of an answer: one load of the snapshot, for each of the two tables (file,
//! inline) at most two probes by hash, one copy of the name a record; no allocation, no lock.

mod file;
mod handler;
mod metrics;
mod reverse;
mod setup;
mod table;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

pub use handler::Hosts;
pub use setup::Config;

/// The plugin's declaration.
pub static DESCRIPTOR: Descriptor =
    Descriptor { name: NAME, setup: setup::setup, register_metrics: metrics::register_metrics };

const NAME: &str = "hosts";
