//! What the modules of several plugins use.

use std::path::PathBuf;

use coredns_testkit::libtest_mimic::Trial;
use coredns_testkit::vectors;
use toml::Table;

/// Reads `tests/vectors/data/NAME.toml`.
pub(crate) fn load(name: &str) -> Table {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/data");
    vectors::load(&data.join(format!("{name}.toml")))
}

/// What judges one entry: it gets the whole file and the entry.
pub(crate) type Check = fn(&Table, &Table) -> Result<(), String>;

/// A test for each entry of `table[key]` in the file `name`; `check` gets the whole file and the entry.
pub(crate) fn trials(name: &'static str, key: &str, check: Check) -> Vec<Trial> {
    let table = load(name);
    let whole = table.clone();
    vectors::trials(name, key, &table, move |case| check(&whole, case))
}

/// Tells whether two values are equal, and what they are where not.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, actual: &T, expected: &T) -> Result<(), String> {
    if actual == expected { Ok(()) } else { Err(format!("{what}: got {actual:?}, want {expected:?}")) }
}

/// Compares the outcome of a directive with `ok`, `error` (a part of the text) and `error_contains`.
///
/// Returns the value where there is one to look at.
pub(crate) fn judge<T>(case: &Table, outcome: Result<T, String>) -> Result<Option<T>, String> {
    let mut parts = vectors::texts(case, "error_contains");
    parts.extend(vectors::text(case, "error").map(str::to_owned));
    let fails = vectors::flag(case, "ok") == Some(false) || !parts.is_empty();
    match (outcome, fails) {
        (Ok(value), false) => Ok(Some(value)),
        (Ok(_), true) => Err("it is accepted".to_owned()),
        (Err(error), false) => Err(error),
        (Err(error), true) => match parts.iter().find(|part| !error.contains(*part)) {
            Some(part) => Err(format!("{error:?} does not contain {part:?}")),
            None => Ok(None),
        },
    }
}
