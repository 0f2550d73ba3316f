//! From what stands behind FROM to upstreams.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::corefile::{excerpt, os_error_text, split_scheme};
use coredns_plugin::wire::{Name, Record, RrType};

use crate::upstream::address::{parse_socket_address, read_nameservers, split_name};
use crate::upstream::{Asked, HealthCheck, HostEntry, Protocol, Settings, Target, Upstream, Way};

/// Addresses of one host name beyond this many are left out.
const ADDRESSES_MAX: usize = 32;
/// How long a resolver may take.
const RESOLVER_TIMEOUT: Duration = Duration::from_secs(2);

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An address.
    Address(Target),
    /// A file in the form of resolv.conf.
    File(PathBuf),
    /// A name to be resolved.
    Host(HostEntry),
}

/// Reads one argument; relative names of files are joined by `path`.
///
/// # Errors
/// It is nothing that queries can be sent to.
pub fn classify(text: &str, path: impl Fn(&str) -> PathBuf) -> Result<Source, String> {
    if text.starts_with("https://") && text["https://".len()..].contains('/') {
        return Err(format!(
            "paths are not allowed in HTTPS upstream addresses (the /dns-query path is used by default): {text}"
        ));
    }
    let (address, name) = split_name(text);
    let (scheme, rest) = split_scheme(&address);
    let Some(protocol) = Protocol::of(scheme) else {
        return Err(format!("'{}' is not supported as a destination protocol in forward: {text}", scheme.name()));
    };
    // What stands behind `%` is a zone on plain upstreams, and the name of a certificate on others.
    let with_zone = if protocol == Protocol::Dns { split_scheme(text).1 } else { rest };
    if let Some(address) = parse_socket_address(with_zone, protocol.default_port()) {
        let server_name = Some(name).filter(|name| protocol != Protocol::Dns && !name.is_empty()).map(str::to_owned);
        return Ok(Source::Address(Target { address, protocol, server_name }));
    }
    let file = path(rest);
    if !rest.is_empty() && file.exists() {
        return Ok(Source::File(file));
    }
    let host = HostEntry::parse(text)
        .ok_or_else(|| format!("not an IP address, file, or valid domain: \"{}\"", excerpt(text)))?;
    Ok(Source::Host(host))
}

/// The upstreams of all sources in their order; of those at the same address the first is taken, whatever its protocol.
#[must_use]
pub fn expand(lists: &[Vec<Target>]) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    for target in lists.iter().flatten() {
        if targets.iter().all(|known| known.address != target.address) {
            targets.push(target.clone());
        }
    }
    targets
}

/// The upstreams in a file.
///
/// # Errors
/// It cannot be read; worded for people.
pub(super) fn read_file(path: &Path) -> Result<Vec<Target>, String> {
    let servers =
        read_nameservers(path).map_err(|error| format!("open {}: {}", path.display(), os_error_text(&error)))?;
    Ok(servers.into_iter().map(|address| Target { address, protocol: Protocol::Dns, server_name: None }).collect())
}

/// The upstreams behind a host name: its IPv4 addresses, then its IPv6 addresses, in the order of the answers.
///
/// # Errors
/// There is none; worded for people.
pub(super) async fn resolve(host: &HostEntry, resolvers: &[SocketAddr]) -> Result<Vec<Target>, String> {
    let outcome = if resolvers.is_empty() { ask_system(host).await } else { ask_resolvers(host, resolvers).await };
    let mut addresses = outcome.map_err(|reason| format!("failed to resolve \"{}\": {reason}", host.hostname))?;
    addresses.truncate(ADDRESSES_MAX);
    Ok(addresses.into_iter().map(|address| host.at(address)).collect())
}

async fn ask_system(host: &HostEntry) -> Result<Vec<IpAddr>, String> {
    let found =
        tokio::net::lookup_host((host.hostname.as_str(), host.port)).await.map_err(|error| error.to_string())?;
    let (mut v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = found.map(|address| address.ip()).partition(IpAddr::is_ipv4);
    v4.extend(v6);
    if v4.is_empty() { Err("no addresses found".to_owned()) } else { Ok(v4) }
}

async fn ask_resolvers(host: &HostEntry, resolvers: &[SocketAddr]) -> Result<Vec<IpAddr>, String> {
    let name: Name = host.hostname.parse().map_err(|error| format!("{error}"))?;
    let mut reason = "no addresses found".to_owned();
    for resolver in resolvers {
        let upstream = resolver_upstream(*resolver);
        match ask(&upstream, &name, RrType::A).await {
            Ok(mut addresses) => {
                // An upstream that has IPv4 addresses is reachable whatever becomes of the other question.
                addresses.extend(ask(&upstream, &name, RrType::AAAA).await.unwrap_or_default());
                if !addresses.is_empty() {
                    return Ok(addresses);
                }
            }
            Err(error) => reason = error,
        }
    }
    Err(reason)
}

fn resolver_upstream(address: SocketAddr) -> Arc<Upstream> {
    let settings = Settings {
        plugin: super::NAME,
        expire: Duration::ZERO,
        max_age: Duration::ZERO,
        max_idle: 0,
        read_timeout: RESOLVER_TIMEOUT,
        source: None,
        https_get: false,
        force_tcp: false,
        check: HealthCheck::default(),
    };
    Upstream::new(Target { address, protocol: Protocol::Dns, server_name: None }, Arc::new(settings), None)
}

async fn ask(resolver: &Upstream, name: &Name, rtype: RrType) -> Result<Vec<IpAddr>, String> {
    let asked = Asked::own(name, rtype, true);
    let mut reply = resolver.ask_apart(&asked, Way::Udp, RESOLVER_TIMEOUT).await.map_err(|error| error.to_string())?;
    if reply.truncated {
        reply = resolver.ask_apart(&asked, Way::Tcp, RESOLVER_TIMEOUT).await.map_err(|error| error.to_string())?;
    }
    match reply.rcode {
        coredns_plugin::wire::Rcode::NOERROR => Ok(reply.answer.iter().filter_map(Record::ip).collect()),
        rcode => Err(format!("{} from {}", rcode, resolver.label())),
    }
}
