//! File name patterns: `*` and `?` within one part of a path, `\` before a character that means itself.
//!
//! Sets (`[…]`) do not occur: an import refuses them, and a `[` alone is malformed.

use std::fs;
use std::path::{Path, PathBuf};

/// One part of a path, ready to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Char(char),
    One,
    Any,
}

/// A pattern that cannot be read: an open set or a `\` at the end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub(crate) struct PatternError;

/// Whether a text has characters that make it a pattern.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '\\'])
}

/// The existing files that an absolute pattern matches, in lexical order within each directory.
///
/// Directories that cannot be read match nothing.
pub(crate) fn matches(pattern: &str) -> Result<Vec<PathBuf>, PatternError> {
    let parts: Vec<Vec<Piece>> =
        pattern.split('/').filter(|part| !part.is_empty()).map(compile).collect::<Result<_, _>>()?;
    if !is_pattern(pattern) {
        let path = PathBuf::from(pattern);
        return Ok(if exists(&path) { vec![path] } else { Vec::new() });
    }
    let mut found = vec![PathBuf::from("/")];
    for part in parts {
        found = found.iter().flat_map(|directory| step(directory, &part)).collect();
    }
    Ok(found)
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// The entries of one directory that match one part.
fn step(directory: &Path, part: &[Piece]) -> Vec<PathBuf> {
    let literal: Option<String> = part
        .iter()
        .map(|piece| match piece {
            Piece::Char(character) => Some(*character),
            Piece::One | Piece::Any => None,
        })
        .collect();
    if let Some(name) = literal {
        let path = directory.join(name);
        return if exists(&path) { vec![path] } else { Vec::new() };
    }
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    names.retain(|name| name.to_str().is_some_and(|name| matches_name(part, name)));
    names.into_iter().map(|name| directory.join(name)).collect()
}

fn compile(part: &str) -> Result<Vec<Piece>, PatternError> {
    let mut pieces = Vec::new();
    let mut characters = part.chars();
    while let Some(character) = characters.next() {
        pieces.push(match character {
            '*' => Piece::Any,
            '?' => Piece::One,
            '[' => return Err(PatternError),
            '\\' => Piece::Char(characters.next().ok_or(PatternError)?),
            _ => Piece::Char(character),
        });
    }
    Ok(pieces)
}

/// Whether a name matches; the usual two-pointer walk, falling back to the last `*`.
fn matches_name(pattern: &[Piece], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut position) = (0, 0);
    let mut fallback: Option<(usize, usize)> = None;
    while position < name.len() {
        match pattern.get(at) {
            Some(Piece::Any) => {
                fallback = Some((at, position));
                at += 1;
                continue;
            }
            Some(Piece::One) => {
                at += 1;
                position += 1;
                continue;
            }
            Some(Piece::Char(character)) if name.get(position) == Some(character) => {
                at += 1;
                position += 1;
                continue;
            }
            _ => {}
        }
        let Some((star, start)) = fallback else {
            return false;
        };
        fallback = Some((star, start + 1));
        at = star + 1;
        position = start + 1;
    }
    pattern.iter().skip(at).all(|piece| *piece == Piece::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let cases = [
            ("*", "", true),
            ("*", ".hidden", true),
            ("*.conf", "a.conf", true),
            ("*.conf", ".conf", true),
            ("*.conf", "a.conf.bak", false),
            ("a*b", "aXbYb", true),
            ("a*b", "aXbY", false),
            ("?", "é", true),
            ("?", "", false),
            ("a?*", "a", false),
            ("a?*", "abc", true),
            ("\\*x", "*x", true),
            ("\\*x", "ax", false),
            ("a]", "a]", true),
        ];
        for (pattern, name, expected) in cases {
            let pieces = compile(pattern).expect("well formed");
            assert_eq!(matches_name(&pieces, name), expected, "{pattern} {name}");
        }
        assert_eq!(compile("a["), Err(PatternError));
        assert_eq!(compile("a\\"), Err(PatternError));
    }

    #[test]
    fn files_in_lexical_order() {
        let root = tempfile::tempdir().expect("temporary directory");
        for name in ["b/2.conf", "b/1.conf", "a/9.conf", "a/x.txt", "plain"] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("has one")).expect("writable");
            fs::write(path, "").expect("writable");
        }
        let root = root.path().to_str().expect("plain name");
        let cases: &[(&str, &[&str])] = &[
            ("b/*.conf", &["b/1.conf", "b/2.conf"]),
            ("?/*.conf", &["a/9.conf", "b/1.conf", "b/2.conf"]),
            ("*/x.txt", &["a/x.txt"]),
            ("plain", &["plain"]),
            ("plai\\n", &["plain"]),
            ("plain/*", &[]),
            ("missing", &[]),
            ("missing/*", &[]),
        ];
        for (pattern, expected) in cases {
            let found = matches(&format!("{root}/{pattern}")).expect("well formed");
            let expected: Vec<_> = expected.iter().map(|name| Path::new(root).join(name)).collect();
            assert_eq!(found, expected, "{pattern}");
        }
    }
}
