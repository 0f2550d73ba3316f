//! `bufsize`: caps the UDP size that clients offer.
//!
//! Budget for a query: a load and a compare.

mod handler;
mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

/// The plugin `bufsize`.
pub static DESCRIPTOR: Descriptor = Descriptor { name: "bufsize", setup: setup::setup, register_metrics: || {} };
