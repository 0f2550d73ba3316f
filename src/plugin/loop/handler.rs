//! The link in the chain, and its task.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use coredns_plugin::corefile::quote;
use coredns_plugin::wire::{Name, Rcode, RrType};
use coredns_plugin::{
    Answer, Background, BoxFuture, Failure, Lifecycle, Next, Outcome, Plugin, Query, ServerInfo, Start, fatal,
};

use super::probe::{Loop, Watch, probe_until_answered};

/// Counts sightings of its probes among the queries that pass.
#[derive(Debug)]
pub(super) struct LoopDetector {
    watch: Arc<Watch>,
    /// The listener that is probed; unset before the start, and where the block has none.
    listener: OnceLock<Arc<ServerInfo>>,
    /// The task that sends probes.
    pub(super) task: Background,
}

impl LoopDetector {
    /// A detector that waits for its start.
    pub(super) fn new(zone: Name) -> Self {
        Self { watch: Arc::new(Watch::new(zone)), listener: OnceLock::new(), task: Background::new() }
    }

    /// What the process says as it ends.
    fn describe(&self, found: &Loop, query: &Query) -> String {
        let mut address = String::new();
        if let Some(server) = self.listener.get() {
            // Writing to a String cannot fail.
            let _ = match server.host.contains(':') {
                true => write!(address, "[{}]:{}", server.host, server.port),
                false => write!(address, "{}:{}", server.host, server.port),
            };
        }
        format!(
            "plugin/loop: Loop ({} -> {address}) detected for zone {}, see \
             https://coredns.io/plugins/loop#troubleshooting. Query: \"HINFO {}\"",
            query.client(),
            quote(&self.watch.zone().to_string()),
            found.name,
        )
    }
}

impl Plugin for LoopDetector {
    fn name(&self) -> &'static str {
        "loop"
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        if query.qtype() == RrType::HINFO
            && let Some(found) = self.watch.sight(query)
        {
            fatal(self.describe(&found, query));
            // Not passed on: this ends the round.
            return Outcome::Now(Answer::Failed(Failure::silent(Rcode::SERVFAIL)));
        }
        next.serve(query)
    }
}

impl Lifecycle for LoopDetector {
    fn serving<'a>(&'a self, start: &'a Start) -> BoxFuture<'a, ()> {
        Box::pin(async {
            // Probes are plain DNS, so a listener for that is asked where the block has one.
            let plain = start.servers.iter().find(|server| server.label.starts_with("dns://"));
            let Some(server) = plain.or_else(|| start.servers.first()) else {
                return;
            };
            let server = Arc::clone(self.listener.get_or_init(|| Arc::clone(server)));
            let watch = Arc::clone(&self.watch);
            self.task.run(async move { probe_until_answered(&watch, &server).await });
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.task.stop().await;
            self.watch.forget();
        })
    }
}
