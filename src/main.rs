//! The coredns-rs binary.
#![forbid(unsafe_code)]

fn main() {}
