//! Probes: sent, seen, answered.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use coredns_plugin::wire::{Class, Header, Name, NameError, Outgoing, RrType, encode};
use coredns_plugin::{Query, ServerInfo};
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};

/// How long probes are sent.
const LIFE: Duration = Duration::from_secs(30);
/// How long an answer is waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before another probe.
const RETRY: Duration = Duration::from_secs(1);
/// A probe that is seen more often goes round: the second sighting may be a client's or an upstream's repeat.
const SIGHTINGS_MAX: u32 = 2;
/// The largest answer that is read, in octets; only its header matters.
const ANSWER_MAX: usize = 512;

/// A query that has been sent and not been answered yet.
#[derive(Debug)]
struct Probe {
    name: Name,
    sightings: AtomicU32,
}

/// The probe that is outstanding now, if one is.
#[derive(Debug)]
pub(super) struct Watch {
    zone: Name,
    outstanding: ArcSwapOption<Probe>,
}

/// A loop, as people are told of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Loop {
    /// The probe's name.
    pub(super) name: Name,
}

impl Watch {
    /// No probe yet.
    pub(super) const fn new(zone: Name) -> Self {
        Self { zone, outstanding: ArcSwapOption::const_empty() }
    }

    /// The zone that is probed.
    pub(super) const fn zone(&self) -> &Name {
        &self.zone
    }

    /// Takes note of a query for HINFO; tells of a loop once, and ends the watch with that.
    pub(super) fn sight(&self, query: &Query) -> Option<Loop> {
        let outstanding = self.outstanding.load();
        let probe = outstanding.as_ref().filter(|probe| probe.name == *query.name())?;
        // Relaxed: every sighting gets a number of its own, and nothing else depends on it.
        let sightings = probe.sightings.fetch_add(1, Ordering::Relaxed);
        if sightings != SIGHTINGS_MAX {
            return None;
        }
        self.forget();
        Some(Loop { name: probe.name.clone() })
    }

    /// Ends the watch: what is seen from now on has no effect.
    pub(super) fn forget(&self) {
        self.outstanding.store(None);
    }

    /// Draws a new probe, and waits for its sightings from now on.
    fn expect_new(&self) -> Result<Name, NameError> {
        let name = probe_name(&self.zone)?;
        self.outstanding.store(Some(Arc::new(Probe { name: name.clone(), sightings: AtomicU32::new(0) })));
        Ok(name)
    }
}

/// Sends probes until one is answered; each has its own name, and sightings of earlier ones do not count.
pub(super) async fn probe_until_answered(watch: &Watch, server: &ServerInfo) {
    let attempts = async {
        loop {
            let name = match watch.expect_new() {
                Ok(name) => name,
                Err(error) => {
                    tracing::warn!(target: "plugin/loop", "No loop detection for zone \"{}\": {error}", watch.zone);
                    return;
                }
            };
            if let Ok(Ok(())) = timeout(ANSWER_TIMEOUT, exchange(server, &name)).await {
                return;
            }
            watch.forget();
            sleep(RETRY).await;
        }
    };
    // At the end of its life the watch ends whether there was an answer or not.
    let _ = timeout(LIFE, attempts).await;
    watch.forget();
}

/// Two numbers of 64 bits below the zone: nobody else can name it.
fn probe_name(zone: &Name) -> Result<Name, NameError> {
    let numbers = [rand::random::<u64>(), rand::random()].map(|number| number.to_string());
    zone.prepend_all(numbers.iter().map(String::as_bytes))
}

/// Sends the query `name` HINFO over UDP, and waits for any answer to it.
async fn exchange(server: &ServerInfo, name: &Name) -> io::Result<()> {
    let target = target(server).await?;
    let any: IpAddr = if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(target).await?;
    let id = rand::random();
    socket.send(&question(id, name)).await?;
    let mut buffer = [0; ANSWER_MAX];
    loop {
        let length = socket.recv(&mut buffer).await?;
        let header = buffer.get(..length).and_then(Header::parse);
        if header.is_some_and(|header| header.id == id && header.has(Header::QR)) {
            return Ok(());
        }
    }
}

fn question(id: u16, name: &Name) -> Vec<u8> {
    let message = Outgoing {
        header: Header { id, bits: Header::RD, ..Header::default() },
        question: &Outgoing::question(name, RrType::HINFO, Class::IN),
        sections: [&[], &[], &[]],
        opt: &[],
        limit: ANSWER_MAX,
        compress_above: ANSWER_MAX,
    };
    let mut octets = Vec::new();
    encode(&message, &mut octets);
    octets
}

/// Where the listener is reached from this host.
async fn target(server: &ServerInfo) -> io::Result<SocketAddr> {
    let host = match server.host.as_str() {
        "" | "0.0.0.0" => "127.0.0.1",
        "::" => "::1",
        host => host,
    };
    // Not just parsed: a link-local address names its interface.
    let mut addresses = tokio::net::lookup_host((host, server.port)).await?;
    addresses.next().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}
