//! What READMEs and docs show is true: the queries of README.md against a running server, and every Corefile.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use coredns_rs::registry::{DIRECTIVES, REGISTRY};
use coredns_testkit::process::{Running, Scratch};
use coredns_testkit::readme_examples;

const BINARY: &str = env!("CARGO_BIN_EXE_coredns-rs");

/// Directives and schemes that an example shows although this build lacks them, by file. A line goes when its plugin
/// comes.
const NOT_IN_THIS_BUILD: &[(&str, &str)] = &[
    ("src/plugin/root/README.md", "file"),
    ("src/plugin/timeouts/README.md", "tls"),
    ("src/plugin/timeouts/README.md", "tls://"),
];

/// A path of the repository.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The text with `old`, which it must hold, replaced.
fn replaced(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "no {old:?} in\n{text}");
    text.replace(old, new)
}

/// A line that begins with `$ dig`, and what stands below it.
#[derive(Debug, Default, PartialEq)]
struct Dig {
    arguments: Vec<String>,
    output: Vec<String>,
}

/// The digs of all blocks that are fenced as `console`.
fn digs(readme: &str) -> Vec<Dig> {
    let mut digs: Vec<Dig> = Vec::new();
    let mut in_block = false;
    let mut in_dig = false;
    for line in readme.lines() {
        if line.starts_with("```") {
            in_block = line == "```console";
            in_dig = false;
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_block) {
            let words = command.strip_prefix("dig ");
            in_dig = words.is_some();
            let arguments = words.map(|words| words.split_whitespace().map(str::to_owned).collect());
            digs.extend(arguments.map(|arguments| Dig { arguments, output: Vec::new() }));
        } else if let Some(dig) = digs.last_mut().filter(|_| in_dig && !line.is_empty()) {
            dig.output.push(line.to_owned());
        }
    }
    digs
}

/// Lines as sets of words: the order of records is not promised, and columns are for people.
fn normal<S: AsRef<str>>(lines: impl IntoIterator<Item = S>) -> Vec<String> {
    let words = |line: S| line.as_ref().split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = lines.into_iter().map(words).filter(|line| !line.is_empty()).collect();
    lines.sort();
    lines
}

/// Corefile.example with ports that the kernel chooses, so that it can be served beside anything else.
fn example_corefile() -> String {
    let mut corefile = replaced(&read("Corefile.example"), ".:1053 {", ".:0 {");
    for port in ["localhost:8080", "localhost:8181", "localhost:9153"] {
        corefile = replaced(&corefile, port, "localhost:0");
    }
    let cluster = path("examples/cluster");
    replaced(&corefile, "manifests examples/cluster", &format!("manifests {}", cluster.display()))
}

#[expect(clippy::print_stdout, reason = "a test that does less than it could says so")]
fn say(text: &str) {
    println!("{text}");
}

#[test]
fn the_queries_of_the_readme_get_the_answers_of_the_readme() {
    let digs = digs(&read("README.md"));
    assert!(digs.len() >= 6, "README.md shows only {digs:?}");
    let server = Running::start(BINARY, &example_corefile());
    if let Err(error) = Command::new("dig").arg("-v").output() {
        assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "dig: {error}; install bind9-dnsutils");
        say(&format!("dig: {error}; the queries of README.md are not asked. Install bind9-dnsutils"));
        return;
    }
    let port = server.port_of(".").to_string();
    for dig in digs {
        let arguments: Vec<String> =
            dig.arguments.iter().map(|word| if word == "1053" { port.clone() } else { word.clone() }).collect();
        assert!(arguments.contains(&port), "another server than that of Corefile.example: {dig:?}");
        let output = Command::new("dig").args(&arguments).output().expect("it runs");
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{dig:?}: {stdout}");
        assert!(!dig.output.is_empty(), "no output is shown for {dig:?}");
        assert_eq!(normal(stdout.lines()), normal(&dig.output), "{dig:?}");
    }
}

