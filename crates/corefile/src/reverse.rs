//! Address ranges as the reverse zones that cover them.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Bits that one label of a reverse zone stands for.
const IPV4_LABEL_BITS: u32 = 8;
const IPV6_LABEL_BITS: u32 = 4;

/// The reverse zones of a range in CIDR notation, lowest address first; `None` if the text is no range.
///
/// Host bits are dropped. A mask inside a label is split up to the label's end: at most 128 zones for IPv4 and 8 for
/// IPv6.
pub(crate) fn zones_of_range(text: &str) -> Option<Vec<String>> {
    let (address, bits) = text.split_once('/')?;
    if bits.is_empty() || !bits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let bits: u32 = bits.parse().ok()?;
    if let Ok(address) = address.parse::<Ipv4Addr>() {
        let range = Range { address: u128::from(u32::from(address)), width: 32, bits, label_bits: IPV4_LABEL_BITS };
        return range.zones();
    }
    let address = address.parse::<Ipv6Addr>().ok()?;
    Range { address: u128::from(address), width: 128, bits, label_bits: IPV6_LABEL_BITS }.zones()
}

/// A range of addresses of `width` bits that share the first `bits`.
struct Range {
    address: u128,
    width: u32,
    bits: u32,
    label_bits: u32,
}

impl Range {
    fn zones(&self) -> Option<Vec<String>> {
        if self.bits > self.width {
            return None;
        }
        let labels = self.bits.div_ceil(self.label_bits);
        let split_bits = labels * self.label_bits - self.bits;
        // The address as a number of `labels` labels; the split counts through the lowest bits of it.
        let prefix = self.address.checked_shr(self.width - self.bits).unwrap_or(0);
        let first = prefix.checked_shl(split_bits).unwrap_or(0);
        Some((0..1_u128 << split_bits).map(|offset| self.zone(first | offset, labels)).collect())
    }

    fn zone(&self, mut prefix: u128, labels: u32) -> String {
        let mut zone = String::new();
        for _ in 0..labels {
            let label = prefix & ((1 << self.label_bits) - 1);
            prefix >>= self.label_bits;
            let text = if self.width == 32 { label.to_string() } else { format!("{label:x}") };
            zone.push_str(&text);
            zone.push('.');
        }
        zone.push_str(if self.width == 32 { "in-addr.arpa." } else { "ip6.arpa." });
        zone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let cases: &[(&str, &[&str])] = &[
            ("10.0.0.0/8", &["10.in-addr.arpa."]),
            ("10.0.0.0/08", &["10.in-addr.arpa."]),
            ("10.0.0.0/15", &["0.10.in-addr.arpa.", "1.10.in-addr.arpa."]),
            ("192.168.1.1/23", &["0.168.192.in-addr.arpa.", "1.168.192.in-addr.arpa."]),
            ("192.0.2.1/32", &["1.2.0.192.in-addr.arpa."]),
            ("192.0.2.1/31", &["0.2.0.192.in-addr.arpa.", "1.2.0.192.in-addr.arpa."]),
            ("192.0.2.1/0", &["in-addr.arpa."]),
            ("2001:db8::/31", &["8.b.d.0.1.0.0.2.ip6.arpa.", "9.b.d.0.1.0.0.2.ip6.arpa."]),
            ("2001:DB8::1/32", &["8.b.d.0.1.0.0.2.ip6.arpa."]),
            ("2001:db8::/0", &["ip6.arpa."]),
        ];
        for (text, expected) in cases {
            assert_eq!(
                zones_of_range(text).as_deref(),
                Some(&expected.iter().map(|z| (*z).to_owned()).collect::<Vec<_>>()[..]),
                "{text}"
            );
        }
    }

    #[test]
    fn widely_split_ranges() {
        let zones = zones_of_range("10.9.3.0/18").expect("a range");
        let expected: Vec<_> = (0..64).map(|octet| format!("{octet}.9.10.in-addr.arpa.")).collect();
        assert_eq!(zones, expected);
        let zones = zones_of_range("192.168.1.0/25").expect("a range");
        let expected: Vec<_> = (0..128).map(|octet| format!("{octet}.1.168.192.in-addr.arpa.")).collect();
        assert_eq!(zones, expected);
        let zones = zones_of_range("10.129.60.0/22").expect("a range");
        let expected: Vec<_> = (60..64).map(|octet| format!("{octet}.129.10.in-addr.arpa.")).collect();
        assert_eq!(zones, expected);
        let zones = zones_of_range("2001:db8::/29").expect("a range");
        let expected: Vec<_> = "89abcdef".chars().map(|digit| format!("{digit}.b.d.0.1.0.0.2.ip6.arpa.")).collect();
        assert_eq!(zones, expected);
        let zones = zones_of_range("2001:db8::/112").expect("a range");
        assert_eq!(zones, [format!("{}8.b.d.0.1.0.0.2.ip6.arpa.", "0.".repeat(20))]);
        let zones = zones_of_range("2001:db8::1/128").expect("a range");
        assert_eq!(zones, [format!("1.{}8.b.d.0.1.0.0.2.ip6.arpa.", "0.".repeat(23))]);
    }

    #[test]
    fn no_ranges() {
        let texts = [
            "",
            "/",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/8.",
            "10.0.0/8",
            "010.0.0.0/8",
            "2001:db8::/129",
            "2001:db8::%eth0/64",
            "example.org/8",
            "10.0.0.0/99999999999",
        ];
        for text in texts {
            assert_eq!(zones_of_range(text), None, "{text}");
        }
    }
}
