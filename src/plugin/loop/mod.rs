//! `loop`: ends the process when queries that it forwards come back to it.
//!
//! When the listeners are open, a probe is sent to one of them: a query whose name nobody else can guess. If it is seen
//! a third time while it is outstanding, whoever it was forwarded to sends it back. As soon as the probe is answered,
//! and after 30 seconds in any case, no query has an effect any more.
//!
//! Budget for a query: one compare, of its type; queries for HINFO a look at the outstanding probe.

mod handler;
mod probe;
mod setup;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

/// The plugin `loop`.
pub static DESCRIPTOR: Descriptor = Descriptor { name: "loop", setup: setup::setup, register_metrics: || {} };
