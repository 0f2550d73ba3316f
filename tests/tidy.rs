//! The rules of the source tree that no compiler checks. Each test names every place that breaks its rule.
#![forbid(unsafe_code)]

#[path = "tidy/code.rs"]
mod code;
#[path = "tidy/tree.rs"]
mod tree;

use std::fmt::Display;

use code::code_only;
use tree::{SourceFile, files, package_folders, plugins};

/// More lines than this in one Rust file call for a split; 500 is what to aim at.
const LINES_MAX: usize = 600;

/// Where unsafe code may stand: the system calls that no safe crate offers. A path prefix.
const UNSAFE_ALLOWED: &[&str] = &["src/server/syscall"];

/// Words of code that must not be there, and what to do instead. White space is taken out before the look.
const BANNED_CODE: &[(&str, &str)] = &[
    ("todo!", "finish it, or leave it out"),
    ("unimplemented!", "finish it, or leave it out"),
    ("dbg!", "use a tracing macro, or delete it"),
    ("#[allow(", "use #[expect(lint, reason = \"…\")]"),
    ("#![allow(", "use #![expect(lint, reason = \"…\")]"),
    ("#[ignore", "make the test run everywhere, or delete it"),
];

/// Sections of a plugin's README.md, in CoreDNS's order; others may stand between and behind them.
const README_SECTIONS: &[&str] = &["## Name", "## Description", "## Syntax", "## Examples"];

/// Plugins of CoreDNS 1.14.7 in the order of its chain.
const COREDNS_PLUGINS: &[&str] = &[
    "root",
    "metadata",
    "geoip",
    "cancel",
    "proxyproto",
    "quic",
    "grpc_server",
    "https",
    "https3",
    "timeouts",
    "multisocket",
    "reload",
    "nsid",
    "bufsize",
    "bind",
    "debug",
    "trace",
    "ready",
    "health",
    "pprof",
    "shed",
    "prometheus",
    "errors",
    "log",
    "dnstap",
    "local",
    "dns64",
    "any",
    "chaos",
    "loadbalance",
    "tsig",
    "rewrite",
    "autopath",
    "acl",
    "cache",
    "header",
    "dnssec",
    "tls",
    "minimal",
    "template",
    "transfer",
    "hosts",
    "route53",
    "azure",
    "clouddns",
    "k8s_external",
    "kubernetes",
    "file",
    "auto",
    "secondary",
    "etcd",
    "loop",
    "forward",
    "grpc",
    "erratic",
    "whoami",
    "on",
    "sign",
    "view",
    "nomad",
];

/// Fails with one line a problem.
fn assert_none(rule: &str, problems: impl IntoIterator<Item = impl Display>) {
    let problems: Vec<String> = problems.into_iter().map(|problem| format!("  {problem}")).collect();
    assert!(problems.is_empty(), "{rule}:\n{}", problems.join("\n"));
}

/// Every Rust file of the tree; there is always one, this one.
fn rust_files() -> Vec<SourceFile> {
    let files = files(&["rs"]);
    assert!(files.iter().any(|file| file.path == "tests/tidy.rs"));
    files
}

#[test]
fn rust_files_are_short() {
    let problems = rust_files().into_iter().filter_map(|file| {
        let lines = file.text.lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines; split it", file.path))
    });
    assert_none("a Rust file has at most 600 lines", problems);
}

#[test]
fn code_has_no_banned_words() {
    let problems = rust_files().into_iter().flat_map(|file| {
        let code = code_only(&file.text);
        let mut found = Vec::new();
        for (number, line) in (1..).zip(code.lines()) {
            let line: String = line.split_whitespace().collect();
            for (word, remedy) in BANNED_CODE {
                if line.contains(word) {
                    found.push(format!("{}:{number}: {word}; {remedy}", file.path));
                }
            }
            if line.contains("cfg_attr(") && line.contains(",allow(") {
                found.push(format!("{}:{number}: allow in cfg_attr; use expect", file.path));
            }
        }
        found
    });
    assert_none("banned code", problems);
}

#[test]
fn nothing_is_left_to_do_in_comments() {
    let word = concat!("TO", "DO");
    let problems = rust_files().into_iter().flat_map(|file| {
        let path = file.path.clone();
        lines_with(&file.text, word)
            .map(move |number| format!("{path}:{number}: do it, or file it"))
            .collect::<Vec<_>>()
    });
    assert_none("comments hold no work left over", problems);
}

