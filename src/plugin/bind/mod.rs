//! `bind`: the addresses that a block listens on.
//!
//! No handler: it sets a value of the block. Names of interfaces become their addresses at setup, that is at each start
//! and reload.

mod interfaces;
mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

/// The plugin `bind`.
pub static DESCRIPTOR: Descriptor = Descriptor { name: "bind", setup: setup::setup, register_metrics: || {} };
