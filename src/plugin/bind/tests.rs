use std::net::IpAddr;

use coredns_plugin::corefile::{Dispenser, Source, tokenize};
use coredns_testkit::{set_up, set_up_examples};

use super::DESCRIPTOR;
use super::interfaces::Interfaces;
use super::setup::read;
use crate::registry::DIRECTIVES;

fn interfaces() -> Interfaces {
    let address = |(name, address): (&str, &str)| (name.to_owned(), address.parse::<IpAddr>().expect("an address"));
    let addresses = [
        ("lo", "127.0.0.1"),
        ("eth0", "192.0.2.7"),
        ("lo", "::1"),
        ("eth0", "2001:db8::7"),
        ("eth0", "fe80::7"),
        ("eth0", "ff02::7"),
        ("nodelocaldns", "169.254.20.10"),
    ];
    Interfaces::new(addresses.map(address))
}

fn hosts(stanza: &str) -> Result<Vec<String>, String> {
    let tokens = tokenize(&Source::new("Corefile", stanza)).expect("small text");
    read(&mut Dispenser::new(&tokens), &interfaces()).map_err(|error| error.to_string())
}

#[test]
fn addresses_and_interfaces() {
    let cases: &[(&str, &[&str])] = &[
        ("bind 1.2.3.4 ::5", &["1.2.3.4", "::5"]),
        ("bind 1.2.3.4 lo", &["1.2.3.4", "127.0.0.1", "::1"]),
        ("bind eth0", &["192.0.2.7", "2001:db8::7", "fe80::7%eth0", "ff02::7%eth0"]),
        ("bind nodelocaldns", &["169.254.20.10"]),
        ("bind 0:0::5", &["0:0::5"]),
        ("bind lo\nbind lo ::5", &["127.0.0.1", "::1", "127.0.0.1", "::1", "::5"]),
        ("bind lo {\nexcept 127.0.0.1\n}", &["::1"]),
        ("bind lo eth0 {\nexcept lo\n}", &["192.0.2.7", "2001:db8::7", "fe80::7%eth0", "ff02::7%eth0"]),
        ("bind lo {\nexcept 127.0.0.1\nexcept 192.0.2.9\n}", &["::1"]),
        ("bind lo {\nexcept ::1\n}\nbind ::1 192.0.2.1", &["127.0.0.1", "::1", "192.0.2.1"]),
        // Textual comparison.
        ("bind 0:0::5 {\nexcept ::5\n}", &["0:0::5"]),
        ("bind 127.0.0.1 {\nexcept 127.0.0.1\n}", &[]),
    ];
    for (stanza, expected) in cases {
        assert_eq!(hosts(stanza).expect(stanza), *expected, "{stanza}");
    }
}

#[test]
fn errors() {
    for (stanza, error) in [
        ("bind", "at least one address or interface name is expected"),
        ("bind {\nexcept lo\n}", "at least one address or interface name is expected"),
        ("bind lo\nbind", "at least one address or interface name is expected"),
        ("bind lo {\nexcept\n}", "at least one address or interface must be given to except subdirective"),
        ("bind lo {\nunless lo\n}", "invalid option \"unless\""),
        ("bind 1.2.3.invalid", "not a valid IP address or interface name: \"1.2.3.invalid\""),
        ("bind lo noone", "not a valid IP address or interface name: \"noone\""),
        ("bind localhost", "not a valid IP address or interface name: \"localhost\""),
        ("bind fe80::7%eth0", "not a valid IP address or interface name: \"fe80::7%eth0\""),
        ("bind lo {\nexcept wlan0\n}", "not a valid IP address or interface name: \"wlan0\""),
    ] {
        assert_eq!(hosts(stanza).expect_err(stanza), error, "{stanza}");
    }
    let refused = set_up(&[&DESCRIPTOR], "bind").expect_err("refused");
    assert_eq!(refused.to_string(), "plugin/bind: at least one address or interface name is expected");
    assert_eq!(refused.line(), 3);
}

#[test]
fn hosts_of_the_block() {
    let block = set_up(&[&DESCRIPTOR], "bind 127.0.0.1 192.0.2.1").expect("valid");
    assert_eq!(block.listen_hosts.as_deref(), Some(&["127.0.0.1".to_owned(), "192.0.2.1".to_owned()][..]));
    assert!(block.plugins.is_empty(), "it is no handler");
    assert_eq!(set_up(&[&DESCRIPTOR], "").expect("valid").listen_hosts, None);

    let nothing = set_up(&[&DESCRIPTOR], "bind 127.0.0.1 {\nexcept 127.0.0.1\n}").expect("valid");
    assert_eq!(nothing.listen_hosts, Some(Vec::new()));
    assert_eq!(nothing.warnings.len(), 1);
}

#[test]
fn the_loopback_interface_of_this_host() {
    let host = Interfaces::of_host().expect("a list");
    let loopback = host.hosts("lo").expect("every Linux has it");
    assert!(loopback.iter().all(|address| address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())), "{loopback:?}");
}

#[test]
fn readme() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    let hosts: Vec<Option<Vec<String>>> = blocks.into_iter().map(|block| block.listen_hosts).collect();
    let local = |addresses: &[&str]| Some(addresses.iter().map(|address| (*address).to_owned()).collect::<Vec<_>>());
    assert_eq!(hosts[0], local(&["127.0.0.1"]));
    assert_eq!(hosts[1], local(&["127.0.0.1", "127.0.0.2"]));
    assert!(hosts[2].as_ref().is_some_and(|hosts| !hosts.contains(&"127.0.0.1".to_owned())));
    assert_eq!(hosts[3..], [local(&["127.0.0.1"]), local(&["127.0.0.1"])]);
}
