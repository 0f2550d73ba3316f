use coredns_plugin::wire::Rcode;
use coredns_plugin::{Answer, Failure, Transport};
use coredns_testkit::{Ask, Harness, Scripted, set_up, set_up_examples};

use super::DESCRIPTOR;
use crate::registry::DIRECTIVES;
use std::sync::Arc;

/// The size that plugins below see and that bounds the reply, for a query that offers `size`.
fn sizes(stanza: &str, size: Option<u16>, transport: Transport) -> (Option<u16>, usize) {
    let mut chain = set_up(&[&DESCRIPTOR], stanza).expect(stanza).plugins;
    chain.push(Arc::new(Scripted::new("below", |query| {
        let size = query.edns().map(|edns| edns.udp_size);
        // Handed back as the code: one number is all that is asked.
        Answer::Failed(Failure::silent(size.map_or(Rcode(1), Rcode)))
    })));
    let query = Ask { udp_size: size, transport, ..Ask::new("example.org A") }.query();
    let seen = Harness::new(chain).ask_now(&query).rcode().map(|code| code.0).filter(|code| *code != 1);
    (seen, query.reply_limit())
}

#[test]
fn sizes_are_lowered_and_never_raised() {
    for (stanza, size, seen, limit) in [
        ("bufsize 1024", Some(1152), Some(1024), 1024),
        ("bufsize 1024", Some(896), Some(896), 896),
        ("bufsize 1024", None, None, 512),
        ("bufsize", Some(4096), Some(1232), 1232),
        ("bufsize 512", Some(4096), Some(512), 512),
        ("bufsize 4096", Some(65_535), Some(4096), 4096),
        ("bufsize 1220", Some(100), Some(100), 512),
    ] {
        assert_eq!(sizes(stanza, size, Transport::Udp), (seen, limit), "{stanza} {size:?}");
    }
    assert_eq!(sizes("bufsize 1024", Some(4096), Transport::Tcp), (Some(1024), 65_535));
}

#[test]
fn errors() {
    for (stanza, last) in [
        ("bufsize 5000", "5000"),
        ("bufsize 4097", "4097"),
        ("bufsize 511", "511"),
        ("bufsize -1", "-1"),
        ("bufsize abc123", "abc123"),
        ("bufsize \"512 512\"", "512 512"),
        ("bufsize 512 512", "512"),
    ] {
        let refused = set_up(&[&DESCRIPTOR], stanza).expect_err(stanza).to_string();
        let text = "Error during parsing: Wrong argument count or unexpected line ending after";
        assert_eq!(refused, format!("plugin/bufsize: Testfile:3 - {text} '{last}'"), "{stanza}");
    }
}

#[test]
fn a_second_line_is_remarked_on() {
    let block = set_up(&[&DESCRIPTOR], "bufsize 600\nbufsize 700").expect("valid");
    assert_eq!((block.plugins.len(), block.warnings.len()), (1, 1));
    assert_eq!(sizes("bufsize 600\nbufsize 700", Some(4096), Transport::Udp).0, Some(600));
}

#[test]
fn readme() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    assert_eq!(blocks.iter().map(|block| block.plugins.len()).collect::<Vec<_>>(), [1, 1]);
}
