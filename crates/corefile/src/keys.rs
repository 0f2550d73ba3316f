//! The keys of a server block as the addresses and zones that it serves.

use std::fmt;

use crate::block::ServerBlock;
use crate::domain::{fully_qualified, is_domain_name};
use crate::error::ParseError;
use crate::excerpt::{excerpt, quote};
use crate::reverse::zones_of_range;

/// Octets of a key without scheme and port.
const ZONE_TEXT_MAX: usize = 255;

/// A transport that a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// DNS over UDP and TCP (RFC 1035).
    Dns,
    /// DNS over TLS (RFC 7858).
    Tls,
    /// DNS over QUIC (RFC 9250).
    Quic,
    /// DNS over gRPC.
    Grpc,
    /// DNS over HTTPS (RFC 8484).
    Https,
    /// DNS over HTTP/3.
    Https3,
    /// Recognised, but nothing listens for it.
    Unix,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Self; 7] = [Self::Dns, Self::Tls, Self::Quic, Self::Grpc, Self::Https, Self::Https3, Self::Unix];

    /// The name, as it stands before `://`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Quic => "quic",
            Self::Grpc => "grpc",
            Self::Https => "https",
            Self::Https3 => "https3",
            Self::Unix => "unix",
        }
    }

    /// The port of a key that names none; `dns_port` is the one set for plain DNS.
    pub fn default_port(self, dns_port: &str) -> &str {
        match self {
            Self::Dns => dns_port,
            Self::Tls | Self::Quic => "853",
            Self::Grpc | Self::Https | Self::Https3 => "443",
            Self::Unix => "",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Takes the scheme off an address; without a known one it is plain DNS. Schemes are lower-case.
pub fn split_scheme(address: &str) -> (Scheme, &str) {
    let known = address.split_once("://").and_then(|(name, rest)| {
        Scheme::ALL.into_iter().find(|scheme| scheme.name() == name).map(|scheme| (scheme, rest))
    });
    known.unwrap_or((Scheme::Dns, address))
}

/// One zone that a server block serves on one port.
///
/// `Display` gives the form that plugins see as the block's key: `dns://example.org.:53`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ZoneAddress {
    /// The transport.
    pub scheme: Scheme,
    /// The zone, lower-case with its final dot, in presentation format.
    pub zone: String,
    /// The port as text; a number out of range is refused only when its address is resolved.
    pub port: String,
}

impl ZoneAddress {
    /// The port as a number; `None` if out of range or not a number.
    pub fn port_number(&self) -> Option<u16> {
        self.port.parse().ok()
    }
}

impl fmt::Display for ZoneAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme, self.zone, self.port)
    }
}

/// A text that names no zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing behind the last colon, or nothing at all.
    #[error("expecting data after last colon: {}", quote(.0))]
    EmptyPort(String),
    /// Longer than any domain name.
    #[error("specified zone is too long: {0} > 255")]
    TooLong(usize),
    /// Not a domain name.
    #[error("zone is not a valid domain name: {}", excerpt(.0))]
    InvalidName(String),
    /// A range that is written in a form which is too easily misread.
    #[error("invalid CIDR {}", excerpt(.0))]
    InvalidRange(String),
}

impl KeyError {
    /// How to mend the key.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::EmptyPort(key) if key.is_empty() => "name a zone; '.' is all of them",
            Self::EmptyPort(_) => "name a port or remove the colon",
            Self::TooLong(_) => "separate zones by blanks",
            Self::InvalidName(name) if name.is_empty() => "put a zone before the colon; '.:53' is all zones on port 53",
            Self::InvalidName(_) => "labels have 1 to 63 octets, a name at most 255",
            Self::InvalidRange(_) => "write the reverse zone itself, such as 8.b.d.0.1.0.0.2.ip6.arpa",
        }
    }
}

