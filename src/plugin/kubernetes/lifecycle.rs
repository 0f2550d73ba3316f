//! The source, its first synchronisation, and the end.

use std::env;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use coredns_plugin::{BoxError, BoxFuture, Lifecycle, Start};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Kubernetes;
use super::api::{Access, AccessError, ApiSource, SERVICE_ACCOUNT, Timing};
use super::local::local_addresses;
use super::manifests::{Config, Manifests};
use super::metrics::WatchedManifests;

/// How often the wait for the first synchronisation is logged.
const REMINDER: Duration = Duration::from_millis(500);

/// A source at work.
pub(super) struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Lifecycle for Kubernetes {
    fn start<'a>(&'a self, start: &'a Start) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            self.set_local_addresses(local_addresses(start.servers.iter().map(|server| &*server.host)));
            let running = self.open_source().await?;
            self.running.lock().unwrap_or_else(PoisonError::into_inner).replace(running);
            self.wait_for_source().await;
            Ok(())
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(Running { stop, task }) = running {
                stop.cancel();
                if let Err(error) = task.await {
                    warn!(target: "plugin/kubernetes", "the source ended badly: {error}");
                }
            }
        })
    }
}

impl Kubernetes {
    async fn open_source(&self) -> Result<Running, AccessError> {
        let options = self.options();
        let (stop, sink) = (CancellationToken::new(), Arc::clone(self.index()));
        let stopped = stop.clone();
        if options.manifests.is_empty() {
            let access = Access::choose(&options.api, |name| env::var(name).ok(), SERVICE_ACCOUNT.as_ref())?;
            let source = ApiSource::new(access, &options.api, options.selection(), Timing::default()).await?;
            return Ok(Running { stop, task: tokio::spawn(source.run(sink, stopped)) });
        }
        let manifests = Arc::new(Manifests::new(Config::new(options.manifests.clone(), options.selection())));
        let task = tokio::spawn(async move {
            let _watched = WatchedManifests::new(&manifests);
            manifests.run(sink, stopped.cancelled_owned()).await;
        });
        Ok(Running { stop, task })
    }

    /// Waits until the first state is there, at most `startup_timeout`.
    pub(super) async fn wait_for_source(&self) {
        let timeout = self.options().startup_timeout;
        if timeout.is_zero() {
            return;
        }
        let deadline = tokio::time::Instant::now() + timeout;
        let mut reminder = tokio::time::interval_at(tokio::time::Instant::now() + REMINDER, REMINDER);
        loop {
            tokio::select! {
                biased;
                () = self.index().wait_synced() => return,
                () = tokio::time::sleep_until(deadline) => {
                    warn!(target: "plugin/kubernetes", "starting server with unsynced Kubernetes API");
                    return;
                }
                _ = reminder.tick() => {
                    info!(target: "plugin/kubernetes", "waiting for Kubernetes API before starting server");
                }
            }
        }
    }
}
