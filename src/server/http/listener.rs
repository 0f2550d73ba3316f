//! One address: its socket, what is served there, its connections.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use coredns_plugin::{HttpEndpoint, HttpEvent, HttpSecurity};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection;
use super::listen::Place;

/// Connections of one listener.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// How long a listener that closes waits for its connections.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a failed accept, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The paths that are served on one address.
#[derive(Debug, Default)]
pub(super) struct Routes(Vec<HttpEndpoint>);

impl Routes {
    pub(super) const fn new(endpoints: Vec<HttpEndpoint>) -> Self {
        Self(endpoints)
    }

    /// The first endpoint with this path.
    pub(super) fn find(&self, path: &str) -> Option<&HttpEndpoint> {
        self.0.iter().find(|endpoint| endpoint.path == path)
    }

    /// The TLS of the address.
    pub(super) fn security(&self) -> Option<Arc<dyn HttpSecurity>> {
        self.0.iter().find_map(|endpoint| endpoint.security.clone())
    }

    fn report(&self, event: HttpEvent<'_>) {
        for (at, endpoint) in self.0.iter().enumerate() {
            let told = self.0.iter().take(at).any(|before| before.plugin == endpoint.plugin);
            if !told {
                (endpoint.report)(event);
            }
        }
    }
}

/// One address that is listened on.
pub(super) struct Listener {
    place: Place,
    local: SocketAddr,
    /// The socket until it is served; connections wait in its backlog meanwhile.
    waiting: Mutex<Option<TcpListener>>,
    routes: ArcSwap<Routes>,
    connections: TaskTracker,
    slots: Arc<Semaphore>,
    /// No more connections, no more requests on those that are idle.
    closing: CancellationToken,
    /// The end of all that is left.
    killed: CancellationToken,
}

impl Listener {
    pub(super) fn new(place: Place, socket: TcpListener) -> Result<Self, String> {
        let local = socket.local_addr().map_err(|error| format!("listen tcp {place}: {error}"))?;
        Ok(Self {
            place,
            local,
            waiting: Mutex::new(Some(socket)),
            routes: ArcSwap::default(),
            connections: TaskTracker::new(),
            slots: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            closing: CancellationToken::new(),
            killed: CancellationToken::new(),
        })
    }

    pub(super) const fn place(&self) -> Place {
        self.place
    }

    /// What is served at this moment.
    pub(super) fn routes(&self) -> Arc<Routes> {
        self.routes.load_full()
    }

    pub(super) const fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    pub(super) const fn killed(&self) -> &CancellationToken {
        &self.killed
    }

    /// Serves `routes` from the next request on, and begins to accept if it has not yet.
    pub(super) fn serve(self: &Arc<Self>, routes: Routes) {
        let routes = Arc::new(routes);
        self.routes.store(Arc::clone(&routes));
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(socket) = waiting {
            // Whoever asked for any port must be told which one it is.
            if self.place.port() == 0 {
                tracing::info!(target: "server", "Listening for HTTP on {}", self.local);
            }
            self.connections.spawn(Arc::clone(self).accept(socket));
        }
        for endpoint in &routes.0 {
            endpoint.handler.listening(self.local);
        }
        routes.report(HttpEvent::Opened);
    }

    async fn accept(self: Arc<Self>, socket: TcpListener) {
        let end = self.closing.clone();
        let accept = async {
            loop {
                // The semaphore is never closed.
                let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else { return };
                match socket.accept().await {
                    Ok((stream, peer)) => {
                        let serve = connection::serve(Arc::clone(&self), stream, peer);
                        self.connections.spawn(async move {
                            serve.await;
                            drop(slot);
                        });
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            }
        };
        end.run_until_cancelled(accept).await;
    }

    /// Closes the socket, lets requests under way end, and ends what takes longer.
    pub(super) async fn close(self: Arc<Self>) {
        self.closing.cancel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.connections.close();
        if tokio::time::timeout(CLOSE_TIMEOUT, self.connections.wait()).await.is_err() {
            self.routes().report(HttpEvent::CloseFailed("context deadline exceeded"));
            self.killed.cancel();
            self.connections.wait().await;
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("place", &self.place).field("local", &self.local).finish_non_exhaustive()
    }
}
