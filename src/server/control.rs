//! The control plane: start, reload, shutdown.
//!
//! Everything here runs on the control runtime. Reloads are done one after another; each builds the new instance
//! beside the old one, and only what both have in common (listeners, HTTP endpoints) is touched once nothing can fail
//! any more.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::corefile::{Corefile, ParseError};
use coredns_plugin::{BlockConfig, Descriptor, HttpEndpoint, Lifecycle, ReloadSettings, ServerInfo, Start};

use super::dispatch::{Dispatcher, Site};
use super::endpoint::Shared;
use super::http::{Handover, HttpListeners};
use super::instance::{Block, Instance, Listener, Part};
use super::logging;
use super::sockets::{Pair, Place};
use super::worker::Workers;

/// How long queries in flight keep an old instance alive after a reload.
const RETIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// A listener that is served.
struct Live {
    place: Place,
    shared: Arc<Shared>,
    /// Sockets, one on each of the first workers.
    sockets: usize,
}

/// A running server.
pub(super) struct Server {
    registry: &'static [&'static Descriptor],
    dns_port: String,
    workers: Workers,
    http: HttpListeners,
    live: Vec<Live>,
    running: Running,
    facts: Arc<Facts>,
}

/// What others ask of the running instance.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The watch over the Corefile.
    pub(crate) reload: Option<ReloadSettings>,
    /// The lines that say what is served.
    pub(crate) zone_lines: Vec<String>,
}

