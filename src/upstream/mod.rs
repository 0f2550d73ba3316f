//! Asking other servers: what the plugins that forward queries have in common.
//!
//! Every worker has connections of its own to every upstream, so that no lock is contended between workers and
//! every socket is driven by the runtime that it was made on. A UDP socket carries one query at a time, is connected,
//! and ends after 64 exchanges or 5 seconds; a stream carries many, told apart by their identifiers.
//!
//! Budget of an exchange beyond its system calls: one boxed future, one message of some 40 octets written once, three
//! loads and two stores for pool and counters; the reply is parsed out of a buffer that belongs to the thread.

pub mod address;
mod error;
mod health;
mod https;
mod message;
mod metrics;
mod pool;
mod proxy;
mod stream;
mod timing;
pub mod tls;
mod udp;

pub use address::{HostEntry, Protocol, Target};
pub use error::ExchangeError;
pub use health::{Health, HealthCheck, Prober};
pub use message::{Asked, AskedError, cuts_message, parse_reply};
pub use metrics::register_metrics;
pub use proxy::{Settings, Signals, Upstream, Way};
pub use timing::{DialTimeout, RoundTrip};
