//! What is wrong with a manifest.

use std::fmt;
use std::path::{Path, PathBuf};

/// A file that cannot be used, and why. `Display` gives `file:line: what, and how to mend it`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ManifestError {
    /// The file, directory or pattern.
    pub path: PathBuf,
    /// The line, counted from 1, where there is one.
    pub line: Option<u64>,
    /// What is wrong and how to mend it.
    pub what: String,
}

impl ManifestError {
    pub(super) fn new(path: &Path, line: Option<u64>, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.what)
    }
}
