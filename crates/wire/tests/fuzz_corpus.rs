//! Replays the committed corpora of the fuzz targets through the functions that the fuzzer runs.

#[path = "../../../fuzz/src/reference.rs"]
pub mod reference;
#[path = "../../../fuzz/src/replay.rs"]
pub mod replay;
#[path = "../../../fuzz/src/wire.rs"]
pub mod wire;

/// The repository's folder.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn question_view() {
    replay::replay(ROOT, "question_view", wire::question_view);
}

#[test]
fn name() {
    replay::replay(ROOT, "name", wire::name);
}

#[test]
fn opt() {
    replay::replay(ROOT, "opt", wire::opt);
}

#[test]
fn rdata() {
    replay::replay(ROOT, "rdata", wire::rdata);
}
