//! One upstream: its connections, its numbers, and one exchange with it.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coredns_plugin::{Reply, clock};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpSocket;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::{Protocol, Target};
use super::error::{ExchangeError, Reason};
use super::health::{Health, HealthCheck};
use super::https::{self, Session};
use super::message::{Asked, cut_reply, parse_reply};
use super::metrics::{Class, UpstreamMetrics};
use super::pool::{Keep, Pool, PooledSession};
use super::stream::{Connected, Stream};
use super::timing::{DialTimeout, RoundTrip};
use super::udp::{Permit, UdpConnection, Waiting};

/// Connections to one upstream of one class, over all workers.
const CONNECTIONS_MAX: usize = 1024;
/// A query is given up so long after it has begun, and so is a connection that it waits for.
const DIAL_MAX: Duration = Duration::from_secs(5);
/// Time-outs outside the query path.
const APART_DIAL: Duration = Duration::from_secs(2);
const PROBE_READ: Duration = Duration::from_secs(1);

/// How upstreams of one instance are dealt with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The plugin, for metrics and replies.
    pub plugin: &'static str,
    /// Connections without use are closed after this.
    pub expire: Duration,
    /// Connections are closed at this age; zero for no limit.
    pub max_age: Duration,
    /// The most connections without use, for UDP and for streams each; 0 for no limit.
    pub max_idle: usize,
    /// How long a reply is waited for.
    pub read_timeout: Duration,
    /// The address that queries leave from.
    pub source: Option<IpAddr>,
    /// DoH upstreams are asked with GET.
    pub https_get: bool,
    /// Probes use TCP.
    pub force_tcp: bool,
    /// How upstreams are probed.
    pub check: HealthCheck,
}

/// Over what a query goes to a plain upstream; the others have one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

/// What an exchange tells while it goes on.
#[derive(Debug, Default)]
pub struct Signals {
    /// ICMP says that nobody is there.
    pub refused: Notify,
    suspicious: Notify,
}

/// A server that queries are sent to.
pub struct Upstream {
    id: u64,
    target: Target,
    /// `IP:PORT`, for metrics and metadata.
    label: String,
    settings: Arc<Settings>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    dial: Arc<DialTimeout>,
    round_trip: RoundTrip,
    health: Health,
    metrics: Arc<UpstreamMetrics>,
    open_udp: Arc<AtomicUsize>,
    open_streams: Arc<AtomicUsize>,
    /// Protects the list of the threads' pools; held to add one and for the cleaner.
    pools: Mutex<Vec<Arc<Pool>>>,
    stopped: AtomicBool,
}

