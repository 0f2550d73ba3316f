//! The HTTP endpoints of plugins: one listener for each address, kept over reloads.
//!
//! [`HttpListeners::replace`] prepares what a new instance asks for beside what is open: addresses that stay keep their
//! socket, new ones are bound at once, so that a failure is known while the old instance still serves. Only
//! [`Handover::commit`] changes what clients see; a handover that is dropped leaves everything as it was.
//!
//! | limit | value |
//! |---|---|
//! | methods | GET and HEAD, else 405; bodies are not read |
//! | request head | 16 KiB, complete within 5 s |
//! | time for writing a response, and between two requests | 5 s each |
//! | connections of a listener | 64; more wait to be accepted |

mod connection;
mod listen;
mod listener;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_client;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coredns_plugin::{HttpEndpoint, HttpEvent};
use futures_util::future::join_all;
use tokio_util::task::TaskTracker;

use listen::Place;
use listener::{Listener, Routes};

/// The open listeners of the process.
///
/// Everything here belongs on the control runtime. Only one handover may be under way at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpListeners(Arc<Open>);

#[derive(Debug, Default)]
struct Open {
    /// Protects the table; never held across an await.
    listeners: Mutex<BTreeMap<Place, Arc<Listener>>>,
    /// Listeners that are going.
    closing: TaskTracker,
}

impl HttpListeners {
    /// No listener yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Prepares to serve `endpoints` instead of those that are served now.
    ///
    /// Endpoints that name one address, in whatever way, share its listener; of two with the same path the first
    /// answers. One that is not required and cannot be opened is reported and left out.
    ///
    /// # Errors
    /// A required endpoint cannot be opened, in Go's words: `listen tcp :8080: bind: address already in use`. Nothing
    /// has changed then.
    pub(crate) async fn replace(&self, endpoints: Vec<HttpEndpoint>) -> Result<Handover, String> {
        let mut wanted: BTreeMap<Place, Vec<HttpEndpoint>> = BTreeMap::new();
        for endpoint in endpoints {
            match prepare(&endpoint).await {
                Ok(place) => wanted.entry(place).or_default().push(endpoint),
                Err(problem) => report(&[endpoint], &problem)?,
            }
        }
        let mut next = Vec::new();
        for (place, endpoints) in wanted {
            let listener = match self.0.at(place) {
                Some(listener) => listener,
                None => match listen::bind(place).and_then(|socket| Listener::new(place, socket)) {
                    Ok(listener) => Arc::new(listener),
                    Err(problem) => {
                        report(&endpoints, &problem)?;
                        continue;
                    }
                },
            };
            next.push((listener, Routes::new(endpoints)));
        }
        Ok(Handover { open: Arc::clone(&self.0), next })
    }

    /// Closes all listeners: requests that have come are answered, for at most 5 s.
    pub(crate) async fn close(&self) {
        let open = std::mem::take(&mut *self.0.table());
        join_all(open.into_values().map(Listener::close)).await;
        self.0.closing.close();
        self.0.closing.wait().await;
        self.0.closing.reopen();
    }
}

impl Open {
    fn at(&self, place: Place) -> Option<Arc<Listener>> {
        self.table().get(&place).cloned()
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<Place, Arc<Listener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks up where an endpoint listens and makes sure that its TLS can be used.
async fn prepare(endpoint: &HttpEndpoint) -> Result<Place, String> {
    let place = listen::resolve(&endpoint.address).await?;
    if let Some(security) = &endpoint.security {
        security.prepare().await.map_err(|error| error.to_string())?;
    }
    Ok(place)
}

/// Reports endpoints that cannot be opened.
///
/// # Errors
/// One of them is required.
fn report(endpoints: &[HttpEndpoint], problem: &str) -> Result<(), String> {
    if endpoints.iter().any(|endpoint| endpoint.required) {
        return Err(problem.to_owned());
    }
    for (at, endpoint) in endpoints.iter().enumerate() {
        if !endpoints.iter().take(at).any(|before| before.plugin == endpoint.plugin) {
            (endpoint.report)(HttpEvent::OpenFailed(problem));
        }
    }
    Ok(())
}

/// What is about to be served; nothing is visible to clients before [`Handover::commit`].
#[must_use = "a handover that is dropped leaves everything as it was"]
#[derive(Debug)]
pub(crate) struct Handover {
    open: Arc<Open>,
    next: Vec<(Arc<Listener>, Routes)>,
}

impl Handover {
    /// Serves the new endpoints and begins to close the addresses that are gone. No request is refused meanwhile.
    pub(crate) fn commit(self) {
        let mut open = self.open.table();
        let mut gone = std::mem::take(&mut *open);
        for (listener, routes) in self.next {
            let place = listener.place();
            gone.remove(&place);
            listener.serve(routes);
            open.insert(place, listener);
        }
        drop(open);
        for listener in gone.into_values() {
            self.open.closing.spawn(listener.close());
        }
    }
}
