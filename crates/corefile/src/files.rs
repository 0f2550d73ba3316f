//! Reading the files that a configuration names, and paths as text.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// Reads a regular file of at most `limit` octets.
///
/// # Errors
/// The file cannot be opened or read; it is a directory, a FIFO, a socket or a device, which reading could hang on;
/// it is larger than `limit`.
pub fn read_regular_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Before opening: opening a FIFO waits for a writer.
    require_regular(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    require_regular(&metadata)?;
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {limit} octets"));
    if metadata.len() > limit {
        return Err(too_large());
    }
    let mut content = Vec::new();
    // It may grow while it is read, and files of the kernel's own have no length at all.
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit { Err(too_large()) } else { Ok(content) }
}

fn require_regular(metadata: &fs::Metadata) -> io::Result<()> {
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(())
}

/// The text of a system error as Go words it: lower-case, without the number.
pub fn os_error_text(error: &io::Error) -> String {
    let text = error.to_string();
    let Some((text, _number)) = text.split_once(" (os error ") else {
        return text;
    };
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => String::new(),
    }
}

/// The shortest path with the same meaning by its text alone: no `.`, no doubled slash, no `..` but leading ones.
pub(crate) fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// The cleaned absolute form of a path.
///
/// # Errors
/// The working directory cannot be told.
pub(crate) fn absolute(path: &str) -> io::Result<String> {
    if path.starts_with('/') {
        return Ok(clean(path));
    }
    let directory = std::env::current_dir()?;
    Ok(clean(&format!("{}/{path}", directory.to_string_lossy())))
}

/// The directory part of a cleaned absolute path.
pub(crate) fn directory(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((directory, _)) => directory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleaned_paths() {
        let cases = [
            ("", "."),
            ("/", "/"),
            ("//a//b/", "/a/b"),
            ("./a/./b", "a/b"),
            ("a/../b", "b"),
            ("/../a", "/a"),
            ("../../a/..", "../.."),
            ("/a/b/../../c", "/c"),
        ];
        for (path, expected) in cases {
            assert_eq!(clean(path), expected, "{path}");
        }
        assert_eq!(directory("/a/b"), "/a");
        assert_eq!(directory("/a"), "/");
        assert_eq!(directory("/"), "/");
        assert_eq!(absolute("/x/../y").expect("no look-up"), "/y");
        assert!(absolute("y").expect("working directory").ends_with("/y"));
    }

    #[test]
    fn only_regular_files_are_read() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("file");
        fs::write(&path, "content").expect("writable");
        assert_eq!(read_regular_file(&path, 7).expect("fits"), b"content");
        let text = |path: &Path, limit| os_error_text(&read_regular_file(path, limit).expect_err("refused"));
        assert_eq!(text(&path, 6), "larger than 6 octets");
        assert_eq!(text(directory.path(), 7), "is a directory");
        assert_eq!(text(&directory.path().join("missing"), 7), "no such file or directory");
        assert_eq!(text(Path::new("/dev/null"), 7), "not a regular file");
    }

    #[test]
    fn a_fifo_is_refused_at_once() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
        assert!(made.success());
        let error = read_regular_file(&path, 7).expect_err("refused");
        assert_eq!(error.to_string(), "not a regular file");
    }
}
