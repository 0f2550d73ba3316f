use coredns_testkit::{set_up, set_up_examples};

use super::DESCRIPTOR;
use crate::registry::DIRECTIVES;

#[test]
fn a_flag_of_the_block() {
    for stanza in ["debug", "debug\ndebug"] {
        let block = set_up(&[&DESCRIPTOR], stanza).expect("valid");
        assert!(block.debug && block.plugins.is_empty(), "{stanza}");
    }
    assert!(!set_up(&[&DESCRIPTOR], "").expect("valid").debug);
}

#[test]
fn errors() {
    for (stanza, error) in [
        (
            "debug off",
            "plugin/debug: Testfile:3 - Error during parsing: Wrong argument count or unexpected line ending after 'off'",
        ),
        ("debug {\n}", "plugin/debug: Testfile:3 - Error during parsing: Unexpected token '{', expecting argument"),
    ] {
        assert_eq!(set_up(&[&DESCRIPTOR], stanza).expect_err(stanza).to_string(), error);
    }
}

#[test]
fn readme() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    assert_eq!(blocks.iter().filter(|block| block.debug).count(), 1);
}
