//! The vectors: facts about CoreDNS as data, each a test with a name of its own.
//!
//! One module a plugin reads its files from `tests/vectors/data` and gives trials; a run lists and counts them.
#![forbid(unsafe_code)]

#[cfg(plugin = "cache")]
mod cache;
#[cfg(plugin = "cache")]
mod cache_sequence;
mod common;
#[cfg(plugin = "forward")]
mod forward;
#[cfg(plugin = "forward")]
mod forward_behaviour;
#[cfg(plugin = "forward")]
mod forward_doh;
#[cfg(plugin = "hosts")]
mod hosts;
#[cfg(plugin = "kubernetes")]
mod kubernetes;
#[cfg(plugin = "loadbalance")]
mod loadbalance;

use std::path::{Path, PathBuf};

use coredns_testkit::libtest_mimic::{Arguments, Trial, run};

/// The file of vectors called `name`.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/data").join(format!("{name}.toml"))
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = Vec::new();
    #[cfg(plugin = "cache")]
    trials.extend(cache::all());
    #[cfg(plugin = "forward")]
    trials.extend(forward::all());
    #[cfg(plugin = "hosts")]
    trials.extend(hosts::all());
    #[cfg(plugin = "kubernetes")]
    trials.extend(kubernetes::trials());
    #[cfg(plugin = "loadbalance")]
    trials.extend(loadbalance::all());
    run(&arguments, trials).exit();
}
