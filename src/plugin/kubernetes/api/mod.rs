//! Objects from an API server.
//!
//! | module | contents |
//! |---|---|
//! | `access` | which server, with which credentials |
//! | `client` | one request: limits, deadlines, counters, errors |
//! | `limits` | requests a second and at once |
//! | `failure` | what goes wrong, as far as it makes a difference |
//! | `resource` | paths and parameters |
//! | `lines`, `decode` | bodies into objects, one at a time |
//! | `backoff` | when to try again |
//! | `reflector` | one resource: its list, its watch, and the way back to them |
//! | `standing` | how each watch is doing, for logs and metrics |
//!
//! The crate `kube` makes the connection: kubeconfig files, credentials, TLS, proxies. The lists and watches are our own
//! rather than its watcher's. That one asks for the same version for ever when the start of a watch is refused with 410;
//! it never falls back from streaming lists to pages; a server that ends each watch at once makes it spin; it decodes a
//! page or an event in full, of any length; and it keeps retrying behind the back of whoever wants to log or count.
//!
//! What queries see: an object appears or changes as soon as it is read, and goes when its deletion is read or when a list
//! that was read in full lacks it. Nothing is withdrawn because of an error.

mod access;
mod backoff;
mod client;
mod decode;
mod failure;
mod limits;
mod lines;
mod metrics;
mod reflector;
mod resource;
mod standing;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::options::ApiOptions;
use super::source::{Selection, Sink};
use client::ApiClient;
use reflector::Reflector;
use resource::Target;
use standing::Standing;

pub use access::{Access, AccessError, SERVICE_ACCOUNT};
pub(super) use metrics::register;

/// The times of the machinery; the defaults suit clusters, tests are in a hurry.
#[derive(Clone, Debug)]
pub struct Timing {
    /// The longest wait for the head of a response.
    pub head: Duration,
    /// The longest time for a page of a list, and for the next octet of a streaming list.
    pub list: Duration,
    /// How long the server is asked to keep a watch open: drawn from this range, in seconds.
    pub watch_seconds: (u32, u32),
    /// How long after that a watch that is still open counts as dead.
    pub grace: Duration,
    /// Once bookmarks have come, the longest time between two signs of life.
    pub quiet: Duration,
    /// A watch that is open for so long has worked.
    pub settle: Duration,
    /// The first delay after a failure, and the longest, without jitter.
    pub backoff: (Duration, Duration),
    /// Two lists of one resource within this time are a failure, whatever the reason.
    pub relist: Duration,
    /// How often the files with credentials are looked at, when requests are made.
    pub credentials: Duration,
    /// The next look at a resource that the server does not know.
    pub missing: Duration,
    /// How long no sign of life may come from a watch before that is logged.
    pub stale: Duration,
    /// The objects of a page of a list.
    pub page: usize,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(30),
            list: Duration::from_secs(60),
            watch_seconds: (240, 300),
            grace: Duration::from_secs(5),
            quiet: Duration::from_secs(150),
            settle: Duration::from_secs(1),
            backoff: (Duration::from_millis(800), Duration::from_secs(30)),
            relist: Duration::from_secs(60),
            credentials: Duration::from_secs(10),
            missing: Duration::from_secs(30),
            stale: Duration::from_secs(360),
            page: 500,
        }
    }
}

/// The source: one watch for each resource that the selection needs.
pub struct ApiSource {
    client: ApiClient,
    selection: Selection,
    timing: Timing,
    standings: Vec<Arc<Standing>>,
    targets: Vec<Target>,
}

impl ApiSource {
    /// Prepares the source: reads credentials, connects to nothing yet.
    ///
    /// # Errors
    /// Credentials that cannot be read or used.
    pub async fn new(
        access: Access,
        options: &ApiOptions,
        selection: Selection,
        timing: Timing,
    ) -> Result<Self, AccessError> {
        let client = ApiClient::new(access, options, timing.clone()).await?;
        let targets = resource::targets(&selection);
        let standings: Vec<_> = targets.iter().map(|target| Arc::new(Standing::new(target.resource))).collect();
        Ok(Self { client, selection, timing, standings, targets })
    }

    /// Delivers the state of the cluster and then every change of it, until `stop`. Keeps trying whatever happens.
    ///
    /// All watches are driven by this one task, so that the sink is called by one thread at a time.
    pub async fn run(self, sink: Arc<dyn Sink>, stop: CancellationToken) {
        let _exposed = metrics::Exposed::new(self.standings.clone());
        let pending = AtomicUsize::new(self.targets.len());
        let synced = || {
            if pending.fetch_sub(1, Ordering::Relaxed) == 1 {
                sink.synced();
            }
        };
        let reflectors = self.targets.iter().zip(&self.standings).map(|(target, standing)| {
            Reflector::new(target, &self.client, &self.selection, &self.timing, standing, &*sink).run(&synced)
        });
        tokio::select! {
            () = stop.cancelled() => {}
            _ = join_all(reflectors) => {}
            () = standing::warn_of_stale(&self.standings, self.timing.stale) => {}
        }
    }
}
