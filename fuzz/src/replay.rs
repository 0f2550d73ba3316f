//! Runs a target's committed corpus.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest time that one input may take, in a build without optimisation on a busy machine.
const INPUT_TIME_MAX: Duration = Duration::from_secs(60);

/// Runs `run` on each file of the corpus of `target`, below the repository's folder `root`.
///
/// # Panics
/// Where an input panics or takes too long, with the name of its file; where there is none.
pub fn replay(root: &str, target: &str, run: fn(&[u8])) {
    let folder = Path::new(root).join("fuzz/corpus").join(target);
    let mut replayed = 0;
    for entry in fs::read_dir(&folder).expect("the corpus is there") {
        let path = entry.expect("a readable folder").path();
        let data = fs::read(&path).expect("a readable file");
        let start = now();
        let outcome = std::panic::catch_unwind(|| run(&data));
        assert!(outcome.is_ok(), "{}", path.display());
        let took = now().saturating_duration_since(start);
        assert!(took < INPUT_TIME_MAX, "{}: {took:?}", path.display());
        replayed += 1;
    }
    assert!(replayed > 0, "the corpus in {} is empty", folder.display());
}

#[expect(clippy::disallowed_methods, reason = "the targets' crates have no clock of their own")]
fn now() -> Instant {
    Instant::now()
}
