//! Addresses that cannot be served together.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::keys::ZoneAddress;

/// A zone served on a port of one host, or of all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listening {
    /// Scheme, zone and port.
    pub address: ZoneAddress,
    /// The host as text that is compared as it is; empty where none was bound.
    pub host: String,
}

impl fmt::Display for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if self.host.is_empty() { Ok(()) } else { write!(f, " on {}", self.host) }
    }
}

/// A claim to queries that are claimed already; `Display` is CoreDNS's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Place in the sequence of the item that cannot be served, from 0.
    pub index: usize,
    /// What cannot be served.
    pub new: Listening,
    /// What it overlaps with: all hosts with one of them or the reverse. `None` if the very same is defined already.
    pub overlap: Option<Listening>,
}

impl Conflict {
    /// How to mend it.
    pub fn remedy(&self) -> &'static str {
        match self.overlap {
            None => "remove one of the two blocks, or give one another zone, port or address",
            Some(_) => "bind both blocks to addresses, or neither",
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.overlap {
            None => write!(f, "cannot serve {} - it is already defined", self.new),
            Some(existing) => {
                write!(f, "cannot serve {} - zone overlap listener capacity with {existing}", self.new)
            }
        }
    }
}

impl std::error::Error for Conflict {}

/// Finds the conflicts in a sequence in the order of the text, each item with whether its block filters queries (has
/// a view); the first is the one that CoreDNS reports.
///
/// A block that filters conflicts only by overlap and stands in nobody's way.
pub fn find_conflicts(sequence: impl IntoIterator<Item = (Listening, bool)>) -> Vec<Conflict> {
    let mut registered: HashMap<ZoneAddress, Registered> = HashMap::new();
    let mut conflicts = Vec::new();
    for (index, (new, has_filter)) in sequence.into_iter().enumerate() {
        let existing = registered.get(&new.address);
        if existing.is_some_and(|existing| existing.hosts.contains(&new.host)) {
            if !has_filter {
                conflicts.push(Conflict { index, new, overlap: None });
            }
            continue;
        }
        if let Some(host) = existing.and_then(|existing| existing.overlapping(&new.host)) {
            let overlap = Some(Listening { address: new.address.clone(), host: host.to_owned() });
            conflicts.push(Conflict { index, new, overlap });
        } else if !has_filter {
            let entry = registered.entry(new.address).or_default();
            entry.latest.clone_from(&new.host);
            entry.hosts.insert(new.host);
        }
    }
    conflicts
}

/// The hosts on which one address is served.
#[derive(Default)]
struct Registered {
    hosts: HashSet<String>,
    latest: String,
}

impl Registered {
    /// The host that gets in the way of another: the one bound last for none, none for one.
    fn overlapping(&self, host: &str) -> Option<&str> {
        if host.is_empty() {
            return Some(&self.latest);
        }
        self.hosts.contains("").then_some("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone_addresses;

    /// Each item is `KEY`, `KEY on HOST`, and `view` behind it for one that filters.
    fn check(items: &[&str]) -> Vec<(usize, String)> {
        let sequence = items.iter().map(|item| {
            let has_filter = item.ends_with(" view");
            let item = item.trim_end_matches(" view");
            let (key, host) = item.split_once(" on ").unwrap_or((item, ""));
            let addresses = zone_addresses(key, "53").expect("a key");
            let address = addresses.into_iter().next().expect("one zone");
            (Listening { address, host: host.to_owned() }, has_filter)
        });
        find_conflicts(sequence).iter().map(|conflict| (conflict.index, conflict.to_string())).collect()
    }

    #[test]
    fn sequences() {
        let cases: &[(&[&str], Option<&str>)] = &[
            (&[], None),
            (&[".:53", ".:53"], Some("cannot serve dns://.:53 - it is already defined")),
            (
                &[".:53", ".:53 on 127.0.0.1"],
                Some("cannot serve dns://.:53 on 127.0.0.1 - zone overlap listener capacity with dns://.:53"),
            ),
            (
                &[".:53 on 127.0.0.1", ".:53 on 128.0.0.1", ".:53 on 129.0.0.1", ".:53"],
                Some("cannot serve dns://.:53 - zone overlap listener capacity with dns://.:53 on 129.0.0.1"),
            ),
            (
                &[".:53 on 127.0.0.1", ".:54", ".:53 on 127.0.0.1"],
                Some("cannot serve dns://.:53 on 127.0.0.1 - it is already defined"),
            ),
            (
                &[".:53 on 127.0.0.1", "com.:53 on 127.0.0.1", "com.:53"],
                Some("cannot serve dns://com.:53 - zone overlap listener capacity with dns://com.:53 on 127.0.0.1"),
            ),
            (&[".:53", ".:54", "com:53", "tls://.:53", "grpc://.:53"], None),
            (&[".:53 on 127.0.0.1", ".:53 on ::1", ".:53 on 127.0.0.2"], None),
            (&[".:53 on 127.0.0.1", ".:53 on 127.0.0.01"], None),
            (&[".:53 view", ".:53 view", ".:53"], None),
            (&[".:53", ".:53 view", ".:53 view"], None),
            (
                &[".:53", ".:53 on 127.0.0.1 view"],
                Some("cannot serve dns://.:53 on 127.0.0.1 - zone overlap listener capacity with dns://.:53"),
            ),
            (
                &[".:53 on 127.0.0.1", ".:53 view"],
                Some("cannot serve dns://.:53 - zone overlap listener capacity with dns://.:53 on 127.0.0.1"),
            ),
            (&[".:53 on 127.0.0.1 view", ".:53"], None),
        ];
        for (items, expected) in cases {
            let last = items.len().saturating_sub(1);
            let expected: Vec<_> = expected.iter().map(|text| (last, (*text).to_owned())).collect();
            assert_eq!(check(items), expected, "{items:?}");
        }
    }

    #[test]
    fn all_are_found() {
        assert_eq!(
            check(&[".", ". on 127.0.0.1", "a", ".", "b"]),
            [
                (1, "cannot serve dns://.:53 on 127.0.0.1 - zone overlap listener capacity with dns://.:53".to_owned()),
                (3, "cannot serve dns://.:53 - it is already defined".to_owned()),
            ]
        );
    }
}
