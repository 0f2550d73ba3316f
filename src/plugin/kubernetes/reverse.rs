//! Names of addresses (RFC 1035 §3.5, RFC 3596 §2.5).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use coredns_plugin::wire::{Name, fold};

const V4: &[u8] = b"\x07in-addr\x04arpa\0";
const V6: &[u8] = b"\x03ip6\x04arpa\0";
/// Labels of a whole address.
const V4_LABELS: usize = 4;
const V6_LABELS: usize = 32;

/// What a name says about addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reverse {
    /// It is the name of an address.
    Address(IpAddr),
    /// It is the name of a range: names of addresses lie below it.
    Range,
    /// It is neither.
    Neither,
}

/// Whether a zone holds names of addresses.
pub(super) fn is_reverse_zone(zone: &Name) -> bool {
    rest_of(zone, V4).or_else(|| rest_of(zone, V6)).is_some()
}

/// The octets in front of `tail`, which ends with the root.
fn rest_of<'n>(name: &'n Name, tail: &[u8]) -> Option<&'n [u8]> {
    let wire = name.as_wire();
    let at = wire.len().checked_sub(tail.len())?;
    let (rest, end) = wire.split_at_checked(at)?;
    // A label may end in the octets of the tail; then the labels in front do not end where it begins.
    let is_boundary = || {
        let walked: usize = coredns_plugin::wire::Labels::new(rest).map(|label| label.len() + 1).sum();
        walked == rest.len()
    };
    (fold::eq(end, tail) && is_boundary()).then_some(rest)
}

/// Reads a name of an address.
pub(super) fn read(name: &Name) -> Reverse {
    if let Some(rest) = rest_of(name, V4) {
        return read_v4(rest);
    }
    rest_of(name, V6).map_or(Reverse::Neither, read_v6)
}

fn read_v4(rest: &[u8]) -> Reverse {
    let mut octets = [0_u8; V4_LABELS];
    let mut count = 0;
    for label in coredns_plugin::wire::Labels::new(rest) {
        let is_number = !label.is_empty() && label.iter().all(u8::is_ascii_digit);
        let is_plain = label.len() == 1 || label.first() != Some(&b'0');
        let value = std::str::from_utf8(label).ok().and_then(|text| text.parse::<u8>().ok());
        let (true, true, Some(value), Some(slot)) = (is_number, is_plain, value, octets.get_mut(count)) else {
            return Reverse::Neither;
        };
        *slot = value;
        count += 1;
    }
    if count < V4_LABELS {
        return Reverse::Range;
    }
    octets.reverse();
    Reverse::Address(Ipv4Addr::from(octets).into())
}

fn read_v6(rest: &[u8]) -> Reverse {
    let mut bits = 0_u128;
    let mut count = 0_u32;
    for label in coredns_plugin::wire::Labels::new(rest) {
        let digit = match label {
            [digit] => char::from(*digit).to_digit(16),
            _ => None,
        };
        let Some(digit) = digit.filter(|_| (count as usize) < V6_LABELS) else { return Reverse::Neither };
        bits |= u128::from(digit) << (4 * count);
        count += 1;
    }
    if (count as usize) < V6_LABELS {
        return Reverse::Range;
    }
    Reverse::Address(IpAddr::V6(Ipv6Addr::from_bits(bits)).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    #[test]
    fn addresses_ranges_and_others() {
        let nibbles = format!("1.{}8.b.d.0.1.0.0.2.ip6.arpa", "0.".repeat(23));
        for (text, expected) in [
            ("4.3.2.10.in-addr.arpa", Reverse::Address(IpAddr::from([10, 2, 3, 4]))),
            ("4.3.2.10.IN-ADDR.arpa", Reverse::Address(IpAddr::from([10, 2, 3, 4]))),
            (nibbles.as_str(), Reverse::Address("2001:db8::1".parse().expect("an address"))),
            ("2.10.in-addr.arpa", Reverse::Range),
            ("in-addr.arpa", Reverse::Range),
            ("8.b.d.0.ip6.arpa", Reverse::Range),
            ("5.4.3.2.10.in-addr.arpa", Reverse::Neither),
            ("04.3.2.10.in-addr.arpa", Reverse::Neither),
            ("256.3.2.10.in-addr.arpa", Reverse::Neither),
            ("+4.3.2.10.in-addr.arpa", Reverse::Neither),
            ("gg.ip6.arpa", Reverse::Neither),
            ("4.3.2.10.cluster.local", Reverse::Neither),
            (r"x\007in-addr.arpa", Reverse::Neither),
        ] {
            assert_eq!(read(&name(text)), expected, "{text}");
        }
    }

    #[test]
    fn reverse_zones() {
        for (text, expected) in
            [("in-addr.arpa", true), ("10.in-addr.arpa", true), ("IP6.arpa", true), ("arpa", false), (".", false)]
        {
            assert_eq!(is_reverse_zone(&name(text)), expected, "{text}");
        }
    }
}
