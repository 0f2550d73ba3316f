//! `erratic`: a server that misbehaves on purpose, to try out clients and other plugins against.

mod handler;
mod records;
mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

/// The plugin `erratic`.
pub static DESCRIPTOR: Descriptor = Descriptor { name: "erratic", setup: setup::setup, register_metrics: || {} };
