//! The vectors of the kubernetes plugin.

mod answers;
mod fixture;
mod setup;
mod units;
mod zones;

use coredns_testkit::libtest_mimic::Trial;

/// All of them.
pub(crate) fn trials() -> Vec<Trial> {
    let answers =
        ["services", "modes", "multicluster", "reverse", "zonal", "ours"].into_iter().flat_map(answers::trials);
    answers.chain(setup::trials()).chain(units::trials()).chain(zones::trials()).collect()
}
