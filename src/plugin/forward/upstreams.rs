//! The upstreams of one stanza, which may change while queries use them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::ClientConfig;
use rustls::client::Resumption;
use tokio::time::sleep;

use super::config::{Config, DohMethod};
use super::targets::{self, Source, expand};
use crate::upstream::{Prober, Protocol, Settings, Target, Upstream};

/// How often files are looked at.
const FILE_INTERVAL: Duration = Duration::from_secs(2);
/// Host names are resolved anew after so many looks at files.
const LOOKS_PER_LOOKUP: u32 = 15;
/// Connections are looked through for old ones this often.
const CLEAN_INTERVAL: Duration = Duration::from_secs(10);

/// The list that queries choose from, and what keeps it up to date.
pub struct Upstreams {
    sources: Vec<Source>,
    config: Arc<Config>,
    settings: Arc<Settings>,
    tls: Option<Tls>,
    list: ArcSwap<Vec<Arc<Upstream>>>,
    /// Probes, and the tasks that watch over sources and connections.
    pub(super) prober: Prober,
}

/// TLS configurations: one for each name that certificates must bear, so that sessions are resumed with the server that
/// they are from.
struct Tls {
    base: ClientConfig,
    /// Protects the table; held while the list of upstreams is made.
    by_name: Mutex<BTreeMap<(Protocol, String), Arc<ClientConfig>>>,
}

impl Tls {
    fn config(&self, protocol: Protocol, name: &str) -> Arc<ClientConfig> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let mut config = self.base.clone();
            config.resumption = Resumption::in_memory_sessions(SESSIONS);
            if protocol == Protocol::Https {
                config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            }
            Arc::new(config)
        };
        Arc::clone(by_name.entry((protocol, name.to_owned())).or_insert_with(make))
    }
}

/// Sessions that are kept for one name.
const SESSIONS: usize = 64;

impl Upstreams {
    /// Those with addresses, and those in files; host names are resolved later.
    pub(super) fn new(config: Arc<Config>) -> Result<Arc<Self>, String> {
        let settings = Arc::new(Settings {
            plugin: super::NAME,
            expire: config.expire,
            max_age: config.max_age,
            max_idle: config.max_idle_conns,
            read_timeout: config.read_timeout,
            source: config.source_address,
            https_get: config.doh_method == DohMethod::Get,
            force_tcp: config.force_tcp,
            check: config.check.clone(),
        });
        let is_encrypted = |source: &Source| match source {
            Source::Address(target) => target.protocol != Protocol::Dns,
            Source::Host(host) => host.protocol != Protocol::Dns,
            Source::File(_) => false,
        };
        let tls = if config.sources.iter().any(is_encrypted) {
            let base = config.tls.client_config().map_err(|error| error.to_string())?;
            Some(Tls { base, by_name: Mutex::default() })
        } else {
            None
        };
        let sources = config.sources.clone();
        let upstreams =
            Arc::new(Self { sources, config, settings, tls, list: ArcSwap::default(), prober: Prober::default() });
        let lists = upstreams.known()?;
        upstreams.install(&lists);
        Ok(upstreams)
    }

    /// The list as it is now.
    #[must_use]
    pub fn load(&self) -> Arc<Vec<Arc<Upstream>>> {
        self.list.load_full()
    }

    /// What the sources give without asking anybody: an empty list for a host name.
    fn known(&self) -> Result<Vec<Vec<Target>>, String> {
        let known = |source: &Source| match source {
            Source::Address(target) => Ok(vec![target.clone()]),
            Source::File(path) => targets::read_file(path),
            Source::Host(_) => Ok(Vec::new()),
        };
        self.sources.iter().map(known).collect()
    }

    /// Resolves the host names, so that the list is whole.
    pub(super) async fn complete(&self) -> Result<Vec<Vec<Target>>, String> {
        let mut lists = self.known()?;
        for (source, list) in self.sources.iter().zip(&mut lists) {
            if let Source::Host(host) = source {
                *list = targets::resolve(host, &self.config.resolver).await?;
            }
        }
        if lists.iter().all(Vec::is_empty) {
            return Err("no valid upstream addresses found".to_owned());
        }
        self.install(&lists);
        Ok(lists)
    }

    /// Makes the list; an upstream that stays keeps its connections and its numbers.
    fn install(&self, lists: &[Vec<Target>]) {
        let before = self.load();
        let targets = expand(lists);
        let list: Vec<Arc<Upstream>> = targets.into_iter().map(|target| self.upstream(&before, target)).collect();
        let gone: Vec<_> =
            before.iter().filter(|one| !list.iter().any(|other| Arc::ptr_eq(one, other))).map(Arc::clone).collect();
        self.list.store(Arc::new(list));
        gone.iter().for_each(|upstream| upstream.stop());
    }

