//! `forward`: queries go to other resolvers, over UDP, TCP and TLS.
//!
//! What is common to plugins with upstreams (connections, exchanges, probes) lies in [`crate::upstream`]; here are the
//! directive, the choice of an upstream, and what is done when one fails or is late. Budget of a query beyond its
//! exchange: one load of the list of upstreams, one order of at most 16 small numbers on the stack, no lock.

mod config;
mod effort;
mod handler;
mod lifecycle;
mod metrics;
mod options;
mod policy;
mod setup;
mod targets;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_encrypted;
mod upstreams;

use coredns_plugin::Descriptor;

pub use config::{Config, DohMethod};
pub use handler::Forward;
pub use policy::{Policy, Selector};
pub use targets::{Source, classify, expand};
pub use upstreams::Upstreams;

/// The plugin's declaration.
pub static DESCRIPTOR: Descriptor =
    Descriptor { name: NAME, setup: setup::setup, register_metrics: metrics::register_metrics };

const NAME: &str = "forward";
