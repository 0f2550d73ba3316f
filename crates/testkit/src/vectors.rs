//! Vectors: cases as data in TOML files, each a test with a name of its own.

use std::path::Path;

use libtest_mimic::{Failed, Trial};
use toml::{Table, Value};

/// Reads a vector file.
///
/// # Panics
/// Where it is missing or no TOML: a test that is wrong.
#[must_use]
pub fn load(path: &Path) -> Table {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The entries of an array of tables; none where it is absent.
pub fn tables<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Table> {
    table.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

/// A text of a table.
#[must_use]
pub fn text<'a>(table: &'a Table, key: &str) -> Option<&'a str> {
    table.get(key).and_then(Value::as_str)
}

/// A list of texts; empty where it is absent.
#[must_use]
pub fn texts(table: &Table, key: &str) -> Vec<String> {
    let list = table.get(key).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A yes or no.
#[must_use]
pub fn flag(table: &Table, key: &str) -> Option<bool> {
    table.get(key).and_then(Value::as_bool)
}

/// A test for each entry of `table[key]`, named `FILE::KEY::ID`.
///
/// A vector that carries `deviates = "why"` states what CoreDNS does and we do not: it passes where we indeed do
/// otherwise, and fails where we do the same after all, so that the mark cannot outlive its reason.
pub fn trials(
    file: &str,
    key: &str,
    table: &Table,
    check: impl Fn(&Table) -> Result<(), String> + Clone + Send + 'static,
) -> Vec<Trial> {
    let mut trials = Vec::new();
    for case in tables(table, key) {
        let id = text(case, "id").unwrap_or("unnamed");
        let (case, check) = (case.clone(), check.clone());
        trials.push(Trial::test(format!("{file}::{key}::{id}"), move || judge(&case, check(&case))));
    }
    trials
}

fn judge(case: &Table, outcome: Result<(), String>) -> Result<(), Failed> {
    match (text(case, "deviates"), outcome) {
        (None, Ok(())) | (Some(_), Err(_)) => Ok(()),
        (None, Err(difference)) => Err(format!("{difference}\ncase: {case:?}").into()),
        (Some(reason), Ok(())) => Err(format!("marked as deviating ({reason}), but does what the vector says").into()),
    }
}
