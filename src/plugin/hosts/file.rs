//! The hosts file: read at the start, and again when it has changed.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use coredns_plugin::corefile::{os_error_text, read_regular_file};
use coredns_plugin::{BoxError, Zones};
use tracing::{debug, warn};

use super::metrics;
use super::table::Table;

/// The largest file that is read, in octets.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The file of one directive and what it said last.
#[derive(Debug)]
pub(super) struct HostsFile {
    pub(super) path: PathBuf,
    zones: Zones,
    reverse: bool,
    /// Values of the inline entries, which the metric counts as well.
    inline_len: usize,
    /// What queries see.
    pub(super) table: ArcSwap<Table>,
}

/// By which a changed file is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    modified: SystemTime,
    size: u64,
}

impl HostsFile {
    pub(super) fn new(path: PathBuf, zones: Zones, reverse: bool, inline_len: usize) -> Self {
        Self { path, zones, reverse, inline_len, table: ArcSwap::default() }
    }

    /// Says what is wrong with the file before the first query: one that is missing or a directory may come later.
    pub(super) fn check(&self) -> Result<(), BoxError> {
        let path = self.path.display();
        let problem = match fs::metadata(&self.path) {
            Ok(metadata) if metadata.is_dir() => {
                warn!(target: "plugin/hosts", "Hosts file \"{path}\" is a directory");
                return Ok(());
            }
            Ok(metadata) if metadata.is_file() => return Ok(()),
            Ok(_) => "not a regular file".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                warn!(target: "plugin/hosts", "File does not exist: {path}");
                return Ok(());
            }
            Err(error) => format!("stat {path}: {}", os_error_text(&error)),
        };
        Err(format!("plugin/hosts: unable to access hosts file '{path}': {problem}").into())
    }

    /// Reads the file unless it is still what it was at `known`; returns what it is now.
    ///
    /// A file that cannot be read leaves the old data in place.
    fn refresh(&self, known: Option<Version>) -> Option<Version> {
        let Ok(metadata) = fs::metadata(&self.path) else { return known };
        let Ok(modified) = metadata.modified() else { return known };
        let version = Version { modified, size: metadata.len() };
        if known == Some(version) || !metadata.is_file() {
            return known;
        }
        let text = match read_regular_file(&self.path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) => {
                let reason = os_error_text(&error);
                warn!(target: "plugin/hosts", "Failed to read hosts file \"{}\": {reason}", self.path.display());
                // Nothing is gained by reading it again before it changes, unless rights change, which shows in
                // neither time nor size.
                return if error.kind() == io::ErrorKind::FileTooLarge { Some(version) } else { known };
            }
        };
        let table = Table::parse(&text, &self.zones, self.reverse);
        debug!(target: "plugin/hosts", "Parsed hosts file into {} entries", table.len());
        metrics::file_was_read(&self.path, table.len().saturating_add(self.inline_len), modified);
        self.table.store(Arc::new(table));
        Some(version)
    }
}

/// [`HostsFile::refresh`] on a thread that may block.
pub(super) async fn refresh(file: &Arc<HostsFile>, known: Option<Version>) -> Option<Version> {
    let file = Arc::clone(file);
    tokio::task::spawn_blocking(move || file.refresh(known)).await.unwrap_or(known)
}

/// Looks at the file every `interval`, for ever.
pub(super) async fn watch(file: Arc<HostsFile>, interval: Duration, mut known: Option<Version>) {
    loop {
        tokio::time::sleep(interval).await;
        known = refresh(&file, known).await;
    }
}
