//! The vectors: facts about CoreDNS as data, each a test with a name of its own.
//!
//! One module a plugin reads its files from `tests/vectors/data` and gives trials; a run lists and counts them.

mod common;
#[cfg(plugin = "hosts")]
mod hosts;
#[cfg(plugin = "loadbalance")]
mod loadbalance;

use coredns_testkit::libtest_mimic::{Arguments, Trial, run};

fn main() {
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = Vec::new();
    #[cfg(plugin = "hosts")]
    trials.extend(hosts::all());
    #[cfg(plugin = "loadbalance")]
    trials.extend(loadbalance::all());
    run(&arguments, trials).exit();
}
