//! `health`: an endpoint that says that the process lives, and a pause before the process ends.
//!
//! It is no link of the chain and costs queries nothing.

mod check;
mod endpoint;
mod metrics;
mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

/// The plugin's declaration.
pub static DESCRIPTOR: Descriptor = Descriptor { name: NAME, setup: setup::setup, register_metrics: metrics::register };

const NAME: &str = "health";
const PATH: &str = "/health";
