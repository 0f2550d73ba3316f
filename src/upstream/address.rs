//! Addresses of upstreams as operators write them.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::Path;

use coredns_plugin::corefile::{Scheme, excerpt, is_domain_name, read_regular_file, split_scheme};
use coredns_plugin::split_host_port;

/// The largest resolv.conf that is read, in octets.
const FILE_MAX: u64 = 1 << 20;

/// How an upstream is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// Plain DNS over UDP and TCP.
    Dns,
    /// DNS over TLS (RFC 7858).
    Tls,
    /// DNS over HTTPS (RFC 8484).
    Https,
}

impl Protocol {
    /// The protocol of a scheme; `None` where queries are not forwarded over it.
    #[must_use]
    pub const fn of(scheme: Scheme) -> Option<Self> {
        match scheme {
            Scheme::Dns => Some(Self::Dns),
            Scheme::Tls => Some(Self::Tls),
            Scheme::Https => Some(Self::Https),
            _ => None,
        }
    }

    /// The port where none is given.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Dns => 53,
            Self::Tls => 853,
            Self::Https => 443,
        }
    }

    /// The name, as before `://`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Https => "https",
        }
    }
}

/// One upstream: where it is, how it is spoken to, and what its certificate must name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Where it is.
    pub address: SocketAddr,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// The name that its certificate must bear, where one stands behind `%`; plain DNS has none.
    pub server_name: Option<String>,
}

/// `IP:PORT`; other protocols as `SCHEME://IP%NAME:PORT`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(name) = self.server_name.as_ref().filter(|_| self.protocol != Protocol::Dns) else {
            return match self.protocol {
                Protocol::Dns => self.address.fmt(f),
                protocol => write!(f, "{}://{}", protocol.name(), self.address),
            };
        };
        let (scheme, port) = (self.protocol.name(), self.address.port());
        match self.address.ip() {
            IpAddr::V4(ip) => write!(f, "{scheme}://{ip}%{name}:{port}"),
            IpAddr::V6(ip) => write!(f, "{scheme}://[{ip}%{name}]:{port}"),
        }
    }
}

/// Takes what stands behind a `%` out of an address: `tls://9.9.9.9%dns.quad9.net:853` becomes `tls://9.9.9.9:853` and
/// `dns.quad9.net`; the name is empty where there is none.
#[must_use]
pub fn split_name(text: &str) -> (String, &str) {
    let Some((before, rest)) = text.split_once('%') else { return (text.to_owned(), "") };
    let end = rest.find([']', ':']).unwrap_or(rest.len());
    let (name, behind) = rest.split_at(end);
    (format!("{before}{behind}"), name)
}

/// An address and the zone behind its `%` (RFC 4007 §11), which is empty where there is none.
fn parse_ip(text: &str) -> Option<(IpAddr, &str)> {
    let (ip, zone) = text.split_once('%').unwrap_or((text, ""));
    Some((ip.parse().ok()?, zone))
}

/// Reads `IP`, `IP:PORT`, `[IP]` or `[IP]:PORT`; the zone of a link-local address is kept, any other is dropped.
#[must_use]
pub fn parse_socket_address(text: &str, default_port: u16) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let ((ip, zone), port) = match parse_ip(bare) {
        Some(parsed) => (parsed, default_port),
        None => {
            let (host, port) = split_host_port(text).ok()?;
            let port = if port.is_empty() { default_port } else { port.parse().ok().filter(|port| *port != 0)? };
            (parse_ip(host)?, port)
        }
    };
    Some(match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => SocketAddrV6::new(v6, port, 0, interface_index(zone)).into(),
        ip => SocketAddr::new(ip, port),
    })
}

