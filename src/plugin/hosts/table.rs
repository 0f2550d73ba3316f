//! Names and addresses of a hosts file, compact and quick to look up.
//!
//! Budget of a look-up: one hash of the name as it stands in the query, one probe of an open table, one comparison; no
//! allocation. Memory: the name in wire form once, 24 octets an entry, 4 to 8 octets of table, 8 octets an IPv4
//! address; lists with millions of lines are in use as block lists.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use coredns_plugin::Zones;
use coredns_plugin::wire::{Name, fold};

/// Ends a list, and stands for an empty one.
const NONE: u32 = u32::MAX;
/// The most names, addresses or octets of names that a table holds; further ones are left out.
const ITEMS_MAX: usize = u32::MAX as usize - 1;

/// The key of all hashes, so that nobody can aim collisions at a table.
static SEED: LazyLock<u64> = LazyLock::new(rand::random);

/// What one hosts file, or the inline entries of a directive, say.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Names in lower-case wire form, one behind the other.
    octets: Vec<u8>,
    names: Index,
    /// By the name below which any one label is meant.
    wildcards: Index,
    v4: Vec<Link<Ipv4Addr>>,
    v6: Vec<Link<Ipv6Addr>>,
    reverse: HashMap<IpAddr, List, foldhash::fast::RandomState>,
    reverse_names: Vec<Link<Span>>,
}

/// Part of [`Table::octets`].
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    len: u8,
}

impl Span {
    fn of(self, octets: &[u8]) -> &[u8] {
        let start = self.start as usize;
        octets.get(start..start + usize::from(self.len)).unwrap_or_default()
    }
}

/// An element of a list that keeps the order of the file.
#[derive(Clone, Copy, Debug)]
struct Link<T> {
    value: T,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: Self = Self { first: NONE, last: NONE };

    fn push<T>(&mut self, links: &mut Vec<Link<T>>, value: T) {
        if links.len() >= ITEMS_MAX {
            return;
        }
        let at = links.len() as u32;
        links.push(Link { value, next: NONE });
        match links.get_mut(self.last as usize) {
            Some(last) if self.last != NONE => last.next = at,
            _ => self.first = at,
        }
        self.last = at;
    }

    fn iter<T: Copy>(self, links: &[Link<T>]) -> impl Iterator<Item = T> + use<'_, T> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let link = links.get(at as usize)?;
            at = link.next;
            Some(link.value)
        })
    }
}

/// The addresses of a name.
#[derive(Clone, Copy, Debug)]
struct Entry {
    name: Span,
    v4: List,
    v6: List,
}

/// Entries by name: an open table of numbers of entries, at most half full.
#[derive(Debug, Default)]
struct Index {
    entries: Vec<Entry>,
    /// A power of two in length; 0 is free, else the number of the entry plus one.
    slots: Vec<u32>,
}

