use std::path::Path;

use coredns_testkit::{set_up, set_up_examples};

use super::DESCRIPTOR;
use crate::registry::DIRECTIVES;

#[test]
fn the_last_folder_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let existing = folder.path().to_str().expect("a UTF-8 path");
    let missing = format!("{existing}/missing");
    for (stanza, root, warning) in [
        (format!("root {existing}"), existing, None),
        (format!("root \"{existing}\""), existing, None),
        (format!("root /nowhere/at/all\nroot {existing}"), existing, None),
        (
            format!("root {missing}"),
            missing.as_str(),
            Some(format!("plugin/root: Root path does not exist: {missing}")),
        ),
    ] {
        let block = set_up(&[&DESCRIPTOR], &stanza).expect("valid");
        assert_eq!(block.root, Path::new(root), "{stanza}");
        let warnings: Vec<String> = block.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings, Vec::from_iter(warning), "{stanza}");
        assert!(block.plugins.is_empty(), "it is no handler");
    }
}

#[test]
fn errors() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let below = format!("{}/x", file.path().display());
    for (stanza, error) in [
        ("root".to_owned(), "Wrong argument count or unexpected line ending after 'root'".to_owned()),
        ("root /a /b".to_owned(), "Wrong argument count or unexpected line ending after '/b'".to_owned()),
        ("root {\n/dir\n}".to_owned(), "Wrong argument count or unexpected line ending after '/dir'".to_owned()),
        ("root /a\0b".to_owned(), "unable to access root path '/a\\0b': stat /a\\0b: invalid argument".to_owned()),
        (format!("root {below}"), format!("unable to access root path '{below}': stat {below}: not a directory")),
    ] {
        let refused = set_up(&[&DESCRIPTOR], &stanza).expect_err(&stanza);
        assert_eq!(refused.message(), error, "{stanza:?}");
        assert!(refused.to_string().starts_with("plugin/root: Testfile:"), "{refused}");
        assert!(refused.to_string().contains(" - Error during parsing: "), "{refused}");
    }
}

#[test]
fn readme() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    assert_eq!(blocks.iter().map(|block| block.root.as_path()).collect::<Vec<_>>(), [Path::new("/etc/coredns/zones")]);
}