impl Server {
    /// Starts to serve a configuration.
    ///
    /// # Errors
    /// The first error, as one line; nothing is left open.
    pub(crate) async fn start(
        registry: &'static [&'static Descriptor],
        corefile: &Corefile,
        dns_port: &str,
    ) -> Result<Self, String> {
        registry.iter().for_each(|descriptor| (descriptor.register_metrics)());
        let instance = build(registry, corefile, dns_port)?;
        let mut server = Self {
            registry,
            dns_port: dns_port.to_owned(),
            workers: Workers::default(),
            http: HttpListeners::new(),
            live: Vec::new(),
            running: Running::default(),
            facts: Arc::default(),
        };
        server.install(instance, true).await?;
        Ok(server)
    }

    /// Replaces the running configuration; on an error it goes on unchanged.
    ///
    /// # Errors
    /// The first error, as one line.
    pub(crate) async fn reload(&mut self, corefile: &Corefile) -> Result<(), String> {
        let instance = build(self.registry, corefile, &self.dns_port)?;
        self.install(instance, false).await
    }

    /// What others ask of the running instance.
    pub(crate) fn facts(&self) -> &Arc<Facts> {
        &self.facts
    }

    /// Tells whether there is anything to serve.
    pub(crate) fn is_listening(&self) -> bool {
        !self.live.is_empty()
    }

    /// Ends serving: lameduck, then everything that has arrived is answered.
    pub(crate) async fn shutdown(mut self) {
        self.running.lameduck().await;
        let live = std::mem::take(&mut self.live);
        let closing = live.iter().map(|one| self.workers.close(&one.shared, 0));
        futures_util::future::join_all(closing).await;
        self.running.stop().await;
        self.http.close().await;
        // Threads end by themselves once nobody can send them commands; joining is quick and must not block a runtime.
        let workers = std::mem::take(&mut self.workers);
        let _ = tokio::task::spawn_blocking(move || workers.join()).await;
    }

    /// Puts an instance in the place of the running one, or in the first place.
    async fn install(&mut self, instance: Instance, first: bool) -> Result<(), String> {
        let Instance { blocks, listeners, parts, warnings } = instance;
        warnings.iter().for_each(|warning| tracing::warn!(target: "server", "{}", warning.explain()));
        let workers = listeners.iter().map(sockets_of).max().unwrap_or(0);
        self.workers.ensure(workers).map_err(|error| format!("starting workers: {error}"))?;
        let mut opened = Opened::default();
        // A port that the kernel chooses must be known before plugins start; others are opened when nothing else
        // can fail, since from then on queries arrive.
        self.open(&listeners, &mut opened, |place| place.port == 0)?;
        let infos: Vec<Arc<ServerInfo>> = listeners.iter().map(|listener| self.info(listener, &opened)).collect();
        let next = Running::new((blocks, parts), &listeners, &infos, first);
        let handover = match self.prepare(&next, &listeners, &mut opened, first).await {
            Ok(handover) => handover,
            Err(error) => {
                next.stop().await;
                if first {
                    self.http.close().await;
                }
                return Err(error);
            }
        };
        if let Some(handover) = handover {
            handover.commit();
        }
        logging::set_debug(next.debug());
        let old = self.switch(&listeners, &infos, &next, opened).await;
        self.facts = Arc::new(Facts { reload: next.reload(), zone_lines: zone_lines(&listeners, &infos) });
        let retired = std::mem::replace(&mut self.running, next);
        self.running.serving().await;
        retire(old, retired).await;
        Ok(())
    }

    /// Does all that can fail.
    ///
    /// At the first start probes are answered while plugins are still starting; on a reload the old instance answers
    /// them until the new one has started.
    async fn prepare(
        &self,
        next: &Running,
        listeners: &[Listener],
        opened: &mut Opened,
        first: bool,
    ) -> Result<Option<Handover>, String> {
        if first {
            self.http.replace(next.endpoints()).await?.commit();
            next.start().await?;
            self.open(listeners, opened, |_| true)?;
            return Ok(None);
        }
        next.start().await?;
        let handover = self.http.replace(next.endpoints()).await?;
        // New listeners before further sockets of those that are served: from the moment it is open, such a socket is
        // sent queries, and they would be lost if something failed after it.
        self.open(listeners, opened, |place| self.live(place).is_none())?;
        self.open(listeners, opened, |_| true)?;
        Ok(Some(handover))
    }

    /// Opens the sockets of listeners that are neither served nor open yet.
    fn open(&self, listeners: &[Listener], opened: &mut Opened, when: impl Fn(&Place) -> bool) -> Result<(), String> {
        for listener in listeners.iter().filter(|listener| when(&listener.place)) {
            let wanted = sockets_of(listener);
            let live = self.live(&listener.place);
            let have = live.map_or(0, |live| live.sockets) + opened.0.get(&listener.place).map_or(0, Vec::len);
            // Further sockets of a listener are on the port that the first one got.
            let mut place = listener.place.clone();
            for _ in have..wanted {
                if let Some(port) = live.map(|live| live.shared.info.port).or_else(|| opened.port(&listener.place)) {
                    place.port = port;
                }
                opened.0.entry(listener.place.clone()).or_default().push(Pair::open(&place)?);
            }
        }
        Ok(())
    }

    fn live(&self, place: &Place) -> Option<&Live> {
        self.live.iter().find(|live| live.place == *place)
    }

    fn info(&self, listener: &Listener, opened: &Opened) -> Arc<ServerInfo> {
        if let Some(live) = self.live(&listener.place) {
            return Arc::clone(&live.shared.info);
        }
        let Place { host, port } = &listener.place;
        let place = Place { host: host.clone(), port: opened.port(&listener.place).unwrap_or(*port) };
        Arc::new(ServerInfo { label: format!("dns://{}", place.text()), port: place.port, host: place.host })
    }

    /// Lets the new blocks serve: from here on no query sees the old ones. Returns those that were served so far.
    async fn switch(
        &mut self,
        listeners: &[Listener],
        infos: &[Arc<ServerInfo>],
        next: &Running,
        mut opened: Opened,
    ) -> Vec<Arc<Dispatcher>> {
        let mut old = Vec::new();
        let mut served = Vec::new();
        for (listener, info) in listeners.iter().zip(infos) {
            let dispatcher = next.dispatcher(listener, info);
            match self.live(&listener.place).map(|live| (Arc::clone(&live.shared), live.sockets)) {
                Some((shared, sockets)) => {
                    old.push(shared.replace(dispatcher, listener.limits));
                    served.push((listener.place.clone(), shared, sockets));
                }
                None => {
                    let shared = Arc::new(Shared::new(dispatcher, listener.limits));
                    served.push((listener.place.clone(), shared, 0));
                }
            }
        }
        self.workers.refresh().await;
        let gone = std::mem::take(&mut self.live);
        for (listener, (place, shared, sockets)) in listeners.iter().zip(served) {
            let wanted = sockets_of(listener);
            let pairs = opened.0.remove(&place).unwrap_or_default();
            for (offset, pair) in pairs.into_iter().enumerate() {
                // There is no way back here: queries see the new blocks already. The other sockets go on.
                if let Err(error) = self.workers.open(sockets + offset, &shared, pair).await {
                    tracing::error!(target: "server", "Serving {} on socket {}: {error}", shared.info.label, sockets + offset);
                }
            }
            if wanted < sockets {
                self.workers.close(&shared, wanted).await;
            }
            self.live.push(Live { place, shared, sockets: wanted });
        }
        let gone = gone.iter().filter(|old| self.live(&old.place).is_none());
        futures_util::future::join_all(gone.map(|old| self.workers.close(&old.shared, 0))).await;
        old
    }
}

