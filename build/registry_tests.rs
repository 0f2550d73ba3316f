//! Tests of the generator: what it makes of good lines and what it says of bad ones.

use std::collections::BTreeSet;

use super::{Entry, Source, declared_modules, dependency_crates, generate, read};

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// A tree with a few modules, one of them not declared, and one foreign crate.
fn source() -> Source {
    Source {
        modules: set(&["cache", "loop", "metrics", "undeclared"]),
        declared: set(&["cache", "loop", "metrics"]),
        crates: set(&["acme_blocklist"]),
    }
}

/// The problems that a plugin.cfg has; none when it is good.
fn problems(text: &str) -> Vec<String> {
    read(text, &source()).err().unwrap_or_default()
}

#[test]
fn generated_text_lists_plugins_and_names_in_order() {
    let text = "# Prose: it explains the group.\n\n\
                prometheus:metrics\n\
                # log:log  planned\n\
                cache:cache\r\n\
                blocklist:acme_blocklist::plugin\n\
                loop:loop\n";
    let entries = read(text, &source()).expect("a good file");
    let expected = r#"// Made by build.rs from plugin.cfg; change that file instead.

/// Every plugin of this build, in the order of the chain.
pub static REGISTRY: &[&::coredns_plugin::Descriptor] = &[
    &crate::plugin::metrics::DESCRIPTOR,
    &crate::plugin::cache::DESCRIPTOR,
    &::acme_blocklist::plugin::DESCRIPTOR,
    &crate::plugin::r#loop::DESCRIPTOR,
];

/// Every directive name that plugin.cfg knows, in order, with those that are commented out there.
///
/// A name that is listed here and has no descriptor in [`REGISTRY`] is a plugin that this build leaves out: a
/// Corefile that uses it gets CoreDNS's `no action found for directive 'X' with server type 'dns' (missing a
/// plugin?)`, while a name that is not listed at all is an `Unknown directive 'X'`.
pub static DIRECTIVES: &[&str] = &[
    "prometheus",
    "log",
    "cache",
    "blocklist",
    "loop",
];

// A descriptor under another name would sit at a wrong place of the chain.
const _: () = assert!(matches!(crate::plugin::metrics::DESCRIPTOR.name.as_bytes(), b"prometheus"), "plugin.cfg:3: the descriptor of this path has another name; write its name before the ':'");
const _: () = assert!(matches!(crate::plugin::cache::DESCRIPTOR.name.as_bytes(), b"cache"), "plugin.cfg:5: the descriptor of this path has another name; write its name before the ':'");
const _: () = assert!(matches!(::acme_blocklist::plugin::DESCRIPTOR.name.as_bytes(), b"blocklist"), "plugin.cfg:6: the descriptor of this path has another name; write its name before the ':'");
const _: () = assert!(matches!(crate::plugin::r#loop::DESCRIPTOR.name.as_bytes(), b"loop"), "plugin.cfg:7: the descriptor of this path has another name; write its name before the ':'");
"#;
    assert_eq!(generate(&entries), expected);
}

#[test]
fn a_comment_is_a_name_only_in_the_form_of_one() {
    for (comment, expected) in [
        ("# cache:cache  planned", Some(("cache", "cache"))),
        ("#cache:cache", Some(("cache", "cache"))),
        ("# blocklist:acme::plugin absent", Some(("blocklist", "acme::plugin"))),
        ("# cache:cache and two more words", None),
        ("# Note: what follows answers from memory.", None),
        ("# Answers", None),
        ("# https://coredns.io", None),
        ("#", None),
    ] {
        let entries = read(comment, &source()).expect("a comment is never wrong");
        let found: Vec<_> =
            entries.iter().map(|entry| (entry.name.as_str(), entry.path.as_str(), entry.active)).collect();
        let expected: Vec<_> = expected.into_iter().map(|(name, path)| (name, path, false)).collect();
        assert_eq!(found, expected, "{comment}");
    }
}

#[test]
fn a_bad_line_is_named_with_its_remedy() {
    const FORM: &str = "; write one name:path a line, such as cache:cache or blocklist:acme_blocklist::plugin";
    for (line, expected) in [
        ("cache", format!("no ':' in 'cache'{FORM}")),
        (
            "cache:cache # fast",
            format!("a blank or a comment behind the path (comments have lines of their own) in 'cache:cache # fast'{FORM}"),
        ),
        (
            "ca.che:cache",
            format!("the name is not made of letters, digits, '_' and '-' in 'ca.che:cache'{FORM}"),
        ),
        (":cache", format!("the name is not made of letters, digits, '_' and '-' in ':cache'{FORM}")),
        ("cache:", format!("the path is neither a module name nor a Rust path in 'cache:'{FORM}")),
        ("x::y", format!("the path is neither a module name nor a Rust path in 'x::y'{FORM}")),
        ("x:crate::y", format!("the path is neither a module name nor a Rust path in 'x:crate::y'{FORM}")),
        ("x:a::", format!("the path is neither a module name nor a Rust path in 'x:a::'{FORM}")),
        (
            "x:../x",
            format!("the path is neither a module name nor a Rust path in 'x:../x'{FORM}"),
        ),
        (
            "hosts:hosts",
            "there is no module 'hosts' under src/plugin; create src/plugin/hosts/mod.rs, name a crate's plugin as crate::path, or delete this line".to_owned(),
        ),
        (
            "undeclared:undeclared",
            "the module 'undeclared' is not declared in src/plugin/mod.rs; add there the two lines `#[cfg(plugin = \"undeclared\")]` and `pub mod undeclared;`".to_owned(),
        ),
        (
            "other:other_crate::plugin",
            "the crate 'other_crate' is not among the [dependencies] of Cargo.toml; add it there under that name, or delete this line".to_owned(),
        ),
    ] {
        assert_eq!(problems(line), [format!("plugin.cfg:1: {expected}")], "{line}");
    }
}

#[test]
fn all_bad_lines_are_reported_at_once() {
    let text = "cache:cache\nbad\n# loop:loop planned\nloop:loop\ncache:metrics\nother:cache\nhosts:hosts\n";
    let found = problems(text);
    let starts = [
        "plugin.cfg:2: no ':'",
        "plugin.cfg:4: the name 'loop' is already taken on line 3; delete one of the two lines",
        "plugin.cfg:5: the name 'cache' is already taken on line 1; delete one of the two lines",
        "plugin.cfg:6: the path 'cache' is already used on line 1; a plugin has one name: delete one of the two lines",
        "plugin.cfg:7: there is no module 'hosts'",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (problem, start) in found.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem} does not start with {start}");
    }
}

#[test]
fn an_empty_file_makes_empty_tables() {
    let entries: Vec<Entry> = read("", &source()).expect("an empty file is good");
    let text = generate(&entries);
    assert!(text.contains("Descriptor] = &[\n];"), "{text}");
    assert!(text.contains("DIRECTIVES: &[&str] = &[\n];"), "{text}");
}

#[test]
fn a_module_is_declared_below_its_own_attribute() {
    let text = "//! Docs.\n\n#[cfg(plugin = \"cache\")]\npub mod cache;\n\
                #[cfg(plugin = \"loop\")]\npub mod r#loop;\n\
                pub mod shared;\n\
                #[cfg(plugin = \"cache\")]\npub mod hosts;\n\
                #[cfg(plugin = \"errors\")]\nmod errors;\n";
    assert_eq!(declared_modules(text), set(&["cache", "loop"]));
}

#[test]
fn dependencies_are_read_from_every_form_of_table() {
    let text = r#"
[workspace.dependencies]
only-a-version = "1"

[package]
name = "coredns-rs"

[dependencies]
# comment = "not a crate"
coredns-plugin.workspace = true
acme-blocklist = { git = "https://example.org/acme", features = [
    "fast",
] }
"quoted" = "1"

[dependencies.table-form]
version = "1"

[target.'cfg(target_os = "linux")'.dependencies]
netlink = "1"

[dev-dependencies]
testkit = "1"

[build-dependencies]
generator = "1"
"#;
    let expected = ["acme_blocklist", "coredns_plugin", "netlink", "quoted", "table_form"];
    assert_eq!(dependency_crates(text), set(&expected));
}
