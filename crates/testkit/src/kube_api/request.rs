//! What is asked.

use std::time::Instant;

use coredns_plugin::clock;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::store::{RESOURCES, Resource};

/// The longest head of a request, in octets.
const HEAD_MAX: usize = 64 << 10;

/// The verbs of the API that a DNS server may use, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// All objects of a resource.
    List,
    /// What happens to the objects of a resource.
    Watch,
    /// One object.
    Get,
    /// Anything that changes something.
    Write,
    /// No resource is meant: discovery, probes, unknown paths.
    Other,
}

impl Verb {
    /// The verb as a ClusterRole names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Watch => "watch",
            Self::Get => "get",
            Self::Write => "write",
            Self::Other => "other",
        }
    }
}

/// A request that was received.
#[derive(Clone, Debug)]
pub struct Call {
    /// The verb.
    pub verb: Verb,
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The resource, such as `services`; empty if none is meant.
    pub resource: &'static str,
    /// The path without parameters.
    pub path: String,
    /// The parameters, decoded.
    pub parameters: Vec<(String, String)>,
    /// The header fields with lower-case names.
    pub headers: Vec<(String, String)>,
    /// The connection, counted from 0 since the server last began to listen.
    pub connection: u64,
    /// When it came.
    pub at: Instant,
}

impl Call {
    /// The value of a parameter.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// The value of a header field.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// Whether a watch asks for the whole state first.
    #[must_use]
    pub fn is_streaming_list(&self) -> bool {
        self.verb == Verb::Watch && self.parameter("sendInitialEvents") == Some("true")
    }
}

/// Reads the head of the next request; `None` at the end of the connection.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin), connection: u64) -> Option<Call> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
        if head.len() > HEAD_MAX {
            return None;
        }
    }
    parse(std::str::from_utf8(&head).ok()?, connection)
}

fn parse(head: &str, connection: u64) -> Option<Call> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let parameters: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        })
        .collect();
    let found = resource_of(path);
    let watches = parameters.iter().any(|(key, value)| key == "watch" && value == "true");
    let verb = match (method, found) {
        (_, None) => Verb::Other,
        ("GET", Some((_, true))) => Verb::Get,
        ("GET", Some(_)) if watches => Verb::Watch,
        ("GET", Some(_)) => Verb::List,
        _ => Verb::Write,
    };
    let resource = found.map(|(resource, _)| resource);
    Some(Call {
        verb,
        group: resource.map_or("", |resource| resource.group),
        resource: resource.map_or("", |resource| resource.plural),
        path: path.to_owned(),
        parameters,
        headers: headers.collect(),
        connection,
        at: clock::now(),
    })
}

/// The resource of a path, and whether a single object is meant.
fn resource_of(path: &str) -> Option<(&'static Resource, bool)> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (group, version, rest) = match &parts[..] {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (plural, single) = match rest {
        ["namespaces"] => ("namespaces", false),
        ["namespaces", _] => ("namespaces", true),
        [plural] | ["namespaces", _, plural] => (*plural, false),
        ["namespaces", _, plural, _] => (*plural, true),
        _ => return None,
    };
    let known =
        |resource: &&Resource| resource.plural == plural && resource.group == group && resource.version == version;
    RESOURCES.iter().find(known).map(|resource| (resource, single))
}

/// Decodes a part of a form (`application/x-www-form-urlencoded`).
fn decode(text: &str) -> String {
    let mut octets = Vec::new();
    let mut rest = text.bytes();
    while let Some(octet) = rest.next() {
        octets.push(match octet {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                std::str::from_utf8(&digits).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or(b'?')
            }
            octet => octet,
        });
    }
    String::from_utf8_lossy(&octets).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_understood() {
        let of = |target: &str| {
            let call = parse(&format!("GET {target} HTTP/1.1\r\nHost: x\r\nA-B: c \r\n\r\n"), 0).expect("a request");
            assert_eq!(call.header("a-b"), Some("c"));
            (call.verb, call.resource)
        };
        assert_eq!(of("/api/v1/services?&limit=500"), (Verb::List, "services"));
        assert_eq!(of("/api/v1/services?watch=true"), (Verb::Watch, "services"));
        assert_eq!(of("/api/v1/namespaces"), (Verb::List, "namespaces"));
        assert_eq!(of("/api/v1/namespaces/x"), (Verb::Get, "namespaces"));
        assert_eq!(of("/api/v1/namespaces/x/pods"), (Verb::List, "pods"));
        assert_eq!(of("/apis/discovery.k8s.io/v1/endpointslices"), (Verb::List, "endpointslices"));
        assert_eq!(of("/api/v1/secrets"), (Verb::Other, ""));
        assert_eq!(of("/version"), (Verb::Other, ""));
        assert_eq!(decode("a%21%3Db%2Cc+d"), "a!=b,c d");
    }
}