/// The zones and the port that a key without its scheme names; an address range gives every reverse zone it covers.
fn split_zones_and_port(text: &str) -> Result<(Vec<String>, Option<String>), KeyError> {
    if text.is_empty() || text.ends_with(':') {
        return Err(KeyError::EmptyPort(text.to_owned()));
    }
    let (host, port) = match text.rsplit_once(':') {
        // Signs and leading zeros are normalised away.
        Some((host, port)) => match port.parse::<i64>() {
            Ok(number) => (host, Some(number.to_string())),
            Err(_) => (text, None),
        },
        None => (text, None),
    };
    let qualified = fully_qualified(host);
    if let Some(length) = [host.len(), qualified.len()].into_iter().find(|length| *length > ZONE_TEXT_MAX) {
        return Err(KeyError::TooLong(length));
    }
    if !is_domain_name(host) || !is_domain_name(&qualified) {
        return Err(KeyError::InvalidName(host.to_owned()));
    }
    match zones_of_range(host) {
        Some(_) if host.starts_with(':') || (host.starts_with('0') && host.contains(':')) => {
            Err(KeyError::InvalidRange(host.to_owned()))
        }
        Some(zones) => Ok((zones, port)),
        None => Ok((vec![qualified.to_ascii_lowercase()], port)),
    }
}

/// The addresses that a key stands for; one unless it is an address range.
///
/// # Errors
/// See [`KeyError`].
pub fn zone_addresses(key: &str, dns_port: &str) -> Result<Vec<ZoneAddress>, KeyError> {
    let (scheme, rest) = split_scheme(key);
    let (zones, port) = split_zones_and_port(rest)?;
    let port = port.unwrap_or_else(|| scheme.default_port(dns_port).to_owned());
    Ok(zones.into_iter().map(|zone| ZoneAddress { scheme, zone, port: port.clone() }).collect())
}

/// The addresses of all keys of a block, in the order of the text.
///
/// # Errors
/// The first key that names no zone, worded as CoreDNS does when it looks through the server blocks.
pub fn block_addresses(block: &ServerBlock, dns_port: &str) -> Result<Vec<ZoneAddress>, ParseError> {
    let mut addresses = Vec::new();
    for key in &block.keys {
        let of_key = zone_addresses(key.text(), dns_port).map_err(|error| {
            ParseError::plain(key, format!("error inspecting server blocks: {error}")).with_remedy(error.remedy())
        })?;
        addresses.extend(of_key);
    }
    Ok(addresses)
}

/// The zones that arguments name: scheme and port dropped, every zone of a range, what is no zone left out.
pub fn normalize_zones<'a>(args: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    args.into_iter().flat_map(zones_of).collect()
}

/// The zones that a plugin is to serve: those of its arguments or, without any, the first of each key of its block.
///
/// Arguments that name no zone are left out, so the list may be empty and then matches nothing.
pub fn origins<'a>(
    args: impl IntoIterator<Item = &'a str>,
    block_keys: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let mut args = args.into_iter().peekable();
    if args.peek().is_some() {
        return normalize_zones(args);
    }
    block_keys.into_iter().filter_map(|key| zones_of(key).into_iter().next()).collect()
}