/// Sockets that are open and not served yet.
#[derive(Default)]
struct Opened(HashMap<Place, Vec<Pair>>);

impl Opened {
    fn port(&self, place: &Place) -> Option<u16> {
        self.0.get(place)?.first().map(Pair::port)
    }
}

/// One socket a worker, unless `multisocket` says otherwise.
fn sockets_of(listener: &Listener) -> usize {
    listener.sockets.unwrap_or_else(coredns_plugin::usable_cpus)
}

/// The blocks and parts of an instance.
#[derive(Default)]
pub(super) struct Running {
    /// With what the parts of each are told at the start.
    blocks: Vec<(Block, Start)>,
    /// With the places of their blocks, in the order of the start.
    parts: Vec<Part>,
}

impl Running {
    pub(super) fn new(
        (blocks, parts): (Vec<Block>, Vec<Part>),
        listeners: &[Listener],
        infos: &[Arc<ServerInfo>],
        first: bool,
    ) -> Self {
        let shared = Arc::new(coredns_plugin::Shared::default());
        let start = |(at, block): (usize, Block)| {
            let serves = |listener: &Listener| listener.zones.iter().any(|(_, block)| *block == at);
            let servers = listeners.iter().zip(infos).filter(|(listener, _)| serves(listener));
            let start = Start {
                servers: servers.map(|(_, info)| Arc::clone(info)).collect(),
                zones: block.config.zones.clone(),
                view: block.config.view.as_ref().map_or_else(String::new, |view| view.name.to_string()),
                plugins: Arc::clone(&block.chain),
                first,
                shared: Arc::clone(&shared),
            };
            (block, start)
        };
        Self { blocks: blocks.into_iter().enumerate().map(start).collect(), parts }
    }

    fn endpoints(&self) -> Vec<HttpEndpoint> {
        self.blocks.iter().flat_map(|(block, _)| block.config.http.clone()).collect()
    }

    /// The parts, each with what it is told.
    fn parts(&self) -> impl Iterator<Item = (&dyn Lifecycle, &Start)> {
        self.parts.iter().filter_map(|(at, part)| Some((&**part, &self.blocks.get(*at)?.1)))
    }

