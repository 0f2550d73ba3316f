//! The vectors: facts about CoreDNS as data, each a test with a name of its own.
//!
//! One module a plugin reads its files from `tests/vectors/data` and gives trials; a run lists and counts them.

use coredns_testkit::libtest_mimic::{Arguments, Trial, run};

fn main() {
    let arguments = Arguments::from_args();
    let trials: Vec<Trial> = Vec::new();
    run(&arguments, trials).exit();
}