#[test]
fn digs_are_found_with_their_output() {
    let readme = "$ dig no\n```console\n$ dig @::1 a  B\nx 1\n\ny 2\n$ ls\nz\n```\nw\n```console\n$ dig c\n```\n";
    let dig = |arguments: &[&str], output: &[&str]| Dig {
        arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
        output: output.iter().map(|&line| line.to_owned()).collect(),
    };
    assert_eq!(digs(readme), [dig(&["@::1", "a", "B"], &["x 1", "y 2"]), dig(&["c"], &[])]);
}

/// Files of the repository that show Corefiles.
fn documents() -> Vec<String> {
    let mut documents = vec!["README.md".to_owned()];
    let children = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(path(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect()
    };
    documents
        .extend(children("docs").into_iter().filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")));
    documents.extend(children("src/plugin").into_iter().map(|name| format!("src/plugin/{name}/README.md")));
    documents.retain(|name| path(name).is_file());
    documents.sort();
    documents
}

/// An example as a whole Corefile: directives without a server block get one for the root zone.
fn whole(example: &str) -> String {
    let mut words =
        example.lines().map(|line| line.split('#').next().unwrap_or_default()).flat_map(str::split_whitespace);
    let is_directive = words.next().is_some_and(|word| DIRECTIVES.contains(&word));
    if is_directive { format!(". {{\n{example}}}\n") } else { example.to_owned() }
}

/// What `-validate` finds wrong.
fn errors(corefile: &Path) -> Vec<String> {
    let output = Command::new(BINARY).current_dir(path("")).arg("-validate").arg("-conf").arg(corefile).output();
    let output = output.expect("the binary runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let errors: Vec<String> = text.lines().filter(|line| line.starts_with("[ERROR]")).map(str::to_owned).collect();
    assert_eq!(errors.is_empty(), output.status.success(), "{text}");
    errors
}

/// The directive, or the scheme such as `tls://`, that an error says is not in this build.
fn missing(error: &str) -> Option<&str> {
    if let Some((before, _)) = error.split_once(" is not in this build") {
        return before.rsplit(' ').next();
    }
    error.split_once("no action found for directive '")?.1.split('\'').next()
}

#[test]
fn every_corefile_of_a_readme_is_valid() {
    let scratch = Scratch::new();
    let mut problems = Vec::new();
    let mut lacking = BTreeSet::new();
    let mut count = 0;
    for document in documents() {
        for example in readme_examples(&read(&document)) {
            count += 1;
            let file = scratch.write("Corefile", whole(&example));
            for error in errors(&file) {
                match missing(&error) {
                    Some(name) if NOT_IN_THIS_BUILD.contains(&(document.as_str(), name)) => {
                        lacking.insert((document.clone(), name.to_owned()));
                    }
                    _ => problems.push(format!("{document}: {error}\n{example}")),
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count >= REGISTRY.len(), "fewer examples ({count}) than plugins: are they fenced as `corefile`?");
    let listed: BTreeSet<(String, String)> =
        NOT_IN_THIS_BUILD.iter().map(|&(file, name)| (file.to_owned(), name.to_owned())).collect();
    assert_eq!(lacking, listed, "an exception that is not needed any more");
}

#[test]
fn exceptions_are_plugins_that_plugin_cfg_leaves_out() {
    for (file, name) in NOT_IN_THIS_BUILD {
        let plugin = name.trim_end_matches("://");
        assert!(DIRECTIVES.contains(&plugin), "{file}: plugin.cfg does not know {plugin}");
        assert!(REGISTRY.iter().all(|descriptor| descriptor.name != plugin), "{file}: {plugin} is in this build");
    }
}

#[test]
fn the_example_corefile_is_valid_as_it_is() {
    assert_eq!(errors(&path("Corefile.example")), Vec::<String>::new());
}

#[test]
fn directives_alone_get_a_server_block() {
    assert_eq!(whole("# why\nwhoami\n"), ". {\n# why\nwhoami\n}\n");
    for example in ["example.org {\n whoami\n}\n", "(part) {\n errors\n}\n", ". {\n}\n"] {
        assert_eq!(whole(example), example);
    }
}
