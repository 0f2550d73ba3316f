//! `ready`: an endpoint that says whether all plugins that need time before they can answer have had it.
//!
//! It is no link of the chain and costs queries nothing.

mod endpoint;
mod readiness;
mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

/// The plugin's declaration.
pub static DESCRIPTOR: Descriptor = Descriptor { name: NAME, setup: setup::setup, register_metrics: || {} };

const NAME: &str = "ready";
const PATH: &str = "/ready";
