//! From the configured paths to files, and to their bytes.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use foldhash::quality::RandomState;

use super::error::ManifestError;

/// Largest file that is read, in bytes.
pub const FILE_MAX_BYTES: u64 = 64 << 20;

/// Octets hashed at a time; the hash depends on it.
const CHUNK: usize = 64 << 10;

/// A hash of 128 bits, keyed afresh in each process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest(u64, u64);

/// Makes digests. Two independent keys of 64 bits each give one of 128.
#[derive(Clone, Default)]
pub(super) struct Digester(RandomState, RandomState);

impl Digester {
    pub(super) fn of(&self, value: &impl std::hash::Hash) -> Digest {
        Digest(self.0.hash_one(value), self.1.hash_one(value))
    }

    /// Passes a reader through, hashing what goes by.
    pub(super) fn reader<R: Read>(&self, inner: R) -> Hashing<R> {
        let hashers = (self.0.build_hasher(), self.1.build_hasher());
        Hashing { inner, hashers, chunk: Vec::new(), at: 0, ended: false }
    }
}

type FoldHasher = <RandomState as BuildHasher>::Hasher;

/// A reader that hashes its content in chunks of fixed size.
pub(super) struct Hashing<R> {
    inner: R,
    hashers: (FoldHasher, FoldHasher),
    chunk: Vec<u8>,
    at: usize,
    ended: bool,
}

impl<R: Read> Hashing<R> {
    /// Reads on to the end and gives the digest of the whole.
    pub(super) fn finish(mut self) -> io::Result<Digest> {
        while !self.ended {
            self.refill()?;
        }
        Ok(Digest(self.hashers.0.finish(), self.hashers.1.finish()))
    }

    fn refill(&mut self) -> io::Result<()> {
        self.at = 0;
        self.chunk.clear();
        let read = self.inner.by_ref().take(CHUNK as u64).read_to_end(&mut self.chunk)?;
        self.ended = read < CHUNK;
        self.hashers.0.write(&self.chunk);
        self.hashers.1.write(&self.chunk);
        Ok(())
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.chunk.len() && !self.ended {
            self.refill()?;
        }
        let mut rest = self.chunk.get(self.at..).unwrap_or_default();
        let read = rest.read(buffer)?;
        self.at += read;
        Ok(read)
    }
}

/// Opens a regular file of bearable size for reading.
///
/// Opening does not block, whatever the path names: a FIFO without a writer is refused like any other special file.
pub(super) fn open(path: &Path) -> io::Result<io::Take<File>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file; name a file, a directory or a pattern of files"));
    }
    if metadata.len() > FILE_MAX_BYTES {
        return Err(io::Error::other(format!(
            "the file has {} bytes and at most {FILE_MAX_BYTES} are read; split it",
            metadata.len()
        )));
    }
    Ok(file.take(FILE_MAX_BYTES + 1))
}

/// The files that paths name at present.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The files in order, each once.
    pub(super) files: Vec<PathBuf>,
    /// What could not be listed.
    pub(super) errors: Vec<ManifestError>,
    /// Directories that exist but could not be listed: what is held of them stays.
    pub(super) unlisted: Vec<PathBuf>,
    known: HashSet<PathBuf>,
}

/// Lists the files of all paths: in the order of the paths, and by name within a directory or pattern.
pub(super) fn list(paths: &[PathBuf]) -> Listing {
    let mut listing = Listing::default();
    for path in paths {
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => list_directory(path, &mut listing),
            Ok(_) => listing.add(path.clone()),
            Err(_) if is_pattern(path) => list_pattern(path, &mut listing),
            Err(error) if error.kind() == io::ErrorKind::NotFound => listing.errors.push(ManifestError::new(
                path,
                None,
                "no such file or directory; create it, or correct the path of the manifests option",
            )),
            // It may exist: the attempt to open it says what is wrong, and what is held of it stays.
            Err(_) => listing.add(path.clone()),
        }
    }
    listing
}

impl Listing {
    fn add(&mut self, path: PathBuf) {
        if self.known.insert(path.clone()) {
            self.files.push(path);
        }
    }
}

fn list_directory(path: &Path, listing: &mut Listing) {
    let entries = std::fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<PathBuf>>>());
    match entries {
        Ok(mut files) => {
            files.retain(|file| is_manifest(file) && !file.is_dir());
            files.sort();
            files.into_iter().for_each(|file| listing.add(file));
        }
        Err(error) => {
            listing.errors.push(ManifestError::new(path, None, format!("cannot list the directory: {error}")));
            listing.unlisted.push(path.to_owned());
        }
    }
}

fn list_pattern(path: &Path, listing: &mut Listing) {
    let options =
        glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
    match glob::glob_with(&path.to_string_lossy(), options) {
        Ok(files) => files.flatten().filter(|file| !file.is_dir()).for_each(|file| listing.add(file)),
        Err(error) => listing.errors.push(ManifestError::new(path, None, format!("not a valid pattern: {error}"))),
    }
}

/// Whether a path that does not exist literally is a shell pattern.
pub(super) fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// Whether a file of a directory is read: by its ending, and not if it is hidden.
fn is_manifest(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let known = ["yaml", "yml", "json"];
    !hidden && path.extension().is_some_and(|extension| known.iter().any(|known| extension == *known))
}

/// The directories in which a change may concern a path, for watching.
pub(super) fn watched_directory(path: &Path) -> PathBuf {
    if path.is_dir() {
        return path.to_owned();
    }
    let parent = path.ancestors().skip(1).find(|parent| !is_pattern(parent));
    parent.filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new(".")).to_owned()
}
