//! Build script: plugin.cfg becomes the static registry, and the version block gets its words.
//!
//! Writes `$OUT_DIR/registry.rs`, sets `cfg(plugin = "MODULE")` for every module that plugin.cfg lists, and the variables
//! `COREDNS_GIT_COMMIT`, `COREDNS_RUSTC_VERSION`, `COREDNS_TARGET_OS` and `COREDNS_TARGET_ARCH` for `env!`.
#![forbid(unsafe_code)]

#[path = "build/registry.rs"]
mod registry;
#[path = "build/version.rs"]
mod version;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

fn main() -> ExitCode {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    set_version(&root);
    let problems = match set_registry(&root) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(problems) => problems,
    };
    for problem in problems {
        println!("cargo::error={problem}");
    }
    ExitCode::FAILURE
}

/// Writes the registry and the cfg of each module, or says all that is wrong with plugin.cfg.
fn set_registry(root: &Path) -> Result<(), Vec<String>> {
    let text = read(root, registry::FILE)?;
    let modules_file = read(root, "src/plugin/mod.rs")?;
    let manifest = read(root, "Cargo.toml")?;
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");

    let source = registry::Source {
        modules: plugin_modules(&root.join("src/plugin")),
        declared: registry::declared_modules(&modules_file),
        crates: registry::dependency_crates(&manifest),
    };
    let entries = registry::read(&text, &source)?;
    // Names that are commented out count as known, so that a declared module without a line here is a compiler warning.
    let known: BTreeSet<&str> = entries.iter().filter_map(registry::Entry::local_module).collect();
    let values: Vec<String> = known.iter().map(|module| format!("{module:?}")).collect();
    println!("cargo::rustc-check-cfg=cfg(plugin, values({}))", values.join(", "));
    for module in entries.iter().filter(|entry| entry.active).filter_map(registry::Entry::local_module) {
        println!("cargo::rustc-cfg=plugin={module:?}");
    }
    let path = Path::new(&variable("OUT_DIR")).join("registry.rs");
    fs::write(&path, registry::generate(&entries))
        .map_err(|error| vec![format!("{}: cannot be written: {error}", path.display())])
}

/// Reads a file of the package and has the script run again when it changes.
fn read(root: &Path, name: &str) -> Result<String, Vec<String>> {
    println!("cargo::rerun-if-changed={name}");
    fs::read_to_string(root.join(name))
        .map_err(|error| vec![format!("{name}: cannot be read: {error}; restore it from the repository")])
}

/// Names with a `NAME/mod.rs` or a `NAME.rs` in the folder of the plugins.
///
/// Only names that plugin.cfg has are looked at later, so a file that comes or goes matters when plugin.cfg or
/// src/plugin/mod.rs changes too, and those are watched; a module that goes while it is declared fails to compile.
fn plugin_modules(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let path = entry.path();
            let is_module = path.join("mod.rs").is_file() || path.extension()? == "rs";
            is_module.then(|| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))?
        })
        .collect()
}

/// Sets the variables of the version block.
fn set_version(root: &Path) {
    let rustc = output(Command::new(variable("RUSTC")).arg("--version")).unwrap_or_default();
    println!("cargo::rustc-env=COREDNS_RUSTC_VERSION={}", version::rustc_release(&rustc));
    println!("cargo::rustc-env=COREDNS_TARGET_OS={}", variable("CARGO_CFG_TARGET_OS"));
    let architecture =
        version::go_architecture(&variable("CARGO_CFG_TARGET_ARCH"), &variable("CARGO_CFG_TARGET_ENDIAN"));
    println!("cargo::rustc-env=COREDNS_TARGET_ARCH={architecture}");
    println!("cargo::rustc-env=COREDNS_GIT_COMMIT={}", git_commit(root));
}

/// The commit that is built: what the packager says in `COREDNS_GIT_COMMIT`, else what git says, else nothing.
fn git_commit(root: &Path) -> String {
    println!("cargo::rerun-if-env-changed=COREDNS_GIT_COMMIT");
    if let Ok(commit) = env::var("COREDNS_GIT_COMMIT") {
        return commit.trim().to_owned();
    }
    let git = |arguments: &[&str]| output(Command::new("git").arg("-C").arg(root).args(arguments));
    // An unpacked source archive may lie inside a repository of something else, whose commit would be a lie.
    if git(&["rev-parse", "--show-prefix"]).is_none_or(|prefix| !prefix.is_empty()) {
        return String::new();
    }
    // HEAD changes with the branch, its log with every commit. A path that is absent would run this script every time.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]).map(|path| root.join(path));
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    git(&["rev-parse", "--short", "HEAD"]).unwrap_or_default()
}

/// What a program prints, trimmed; none when it cannot be run or fails.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A variable that cargo sets for build scripts; empty when it is missing.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
