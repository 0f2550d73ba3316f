//! Imports of files made for the test: what cannot be checked in, limits, and hostile files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use coredns_corefile::{Corefile, ParseError, ParseOptions, Source, parse};

/// Parses `text` as the Corefile of a directory.
fn parse_in(directory: &Path, text: impl Into<Vec<u8>>) -> Result<Corefile, ParseError> {
    let name = directory.join("Corefile").to_str().expect("plain name").to_owned();
    parse(&Source::new(name, text), &ParseOptions { directives: None, environment: &|_| None })
}

/// The message of the error, the directory's name as `$DIR`.
fn message(directory: &Path, text: impl Into<Vec<u8>>) -> String {
    let error = parse_in(directory, text).expect_err("refused");
    error.message().replace(directory.to_str().expect("plain name"), "$DIR")
}

fn key_texts(corefile: &Corefile) -> Vec<&str> {
    corefile.blocks.iter().flat_map(|block| &block.keys).map(|key| key.text()).collect()
}

#[test]
fn files_that_cannot_be_read() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path();
    symlink(path.join("gone"), path.join("broken")).expect("writable");
    symlink(path.join("loop"), path.join("loop")).expect("writable");
    symlink("/dev/zero", path.join("device")).expect("writable");
    let made = std::process::Command::new("mkfifo").arg(path.join("fifo")).status().expect("mkfifo runs");
    assert!(made.success());
    fs::File::create(path.join("large")).and_then(|file| file.set_len(16 * 1024 * 1024 + 1)).expect("writable");
    let cases = [
        ("broken", "Could not import $DIR/broken: open $DIR/broken: no such file or directory"),
        ("loop", "Could not import $DIR/loop: open $DIR/loop: too many levels of symbolic links"),
        ("device", "Could not import $DIR/device: not a regular file"),
        ("fifo", "Could not import $DIR/fifo: not a regular file"),
        ("fif?", "Could not import $DIR/fifo: not a regular file"),
        ("large", "Could not import $DIR/large: larger than 16777216 octets"),
        (".", "Could not import $DIR: is a directory"),
        ("gone", "File to import not found: gone"),
        ("a\0b", "File to import not found: a\\0b"),
    ];
    for (name, expected) in cases {
        assert_eq!(message(path, format!("import {name}")), expected);
    }
}

#[test]
fn a_pattern_imports_in_lexical_order_and_may_match_nothing() {
    let directory = tempfile::tempdir().expect("temporary directory");
    for name in ["b", "a", "c"] {
        fs::write(directory.path().join(format!("{name}.zone")), format!("{name}.example {{\n}}\n")).expect("writable");
    }
    let corefile = parse_in(directory.path(), "import *.zone\nimport *.none\n").expect("valid");
    assert_eq!(key_texts(&corefile), ["a.example", "b.example", "c.example"]);
    let warnings: Vec<_> = corefile.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["No files matching import glob pattern: *.none"]);
}

#[test]
fn a_file_may_import_one_that_the_same_pattern_matches() {
    let directory = tempfile::tempdir().expect("temporary directory");
    fs::write(directory.path().join("a.zone"), "import b.zone\n").expect("writable");
    fs::write(directory.path().join("b.zone"), "b.example {\n}\n").expect("writable");
    let corefile = parse_in(directory.path(), "import *.zone\n").expect("valid");
    assert_eq!(key_texts(&corefile), ["b.example", "b.example"]);
}

#[test]
fn a_pattern_that_matches_its_own_file_ends() {
    let directory = tempfile::tempdir().expect("temporary directory");
    fs::write(directory.path().join("a.zone"), "import *.zone\n").expect("writable");
    assert_eq!(message(directory.path(), "import a.zone\n"), "maximum file import depth (10000) exceeded");
    // Through a link the cycle has another path each time; the system's bound on links ends it.
    symlink(directory.path(), directory.path().join("self")).expect("writable");
    fs::write(directory.path().join("deep"), "import self/deep\n").expect("writable");
    assert_eq!(message(directory.path(), "import deep\n"), "File to import not found: self/deep");
}

#[test]
fn files_may_be_imported_100000_times() {
    let directory = tempfile::tempdir().expect("temporary directory");
    fs::write(directory.path().join("empty"), "").expect("writable");
    let allowed = "import empty\n".repeat(100_000);
    assert_eq!(key_texts(&parse_in(directory.path(), allowed.as_str()).expect("valid")), Vec::<&str>::new());
    let error = parse_in(directory.path(), format!("{allowed}import empty\n")).expect_err("one too many");
    assert_eq!((error.line(), error.message()), (100_001, "maximum file import depth (10000) exceeded"));
}

#[test]
fn snippets_may_be_used_10000_times() {
    let text = |times: usize| format!("(s) {{\n}}\n{}", "import s\n".repeat(times));
    assert!(parse_in(Path::new("/nowhere"), text(10_000)).is_ok());
    let error = parse_in(Path::new("/nowhere"), text(10_001)).expect_err("one too many");
    assert_eq!((error.line(), error.message()), (10_003, "maximum snippet import depth (10000) exceeded"));
}

#[test]
fn snippets_that_multiply_end() {
    let mut text = String::from("(s0) {\n x\n}\n");
    for level in 1..40 {
        let below = level - 1;
        text.push_str(&["(s", &level.to_string(), ") {\n"].concat());
        text.push_str(&["import s", &below.to_string(), "\n"].concat().repeat(2));
        text.push_str("}\n");
    }
    let error = parse_in(Path::new("/nowhere"), format!("{text}import s39\n")).expect_err("bounded");
    assert_eq!(error.message(), "maximum snippet import depth (10000) exceeded");

    let wide = format!("(s) {{\n{}\n}}\n. {{\n{}}}\n", "x ".repeat(5000), "import s\n".repeat(9000));
    let error = parse_in(Path::new("/nowhere"), wide).expect_err("bounded");
    assert_eq!(error.message(), "configuration has more than 4000000 words");
}

#[test]
fn a_million_braces_need_no_stack() {
    let million = 1_000_000;
    let nowhere = Path::new("/nowhere");
    let open = "{ ".repeat(million);
    let close = "} ".repeat(million);
    let message = |text: String| parse_in(nowhere, text).expect_err("refused").message().to_owned();
    assert_eq!(message(format!(". {{\nx {open}")), "Unexpected EOF");
    assert_eq!(message(format!("(s) {open}")), "Unexpected token '{', expecting '}'");
    let corefile = parse_in(nowhere, format!(". {{\nx {open}{close}\n}}\n")).expect("valid");
    assert_eq!(corefile.blocks[0].directives[0].tokens.len(), 1 + 2 * million);
    assert!(parse_in(nowhere, open.as_str()).is_err());
    assert!(parse_in(nowhere, format!("(s) {open}{close}\n")).is_ok());
    assert!(parse_in(nowhere, close).is_ok_and(|corefile| corefile.blocks.len() == 1));
}

#[test]
fn environment_values_are_bounded_together() {
    let environment = |_: &str| Some("x".repeat(1_000_000));
    let options = ParseOptions { directives: None, environment: &environment };
    let text = format!("x {}", "{$A} ".repeat(100));
    let error = parse(&Source::new("Corefile", text), &options).expect_err("bounded");
    assert_eq!(error.message(), "values of environment variables add more than 67108864 octets");
}
