//! One request: limits, deadlines, counters, errors.

use std::time::Duration;

use coredns_plugin::exposed_secret;
use foldhash::quality::RandomState;
use http::{Request, Response, header};
use kube::client::Body;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;
use tracing::warn;

use super::super::options::ApiOptions;
use super::access::{self, Access, AccessError, Loaded};
use super::failure::{Cause, Failure, chain};
use super::limits::Limits;
use super::lines::collect;
use super::{Timing, metrics};

/// What the server is told about its client, as CoreDNS words it.
const USER_AGENT: &str = concat!(
    "CoreDNS/1.14.7 git_commit:",
    env!("COREDNS_GIT_COMMIT"),
    " (",
    env!("COREDNS_TARGET_OS"),
    "/",
    env!("COREDNS_TARGET_ARCH"),
    "/rustc",
    env!("COREDNS_RUSTC_VERSION"),
    ")"
);
/// The largest body of an error that is read, in bytes.
const ERROR_MAX: usize = 64 << 10;

/// The client of one API server.
pub(super) struct ApiClient {
    access: Access,
    limits: Limits,
    timing: Timing,
    /// Tells credentials apart.
    hashing: RandomState,
    /// Held while credentials are read and a client is made of them, so that the watches do this once.
    current: Mutex<Current>,
}

struct Current {
    client: kube::Client,
    fingerprint: u64,
    /// The server, for labels of metrics.
    host: String,
    /// When the credentials were looked at last; `None` where the server did not like them.
    checked: Option<Instant>,
    /// What was wrong with them then.
    trouble: Option<String>,
}

impl ApiClient {
    pub(super) async fn new(access: Access, options: &ApiOptions, timing: Timing) -> Result<Self, AccessError> {
        let hashing = RandomState::default();
        let loaded = access.load(&hashing).await?;
        if loaded.config.accept_invalid_certs {
            warn!(
                target: "plugin/kubernetes",
                "the kubeconfig says insecure-skip-tls-verify: anyone on the way can pose as the API server; give \
                 certificate-authority instead"
            );
        }
        if let Some(text) = access.secret().and_then(exposed_secret) {
            warn!(target: "plugin/kubernetes", "{text}");
        }
        let current = open(loaded).await?;
        let limits = Limits::new(options.qps, options.burst, options.max_inflight);
        Ok(Self { access, limits, timing, hashing, current: Mutex::new(current) })
    }

    /// Asks for `target`; gives the response once its head is there and says that all is well.
    pub(super) async fn get(&self, target: &str) -> Result<Response<Body>, Failure> {
        let waited = self.limits.turn().await;
        let (client, host) = self.client().await;
        metrics::observe_wait(&host, waited);
        let request = Request::get(target)
            .header(header::ACCEPT, "application/json")
            .header(header::ACCEPT_ENCODING, "identity")
            .header(header::USER_AGENT, USER_AGENT)
            .body(Body::empty())
            .map_err(|error| Failure::new(Cause::Malformed, error))?;
        let permit = self.limits.permit().await;
        let begun = Instant::now();
        // What the libraries below log about failures is said better here, and once.
        let sent = timeout(self.timing.head, client.send(request).with_subscriber(NoSubscriber::new())).await;
        drop(permit);
        metrics::observe_request(&host, begun.elapsed(), sent.as_ref().ok().and_then(|sent| sent.as_ref().ok()));
        match sent {
            Err(_) => {
                let seconds = self.timing.head.as_secs_f32();
                Err(Failure::new(Cause::Silent, format_args!("the API server did not answer for {seconds} s")))
            }
            Ok(Err(error)) => {
                self.distrust().await;
                Err(Failure::new(
                    Cause::Transport,
                    format_args!("cannot reach the API server {host}: {}", chain(&error)),
                ))
            }
            Ok(Ok(response)) if response.status().is_success() => Ok(response),
            Ok(Ok(response)) => Err(self.refused(response).await),
        }
    }

    /// The failure that an error response tells of.
    async fn refused(&self, response: Response<Body>) -> Failure {
        let (head, body) = response.into_parts();
        let body = timeout(self.timing.head, collect(body, ERROR_MAX)).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        let mut failure = Failure::of_status(head.status.as_u16(), &body);
        let seconds = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        failure.retry_after = seconds.map(Duration::from_secs).or(failure.retry_after);
        if failure.cause == Cause::Unauthorized {
            self.distrust().await;
        }
        failure
    }

    /// Looks at the credentials again before the next request.
    async fn distrust(&self) {
        self.current.lock().await.checked = None;
    }

    /// The client of the credentials as they are now; of the last good ones where they cannot be read.
    async fn client(&self) -> (kube::Client, String) {
        let mut current = self.current.lock().await;
        if current.checked.is_none_or(|checked| checked.elapsed() >= self.timing.credentials) {
            current.checked = Some(Instant::now());
            match self.renewed(current.fingerprint).await {
                Ok(None) => current.trouble = None,
                Ok(Some(new)) => *current = new,
                Err(error) => {
                    let text = error.to_string();
                    if current.trouble.as_ref() != Some(&text) {
                        let text = text.trim_start_matches("plugin/kubernetes: ");
                        warn!(target: "plugin/kubernetes", "{text}; the credentials from before stay in use");
                    }
                    current.trouble = Some(text);
                }
            }
        }
        (current.client.clone(), current.host.clone())
    }

    async fn renewed(&self, fingerprint: u64) -> Result<Option<Current>, AccessError> {
        let loaded = self.access.load(&self.hashing).await?;
        if loaded.fingerprint == fingerprint { Ok(None) } else { open(loaded).await.map(Some) }
    }
}

/// Makes a client; off the runtime's threads, since a plugin that prints credentials may be run.
async fn open(loaded: Loaded) -> Result<Current, AccessError> {
    let Loaded { config, fingerprint } = loaded;
    let host = access::host_of(&config.cluster_url);
    let client = tokio::task::spawn_blocking(move || access::connect(config)).await;
    let client = client.map_err(|error| AccessError::Client(error.to_string()))??;
    Ok(Current { client, fingerprint, host, checked: Some(Instant::now()), trouble: None })
}
