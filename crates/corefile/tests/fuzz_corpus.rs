//! Replays the committed corpus of the fuzz target `corefile` through the function that the fuzzer runs.

#[path = "../../../fuzz/src/corefile.rs"]
pub mod corefile;
#[path = "../../../fuzz/src/replay.rs"]
pub mod replay;

#[test]
fn corefile() {
    replay::replay(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."), "corefile", corefile::corefile);
}
