//! `timeouts`: how long connections may be silent, and how many queries they may carry.
//!
//! No handler: it sets values of the block. In a listener that several blocks share, the last one that sets a value
//! wins.

mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

/// The plugin `timeouts`.
pub static DESCRIPTOR: Descriptor = Descriptor { name: "timeouts", setup: setup::setup, register_metrics: || {} };