impl Index {
    fn find(&self, octets: &[u8], name: &[u8]) -> Option<&Entry> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = fold::hash(*SEED, name) as usize & mask;
        loop {
            let number = *self.slots.get(slot)?;
            let entry = self.entries.get((number as usize).checked_sub(1)?)?;
            if fold::eq(entry.name.of(octets), name) {
                return Some(entry);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn entry(&mut self, octets: &mut Vec<u8>, name: &[u8]) -> Option<&mut Entry> {
        if self.entries.len() * 2 >= self.slots.len() {
            self.grow(octets);
        }
        let slot = self.slot_of(octets, name)?;
        let number = *self.slots.get(slot)?;
        if number != 0 {
            return self.entries.get_mut(number as usize - 1);
        }
        if octets.len() + name.len() > ITEMS_MAX {
            return None;
        }
        let span = Span { start: octets.len() as u32, len: name.len() as u8 };
        octets.extend(name.iter().map(u8::to_ascii_lowercase));
        self.entries.push(Entry { name: span, v4: List::EMPTY, v6: List::EMPTY });
        *self.slots.get_mut(slot)? = self.entries.len() as u32;
        self.entries.last_mut()
    }

    /// The slot that holds the name, or the free one where it belongs.
    fn slot_of(&self, octets: &[u8], name: &[u8]) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = fold::hash(*SEED, name) as usize & mask;
        loop {
            let number = *self.slots.get(slot)? as usize;
            let taken = number.checked_sub(1).and_then(|at| self.entries.get(at));
            if taken.is_none_or(|entry| fold::eq(entry.name.of(octets), name)) {
                return Some(slot);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn grow(&mut self, octets: &[u8]) {
        let size = (self.slots.len() * 2).max(16);
        self.slots = vec![0; size];
        for (number, entry) in (1..).zip(&self.entries) {
            let mut slot = fold::hash(*SEED, entry.name.of(octets)) as usize & (size - 1);
            while self.slots.get(slot).is_some_and(|taken| *taken != 0) {
                slot = (slot + 1) & (size - 1);
            }
            if let Some(free) = self.slots.get_mut(slot) {
                *free = number;
            }
        }
    }
}

impl Table {
    /// Reads the text of a hosts file; names outside `zones` are left out, `reverse` says whether addresses lead to
    /// names. Lines that are no entries are passed over, whatever their length.
    pub(super) fn parse(text: &[u8], zones: &Zones, reverse: bool) -> Self {
        let mut table = Self::default();
        for line in text.split(|octet| *octet == b'\n') {
            table.add_line(line, zones, reverse);
        }
        table
    }

    /// Adds one line: an address, then names; what follows a `#` is a comment.
    pub(super) fn add_line(&mut self, line: &[u8], zones: &Zones, reverse: bool) {
        let text = line.split(|octet| *octet == b'#').next().unwrap_or_default();
        let is_blank = |octet: &u8| octet.is_ascii_whitespace() || *octet == 0x0b;
        let mut words = text.split(is_blank).filter(|word| !word.is_empty());
        let Some(address) = words.next().and_then(|word| parse_address(std::str::from_utf8(word).ok()?)) else {
            return;
        };
        for word in words {
            let name = std::str::from_utf8(word).ok().and_then(|word| word.parse::<Name>().ok());
            if let Some(name) = name.filter(|name| zones.matching(name).is_some()) {
                self.add(&name, address, reverse);
            }
        }
    }

    fn add(&mut self, name: &Name, address: IpAddr, reverse: bool) {
        let wire = name.as_wire();
        let below = wildcard_parent(wire);
        let entry = match below {
            Some(parent) => self.wildcards.entry(&mut self.octets, parent),
            None => self.names.entry(&mut self.octets, wire),
        };
        let Some(entry) = entry else { return };
        match address {
            IpAddr::V4(v4) => entry.v4.push(&mut self.v4, v4),
            IpAddr::V6(v6) => entry.v6.push(&mut self.v6, v6),
        }
        if reverse && below.is_none() {
            let span = entry.name;
            let list = self.reverse.entry(address).or_insert(List::EMPTY);
            list.push(&mut self.reverse_names, span);
        }
    }

    /// How many values are stored: addresses of names, and names of addresses.
    pub(super) fn len(&self) -> usize {
        self.v4.len() + self.v6.len() + self.reverse_names.len()
    }

    /// The IPv4 addresses of a name in wire form: its own, else those of the wildcard above it.
    pub(super) fn ipv4(&self, name: &[u8]) -> impl Iterator<Item = Ipv4Addr> {
        self.list(name, |entry| entry.v4).iter(&self.v4)
    }

    /// The IPv6 addresses of a name in wire form: its own, else those of the wildcard above it.
    pub(super) fn ipv6(&self, name: &[u8]) -> impl Iterator<Item = Ipv6Addr> {
        self.list(name, |entry| entry.v6).iter(&self.v6)
    }

    /// The names of an address in wire form.
    pub(super) fn names(&self, address: IpAddr) -> impl Iterator<Item = &[u8]> {
        let list = self.reverse.get(&address).copied().unwrap_or(List::EMPTY);
        list.iter(&self.reverse_names).map(|span| span.of(&self.octets))
    }

    /// Each family by itself: a name with an IPv4 address of its own has the wildcard's IPv6 addresses.
    fn list(&self, name: &[u8], family: impl Fn(&Entry) -> List) -> List {
        let own = self.names.find(&self.octets, name).map(&family);
        if let Some(list) = own.filter(|list| list.first != NONE) {
            return list;
        }
        let wildcard = parent(name).and_then(|parent| self.wildcards.find(&self.octets, parent));
        wildcard.map_or(List::EMPTY, family)
    }
}

/// A name in wire form without its first label; the root has no parent.
fn parent(wire: &[u8]) -> Option<&[u8]> {
    let len = usize::from(*wire.first()?);
    wire.get(len + 1..).filter(|rest| !rest.is_empty())
}

/// What stands below the `*` of a wildcard; a lone `*` is a name like any other.
fn wildcard_parent(wire: &[u8]) -> Option<&[u8]> {
    wire.strip_prefix(b"\x01*").filter(|rest| rest.len() > 1)
}

/// Reads an address; the zone of an IPv6 address is cut off, and IPv4 in IPv6 notation is IPv4.
pub(super) fn parse_address(text: &str) -> Option<IpAddr> {
    let text = match text.split_once('%') {
        Some((address, _)) if address.contains(':') => address,
        _ => text,
    };
    text.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Zones {
        Zones::new(vec![Name::root()])
    }

    fn name(text: &str) -> Name {
        text.parse().expect("a valid name")
    }

    #[test]
    fn long_lines_do_not_stop_the_reading() {
        let mut text = b"192.0.2.1 a ".to_vec();
        text.extend_from_slice(&b"x ".repeat(50_000));
        text.extend_from_slice(b"\n192.0.2.2 b\n");
        let table = Table::parse(&text, &all(), true);
        assert_eq!(table.ipv4(name("b").as_wire()).collect::<Vec<_>>(), [Ipv4Addr::new(192, 0, 2, 2)]);
        assert_eq!(table.ipv4(name("x").as_wire()).count(), 50_000);
        assert_eq!(table.len(), 2 * 50_002);
    }

    #[test]
    fn many_names_are_all_found() {
        let text: String = (0..5000).map(|n| format!("10.0.{}.{} Host{n}.example.org\n", n / 250, n % 250)).collect();
        let table = Table::parse(text.as_bytes(), &all(), true);
        for n in 0..5000_u16 {
            let expected = Ipv4Addr::new(10, 0, (n / 250) as u8, (n % 250) as u8);
            let wire = name(&format!("hOST{n}.example.org"));
            assert_eq!(table.ipv4(wire.as_wire()).collect::<Vec<_>>(), [expected]);
            let names: Vec<&[u8]> = table.names(expected.into()).collect();
            assert_eq!(names, [wire.to_lowercase().as_wire()]);
        }
        assert_eq!(table.ipv4(name("host5000.example.org").as_wire()).count(), 0);
        assert_eq!(table.ipv6(name("host1.example.org").as_wire()).count(), 0);
    }

    #[test]
    fn families_and_wildcards_do_not_hide_each_other() {
        let text = b"192.0.2.1 a.example.org\n2001:db8::1 *.example.org\n192.0.2.9 *.example.org *\n";
        let table = Table::parse(text, &all(), true);
        let (a, b) = (name("a.example.org"), name("B.example.org"));
        assert_eq!(table.ipv4(a.as_wire()).collect::<Vec<_>>(), [Ipv4Addr::new(192, 0, 2, 1)]);
        assert_eq!(table.ipv6(a.as_wire()).count(), 1);
        assert_eq!(table.ipv4(b.as_wire()).collect::<Vec<_>>(), [Ipv4Addr::new(192, 0, 2, 9)]);
        assert_eq!(table.ipv4(name("*.example.org").as_wire()).count(), 1);
        assert_eq!(table.ipv4(name("example.org").as_wire()).count(), 0);
        assert_eq!(table.ipv4(Name::root().as_wire()).count(), 0);
        assert_eq!(table.names(IpAddr::from([192, 0, 2, 9])).collect::<Vec<_>>(), [b"\x01*\x00"]);
    }

    #[test]
    fn what_is_no_entry_is_passed_over() {
        let text = b"\xff\xfe\n192.0.2.1\n1.2.3 a\n192.0.2.300 a\n192.0.2.1 \xff a..b ok # c\n\t192.0.2.2\x0bok\r\n";
        let table = Table::parse(text, &all(), false);
        assert_eq!(table.ipv4(name("ok").as_wire()).count(), 2);
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("::ffff:192.0.2.1", Some("192.0.2.1")),
            ("fe80::1%lo0", Some("fe80::1")),
            ("192.0.2.1%eth0", None),
            ("010.0.0.1", None),
            ("x", None),
        ] {
            assert_eq!(parse_address(text).map(|address| address.to_string()).as_deref(), expected, "{text}");
        }
    }
}
