//! What the documents say about the code is what the code says.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use coredns_rs::registry::{DIRECTIVES, REGISTRY};

/// A file of the repository.
fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cells of each row of the tables in a text.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter_map(|line| {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(cells.split(" | ").collect())
    })
}

#[test]
fn the_readme_lists_the_plugins_of_the_build() {
    let readme = read("README.md");
    let listed = |state: &str| -> BTreeSet<String> {
        let row = rows(&readme).find(|row| row.first() == Some(&state));
        let names = row.and_then(|row| row.get(1).copied()).unwrap_or_else(|| panic!("no row '{state}'"));
        let name = |item: &str| item.trim().trim_start_matches('[').split(']').next().unwrap_or_default().to_owned();
        names.split(',').map(name).filter(|name| !name.is_empty()).collect()
    };
    let built: BTreeSet<String> = REGISTRY.iter().map(|descriptor| descriptor.name.to_owned()).collect();
    let absent = DIRECTIVES.iter().map(|name| (*name).to_owned()).filter(|name| !built.contains(name)).collect();
    assert_eq!(listed("in this build"), built, "the row 'in this build' of README.md");
    assert_eq!(listed("not yet"), absent, "the row 'not yet' of README.md");
}

#[test]
fn code_in_the_docs_is_code_of_the_tree() {
    let text = read("docs/writing-a-plugin.md");
    let mut lines = text.lines();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let Some(fence) = line.trim_start().strip_prefix("```rust") else { continue };
        let file = fence.trim().strip_prefix("file=").unwrap_or_else(|| panic!("no file for {line:?}"));
        let code: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
        let code: Vec<&str> = code.into_iter().map(|line| line.get(indent..).unwrap_or_default()).collect();
        let code = code.join("\n");
        assert!(!code.is_empty() && read(file).contains(&code), "not in {file}:\n{code}");
        count += 1;
    }
    assert!(count >= 5, "only {count} pieces of code");
}

#[test]
fn limits_in_the_docs_are_those_of_the_code() {
    let operations = read("docs/operations.md");
    let mut count = 0;
    for row in rows(&operations) {
        let Some((file, constant)) = row.last().and_then(|cell| cell.split_once("`: `")) else { continue };
        let file = file.trim_start_matches('`');
        let (name, value) = constant.trim_end_matches('`').split_once(" = ").unwrap_or_else(|| panic!("{constant}"));
        let declared = read(file).lines().any(|line| {
            let declaration = line.trim().trim_end_matches(';').split_once(" = ");
            declaration.is_some_and(|(left, right)| left.contains(&format!("const {name}: ")) && right == value)
        });
        assert!(declared, "{file} does not say {name} = {value}");
        count += 1;
    }
    assert!(count >= 10, "only {count} limits");
}

#[test]
fn flags_in_the_docs_are_those_of_the_program() {
    let cli = read("src/cli.rs");
    let usage = cli.split_once("const USAGE").and_then(|(_, rest)| rest.split_once("\";")).expect("the usage text").0;
    let word = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let known: BTreeSet<String> = usage.lines().filter(|line| line.starts_with("  -")).map(word).collect();
    let operations = read("docs/operations.md");
    let flags = rows(&operations).filter(|row| row.first().is_some_and(|cell| cell.starts_with("`-")));
    let told =
        flags.flat_map(|row| row.first().map_or_else(Vec::new, |cell| cell.split(", ").map(str::to_owned).collect()));
    let told: BTreeSet<String> = told.map(|flag| word(&flag.replace('`', ""))).collect();
    assert_eq!(told, known);
}

/// Targets of the links of a text, without those to other sites and to places in it.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(|target| target.split('#').next().unwrap_or_default()).filter(|target| !target.is_empty()).collect()
}

#[test]
fn links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents: Vec<_> = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "examples/blocklist/README.md"]
        .map(|name| root.join(name))
        .to_vec();
    documents.extend(fs::read_dir(root.join("docs")).expect("docs").map(|entry| entry.expect("readable").path()));
    documents.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    let mut broken = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).unwrap_or_else(|error| panic!("{}: {error}", document.display()));
        let folder = document.parent().expect("a file has a folder");
        let lost = links(&text).into_iter().filter(|link| !link.contains("://") && !folder.join(link).exists());
        broken.extend(lost.map(|link| format!("{}: {link}", document.display())));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
