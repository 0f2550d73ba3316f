//! Runs `coredns_fuzz::server::setup` on what libFuzzer thinks of.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coredns_fuzz::server::setup(data));
