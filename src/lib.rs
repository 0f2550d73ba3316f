//! coredns-rs: a DNS server that chains plugins, a drop-in replacement for CoreDNS.
#![deny(unsafe_code)]

pub mod plugin;
