//! `loadbalance`: the order of the records on the way out.
//!
//! Budget: nothing for a section of one record; for others one pass to see that kinds of records stand in order, then
//! swaps in place with numbers of a generator of the thread. No lock; memory is allocated only where more than twenty
//! records of several kinds stand out of order.

mod handler;
mod order;
mod random;
mod setup;
#[cfg(test)]
mod tests;
mod weights;

use coredns_plugin::Descriptor;

pub use handler::LoadBalance;
pub use order::{draw, prefer, round_robin, weighted_top};
pub use setup::{Config, Policy};
pub use weights::{WeightError, Weights};

/// The plugin's declaration.
pub static DESCRIPTOR: Descriptor = Descriptor { name: NAME, setup: setup::setup, register_metrics: || {} };

const NAME: &str = "loadbalance";
