//! `cache`: keeps answers of the rest of the chain and gives them again while they are fresh, or somewhat longer.
//!
//! Two stores, for positive answers and for denials, each in shards and bounded in entries and octets, shared by all
//! workers. An entry is one whole reply under its question, in a compact form: nothing of it ever answers another
//! question. Time is the monotonic one at which the query came.
//!
//! Budget of a hit: one hash of the name, a look at one shard of each store (a short lock each), one reference
//! count, and the records copied into a pooled reply; no allocation, no clock read, below 400 ns.
//!
//! | module | holds |
//! |---|---|
//! | `handler` | what happens to a query: hit, stale, miss |
//! | `keep` | what happens to a reply that comes back |
//! | `refresh` | queries behind the client's back |
//! | `flights` | one query for equal questions that miss at the same time |
//! | `judge` | what kind a reply is, whether it answers, how long it lasts |
//! | `store`, `entry` | the entries |

mod entry;
mod flights;
mod handler;
mod judge;
mod keep;
mod metrics;
mod refresh;
mod setup;
mod store;
#[cfg(test)]
mod tests;

use coredns_plugin::Descriptor;

pub use entry::Hits;
pub use handler::Cache;
pub use judge::{answers_question, clamp, kind_of, message_ttl};
pub use setup::{Config, Limits, Prefetch, Stale};
pub use store::{SHARDS, shard_capacity};

/// The plugin's declaration.
pub static DESCRIPTOR: Descriptor =
    Descriptor { name: NAME, setup: setup::setup, register_metrics: metrics::register_metrics };

const NAME: &str = "cache";
