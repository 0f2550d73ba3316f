//! The source, its first synchronisation, and the end.

use std::env;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use coredns_plugin::{BoxError, BoxFuture, Lifecycle, Start};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Kubernetes;
use super::local::local_addresses;
use super::manifests::{Config, Manifests};
use super::metrics::WatchedManifests;

/// How often the wait for the first synchronisation is logged.
const REMINDER: Duration = Duration::from_millis(500);
/// Where Pods find the token of their service account.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Why there is no source.
#[derive(Debug, thiserror::Error)]
enum SourceError {
    #[error(
        "plugin/kubernetes: unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and \
         KUBERNETES_SERVICE_PORT must be defined; outside of a cluster use the option endpoint, kubeconfig or manifests"
    )]
    NotInCluster,
    #[error("plugin/kubernetes: this build cannot watch an API server; use the option manifests")]
    NoApi,
}

/// A source at work.
pub(super) struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Lifecycle for Kubernetes {
    fn start<'a>(&'a self, start: &'a Start) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            self.set_local_addresses(local_addresses(start.servers.iter().map(|server| &*server.host)));
            let running = self.open_source()?;
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
    fn open_source(&self) -> Result<Running, SourceError> {
        let options = self.options();
        if options.manifests.is_empty() {
            let has_api = options.api.endpoint.is_some() || options.api.kubeconfig.is_some() || is_in_cluster();
            return Err(if has_api { SourceError::NoApi } else { SourceError::NotInCluster });
        }
        let stop = CancellationToken::new();
        let manifests = Arc::new(Manifests::new(Config::new(options.manifests.clone(), options.selection())));
        let (sink, stopped) = (Arc::clone(self.index()), stop.clone());
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

/// Whether this process runs in a Pod of a cluster.
fn is_in_cluster() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    is_set("KUBERNETES_SERVICE_HOST") && is_set("KUBERNETES_SERVICE_PORT") && Path::new(TOKEN).exists()
}
