use coredns_testkit::{set_up, set_up_examples};

use super::DESCRIPTOR;
use crate::registry::DIRECTIVES;

#[test]
fn a_number_of_the_block() {
    let cpus = std::thread::available_parallelism().expect("a number").get();
    for (stanza, sockets) in [
        ("", None),
        ("multisocket", Some(cpus)),
        ("multisocket 1", Some(1)),
        ("multisocket 2", Some(2)),
        ("multisocket 100", Some(100)),
        ("multisocket 1024", Some(1024)),
    ] {
        let block = set_up(&[&DESCRIPTOR], stanza).expect(stanza);
        assert_eq!(block.sockets, sockets, "{stanza}");
        assert!(block.plugins.is_empty(), "it is no handler");
    }
}

#[test]
fn errors() {
    let at = |line, message: &str| format!("plugin/multisocket: Testfile:{line} - Error during parsing: {message}");
    let plain = |message: &str| format!("plugin/multisocket: {message}");
    for (stanza, error) in [
        ("multisocket text", plain("invalid num sockets: strconv.Atoi: parsing \"text\": invalid syntax")),
        ("multisocket 0", plain("num sockets can not be zero or negative: 0")),
        ("multisocket -1", plain("num sockets can not be zero or negative: -1")),
        ("multisocket 1025", plain("num sockets exceeds maximum (1024): 1025")),
        ("multisocket 2 2", at(3, "Wrong argument count or unexpected line ending after '2'")),
        ("multisocket {\n}", at(3, "Unexpected token '{', expecting argument")),
        ("multisocket 2\nmultisocket 3", at(4, "Wrong argument count or unexpected line ending after 'multisocket'")),
    ] {
        assert_eq!(set_up(&[&DESCRIPTOR], stanza).expect_err(stanza).to_string(), error, "{stanza}");
    }
}

#[test]
fn readme() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    assert_eq!(blocks.iter().map(|block| block.sockets).collect::<Vec<_>>(), [Some(5)]);
}
