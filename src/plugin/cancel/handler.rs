//! Waiting bounded.

use std::time::Duration;

use coredns_plugin::{Answer, Next, Outcome, Plugin, Query};
use tokio::time::{Instant, timeout_at};

/// Gives up on queries that take too long.
#[derive(Debug)]
pub(super) struct Cancel {
    /// From the arrival of the query.
    pub(super) timeout: Duration,
}

impl Plugin for Cancel {
    fn name(&self) -> &'static str {
        "cancel"
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        let rest = match next.serve(query) {
            Outcome::Now(answer) => return Outcome::Now(answer),
            Outcome::Later(rest) => rest,
        };
        let Some(deadline) = query.received().checked_add(self.timeout) else {
            // Later than any clock can say.
            return Outcome::Later(rest);
        };
        Outcome::Later(Box::pin(async move {
            timeout_at(Instant::from_std(deadline), rest).await.unwrap_or(Answer::Dropped)
        }))
    }
}
