//! Runs `coredns_fuzz::corefile::corefile` on what libFuzzer thinks of.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coredns_fuzz::corefile::corefile(data));
