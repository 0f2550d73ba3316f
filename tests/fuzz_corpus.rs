//! Replays the committed corpora of the fuzz targets of the server through the functions that the fuzzer runs.

#[path = "../fuzz/src/replay.rs"]
pub mod replay;
#[path = "../fuzz/src/server.rs"]
pub mod server;

/// The repository's folder.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn setup() {
    replay::replay(ROOT, "setup", server::setup);
}

#[test]
fn manifest() {
    replay::replay(ROOT, "manifest", server::manifest);
}
