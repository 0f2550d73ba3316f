//! Golden files: what each `tests/golden/*.corefile` parses to, or how it is refused.
//!
//! `NAME.parsed` beside a Corefile shows its blocks, `NAME.error` its errors, remedies indented. Run with
//! `UPDATE_GOLDEN=1` to write them anew, then read the diff.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use coredns_corefile::{
    Checked, Corefile, Directive, ParseError, ParseOptions, Source, Token, block_addresses, check, parse,
};

/// The directives that goldens know.
const DIRECTIVES: &[&str] = &[
    "acl",
    "any",
    "auto",
    "bind",
    "bufsize",
    "cache",
    "chaos",
    "debug",
    "errors",
    "file",
    "forward",
    "health",
    "hosts",
    "kubernetes",
    "loadbalance",
    "log",
    "loop",
    "prometheus",
    "ready",
    "reload",
    "rewrite",
    "template",
    "tls",
    "view",
    "whoami",
];

/// The environment that goldens run in.
fn environment(name: &str) -> Option<String> {
    let value = match name {
        "ZONE" => "example.org",
        "PORT" => "1053",
        "UPSTREAM" => "192.0.2.53",
        "FILES" => "files",
        "BRACE" => "{",
        "SPACED" => "a b",
        "OUTER" => "{$ZONE}",
        "LOOP" => "{$LOOP}",
        _ => return None,
    };
    Some(value.to_owned())
}

#[test]
fn golden_files() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut names: Vec<String> = fs::read_dir("tests/golden")
        .expect("the goldens are there")
        .filter_map(|entry| entry.expect("readable").file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".corefile").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() >= 50, "{} goldens found", names.len());
    let mut wrong = Vec::new();
    for name in names {
        let (suffix, actual) = render(&name);
        let other = if suffix == "parsed" { "error" } else { "parsed" };
        let path = format!("tests/golden/{name}.{suffix}");
        let stale = format!("tests/golden/{name}.{other}");
        if update {
            fs::write(&path, actual).expect("writable");
            let _ = fs::remove_file(stale);
            continue;
        }
        let expected = fs::read_to_string(&path).unwrap_or_else(|_| format!("there is no {path}\n"));
        if expected != actual || Path::new(&stale).exists() {
            wrong.push(format!("{name}: expected\n{expected}\nbut it is\n{actual}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Parses a golden; the suffix of its expectation and the text.
fn render(name: &str) -> (&'static str, String) {
    let path = format!("tests/golden/{name}.corefile");
    let source = Source::new(path.as_str(), fs::read(&path).expect("readable"));
    let options = ParseOptions { directives: Some(DIRECTIVES), environment: &environment };
    let Checked { corefile, mut errors } = check(&source, &options);
    match parse(&source, &options) {
        Ok(_) => assert_eq!(errors, [], "{name}: the check finds what the parser does not"),
        Err(error) => assert_eq!(Some(&error), errors.first(), "{name}: the parser stops at the first error"),
    }
    errors.extend(corefile.blocks.iter().filter_map(|block| block_addresses(block, "53").err()));
    let (suffix, text) =
        if errors.is_empty() { ("parsed", show_corefile(&corefile)) } else { ("error", show_errors(&errors)) };
    (suffix, text.replace(&path, "Corefile").replace(env!("CARGO_MANIFEST_DIR"), "$DIR"))
}

fn show_errors(errors: &[ParseError]) -> String {
    let mut out = String::new();
    for error in errors {
        let display = error.to_string();
        writeln!(out, "{display}").expect("a String");
        let explained = error.explain();
        let rest = explained.strip_prefix(&display).expect("explain adds to the text");
        if !rest.is_empty() {
            writeln!(out, "  {}", rest.trim_start()).expect("a String");
        }
    }
    out
}

fn show_corefile(corefile: &Corefile) -> String {
    let mut out = String::new();
    for warning in &corefile.warnings {
        writeln!(out, "warning {}:{}: {warning}", warning.file, warning.line).expect("a String");
    }
    for block in &corefile.blocks {
        out.push_str("block\n");
        for key in &block.keys {
            writeln!(out, "  key {}", show_token(key)).expect("a String");
        }
        let addresses = block_addresses(block, "53").expect("errors were shown");
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        writeln!(out, "  serves {}", addresses.join(" ")).expect("a String");
        for directive in &block.directives {
            writeln!(out, "  {}", directive.name).expect("a String");
            show_directive(&mut out, directive);
        }
    }
    out
}

/// The tokens of a directive, a line of the Corefile a line.
fn show_directive(out: &mut String, directive: &Directive) {
    let mut line: Vec<String> = Vec::new();
    for token in &directive.tokens {
        if token.starts_line() && !line.is_empty() {
            writeln!(out, "    {}", line.join(" ")).expect("a String");
            line.clear();
        }
        if line.is_empty() {
            line.push(format!("{}:{}:", if token.is_imported() { token.file() } else { "" }, token.line()));
        }
        line.push(show_text(token.text()));
    }
    writeln!(out, "    {}", line.join(" ")).expect("a String");
}

fn show_token(token: &Token) -> String {
    format!("{}:{}: {}", if token.is_imported() { token.file() } else { "" }, token.line(), show_text(token.text()))
}

/// Text in quotes where it would not be one plain word.
fn show_text(text: &str) -> String {
    let plain = !text.is_empty() && text.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '"');
    if plain { text.to_owned() } else { format!("{text:?}") }
}
