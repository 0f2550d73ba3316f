//! `reload`: how often the Corefile is looked at for changes.
//!
//! No handler: this reads the directive; the server watches, and it has one watch for the whole process.

mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

/// The plugin `reload`.
pub static DESCRIPTOR: Descriptor = Descriptor { name: "reload", setup: setup::setup, register_metrics: || {} };