    fn upstream(&self, before: &[Arc<Upstream>], target: Target) -> Arc<Upstream> {
        if let Some(same) = before.iter().find(|upstream| *upstream.target() == target) {
            return Arc::clone(same);
        }
        let tls = self.tls.as_ref().filter(|_| target.protocol != Protocol::Dns).map(|tls| {
            let name = self.server_name(&target);
            (tls.config(target.protocol, name.as_deref().unwrap_or_default()), name)
        });
        let tls = tls.as_ref().map(|(config, name)| (Arc::clone(config), name.as_deref()));
        Upstream::new(target, Arc::clone(&self.settings), tls)
    }

    /// The name that the certificate of an upstream must bear; its address where there is none.
    #[must_use]
    pub fn server_name(&self, target: &Target) -> Option<String> {
        if target.protocol == Protocol::Dns {
            return None;
        }
        target.server_name.clone().or_else(|| self.config.tls_servername.clone())
    }

    /// Closes all connections and ends all tasks.
    pub(super) fn stop(&self) {
        self.prober.stop();
        self.load().iter().for_each(|upstream| upstream.stop());
    }

    /// Closes connections that nobody uses any more, for as long as the instance lives.
    pub(super) async fn clean(self: Arc<Self>) {
        loop {
            sleep(CLEAN_INTERVAL).await;
            self.load().iter().for_each(|upstream| upstream.clean());
        }
    }

    /// Tells whether the list can change.
    pub(super) fn is_watched(&self) -> bool {
        self.sources.iter().any(|source| !matches!(source, Source::Address(_)))
    }

    /// Follows files and host names as they change, beginning with what they gave at the start.
    pub(super) async fn watch(self: Arc<Self>, mut lists: Vec<Vec<Target>>) {
        let mut times: Vec<Option<SystemTime>> = self.sources.iter().map(modified).collect();
        for look in 1_u32.. {
            sleep(FILE_INTERVAL).await;
            let mut changed = false;
            for ((source, list), time) in self.sources.iter().zip(&mut lists).zip(&mut times) {
                let fresh = match source {
                    Source::File(path) => reread(path, time, source),
                    Source::Host(host) if look % LOOKS_PER_LOOKUP == 0 => {
                        targets::resolve(host, &self.config.resolver).await.ok()
                    }
                    Source::Host(_) | Source::Address(_) => None,
                };
                // What cannot be read or resolved for now, or is empty, leaves the upstreams as they are.
                if let Some(fresh) = fresh.filter(|fresh| !fresh.is_empty() && fresh != list) {
                    *list = fresh;
                    changed = true;
                }
            }
            if changed {
                self.install(&lists);
                let list = self.load();
                let labels: Vec<&str> = list.iter().map(|upstream| upstream.label()).collect();
                tracing::info!(target: "plugin/forward", "Upstreams have changed: {}", labels.join(" "));
            }
        }
    }

    /// Tells of upstreams that are probably this server itself, by another name.
    pub(super) fn warn_of_loops(&self, servers: &[Arc<coredns_plugin::ServerInfo>]) {
        let own: Vec<std::net::IpAddr> =
            if_addrs::get_if_addrs().unwrap_or_default().iter().map(if_addrs::Interface::ip).collect();
        for upstream in self.load().iter() {
            let address = upstream.target().address;
            let is_own = address.ip().is_loopback() || own.contains(&address.ip());
            let listens = |host: &str| match host.parse::<std::net::IpAddr>() {
                Ok(host) if !host.is_unspecified() => host == address.ip(),
                _ => is_own,
            };
            if servers.iter().any(|server| server.port == address.port() && listens(&server.host)) {
                tracing::warn!(
                    target: "plugin/forward",
                    "Upstream {} is this server itself: what it forwards comes back to it", upstream.label()
                );
            }
        }
        for source in &self.sources {
            let Source::File(path) = source else { continue };
            for stub in targets::read_file(path).unwrap_or_default().iter().filter(|one| one.address.ip().is_loopback())
            {
                tracing::warn!(
                    target: "plugin/forward",
                    "Name server {} of {} is a resolver on this host: queries go round if it asks this server; name \
                     its upstreams instead, as in /run/systemd/resolve/resolv.conf",
                    stub.address.ip(), path.display()
                );
            }
        }
    }
}

fn modified(source: &Source) -> Option<SystemTime> {
    let Source::File(path) = source else { return None };
    fs::metadata(path).ok()?.modified().ok()
}

/// The upstreams in a file that may have changed; `None` where it has not, or cannot be read.
fn reread(path: &Path, time: &mut Option<SystemTime>, source: &Source) -> Option<Vec<Target>> {
    let now = modified(source);
    // A time within the last seconds tells too little: another change may have had the same.
    let settled = now.is_some_and(|now| now.elapsed().is_ok_and(|age| age > 2 * FILE_INTERVAL));
    if *time == now && settled {
        return None;
    }
    *time = now;
    targets::read_file(path).ok()
}
