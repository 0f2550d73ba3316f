//! `cancel`: a deadline for the rest of the chain.
//!
//! Budget for a query that is answered at once: one branch. One that waits costs a box more, for the timer.

mod handler;
mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

/// The plugin `cancel`.
pub static DESCRIPTOR: Descriptor = Descriptor { name: "cancel", setup: setup::setup, register_metrics: || {} };