/// The number of a network interface; 0 where there is none of that name.
fn interface_index(zone: &str) -> u32 {
    if let Ok(number) = zone.parse() {
        return number;
    }
    if zone.is_empty() || zone.contains(['/', '.']) {
        return 0;
    }
    let text = std::fs::read_to_string(format!("/sys/class/net/{zone}/ifindex"));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Reads `IP` or `IP:PORT` into `IP:PORT` as text, zones kept; plain DNS.
///
/// # Errors
/// The text is neither, worded for people.
pub fn host_port(text: &str, default_port: &str) -> Result<String, String> {
    let join = |ip: &str, port: &str| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
    if parse_ip(text).is_some() {
        return Ok(join(text, default_port));
    }
    let (host, port) = split_host_port(text).map_err(|error| error.to_string())?;
    if parse_ip(host).is_none() {
        return Err(format!("not an IP address: \"{}\"", excerpt(host)));
    }
    if port.is_empty() {
        return Ok(join(host, default_port));
    }
    port.parse::<u16>().map_err(|_| format!("invalid port: \"{}\"", excerpt(port)))?;
    Ok(text.to_owned())
}

/// The same with a scheme before it, or a file in the form of resolv.conf in its place.
///
/// # Errors
/// The text is none of these, worded for people.
pub fn host_port_or_file(text: &str) -> Result<Vec<String>, String> {
    let (scheme, rest) = split_scheme(text);
    if rest.is_empty() {
        return Err(format!("invalid address: \"{}\"", excerpt(text)));
    }
    if scheme == Scheme::Unix {
        return Ok(vec![text.to_owned()]);
    }
    if let Ok(address) = host_port(rest, scheme.default_port("53")) {
        return Ok(vec![if scheme == Scheme::Dns { address } else { format!("{}://{address}", scheme.name()) }]);
    }
    let addresses =
        read_nameservers(Path::new(rest)).map_err(|_| format!("not an IP address or file: \"{}\"", excerpt(rest)))?;
    Ok(addresses.iter().map(ToString::to_string).collect())
}

/// The name servers of a file in the form of resolv.conf(5), on port 53.
///
/// # Errors
/// The file cannot be read.
pub fn read_nameservers(path: &Path) -> std::io::Result<Vec<SocketAddr>> {
    let content = read_regular_file(path, FILE_MAX)?;
    Ok(nameservers(&String::from_utf8_lossy(&content)))
}

/// The name servers in the text of a resolv.conf; what is no address is passed over.
#[must_use]
pub fn nameservers(content: &str) -> Vec<SocketAddr> {
    let servers = content.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|word| *word == "nameserver")?;
        words.next()
    });
    servers.filter_map(|server| parse_socket_address(server, Protocol::Dns.default_port())).collect()
}

/// A host name in the place of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEntry {
    /// The name, as written.
    pub hostname: String,
    /// The port.
    pub port: u16,
    /// How the upstreams behind it are spoken to.
    pub protocol: Protocol,
    /// The name that certificates must bear; empty for none.
    pub server_name: String,
}

impl HostEntry {
    /// Reads `[SCHEME://]NAME[%SERVERNAME][:PORT]`; `None` where the text is no such thing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, server_name) = split_name(text);
        let (scheme, rest) = split_scheme(&address);
        let protocol = Protocol::of(scheme)?;
        let (hostname, port) = match split_host_port(rest) {
            Ok((hostname, "")) => (hostname, protocol.default_port()),
            Ok((hostname, port)) => (hostname, port.parse().ok().filter(|port| *port != 0)?),
            Err(_) if rest.contains(':') => return None,
            Err(_) => (rest, protocol.default_port()),
        };
        // No host has a slash in its name: that is the path of a file that is not there.
        if !is_domain_name(hostname) || hostname.contains('/') || hostname.parse::<IpAddr>().is_ok() {
            return None;
        }
        Some(Self { hostname: hostname.to_owned(), port, protocol, server_name: server_name.to_owned() })
    }

    /// The upstream at one of the host's addresses.
    #[must_use]
    pub fn at(&self, ip: IpAddr) -> Target {
        let server_name = Some(self.server_name.clone()).filter(|name| !name.is_empty());
        Target { address: SocketAddr::new(ip, self.port), protocol: self.protocol, server_name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_addresses() {
        for (text, expected) in [
            ("192.0.2.1", Some("192.0.2.1:53")),
            ("192.0.2.1:5353", Some("192.0.2.1:5353")),
            ("2001:db8::1", Some("[2001:db8::1]:53")),
            ("[2001:db8::1]", Some("[2001:db8::1]:53")),
            ("[2001:db8::1]:54", Some("[2001:db8::1]:54")),
            ("2001:db8::1%eth0", Some("[2001:db8::1]:53")),
            ("fe80::1%7", Some("[fe80::1%7]:53")),
            ("192.0.2.1:0", None),
            ("192.0.2.1:70000", None),
            ("192.0.2.1:x", None),
            ("example.org", None),
            ("", None),
        ] {
            let address = parse_socket_address(text, 53).map(|address| address.to_string());
            assert_eq!(address.as_deref(), expected, "{text}");
        }
        assert_eq!(
            parse_socket_address("fe80::1%lo", 53).map(|address| address.to_string()).as_deref(),
            Some("[fe80::1%1]:53")
        );
    }

    #[test]
    fn resolv_conf() {
        let text = "# nameserver 192.0.2.1\n;nameserver 192.0.2.2\nsearch example.org\nnameserver 192.0.2.3 x\n\
                    \tnameserver\t2001:db8::1%en0\nnameserver\nnameserver example.org\nnameservers 192.0.2.4\n";
        let servers: Vec<String> = nameservers(text).iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["192.0.2.3:53", "[2001:db8::1]:53"]);
    }
}
