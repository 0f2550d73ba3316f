//! What the rules look at: the files of the repository and the lines of plugin.cfg.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders without text of ours: what is built, what git keeps, and data that must stay as it is, byte for byte.
const SKIPPED: &[&str] = &["target", ".git", "corpus", "golden", "testdata", "vectors"];

/// A file of the repository.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Path from the root, with `/`.
    pub(crate) path: String,
    /// The whole content.
    pub(crate) text: String,
}

/// A line of plugin.cfg that names a plugin.
#[derive(Debug)]
pub(crate) struct PluginLine {
    /// Name of the directive.
    pub(crate) name: String,
    path: String,
    active: bool,
}

impl PluginLine {
    /// The module under src/plugin of a plugin that is built in.
    pub(crate) fn active_module(&self) -> Option<&str> {
        (self.active && !self.path.contains(':')).then_some(self.path.as_str())
    }
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file whose name ends with one of the endings (or is one of them), sorted by path.
pub(crate) fn files(endings: &[&str]) -> Vec<SourceFile> {
    let mut folders = vec![root().to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in children(&folder) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                if !SKIPPED.contains(&name.as_ref()) {
                    folders.push(path);
                }
            } else if endings.contains(&name.rsplit('.').next().unwrap_or_default()) {
                found.push(path);
            }
        }
    }
    found.sort();
    found.into_iter().map(|path| read(&path)).collect()
}

/// What a folder holds, without symbolic links.
fn children(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| !path.is_symlink())
        .collect()
}

/// Reads a file, which must be UTF-8.
fn read(path: &Path) -> SourceFile {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let relative = path.strip_prefix(root()).unwrap_or(path);
    SourceFile { path: relative.to_string_lossy().replace('\\', "/"), text }
}

/// Folders of the repository's packages from the root, each empty or with a `/` at its end.
pub(crate) fn package_folders() -> Vec<String> {
    files(&["toml"])
        .into_iter()
        .filter(|file| file.text.lines().any(|line| line.trim() == "[package]"))
        .filter_map(|file| file.path.strip_suffix("Cargo.toml").map(str::to_owned))
        .collect()
}

/// The plugins that plugin.cfg names, built in or commented out, in order.
pub(crate) fn plugins() -> Vec<PluginLine> {
    let file = read(&root().join("plugin.cfg"));
    file.text
        .lines()
        .filter_map(|line| {
            let active = !line.starts_with('#');
            let mut words = line.trim_start_matches('#').split_whitespace();
            let (name, path) = words.next()?.split_once(':')?;
            // Prose has more words than a name and why it is left out, or an empty side of its colon.
            (!name.is_empty() && !path.is_empty() && words.count() <= 1).then(|| PluginLine {
                name: name.to_owned(),
                path: path.to_owned(),
                active,
            })
        })
        .collect()
}
