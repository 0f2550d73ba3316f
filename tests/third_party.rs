//! A third party's plugin is one line in plugin.cfg, one in Cargo.toml and a rebuild; a bad line says what to do.
//!
//! The server is built from a copy of the workspace below the target folder, which shares that folder, so that only the
//! workspace's own crates are compiled again. The copy stays where it is: the next run finds what has not changed.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coredns_testkit::process::{Running, Scratch};
use coredns_testkit::same_records;
use coredns_wire::{Message, Rcode};

/// The binary of the copy; under its own name it would take the place of the real one in the shared target folder.
const BINARY: &str = "coredns-third-party";

/// What is written into the copy rather than linked.
const CHANGED: [&str; 3] = ["Cargo.toml", "Cargo.lock", "plugin.cfg"];

/// The two lines that docs/writing-a-plugin.md names.
const PLUGIN_LINE: &str = "blocklist:coredns_blocklist::plugin";
const DEPENDENCY_LINE: &str = "coredns-blocklist = { path = \"examples/blocklist\" }";

/// A copy of the workspace.
struct Workspace(PathBuf);

/// The copy, for one test at a time.
fn workspace() -> (MutexGuard<'static, ()>, Workspace) {
    static BUSY: Mutex<()> = Mutex::new(());
    let guard = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("third-party");
    fs::create_dir_all(&root).expect("a folder below the target folder");
    let workspace = Workspace(root);
    for entry in fs::read_dir(env!("CARGO_MANIFEST_DIR")).expect("the repository").flatten() {
        let name = entry.file_name();
        let linked = !CHANGED.iter().chain(&["target", ".git"]).any(|other| name == *other);
        let link = workspace.0.join(&name);
        // The target folder may be shared by several clones: a link of another one is replaced.
        if linked && fs::read_link(&link).ok() != Some(entry.path()) {
            let _ = fs::remove_file(&link);
            symlink(entry.path(), link).expect("a link");
        }
    }
    workspace.write("Cargo.toml", &manifest());
    for name in ["Cargo.lock", "plugin.cfg"] {
        workspace.write(name, &original(name));
    }
    (guard, workspace)
}

impl Workspace {
    /// Writes a file, unless it says so already: cargo goes by times.
    fn write(&self, name: &str, content: &str) {
        let path = self.0.join(name);
        if fs::read_to_string(&path).ok().as_deref() != Some(content) {
            fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }

    fn cargo(&self, arguments: &[&str]) -> Output {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
        let mut command = Command::new(cargo);
        command.current_dir(&self.0).args(arguments).args(["--offline", "--color", "never"]);
        command.env("CARGO_TARGET_DIR", target);
        command.output().expect("cargo can be run")
    }
}

/// The workspace's manifest with a version of its own: cargo keeps what it builds by name and version, and what the copy
/// is built into must not take the place of what the tests around this one are built from.
fn manifest() -> String {
    replaced(&original("Cargo.toml"), "[workspace.package]\nversion = \"", "[workspace.package]\nversion = \"9")
}

/// A file of the repository.
fn original(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text with another in the place of one that it holds.
fn replaced(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "no {old:?}");
    text.replacen(old, new, 1)
}

/// The program among cargo's messages.
fn executable(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let messages = stdout.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let programs = messages.filter(|message| message["target"]["name"] == BINARY);
    let mut paths = programs.filter_map(|message| message["executable"].as_str().map(str::to_owned));
    paths.next().unwrap_or_else(|| panic!("not built:\n{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_plugin_of_another_crate_is_built_in_and_serves() {
    let (_guard, workspace) = workspace();
    let cfg = original("plugin.cfg");
    let cache = cfg.lines().find(|line| line.trim_start_matches(['#', ' ']).starts_with("cache:")).expect("cache");
    workspace.write("plugin.cfg", &replaced(&cfg, cache, &format!("{PLUGIN_LINE}\n{cache}")));
    let manifest = replaced(&manifest(), "[[bin]]\nname = \"coredns-rs\"", &format!("[[bin]]\nname = \"{BINARY}\""));
    workspace.write(
        "Cargo.toml",
        &replaced(&manifest, "\n[dependencies]\n", &format!("\n[dependencies]\n{DEPENDENCY_LINE}\n")),
    );
    // All members, and a test beside the binary: so features are those of the build that runs this, and what it has
    // compiled is used.
    let arguments = ["build", "--workspace", "--bin", BINARY, "--test", "tidy", "--message-format=json"];
    let binary = executable(&workspace.cargo(&arguments));

    let listed = Command::new(&binary).arg("-plugins").output().expect("it runs");
    assert!(String::from_utf8_lossy(&listed.stdout).lines().any(|line| line == "blocklist"));
    let scratch = Scratch::new();
    scratch.write("names", "192.0.2.80 www.example.org\n192.0.2.81 ads.example.net\n");
    let corefile = ".:0 {\n    blocklist ads.example.net\n    hosts names\n}\n";
    let server = Running::start_in(&binary, scratch, corefile, &[]);
    check(&server.client(".").udp("www.ads.example.net A"), Rcode::NXDOMAIN, &[], &[SOA]);
    check(&server.client(".").udp("ads.example.net A"), Rcode::NXDOMAIN, &[], &[SOA]);
    check(
        &server.client(".").udp("www.example.org A"),
        Rcode::NOERROR,
        &["www.example.org. 3600 IN A 192.0.2.80"],
        &[],
    );
}

const SOA: &str = "ads.example.net. 300 IN SOA ns.ads.example.net. hostmaster.ads.example.net. 1 7200 1800 86400 300";

fn check(message: &Message, rcode: Rcode, answer: &[&str], authority: &[&str]) {
    assert_eq!(message.rcode(), rcode);
    same_records(&message.answer, answer, true, true).unwrap_or_else(|text| panic!("{text}"));
    same_records(&message.authority, authority, true, true).unwrap_or_else(|text| panic!("{text}"));
}

#[test]
fn a_bad_line_fails_the_build_with_its_number_and_the_remedy() {
    let (_guard, workspace) = workspace();
    let cfg = original("plugin.cfg");
    let line = cfg.lines().count() + 1;
    workspace.write("plugin.cfg", &format!("{cfg}nothere:nothere\nblocklist:acme_blocklist::plugin\n"));
    let output = workspace.cargo(&["build", "--lib"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{stderr}");
    for text in [
        format!(
            "plugin.cfg:{line}: there is no module 'nothere' under src/plugin; create src/plugin/nothere/mod.rs, name a \
             crate's plugin as crate::path, or delete this line"
        ),
        format!(
            "plugin.cfg:{}: the crate 'acme_blocklist' is not among the [dependencies] of Cargo.toml; add it there under \
             that name, or delete this line",
            line + 1
        ),
    ] {
        assert!(stderr.contains(&text), "{text}\nis missing in\n{stderr}");
    }
}
