//! `multisocket`: how many sets of sockets each listener of the block has.
//!
//! No handler: it sets a value of the block. The kernel spreads what comes over sockets of one address
//! (`SO_REUSEPORT`).

mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

/// The plugin `multisocket`.
pub static DESCRIPTOR: Descriptor = Descriptor { name: "multisocket", setup: setup::setup, register_metrics: || {} };
