//! The grammar of names below a zone.
//!
//! Read from the right: `svc` or `pod`, the namespace, the Service or the Pod's address, then an endpoint, a port
//! and a protocol, an endpoint and a cluster, or a topology zone.

use std::fmt;

use coredns_plugin::wire::{Name, fold};

/// The most labels that a name can have: 127 of one octet.
const MAX_LABELS: usize = 127;

/// The name does not follow the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidName;

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid query name")
    }
}

impl std::error::Error for InvalidName {}

/// Which subtree of the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Services.
    Svc,
    /// Pods.
    Pod,
}

impl Kind {
    /// The label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Svc => "svc",
            Self::Pod => "pod",
        }
    }
}

/// The forms that the grammar has for this zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grammar {
    /// A multicluster zone: two labels may be an endpoint and a cluster.
    pub multicluster: bool,
    /// The option `zonal`.
    pub zonal: bool,
}

/// Endpoints of one topology zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneScope<'n> {
    /// The labels of the topology zone in wire form, without a closing root.
    pub labels: &'n [u8],
    /// Whether other endpoints serve where the zone has none.
    pub prefer: bool,
}

impl ZoneScope<'_> {
    /// Whether `zone`, labels joined with dots, is this topology zone.
    pub fn is(&self, zone: &str) -> bool {
        let mut rest = zone.as_bytes();
        let mut labels = coredns_plugin::wire::Labels::new(self.labels).peekable();
        while let Some(label) = labels.next() {
            let Some((head, tail)) = rest.split_at_checked(label.len()) else { return false };
            if !fold::eq(head, label) {
                return false;
            }
            rest = tail;
            if labels.peek().is_some() {
                let Some((b'.', tail)) = rest.split_first() else { return false };
                rest = tail;
            }
        }
        rest.is_empty()
    }

    /// The topology zone as text in lower case.
    pub fn text(&self) -> String {
        let labels: Vec<String> = coredns_plugin::wire::Labels::new(self.labels).map(text).collect();
        labels.join(".")
    }
}

/// A label as text in lower case.
pub fn text(label: &[u8]) -> String {
    String::from_utf8_lossy(label).to_ascii_lowercase()
}

/// A name taken apart; absent parts are empty, and so are parts that are a lone `_`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parsed<'n> {
    /// The port's name, without one leading `_`.
    pub port: &'n [u8],
    /// The protocol, without one leading `_`.
    pub protocol: &'n [u8],
    /// The endpoint's name.
    pub endpoint: &'n [u8],
    /// The cluster of the endpoint.
    pub cluster: &'n [u8],
    /// The Service; below `pod` the Pod's label.
    pub service: &'n [u8],
    /// The namespace.
    pub namespace: &'n [u8],
    /// The subtree; `None` for the zone itself and for the nodes `svc` and `pod`.
    pub kind: Option<Kind>,
    /// The topology zone.
    pub scope: Option<ZoneScope<'n>>,
    /// `[length]service[length]namespace` as they stand in the name; empty without a service.
    pub key: &'n [u8],
    /// `[length]namespace` as it stands in the name.
    pub namespace_label: &'n [u8],
}

/// Takes `name` apart, whose zone begins at the octet `zone_at`.
///
/// # Errors
/// The labels in front of the zone follow no form of the grammar.
#[inline]
pub fn parse<'n>(name: &'n Name, zone_at: usize, grammar: Grammar) -> Result<Parsed<'n>, InvalidName> {
    let front = name.as_wire().get(..zone_at).ok_or(InvalidName)?;
    let mut starts = [0_u8; MAX_LABELS];
    let mut count = 0;
    let mut at = 0;
    while let Some(&len) = front.get(at) {
        *starts.get_mut(count).ok_or(InvalidName)? = u8::try_from(at).map_err(|_| InvalidName)?;
        count += 1;
        at += usize::from(len) + 1;
    }
    let split = Split { front, starts: starts.get(..count).unwrap_or(&[]) };
    let mut parsed = Parsed::default();
    let Some(kind) = split.label(0) else { return Ok(parsed) };
    let kind = match kind {
        label if fold::eq(label, b"svc") => Kind::Svc,
        label if fold::eq(label, b"pod") => Kind::Pod,
        _ => return Err(InvalidName),
    };
    let Some(namespace) = split.label(1) else { return Ok(parsed) };
    parsed.kind = Some(kind);
    parsed.namespace = namespace;
    parsed.namespace_label = split.octets(1, 1);
    let Some(service) = split.label(2) else { return Ok(parsed) };
    parsed.service = service;
    parsed.key = split.octets(2, 1);
    match (split.label(4), split.label(3)) {
        (_, None) => {}
        (None, Some(endpoint)) => parsed.endpoint = endpoint,
        (Some(left), Some(right)) if count == 5 => {
            if grammar.multicluster && left.first() != Some(&b'_') && right.first() != Some(&b'_') {
                (parsed.endpoint, parsed.cluster) = (left, right);
            } else {
                (parsed.port, parsed.protocol) = (without_underscore(left), without_underscore(right));
            }
        }
        (Some(directive), Some(marker)) => {
            let allowed = grammar.zonal && !grammar.multicluster && kind == Kind::Svc;
            if !allowed || !fold::eq(marker, b"_zone") {
                return Err(InvalidName);
            }
            let prefer = match directive {
                label if fold::eq(label, b"pin") => false,
                label if fold::eq(label, b"prefer") => true,
                _ => return Err(InvalidName),
            };
            parsed.scope = Some(ZoneScope { labels: split.octets(count - 1, 5), prefer });
        }
    }
    Ok(parsed)
}

