//! A Kubernetes API server for tests: lists, watches, and all that can go wrong with them.
//!
//! It speaks HTTP/1.1 by hand rather than through a library, so that a test can have the faults that no library makes: half a
//! line of an event, a body without its last chunk, octets one by one, a connection that is open and silent.
//!
//! | module | contents |
//! |---|---|
//! | `store` | objects, versions, history |
//! | `request` | what is asked: verb, resource, parameters |
//! | `respond` | lists and watches |
//! | `selector` | label and field selectors |
//! | `fault` | what goes wrong, and for which requests |

mod fault;
mod request;
mod respond;
mod selector;
mod store;

pub use fault::{ErrorBody, Fault, Rule};
pub use request::{Call, Verb};

use std::collections::{BTreeSet, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use store::Store;

/// How the server behaves while nothing goes wrong.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether watches may begin with the whole state.
    pub streaming_lists: bool,
    /// The time between two bookmarks of a watch; `None` for never.
    pub bookmarks: Option<Duration>,
    /// The longest time that a watch is kept open, whatever the client asks for.
    pub watch_max: Duration,
    /// The bearer tokens that are accepted; `None` asks for none.
    pub tokens: Option<BTreeSet<String>>,
    /// Verbs on resources that are forbidden, such as `("list", "pods")`.
    pub denied: BTreeSet<(Verb, String)>,
    /// Resources that the server does not know.
    pub missing: BTreeSet<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            streaming_lists: true,
            bookmarks: Some(Duration::from_millis(200)),
            watch_max: Duration::from_secs(3_600),
            tokens: None,
            denied: BTreeSet::new(),
            missing: BTreeSet::new(),
        }
    }
}

/// What all connections see.
struct State {
    store: Store,
    settings: Settings,
    rules: Vec<(Rule, Fault)>,
    calls: Vec<Call>,
    /// The watches that are open.
    watches: HashSet<u64>,
}

struct Shared {
    /// Protects everything that a test changes or asks; never held across a wait.
    state: Mutex<State>,
    /// Moves on with every change of the state.
    changed: watch::Sender<u64>,
    tls: Mutex<Option<tokio_rustls::TlsAcceptor>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

/// A running API server on a port of the loopback interface.
pub struct KubeApi {
    shared: Arc<Shared>,
    address: SocketAddr,
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl KubeApi {
    /// Starts a server without objects.
    pub async fn start() -> Self {
        Self::start_with(Settings::default()).await
    }

    /// The same with other settings.
    ///
    /// # Panics
    /// Where no port can be had.
    pub async fn start_with(settings: Settings) -> Self {
        let state =
            State { store: Store::new(), settings, rules: Vec::new(), calls: Vec::new(), watches: HashSet::new() };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), changed: watch::Sender::new(0), tls: Mutex::new(None) });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap_or_else(|error| panic!("{error}"));
        let address = listener.local_addr().unwrap_or_else(|error| panic!("{error}"));
        let server = Self { shared, address, listener: Mutex::new(None) };
        server.listen(listener);
        server
    }

    fn listen(&self, listener: TcpListener) {
        let task = tokio::spawn(accept(Arc::clone(&self.shared), listener));
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// The server's address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's URL; `https` once [`KubeApi::use_tls`] was called.
    #[must_use]
    pub fn url(&self) -> String {
        let secure = self.shared.tls.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        format!("http{}://{}", if secure { "s" } else { "" }, self.address)
    }

    /// Speaks TLS on new connections from now on.
    pub fn use_tls(&self, config: Arc<rustls::ServerConfig>) {
        *self.shared.tls.lock().unwrap_or_else(PoisonError::into_inner) = Some(config.into());
    }

    /// Adds or replaces an object; gives the resource version of the change.
    ///
    /// # Panics
    /// On an object without a known kind and a name: a test that is wrong.
    pub fn apply(&self, object: serde_json::Value) -> u64 {
        let version = self.shared.state().store.apply(object);
        self.shared.touch();
        version
    }

    /// Removes an object; gives the resource version of the change. The namespace of a Namespace is empty.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> u64 {
        let version = self.shared.state().store.delete(kind, namespace, name);
        self.shared.touch();
        version
    }

    /// Removes an object and forgets that it ever was there: no watch tells of it.
    pub fn vanish(&self, kind: &str, namespace: &str, name: &str) {
        self.shared.state().store.vanish(kind, namespace, name);
    }

    /// Forgets the history: watches from earlier versions are told that these are too old.
    pub fn compact(&self) {
        self.shared.state().store.compact();
    }

    /// Forgets the lists that clients are in the middle of.
    pub fn expire_pages(&self) {
        self.shared.state().store.expire_pages();
    }

    /// Goes on counting from another version, as a server does after its data were restored.
    pub fn reset_version(&self, version: u64) {
        self.shared.state().store.reset_version(version);
        self.shared.touch();
    }

    /// The version of the last change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.shared.state().store.version()
    }

    /// Changes the settings for requests from now on.
    pub fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.shared.state().settings);
        self.shared.touch();
    }

    /// Lets something go wrong for the requests that a rule names; the first rule that fits counts.
    pub fn fault(&self, rule: Rule, fault: Fault) {
        self.shared.state().rules.push((rule, fault));
    }

    /// Nothing goes wrong any more, for requests from now on.
    pub fn heal(&self) {
        self.shared.state().rules.clear();
    }

    /// Ends all connections and listens no more.
    pub async fn stop(&self) {
        let task = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
        self.shared.state().watches.clear();
    }

    /// Listens again on the same port.
    ///
    /// # Panics
    /// Where the port was taken meanwhile.
    pub async fn resume(&self) {
        let listener = TcpListener::bind(self.address).await.unwrap_or_else(|error| panic!("{error}"));
        self.listen(listener);
    }

    /// Ends all connections; new ones are welcome.
    pub async fn cut(&self) {
        self.stop().await;
        self.resume().await;
    }

    /// All requests so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.state().calls.clone()
    }

    /// Forgets the requests so far.
    pub fn clear_calls(&self) {
        self.shared.state().calls.clear();
    }

    /// How many watches are open.
    #[must_use]
    pub fn open_watches(&self) -> usize {
        self.shared.state().watches.len()
    }

    /// Waits until `done` holds for the requests so far.
    ///
    /// # Panics
    /// Where that does not come about in time.
    pub async fn wait_calls(&self, what: &str, mut done: impl FnMut(&[Call]) -> bool) {
        let mut changed = self.shared.changed.subscribe();
        let wait = async {
            while !done(&self.shared.state().calls) {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(crate::process::DEADLINE, wait).await.is_err() {
            panic!("{what} did not come about; the requests were\n{:#?}", self.calls());
        }
    }

    /// Waits until so many watches are open.
    ///
    /// # Panics
    /// Where that does not come about in time.
    pub async fn wait_watches(&self, count: usize) {
        let mut changed = self.shared.changed.subscribe();
        let wait = async {
            while self.open_watches() != count {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(crate::process::DEADLINE, wait).await.is_err() {
            panic!("{} watches are open, not {count}; the requests were\n{:#?}", self.open_watches(), self.calls());
        }
    }
}

impl Drop for KubeApi {
    fn drop(&mut self) {
        if let Some(task) = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

/// Takes connections until it is aborted, which ends them too.
async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    for number in 0_u64.. {
        let Ok((stream, _)) = listener.accept().await else { return };
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        let tls = shared.tls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        connections.spawn(async move {
            match tls {
                None => respond::connection(shared, number, stream).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        respond::connection(shared, number, stream).await;
                    }
                }
            }
        });
        while connections.try_join_next().is_some() {}
    }
}
