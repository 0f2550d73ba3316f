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

/// Two server blocks that claim the same queries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// The same zone on the same address twice.
    #[error("cannot serve {0} - it is already defined")]
    AlreadyDefined(Box<Listening>),
    /// A zone both on all hosts and on one of them.
    #[error("cannot serve {new} - zone overlap listener capacity with {existing}")]
    Overlap {
        /// What cannot be served.
        new: Box<Listening>,
        /// What was there before.
        existing: Box<Listening>,
    },
}

/// Looks for the first conflict in a sequence in the order of the text, each item with whether its block filters
/// queries (has a view).
///
/// A block that filters conflicts only by overlap and stands in nobody's way.
///
/// # Errors
/// The item that cannot be served and what it collides with.
pub fn check_conflicts(sequence: impl IntoIterator<Item = (Listening, bool)>) -> Result<(), Conflict> {
    let mut registered: HashMap<ZoneAddress, Registered> = HashMap::new();
    for (new, has_filter) in sequence {
        let existing = registered.get(&new.address);
        if existing.is_some_and(|existing| existing.hosts.contains(&new.host)) {
            if has_filter {
                continue;
            }
            return Err(Conflict::AlreadyDefined(Box::new(new)));
        }
        if let Some(host) = existing.and_then(|existing| existing.overlapping(&new.host)) {
            let existing = Box::new(Listening { address: new.address.clone(), host: host.to_owned() });
            return Err(Conflict::Overlap { new: Box::new(new), existing });
        }
        if !has_filter {
            let entry = registered.entry(new.address).or_default();
            entry.latest.clone_from(&new.host);
            entry.hosts.insert(new.host);
        }
    }
    Ok(())
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
    fn check(items: &[&str]) -> Result<(), String> {
        let sequence = items.iter().map(|item| {
            let has_filter = item.ends_with(" view");
            let item = item.trim_end_matches(" view");
            let (key, host) = item.split_once(" on ").unwrap_or((item, ""));
            let addresses = zone_addresses(key, "53").expect("a key");
            let address = addresses.into_iter().next().expect("one zone");
            (Listening { address, host: host.to_owned() }, has_filter)
        });
        check_conflicts(sequence).map_err(|conflict| conflict.to_string())
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
            assert_eq!(check(items), expected.map_or(Ok(()), |text| Err(text.to_owned())), "{items:?}");
        }
    }
}
