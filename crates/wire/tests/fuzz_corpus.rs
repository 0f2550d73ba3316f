//! Replays the committed corpora of the fuzz targets through the functions that the fuzzer runs.

use std::fs;
use std::path::PathBuf;

#[path = "../../../fuzz/src/reference.rs"]
pub mod reference;
#[path = "../../../fuzz/src/wire.rs"]
pub mod wire;

fn replay(target: &str, run: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut replayed = 0;
    for entry in fs::read_dir(&folder).expect("the corpus is there") {
        let path = entry.expect("a readable folder").path();
        let data = fs::read(&path).expect("a readable file");
        let outcome = std::panic::catch_unwind(|| run(&data));
        assert!(outcome.is_ok(), "{}", path.display());
        replayed += 1;
    }
    assert!(replayed > 0, "the corpus in {} is empty", folder.display());
}

#[test]
fn question_view() {
    replay("question_view", wire::question_view);
}

#[test]
fn name() {
    replay("name", wire::name);
}

#[test]
fn opt() {
    replay("opt", wire::opt);
}

#[test]
fn rdata() {
    replay("rdata", wire::rdata);
}
