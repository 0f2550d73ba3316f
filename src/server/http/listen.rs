//! From the address of an endpoint to a socket that listens.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use coredns_plugin::corefile::{excerpt, os_error_text};
use coredns_plugin::split_host_port;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// All addresses of both families.
    Any(u16),
    /// One address.
    One(SocketAddr),
}

impl Place {
    /// The port as asked for.
    pub(super) const fn port(&self) -> u16 {
        match self {
            Self::Any(port) => *port,
            Self::One(address) => address.port(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(port) => write!(f, ":{port}"),
            Self::One(address) => address.fmt(f),
        }
    }
}

/// Looks an address up; of a name's addresses the first of IPv4 is taken, else the first of IPv6.
///
/// # Errors
/// In Go's words: the port is no number, or the name is unknown.
pub(super) async fn resolve(address: &str) -> Result<Place, String> {
    let (host, port) = split_host_port(address).map_err(|error| format!("listen tcp: {error}"))?;
    let port = parse_port(port)?;
    if host.is_empty() {
        return Ok(Place::Any(port));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(Place::One(SocketAddr::new(address, port)));
    }
    let found: Vec<SocketAddr> = match tokio::net::lookup_host((host, port)).await {
        Ok(found) => found.collect(),
        Err(_) => Vec::new(),
    };
    let address = found.iter().find(|address| address.is_ipv4()).or_else(|| found.first());
    address.copied().map(Place::One).ok_or_else(|| format!("listen tcp: lookup {}: no such host", excerpt(host)))
}

fn parse_port(text: &str) -> Result<u16, String> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let shown = excerpt(text);
        match text.parse::<i64>() {
            Ok(_) => format!("listen tcp: address {shown}: invalid port"),
            Err(_) => format!("listen tcp: lookup tcp/{shown}: unknown port"),
        }
    })
}

/// Opens the socket.
///
/// # Errors
/// `listen tcp ADDRESS: bind: REASON`, or another step than `bind`.
pub(super) fn bind(place: Place) -> Result<TcpListener, String> {
    let result = match place {
        Place::One(address) => open(address),
        // A host without IPv6 has either no such sockets or no such wildcard.
        Place::Any(port) => match open(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))) {
            Err(Fault { error, .. }) if lacks_ipv6(&error) => open(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
            result => result,
        },
    };
    result.map_err(|Fault { step, error }| format!("listen tcp {place}: {step}: {}", os_error_text(&error)))
}

fn lacks_ipv6(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL | libc::EPROTONOSUPPORT))
}

/// A failed step on the way to a listener.
struct Fault {
    step: &'static str,
    error: io::Error,
}

fn open(address: SocketAddr) -> Result<TcpListener, Fault> {
    let at = |step| move |error| Fault { step, error };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))
        .map_err(at("socket"))?;
    if address.is_ipv6() {
        // The wildcard takes both families, an address just its own.
        socket.set_only_v6(!address.ip().is_unspecified()).map_err(at("setsockopt"))?;
    }
    socket.set_reuse_address(true).map_err(at("setsockopt"))?;
    // Lets a new process take over before the old one ends; where it is missing the rest works all the same.
    if let Err(error) = socket.set_reuse_port(true) {
        tracing::warn!(target: "server", "Failed to set SO_REUSEPORT on socket: {}", os_error_text(&error));
    }
    socket.bind(&address.into()).map_err(at("bind"))?;
    socket.listen(BACKLOG).map_err(at("listen"))?;
    TcpListener::from_std(socket.into()).map_err(at("listen"))
}
