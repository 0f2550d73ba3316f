//! `log`: one line a query.
//!
//! Budget of a logged query: two clock reads, one walk over a format that was taken apart at setup, into a buffer that
//! the thread keeps, and one line handed to the process log. A query that no rule names costs the look at the rules.

mod handler;
mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

/// The plugin's declaration.
pub static DESCRIPTOR: Descriptor = Descriptor { name: NAME, setup: setup::setup, register_metrics: || {} };

const NAME: &str = "log";