#[test]
fn unsafe_code_stands_only_where_system_calls_are_made() {
    let problems = rust_files().into_iter().flat_map(|file| {
        if UNSAFE_ALLOWED.iter().any(|prefix| file.path.starts_with(prefix)) {
            return Vec::new();
        }
        let code = code_only(&file.text);
        lines_with(&code, "unsafe").map(|number| format!("{}:{number}", file.path)).collect()
    });
    assert_none("unsafe outside src/server/syscall*", problems);
}

/// Numbers of the lines that have the word, not as a part of a longer one.
fn lines_with<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    (1..)
        .zip(text.lines())
        .filter(move |(_, line)| line.split(|character| !is_part(character)).any(|part| part == word))
        .map(|(number, _)| number)
}

#[test]
fn crate_roots_forbid_unsafe_code() {
    let folders = package_folders();
    assert!(folders.iter().any(|folder| folder.is_empty()), "the root package was not found");
    let problems = rust_files().into_iter().filter_map(|file| {
        let (folder, _) = folders
            .iter()
            .flat_map(|folder| ["src/lib.rs", "src/main.rs", "build.rs"].map(|root| (folder, root)))
            .find(|(folder, root)| file.path == format!("{folder}{root}"))?;
        // The library of the root package holds the module of the system calls, which lifts a deny but no forbid.
        let level = if folder.is_empty() && file.path == "src/lib.rs" { "deny" } else { "forbid" };
        let attribute = format!("#![{level}(unsafe_code)]");
        let found = code_only(&file.text).lines().any(|line| line.trim() == attribute);
        (!found).then(|| format!("{}: {attribute} is missing", file.path))
    });
    assert_none("a crate root rules out unsafe code", problems);
}

#[test]
fn lines_end_without_blanks() {
    let texts = files(&["rs", "md", "toml", "cfg", "sh", "run", "yaml", "yml"]);
    let problems = texts.into_iter().flat_map(|file| {
        let bad = |line: &str| line.ends_with([' ', '\t', '\r']);
        let lines = (1..).zip(file.text.split('\n'));
        let mut found: Vec<String> =
            lines.filter(|(_, line)| bad(line)).map(|(number, _)| format!("{}:{number}", file.path)).collect();
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            found.push(format!("{}: no line break at the end", file.path));
        }
        found
    });
    assert_none("white space at the end of a line", problems);
}

#[test]
fn plugin_cfg_has_every_coredns_name_in_its_order() {
    let plugins = plugins();
    let names: Vec<&str> =
        plugins.iter().map(|plugin| plugin.name.as_str()).filter(|name| COREDNS_PLUGINS.contains(name)).collect();
    assert_eq!(names, COREDNS_PLUGINS, "a plugin that is left out stays as a comment");
}

#[test]
fn every_plugin_has_a_descriptor_and_a_readme() {
    let files = files(&["rs", "md"]);
    let text = |path: String| {
        let file = files.iter().find(|file| file.path == path);
        file.map(|file| file.text.as_str()).ok_or_else(|| format!("{path}: missing"))
    };
    let mut problems = Vec::new();
    for plugin in plugins() {
        let Some(module) = plugin.active_module() else {
            continue;
        };
        match text(format!("src/plugin/{module}/mod.rs")) {
            Ok(text) if !code_only(text).contains("pub static DESCRIPTOR:") => {
                problems.push(format!("src/plugin/{module}/mod.rs: no `pub static DESCRIPTOR`"));
            }
            Ok(_) => {}
            Err(problem) => problems.push(problem),
        }
        let path = format!("src/plugin/{module}/README.md");
        match text(path.clone()) {
            Ok(text) => problems.extend(readme_problem(text, &plugin.name).map(|problem| format!("{path}: {problem}"))),
            Err(problem) => problems.push(problem),
        }
    }
    assert_none("a plugin's folder", problems);
}

/// What a README lacks: the title, or the first of the sections that is absent or out of order.
fn readme_problem(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim_end);
    let title = format!("# {name}");
    if lines.next() != Some(title.as_str()) {
        return Some(format!("the first line is not '{title}'"));
    }
    README_SECTIONS
        .iter()
        .find(|&&section| !lines.any(|line| line == section))
        .map(|section| format!("no section '{section}', or not in the order {README_SECTIONS:?}"))
}

#[test]
fn a_readme_needs_title_and_sections_in_order() {
    let good = "# cache\n\n## Name\n\n## Description\n\n## Syntax\n\n## Metrics\n\n## Examples\n";
    for (text, name, fine) in [
        (good.to_owned(), "cache", true),
        (good.to_owned(), "hosts", false),
        (good.replace("## Syntax\n", ""), "cache", false),
        (good.replace("## Name", "## Examples"), "cache", false),
        (String::new(), "cache", false),
    ] {
        assert_eq!(readme_problem(&text, name).is_none(), fine, "{text:?}");
    }
}