    pub(super) async fn start(&self) -> Result<(), String> {
        for (part, start) in self.parts() {
            part.start(start).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    async fn serving(&self) {
        for (part, start) in self.parts() {
            part.serving(start).await;
        }
    }

    async fn lameduck(&self) {
        for (part, _) in self.parts() {
            part.lameduck().await;
        }
    }

    pub(super) async fn stop(&self) {
        for (part, _) in self.parts() {
            part.stop().await;
        }
    }

    /// The settings of the watch over the Corefile: those of the last block that has any.
    fn reload(&self) -> Option<ReloadSettings> {
        self.blocks.iter().rev().find_map(|(block, _)| block.config.reload)
    }

    /// Whether debug lines are logged: one block anywhere is enough.
    fn debug(&self) -> bool {
        self.blocks.iter().any(|(block, _)| block.config.debug)
    }

    pub(super) fn dispatcher(&self, listener: &Listener, info: &Arc<ServerInfo>) -> Arc<Dispatcher> {
        let mut sites: HashMap<usize, Arc<Site>> = HashMap::new();
        let mut blocks = Vec::new();
        for (zone, at) in &listener.zones {
            let Some((block, start)) = self.blocks.get(*at) else { continue };
            let site = sites.entry(*at).or_insert_with(|| {
                let BlockConfig { view, metadata, .. } = &block.config;
                Arc::new(Site::new(Arc::clone(&start.plugins), view.clone(), metadata.clone()))
            });
            blocks.push((zone.clone(), Arc::clone(site)));
        }
        Dispatcher::new(Arc::clone(info), blocks, listener.debug, listener.stacktrace)
    }
}

/// Sets a configuration up; the first error as one line.
pub(super) fn build(registry: &[&Descriptor], corefile: &Corefile, dns_port: &str) -> Result<Instance, String> {
    corefile.warnings.iter().for_each(|warning| tracing::warn!(target: "server", "{warning}"));
    Instance::build(corefile, registry, dns_port)
        .map_err(|errors| errors.first().map_or_else(|| "no reason was given".to_owned(), ParseError::explain))
}

/// Waits until nobody serves by the old blocks any more, then stops their parts.
async fn retire(old: Vec<Arc<Dispatcher>>, parts: Running) {
    let deadline = tokio::time::Instant::now() + RETIRE_TIMEOUT;
    while old.iter().any(|dispatcher| Arc::strong_count(dispatcher) > 1) && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(old);
    parts.stop().await;
}

/// One line for each zone of each listener, as CoreDNS prints them: `ZONE:PORT[ on HOST]`.
fn zone_lines(listeners: &[Listener], infos: &[Arc<ServerInfo>]) -> Vec<String> {
    let mut lines = Vec::new();
    for (listener, info) in listeners.iter().zip(infos) {
        let mut zones: Vec<String> = listener.zones.iter().map(|(zone, _)| zone.to_string()).collect();
        zones.sort();
        zones.dedup();
        // Each set of sockets that is asked for prints its own, as CoreDNS's servers do.
        let repeats = listener.sockets.unwrap_or(1);
        for zone in zones.iter().cycle().take(zones.len() * repeats) {
            if !follows_preferred_syntax(zone) {
                lines.push(format!("Warning: Domain \"{zone}\" does not follow RFC1035 preferred syntax"));
            }
            let on = if info.host.is_empty() { String::new() } else { format!(" on {}", info.host) };
            lines.push(format!("{zone}:{}{on}", info.port));
        }
    }
    lines
}

/// Labels of letters, digits and hyphens that begin with a letter and do not end in a hyphen (RFC 1035 §2.3.1);
/// the root and reverse zones are exempt.
fn follows_preferred_syntax(zone: &str) -> bool {
    if zone == "." || zone.ends_with(".in-addr.arpa.") || zone.ends_with(".ip6.arpa.") {
        return true;
    }
    let Some(labels) = zone.strip_suffix('.') else { return false };
    labels.split('.').all(|label| {
        let inside = label.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'-');
        inside && label.starts_with(|c: char| c.is_ascii_alphabetic()) && !label.ends_with('-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferred_syntax_of_zones() {
        for zone in ["example123.com.", "abc-123.com.", ".", "1.0.0.2.ip6.arpa."] {
            assert!(follows_preferred_syntax(zone), "{zone}");
        }
        for zone in ["example", "-example.com.", "abc.123-xyz.", "_tcp.service.", "abc-.example.com."] {
            assert!(!follows_preferred_syntax(zone), "{zone}");
        }
    }
}
