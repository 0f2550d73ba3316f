//! The UDP size of queries lowered.

use coredns_plugin::{Next, Outcome, Plugin, Query};

/// Lowers the UDP size of every query's OPT record to a limit.
#[derive(Debug)]
pub(super) struct BufferSize {
    /// The limit in octets.
    pub(super) octets: u16,
}

impl Plugin for BufferSize {
    fn name(&self) -> &'static str {
        "bufsize"
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        query.lower_udp_size(self.octets);
        next.serve(query)
    }
}
