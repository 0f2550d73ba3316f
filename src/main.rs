//! The coredns-rs binary.
fn main() {}