fn zones_of(text: &str) -> Vec<String> {
    let (_, rest) = split_scheme(text);
    // What was not UTF-8 in the text is no name anybody asks for.
    if rest.contains(char::REPLACEMENT_CHARACTER) {
        return Vec::new();
    }
    split_zones_and_port(rest).map(|(zones, _)| zones).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(key: &str) -> Result<Vec<String>, String> {
        let addresses = zone_addresses(key, "53").map_err(|error| error.to_string())?;
        Ok(addresses.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn addresses() {
        let cases: &[(&str, &[&str])] = &[
            (".", &["dns://.:53"]),
            (".:53", &["dns://.:53"]),
            ("example.org", &["dns://example.org.:53"]),
            ("EXAMPLE.ORG", &["dns://example.org.:53"]),
            ("example.org.", &["dns://example.org.:53"]),
            ("dns://.:1053", &["dns://.:1053"]),
            ("tls://.", &["tls://.:853"]),
            ("quic://.", &["quic://.:853"]),
            ("grpc://example.org", &["grpc://example.org.:443"]),
            ("https://example.org.:8443", &["https://example.org.:8443"]),
            ("https3://.", &["https3://.:443"]),
            ("unix://.", &["unix://.:"]),
            ("TLS://x", &["dns://tls://x.:53"]),
            ("http://x", &["dns://http://x.:53"]),
            ("x:+053", &["dns://x.:53"]),
            ("x:-5", &["dns://x.:-5"]),
            ("x:99999", &["dns://x.:99999"]),
            ("x:99999999999999999999", &["dns://x:99999999999999999999.:53"]),
            ("x:domain", &["dns://x:domain.:53"]),
            ("10.0.0.0/8:53", &["dns://10.in-addr.arpa.:53"]),
            ("10.0.0.0/15", &["dns://0.10.in-addr.arpa.:53", "dns://1.10.in-addr.arpa.:53"]),
            ("tls://10.0.0.0/15:5", &["tls://0.10.in-addr.arpa.:5", "tls://1.10.in-addr.arpa.:5"]),
            ("10.0.0.0/24.", &["dns://10.0.0.0/24.:53"]),
            ("10.0.0.1", &["dns://10.0.0.1.:53"]),
            ("2001:db8::/32", &["dns://8.b.d.0.1.0.0.2.ip6.arpa.:53"]),
            ("2001:db8::/32:54", &["dns://8.b.d.0.1.0.0.2.ip6.arpa.:54"]),
            ("2001:db8::1", &["dns://2001:db8:.:1"]),
            ("example.org,example.com:1053", &["dns://example.org,example.com.:1053"]),
            ("32/27.104.21.172.in-addr.arpa", &["dns://32/27.104.21.172.in-addr.arpa.:53"]),
            ("a\\.", &["dns://a\\..:53"]),
            ("\u{421}\u{440}", &["dns://\u{421}\u{440}.:53"]),
        ];
        for (key, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(zones(key), Ok(expected), "{key}");
        }
    }

    #[test]
    fn refused() {
        let long = "a.".repeat(127) + "a";
        let label = "a".repeat(64);
        let cases = [
            ("", "expecting data after last colon: \"\""),
            ("dns://", "expecting data after last colon: \"\""),
            (":", "expecting data after last colon: \":\""),
            ("example.org:", "expecting data after last colon: \"example.org:\""),
            ("tls://example.org:", "expecting data after last colon: \"example.org:\""),
            (":53", "zone is not a valid domain name: "),
            ("a..b:53", "zone is not a valid domain name: a..b"),
            (".a", "zone is not a valid domain name: .a"),
            ("a\\", "zone is not a valid domain name: a\\"),
            (&format!("{label}:53"), &format!("zone is not a valid domain name: {label}")),
            (&format!("{long}a"), "specified zone is too long: 256 > 255"),
            (&format!("{long}:53"), "specified zone is too long: 256 > 255"),
            (&format!("{long}aa"), "specified zone is too long: 257 > 255"),
            ("::fFFF:B:F/115", "invalid CIDR ::fFFF:B:F/115"),
            ("0:1::/32", "invalid CIDR 0:1::/32"),
        ];
        for (key, expected) in cases {
            assert_eq!(zones(key), Err(expected.to_owned()), "{key}");
        }
    }

    #[test]
    fn ports() {
        let number = |key: &str| zone_addresses(key, "domain").map(|all| all[0].port_number());
        assert_eq!(number("x:1053"), Ok(Some(1053)));
        assert_eq!(number("x:65536"), Ok(None));
        assert_eq!(number("x:-1"), Ok(None));
        assert_eq!(number("x"), Ok(None));
    }

    #[test]
    fn zone_lists() {
        let block = ["dns://example.net.:53", "10.0.0.0/15", "tls://x:1"];
        let cases: &[(&[&str], &[&str])] = &[
            (&[], &["example.net.", "0.10.in-addr.arpa.", "x."]),
            (&["example.org"], &["example.org."]),
            (&["tls://EXAMPLE.org:53", "."], &["example.org.", "."]),
            (&["10.0.0.0/15"], &["0.10.in-addr.arpa.", "1.10.in-addr.arpa."]),
            (&["\u{fffd}(", "example.org"], &["example.org."]),
            (&["a..b", "", "x:"], &[]),
        ];
        for (args, expected) in cases {
            assert_eq!(origins(args.iter().copied(), block), *expected, "{args:?}");
            if !args.is_empty() {
                assert_eq!(normalize_zones(args.iter().copied()), *expected, "{args:?}");
            }
        }
    }
}