impl Upstream {
    /// An upstream without connections. `tls` is needed for all but plain DNS, with the name that certificates must
    /// bear; without a name it is the address.
    ///
    /// # Panics
    /// Never: a server name that is none was refused where it was read, and is replaced by the address.
    #[must_use]
    pub fn new(target: Target, settings: Arc<Settings>, tls: Option<(Arc<ClientConfig>, Option<&str>)>) -> Arc<Self> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let label = target.address.to_string();
        let address = ServerName::IpAddress(target.address.ip().into());
        let tls = tls.map(|(config, name)| {
            let named = name.and_then(|name| ServerName::try_from(name.to_owned()).ok());
            (TlsConnector::from(config), named.unwrap_or(address))
        });
        Arc::new(Self {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            metrics: Arc::new(UpstreamMetrics::new(settings.plugin, label.clone())),
            label,
            target,
            settings,
            tls,
            dial: Arc::default(),
            round_trip: RoundTrip::default(),
            health: Health::default(),
            open_udp: Arc::default(),
            open_streams: Arc::default(),
            pools: Mutex::default(),
            stopped: AtomicBool::new(false),
        })
    }

    /// Where it is and how it is spoken to.
    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// `IP:PORT`.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// How it is.
    #[must_use]
    pub const fn health(&self) -> &Health {
        &self.health
    }

    /// How it is probed.
    #[must_use]
    pub fn check(&self) -> &HealthCheck {
        &self.settings.check
    }

    /// Tells whether it counts as down.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.health.is_down(self.settings.check.max_fails)
    }

    /// How long it is waited for before another one is asked as well.
    #[must_use]
    pub fn late_after(&self) -> Duration {
        self.round_trip.late_after()
    }

    /// Counts an exchange in which another one was asked as well.
    pub fn count_late(&self) {
        self.metrics.late.inc();
    }

    pub(super) fn count_health_failure(&self) {
        self.metrics.health_failures.inc();
    }

    /// Tells whether [`Upstream::stop`] was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Closes all connections, once what is under way is answered; further exchanges fail.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        let pools = std::mem::take(&mut *self.pools.lock().unwrap_or_else(PoisonError::into_inner));
        pools.iter().for_each(|pool| pool.close());
    }

    /// Closes connections that were not used for long.
    pub fn clean(&self) {
        let (keep, now) = (self.keep(), clock::now());
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().for_each(|pool| pool.clean(keep, now));
        // What only this list holds belongs to a thread that is gone.
        pools.retain(|pool| Arc::strong_count(pool) > 1 || pool.free_udp() + pool.idle_streams() > 0);
    }

    /// Connections without use: UDP, streams.
    #[must_use]
    pub fn idle(&self) -> (usize, usize) {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().fold((0, 0), |(udp, streams), pool| (udp + pool.free_udp(), streams + pool.idle_streams()))
    }

    /// Connections that are open: UDP, streams.
    #[must_use]
    pub fn open(&self) -> (usize, usize) {
        (self.open_udp.load(Ordering::Relaxed), self.open_streams.load(Ordering::Relaxed))
    }

    fn keep(&self) -> Keep {
        Keep { expire: self.settings.expire, max_age: self.settings.max_age }
    }

    fn pool(&self) -> Result<Arc<Pool>, ExchangeError> {
        if self.is_stopped() {
            return Err(self.unavailable("proxy: transport stopped"));
        }
        Ok(Pool::of_thread(self.id, |pool| {
            self.pools.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(pool));
        }))
    }

    fn unavailable(&self, reason: &str) -> ExchangeError {
        ExchangeError::dial(self.network(), self.target.address, reason)
    }

    const fn network(&self) -> &'static str {
        match self.target.protocol {
            Protocol::Dns => "udp",
            Protocol::Tls | Protocol::Https => "tcp",
        }
    }

    /// Asks, and waits for the reply.
    ///
    /// # Errors
    /// There is none, by the text for people.
    pub async fn exchange(&self, asked: &Asked, way: Way, signals: &Signals) -> Result<Reply, ExchangeError> {
        let start = clock::now();
        let reply = match (self.target.protocol, way) {
            (Protocol::Dns, Way::Udp) => self.exchange_guarded(asked, signals).await?,
            (Protocol::Https, _) => self.exchange_https(asked).await?,
            _ => self.exchange_stream(asked).await?,
        };
        let taken = clock::now().saturating_duration_since(start);
        self.round_trip.observe(taken);
        self.metrics.replied(reply.rcode, taken);
        Ok(reply)
    }

    /// UDP; once somebody seems to guess identifiers, TCP as well, and the first good reply counts.
    async fn exchange_guarded(&self, asked: &Asked, signals: &Signals) -> Result<Reply, ExchangeError> {
        let mut udp = std::pin::pin!(self.exchange_udp(asked, signals));
        tokio::select! {
            biased;
            reply = &mut udp => return reply,
            () = signals.suspicious.notified() => self.metrics.suspicions.inc(),
        }
        let mut stream = std::pin::pin!(self.exchange_stream(asked));
        tokio::select! {
            reply = &mut udp => match reply {
                Ok(reply) => Ok(reply),
                Err(_) => stream.await,
            },
            reply = &mut stream => match reply {
                Ok(reply) => Ok(reply),
                Err(_) => udp.await,
            },
        }
    }

    async fn exchange_udp(&self, asked: &Asked, signals: &Signals) -> Result<Reply, ExchangeError> {
        let pool = self.pool()?;
        let free = pool.take_udp(self.keep(), clock::now());
        self.metrics.connection(Class::Udp, free.is_some());
        let connection = match free {
            Some(connection) => connection,
            None => {
                // A stream carries a thousand queries where a socket carries one.
                let Some(permit) = Permit::take(&self.open_udp, CONNECTIONS_MAX) else {
                    return self.exchange_stream(asked).await;
                };
                UdpConnection::open(self.target.address, self.settings.source, permit)?
            }
        };
        let reply = connection.exchange(asked, &self.waiting(signals, self.settings.read_timeout)).await?;
        let has_room = self.settings.max_idle == 0 || self.idle().0 < self.settings.max_idle;
        if has_room && !self.is_stopped() {
            pool.give_udp(connection, clock::now());
        }
        Ok(reply)
    }

    fn waiting<'a>(&'a self, signals: &'a Signals, read_timeout: Duration) -> Waiting<'a> {
        Waiting {
            author: self.settings.plugin,
            read_timeout,
            metrics: &self.metrics,
            suspicious: &signals.suspicious,
            refused: &signals.refused,
        }
    }

    /// TCP or TLS. A connection that was used before and that the peer has closed meanwhile is no failure of the upstream: a
    /// fresh one is tried at once, one time.
    async fn exchange_stream(&self, asked: &Asked) -> Result<Reply, ExchangeError> {
        let pool = self.pool()?;
        let may_open = self.open().1 < CONNECTIONS_MAX;
        if let Some(stream) = pool.take_stream(self.keep(), clock::now(), may_open) {
            self.metrics.connection(self.stream_class(), true);
            match self.ask_stream(&pool, &stream, asked).await {
                Err(error) if error.is_closed() => {}
                outcome => return outcome,
            }
        }
        self.metrics.connection(self.stream_class(), false);
        let stream = self.open_stream()?;
        pool.add_stream(&stream);
        self.ask_stream(&pool, &stream, asked).await
    }

    /// HTTPS, on a connection that is there or on a fresh one; both within one time.
    async fn exchange_https(&self, asked: &Asked) -> Result<Reply, ExchangeError> {
        let pool = self.pool()?;
        let exchange = async {
            if let Some(session) = pool.take_session(self.keep(), clock::now()) {
                match self.ask_session(&pool, session, asked).await {
                    Err(error) if error.is_closed() => {}
                    outcome => return outcome,
                }
            }
            let permit = Permit::take(&self.open_streams, CONNECTIONS_MAX);
            let permit = permit.ok_or_else(|| self.unavailable("too many connections"))?;
            let session = self.begin_session(self.dial.timeout()).await?;
            self.ask_session(&pool, PooledSession::new(session, permit, clock::now()), asked).await
        };
        let late = || ExchangeError::read("tcp", None, self.target.address, Reason::TIMEOUT);
        timeout(https::TIMEOUT, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    async fn begin_session(&self, within: Duration) -> Result<Session, ExchangeError> {
        let peer = self.target.address;
        let start = clock::now();
        let connected = connect(peer, self.settings.source, self.tls.clone(), within).await;
        self.dial.observe(clock::now().saturating_duration_since(start));
        Session::begin(connected?, peer).await
    }

    async fn ask_session(
        &self,
        pool: &Pool,
        mut session: PooledSession,
        asked: &Asked,
    ) -> Result<Reply, ExchangeError> {
        // One that takes several requests is there for others at once.
        let shared = pool.share_session(&session);
        let outcome = session.exchange(self.settings.plugin, asked, self.target.address, self.settings.https_get).await;
        if outcome.is_ok() && !shared && !self.is_stopped() && !self.is_full(pool) {
            pool.give_session(session, clock::now());
        }
        outcome
    }

    fn is_full(&self, pool: &Pool) -> bool {
        self.settings.max_idle != 0 && pool.idle_sessions() >= self.settings.max_idle
    }

    async fn ask_stream(&self, pool: &Pool, stream: &Arc<Stream>, asked: &Asked) -> Result<Reply, ExchangeError> {
        let outcome = stream.exchange(asked, self.settings.read_timeout).await;
        let reply = outcome.and_then(|octets| {
            // A reply that cannot be read breaks the frame of trust: the connection ends, and a fresh one is tried.
            parse_reply(self.settings.plugin, &octets)
                .map_err(|error| ExchangeError::read("tcp", None, self.target.address, error.to_string()).closing())
        });
        let limit = self.settings.max_idle;
        let surplus = || limit != 0 && stream.under_way() == 0 && self.idle().1 > limit;
        if reply.is_err() || surplus() || self.is_stopped() {
            pool.retire(stream);
        }
        reply
    }

    const fn stream_class(&self) -> Class {
        match self.target.protocol {
            Protocol::Dns => Class::Tcp,
            Protocol::Tls | Protocol::Https => Class::Tls,
        }
    }

    fn open_stream(&self) -> Result<Arc<Stream>, ExchangeError> {
        let permit = Permit::take(&self.open_streams, CONNECTIONS_MAX);
        let permit = permit.ok_or_else(|| self.unavailable("too many connections"))?;
        let metrics = Arc::clone(&self.metrics);
        let ignored = move || metrics.ignored.inc();
        let (peer, source, tls) = (self.target.address, self.settings.source, self.tls.clone());
        let (timeout, within) = (Arc::clone(&self.dial), self.dial.timeout().min(DIAL_MAX));
        let dial = async move {
            let start = clock::now();
            let outcome = connect(peer, source, tls, within).await;
            timeout.observe(clock::now().saturating_duration_since(start));
            outcome
        };
        Ok(Stream::open("tcp", peer, permit, dial, ignored))
    }

    /// Sends one probe on a connection of its own; any reply to it will do.
    ///
    /// # Errors
    /// There was none in time.
    pub async fn probe(&self) -> Result<(), ExchangeError> {
        let way = if self.settings.force_tcp { Way::Tcp } else { Way::Udp };
        let outcome = self.ask_apart(&self.settings.check.asked(), way, PROBE_READ).await;
        outcome.map(drop)
    }

    /// Asks on a connection of its own, outside the query path; nothing is counted.
    ///
    /// # Errors
    /// There is no reply in time.
    pub async fn ask_apart(&self, asked: &Asked, way: Way, read_timeout: Duration) -> Result<Reply, ExchangeError> {
        let (peer, source) = (self.target.address, self.settings.source);
        let Some(permit) = Permit::take(&Arc::default(), 1) else {
            return Err(self.unavailable("too many connections"));
        };
        if self.target.protocol == Protocol::Dns && way == Way::Udp {
            let connection = UdpConnection::open(peer, source, permit)?;
            return connection.exchange(asked, &self.waiting(&Signals::default(), read_timeout)).await;
        }
        if self.target.protocol == Protocol::Https {
            let exchange = async {
                let mut session = self.begin_session(APART_DIAL).await?;
                session.exchange(self.settings.plugin, asked, peer, self.settings.https_get).await
            };
            let late = || ExchangeError::read("tcp", None, peer, Reason::TIMEOUT);
            return timeout(read_timeout, exchange).await.unwrap_or_else(|_| Err(late()));
        }
        let stream = Stream::open("tcp", peer, permit, connect(peer, source, self.tls.clone(), APART_DIAL), || {});
        let octets = stream.exchange(asked, read_timeout).await;
        stream.retire();
        // Header and question are right, which is all that a probe wants to know.
        octets.map(|octets| {
            parse_reply(self.settings.plugin, &octets).unwrap_or_else(|_| cut_reply(self.settings.plugin, &octets))
        })
    }
}

/// Sets a connection up, the handshake of TLS included.
async fn connect(
    peer: SocketAddr,
    source: Option<IpAddr>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    within: Duration,
) -> Result<Connected, ExchangeError> {
    let network = if tls.is_some() { "tcp-tls" } else { "tcp" };
    let dial = async {
        let socket = if peer.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        if let Some(source) = source {
            socket.bind(SocketAddr::new(source, 0))?;
        }
        let stream = socket.connect(peer).await?;
        stream.set_nodelay(true)?;
        let local = stream.local_addr().ok();
        Ok::<Connected, std::io::Error>(match tls {
            Some((connector, name)) => {
                let stream = connector.connect(name, stream).await?;
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                Connected { io: Box::new(stream), local, is_http2 }
            }
            None => Connected { io: Box::new(stream), local, is_http2: false },
        })
    };
    match timeout(within, dial).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(error)) => Err(ExchangeError::dial(network, peer, &error)),
        Err(_) => Err(ExchangeError::dial(network, peer, Reason::TIMEOUT)),
    }
}
