//! Files with secrets: private keys, tokens, shared keys.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use coredns_corefile::excerpt_path;

/// Permissions of a group and of others to read.
const READ_BY_OTHERS: u32 = 0o044;

/// Protects the files that have been told about.
static TOLD: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// A warning for whoever reads a secret from `path`, where others than the owner may read it as well; once for each
/// file in the life of the process.
pub fn exposed_secret(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    let is_news =
        mode & READ_BY_OTHERS != 0 && TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
    let shown = excerpt_path(&path.to_string_lossy());
    is_news
        .then(|| format!("{shown} holds a secret and may be read by others than its owner; chmod 600 would end that"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_others_may_read_is_told_about_once() {
        let path = std::env::temp_dir().join(format!("coredns-secret-{}", std::process::id()));
        fs::write(&path, "secret").expect("a file");
        let mut told = Vec::new();
        for mode in [0o600, 0o400, 0o611, 0o640, 0o604, 0o644] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("our file");
            told.extend(exposed_secret(&path).map(|text| (mode, text)));
        }
        fs::remove_file(&path).expect("our file");
        let shown = path.display();
        let text = format!("{shown} holds a secret and may be read by others than its owner; chmod 600 would end that");
        assert_eq!(told, [(0o640, text)]);
        assert_eq!(exposed_secret(&path), None);
    }
}
