//! The addresses of this host.

use std::net::IpAddr;

use tracing::warn;

/// The addresses that clients may know the server by: those that it listens on, or all of the host where it listens
/// on all. Loopback addresses are left out; an address may carry a prefix length, as interfaces have it.
#[must_use]
pub fn local_addresses<'h>(listen_hosts: impl IntoIterator<Item = &'h str>) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    let mut listens_on_all = true;
    for host in listen_hosts {
        let text = host.split_once('/').map_or(host, |(address, _)| address);
        let Ok(ip) = text.parse::<IpAddr>() else { continue };
        if ip.is_unspecified() {
            continue;
        }
        listens_on_all = false;
        addresses.push(ip);
    }
    if listens_on_all {
        addresses = interface_addresses();
    }
    let mut kept: Vec<IpAddr> = Vec::with_capacity(addresses.len());
    for ip in addresses.into_iter().map(|ip| ip.to_canonical()) {
        if !ip.is_loopback() && !kept.contains(&ip) {
            kept.push(ip);
        }
    }
    kept
}

fn interface_addresses() -> Vec<IpAddr> {
    match if_addrs::get_if_addrs() {
        Ok(interfaces) => interfaces.iter().map(if_addrs::Interface::ip).collect(),
        Err(error) => {
            warn!(target: "plugin/kubernetes", "the addresses of this host cannot be read, NS records will be missing: {error}");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses_come_first() {
        for (hosts, expected) in [
            (&["192.0.2.1"][..], &["192.0.2.1"][..]),
            (&["192.0.2.1/24", "::ffff:192.0.2.1", "127.0.0.1"], &["192.0.2.1"]),
            (&["2001:db8::1", ""], &["2001:db8::1"]),
            (&["::1"], &[]),
        ] {
            let expected: Vec<IpAddr> = expected.iter().map(|text| text.parse().expect("an address")).collect();
            assert_eq!(local_addresses(hosts.iter().copied()), expected, "{hosts:?}");
        }
    }

    #[test]
    fn without_a_listen_address_the_interfaces_count() {
        let own = local_addresses([""]);
        assert_eq!(own, local_addresses(["0.0.0.0", "::"]));
        assert!(own.iter().all(|ip| !ip.is_loopback()));
    }
}
