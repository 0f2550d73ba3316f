//! Replies on their way out, and the watch over the weight file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use coredns_plugin::corefile::{GoDuration, os_error_text, read_regular_file};
use coredns_plugin::wire::{Rcode, RrType};
use coredns_plugin::{Background, BoxError, BoxFuture, Lifecycle, Next, Outcome, Plugin, Query, Reply, Start};
use tracing::{error, info, warn};

use super::NAME;
use super::order::{prefer, round_robin, weighted_top};
use super::setup::{Config, Policy};
use super::weights::Weights;

/// The largest weight file that is read, in octets.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The plugin of one server block.
#[derive(Debug)]
pub struct LoadBalance {
    config: Config,
    weights: Arc<ArcSwap<Weights>>,
    /// The watch over the weight file.
    watch: Background,
}

impl LoadBalance {
    /// A plugin without weights; a weight file is read by [`Lifecycle::start`].
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config, weights: Arc::default(), watch: Background::new() }
    }

    fn order(&self, qtype: RrType, reply: &mut Reply) {
        if reply.rcode != Rcode::NOERROR {
            return;
        }
        // Through the smart pointer once: the sections are borrowed one by one.
        let reply = &mut **reply;
        match &self.config.policy {
            Policy::RoundRobin => {
                for section in [&mut reply.answer, &mut reply.authority, &mut reply.additional] {
                    round_robin(section);
                }
            }
            Policy::Weighted { .. } if matches!(qtype, RrType::A | RrType::AAAA | RrType::SRV) => {
                let weights = self.weights.load();
                weighted_top(&mut reply.answer, &weights);
                weighted_top(&mut reply.additional, &weights);
            }
            Policy::Weighted { .. } => {}
        }
        if !self.config.prefer.is_empty() {
            prefer(&mut reply.answer, &self.config.prefer);
            prefer(&mut reply.additional, &self.config.prefer);
        }
    }
}

impl Plugin for LoadBalance {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        let qtype = query.qtype();
        let outcome = next.serve(query);
        // The order of the records of a transfer is its meaning (RFC 5936 §2.2).
        if matches!(qtype, RrType::AXFR | RrType::IXFR) {
            return outcome;
        }
        outcome.map_reply(move |reply| self.order(qtype, reply))
    }
}

impl Lifecycle for LoadBalance {
    fn start<'a>(&'a self, _start: &'a Start) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async {
            let Policy::Weighted { file, reload } = &self.config.policy else { return Ok(()) };
            let mut source = WeightFile::new(file.clone(), Arc::clone(&self.weights));
            match source.refresh() {
                Err(Trouble::Open(reason)) if !reload.is_zero() => source.warn_open(&reason, *reload),
                Err(Trouble::Open(reason) | Trouble::Content(reason)) => {
                    return Err(format!("plugin/loadbalance: {reason}").into());
                }
                Ok(Change::None) => {}
                Ok(Change::New) => source.say_read(),
            }
            if !reload.is_zero() {
                self.watch.run(source.watch(*reload));
            }
            Ok(())
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.watch.stop())
    }
}

/// What a look at the file found.
enum Change {
    None,
    New,
}

/// Why weights were not read.
enum Trouble {
    Open(String),
    Content(String),
}

/// The weight file and what it held last, right or wrong.
struct WeightFile {
    path: PathBuf,
    name: String,
    content: Option<Vec<u8>>,
    /// The last reason for not opening it, so that it is not said again and again.
    reported: Option<String>,
    weights: Arc<ArcSwap<Weights>>,
}

impl WeightFile {
    fn new(path: PathBuf, weights: Arc<ArcSwap<Weights>>) -> Self {
        let name = path.display().to_string();
        Self { path, name, content: None, reported: None, weights }
    }

    /// Reads the file; content that is the same as before, right or wrong, is left alone.
    fn refresh(&mut self) -> Result<Change, Trouble> {
        let content = read_regular_file(&self.path, FILE_BYTES_MAX)
            .map_err(|error| Trouble::Open(format!("open {}: {}", self.name, os_error_text(&error))))?;
        self.reported = None;
        if self.content.as_ref() == Some(&content) {
            return Ok(Change::None);
        }
        let parsed = Weights::parse(&String::from_utf8_lossy(&content), &self.name);
        self.content = Some(content);
        let weights = parsed.map_err(|error| Trouble::Content(error.to_string()))?;
        self.weights.store(Arc::new(weights));
        Ok(Change::New)
    }

    fn say_read(&self) {
        info!(target: "plugin/loadbalance", "Successfully reloaded weight file {}", self.name);
    }

    fn warn_open(&mut self, reason: &str, reload: Duration) {
        if self.reported.as_deref() != Some(reason) {
            let again = GoDuration::from_nanos(i64::try_from(reload.as_nanos()).unwrap_or(i64::MAX));
            warn!(target: "plugin/loadbalance", "Failed to open weight file:{reason}. Will try again in {again}");
            self.reported = Some(reason.to_owned());
        }
    }

    /// Looks at the file every `interval`, for ever.
    async fn watch(mut self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            // Reading may block, so it happens on another thread; the task takes the file back afterwards.
            let read = tokio::task::spawn_blocking(move || {
                let outcome = self.refresh();
                (self, outcome)
            });
            let Ok((file, outcome)) = read.await else { return };
            self = file;
            match outcome {
                Ok(Change::None) => {}
                Ok(Change::New) => self.say_read(),
                Err(Trouble::Open(reason)) => self.warn_open(&reason, interval),
                Err(Trouble::Content(reason)) => error!(target: "plugin/loadbalance", "{reason}"),
            }
        }
    }
}
