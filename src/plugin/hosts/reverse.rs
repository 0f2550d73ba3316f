//! Names below `in-addr.arpa` and `ip6.arpa` as addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use coredns_plugin::wire::Name;

/// The address that a full reverse name stands for (RFC 1035 §3.5, RFC 3596 §2.5).
pub(super) fn address_of(name: &Name) -> Option<IpAddr> {
    match name.label_count() {
        6 => ipv4_of(name),
        34 => ipv6_of(name),
        _ => None,
    }
}

fn has_suffix(name: &Name, skip: usize, suffix: [&str; 2]) -> bool {
    name.labels().skip(skip).zip(suffix).all(|(label, word)| label.eq_ignore_ascii_case(word.as_bytes()))
}

fn ipv4_of(name: &Name) -> Option<IpAddr> {
    if !has_suffix(name, 4, ["in-addr", "arpa"]) {
        return None;
    }
    let mut octets = [0; 4];
    for (octet, label) in octets.iter_mut().rev().zip(name.labels()) {
        // As in addresses written down: no leading zeros.
        if label.len() > 1 && label.first() == Some(&b'0') || !label.iter().all(u8::is_ascii_digit) {
            return None;
        }
        *octet = std::str::from_utf8(label).ok()?.parse().ok()?;
    }
    Some(Ipv4Addr::from(octets).into())
}

fn ipv6_of(name: &Name) -> Option<IpAddr> {
    if !has_suffix(name, 32, ["ip6", "arpa"]) {
        return None;
    }
    let mut bits: u128 = 0;
    for (position, label) in name.labels().take(32).enumerate() {
        let &[digit] = label else { return None };
        bits |= u128::from(char::from(digit).to_digit(16)?) << (4 * position);
    }
    Some(Ipv6Addr::from_bits(bits).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_names_only() {
        let v6 = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.D.0.1.0.0.2.ip6.ARPA";
        let mapped = "1.0.2.0.0.0.0.c.f.f.f.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa";
        for (name, expected) in [
            ("1.2.0.192.In-Addr.Arpa", Some("192.0.2.1")),
            ("2.0.192.in-addr.arpa", None),
            ("0.1.2.0.192.in-addr.arpa", None),
            ("01.2.0.192.in-addr.arpa", None),
            ("256.2.0.192.in-addr.arpa", None),
            ("+1.2.0.192.in-addr.arpa", None),
            ("1.2.0.192.in-addr.example", None),
            (v6, Some("2001:db8::1")),
            (mapped, Some("192.0.2.1")),
            (&v6[2..], None),
            (&v6.replace("D.0", "D.g"), None),
            ("example.org", None),
        ] {
            let name: Name = name.parse().expect("a valid name");
            assert_eq!(address_of(&name).map(|address| address.to_string()).as_deref(), expected, "{name}");
        }
    }
}
