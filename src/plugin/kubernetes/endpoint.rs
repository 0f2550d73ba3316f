//! Names of endpoints and addresses of Pods, as labels.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;
use coredns_plugin::wire::{MAX_LABEL, fold};

use super::object::{Address, Endpoint};

/// A label on the stack.
pub type Label = ArrayVec<u8, MAX_LABEL>;

/// The name of an endpoint: its host name; with `pod_names` the name of its Pod; else its address with dashes.
///
/// `None` where there is nothing that can be a label.
pub fn endpoint_label(endpoint: &Endpoint, pod_names: bool) -> Option<Label> {
    if let Some(name) = given_name(endpoint, pod_names) {
        return Label::try_from(name.as_bytes()).ok();
    }
    match &endpoint.address {
        Address::V4(ip) => Some(dashed(IpAddr::V4(*ip))),
        Address::V6(ip) => Some(dashed(IpAddr::V6(*ip))),
        Address::Text(text) => {
            let octets = text.bytes().map(|octet| if octet == b'.' { b'-' } else { octet });
            let label: Label = octets.take(MAX_LABEL).collect();
            (!label.is_empty() && label.len() == text.len()).then_some(label)
        }
    }
}

/// A name that does not come from the address.
pub fn given_name(endpoint: &Endpoint, pod_names: bool) -> Option<&str> {
    let target = || endpoint.target_name.as_deref().filter(|name| pod_names && !name.is_empty());
    endpoint.hostname.as_deref().filter(|name| !name.is_empty()).or_else(target)
}

/// Whether `label` is the name of the endpoint; `ip` is what [`dashed_address`] makes of the label.
pub fn is_named(endpoint: &Endpoint, label: &[u8], ip: Option<IpAddr>, pod_names: bool) -> bool {
    match given_name(endpoint, pod_names) {
        Some(name) => fold::eq(name.as_bytes(), label),
        None if matches!(endpoint.address, Address::Text(_)) => {
            endpoint_label(endpoint, pod_names).is_some_and(|own| fold::eq(&own, label))
        }
        None => ip.is_some() && endpoint.address.ip() == ip,
    }
}

/// An address as a label: `.` and `:` become `-`, and an IPv6 address that would end in `-` gets a `0`.
pub fn dashed(ip: IpAddr) -> Label {
    let mut text = arrayvec::ArrayString::<MAX_LABEL>::new();
    // An address has 45 characters at most.
    let _ = write!(text, "{ip}");
    let mut label: Label = text.bytes().map(|octet| if matches!(octet, b'.' | b':') { b'-' } else { octet }).collect();
    if label.last() == Some(&b'-') {
        let _ = label.try_push(b'0');
    }
    label
}

/// The address whose [`dashed`] form is `label`, in any case.
pub fn dashed_address(label: &[u8]) -> Option<IpAddr> {
    let ip = label_address(label)?;
    fold::eq(&dashed(ip), label).then_some(ip)
}

/// The text that a Pod's label stands for: IPv4 with exactly three dashes and none doubled, else IPv6.
pub fn label_text(label: &[u8]) -> Option<arrayvec::ArrayString<MAX_LABEL>> {
    let dashes = label.iter().filter(|octet| **octet == b'-').count();
    let is_v4 = dashes == 3 && !label.windows(2).any(|pair| pair == b"--");
    let mut text = arrayvec::ArrayString::new();
    for octet in label {
        let character = match octet {
            b'-' if is_v4 => '.',
            b'-' => ':',
            octet if octet.is_ascii() => char::from(octet.to_ascii_lowercase()),
            _ => return None,
        };
        text.try_push(character).ok()?;
    }
    Some(text)
}

/// The address that a Pod's label stands for.
pub fn label_address(label: &[u8]) -> Option<IpAddr> {
    let text = label_text(label)?;
    if text.contains('.') {
        return text.parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    }
    text.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_labels_and_back() {
        for (address, label) in [
            ("10.11.12.13", "10-11-12-13"),
            ("2001:db8::1", "2001-db8--1"),
            ("::1", "--1"),
            ("1:2:3:4:5:6::", "1-2-3-4-5-6--0"),
        ] {
            let ip: IpAddr = address.parse().expect("an address");
            assert_eq!(&*dashed(ip), label.as_bytes());
            assert_eq!(dashed_address(label.as_bytes()), Some(ip), "{label}");
        }
        assert_eq!(dashed_address(b"2001-DB8--1"), "2001:db8::1".parse().ok());
        // Spelt otherwise than an endpoint's name would be.
        assert_eq!(dashed_address(b"2001-db8-0--1"), None);
        assert_eq!(dashed_address(b"010-0-0-1"), None);
    }
}
