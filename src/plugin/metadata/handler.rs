//! The link in the chain.

use coredns_plugin::{Next, Outcome, Plugin, Query};

/// Passes queries on.
#[derive(Debug)]
pub(super) struct Collector;

impl Plugin for Collector {
    fn name(&self) -> &'static str {
        "metadata"
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        next.serve(query)
    }
}
