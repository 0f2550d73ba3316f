//! `errors`: logs why queries failed, each line or many of a kind as one.
//!
//! Budget: for a query that did not fail, or failed without a reason, one look at the answer; no allocation. The text
//! of a reason is made once, where there is one.

mod consolidate;
mod handler;
mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

/// The plugin's declaration.
pub static DESCRIPTOR: Descriptor = Descriptor { name: NAME, setup: setup::setup, register_metrics: || {} };

const NAME: &str = "errors";