/// The octets in front of a zone and where their labels begin.
struct Split<'n, 's> {
    front: &'n [u8],
    starts: &'s [u8],
}

impl<'n> Split<'n, '_> {
    fn start(&self, from_right: usize) -> Option<usize> {
        let at = self.starts.len().checked_sub(from_right + 1)?;
        self.starts.get(at).map(|start| usize::from(*start))
    }

    /// A label, counted from 0 at the zone.
    fn label(&self, index: usize) -> Option<&'n [u8]> {
        let start = self.start(index)?;
        let len = usize::from(*self.front.get(start)?);
        self.front.get(start + 1..start + 1 + len)
    }

    /// The octets of the labels from `left` to `right`, lengths included.
    fn octets(&self, left: usize, right: usize) -> &'n [u8] {
        let end = right.checked_sub(1).and_then(|next| self.start(next)).unwrap_or(self.front.len());
        self.start(left).and_then(|start| self.front.get(start..end)).unwrap_or(&[])
    }
}

fn without_underscore(label: &[u8]) -> &[u8] {
    label.strip_prefix(b"_").unwrap_or(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, grammar: Grammar, expected: Result<[&str; 6], InvalidName>) {
        let name: Name = text.parse().expect("a name");
        let zone: Name = "Cluster.local".parse().expect("a name");
        let parsed = parse(&name, name.offset_of(&zone).expect("inside"), grammar);
        let parts = parsed.map(|parsed| {
            [parsed.port, parsed.protocol, parsed.endpoint, parsed.cluster, parsed.service, parsed.namespace]
                .map(|label| String::from_utf8_lossy(label).into_owned())
        });
        assert_eq!(parts, expected.map(|parts| parts.map(str::to_owned)), "{text}");
    }

    #[test]
    fn forms() {
        let plain = Grammar::default();
        check("cluster.local", plain, Ok(["", "", "", "", "", ""]));
        check("SVC.cluster.local", plain, Ok(["", "", "", "", "", ""]));
        check("n.svc.cluster.local", plain, Ok(["", "", "", "", "", "n"]));
        check("s.n.svc.cluster.local", plain, Ok(["", "", "", "", "s", "n"]));
        check("e.s.n.Svc.cluster.local", plain, Ok(["", "", "e", "", "s", "n"]));
        check("_p._t.s.n.svc.cluster.local", plain, Ok(["p", "t", "", "", "s", "n"]));
        check("__p.t.s.n.svc.cluster.local", plain, Ok(["_p", "t", "", "", "s", "n"]));
        check("_._.s.n.svc.cluster.local", plain, Ok(["", "", "", "", "s", "n"]));
        check("a.b.c.s.n.svc.cluster.local", plain, Err(InvalidName));
        check("x.cluster.local", plain, Err(InvalidName));
        let multi = Grammar { multicluster: true, zonal: false };
        check("e.c.s.n.svc.cluster.local", multi, Ok(["", "", "e", "c", "s", "n"]));
    }

    #[test]
    fn the_key_is_the_pair_in_the_name() {
        let name: Name = "e.sv.nsp.svc.cluster.local".parse().expect("a name");
        let parsed = parse(&name, name.len() - 15, Grammar::default()).expect("valid");
        assert_eq!(parsed.key, b"\x02sv\x03nsp");
        assert_eq!(parsed.namespace_label, b"\x03nsp");
    }

    #[test]
    fn topology_zones_may_hold_dots() {
        let name: Name = "Corp.example.PIN._zone.s.n.svc.cluster.local".parse().expect("a name");
        let parsed = parse(&name, name.len() - 15, Grammar { multicluster: false, zonal: true }).expect("valid");
        let scope = parsed.scope.expect("a scope");
        assert!(!scope.prefer && scope.is("corp.example") && !scope.is("corp") && !scope.is("corp.example.x"));
        assert_eq!(scope.text(), "corp.example");
    }

    #[test]
    fn the_longest_names_are_read() {
        let name: Name = "a.".repeat(127).parse().expect("a name");
        assert_eq!(parse(&name, name.len() - 1, Grammar::default()), Err(InvalidName));
    }
}
