//! `root`: the folder that relative file names of a server block are joined to.
//!
//! No handler: it sets a value of the block and is first in the chain's order, so that every other setup sees it.

mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

/// The plugin `root`.
pub static DESCRIPTOR: Descriptor = Descriptor { name: "root", setup: setup::setup, register_metrics: || {} };
