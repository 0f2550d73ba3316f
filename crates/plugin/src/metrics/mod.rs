//! Counting.
//!
//! Two kinds of metrics live in one registry of the process:
//!
//! - Off the query path: the types of the `prometheus` crate, registered with [`register`].
//! - On the query path: [`Cells`], rows of numbers, one row a worker, summed when somebody scrapes.
//!
//! Queries are counted by server, zone and view: see [`RequestMetrics`], [`Series`] and [`Observation`].

mod cells;
mod families;
mod observation;
mod requests;

use std::sync::OnceLock;

use prometheus::core::Collector;

pub use cells::{Cells, Row, enter_worker};
pub use observation::{Observation, Series};
pub use prometheus;
pub use requests::{RequestCollector, RequestMetrics};

/// The registry that all metrics of the process are in.
#[must_use]
pub fn registry() -> &'static prometheus::Registry {
    static REGISTRY: OnceLock<prometheus::Registry> = OnceLock::new();
    REGISTRY.get_or_init(prometheus::Registry::new)
}

/// Puts a metric into the registry.
///
/// A name that is there already is left as it is, since tests of one process register again; two plugins that use
/// one name for different things are a programming error, which debug builds report.
pub fn register(collector: impl Collector + 'static) {
    let outcome = registry().register(Box::new(collector));
    debug_assert!(matches!(outcome, Ok(()) | Err(prometheus::Error::AlreadyReg)), "{outcome:?}");
}
