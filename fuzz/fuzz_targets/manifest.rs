//! Runs `coredns_fuzz::server::manifest` on what libFuzzer thinks of.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coredns_fuzz::server::manifest(data));
