//! Runs `coredns_fuzz::wire::question_view` on what libFuzzer thinks of.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coredns_fuzz::wire::question_view(data));
