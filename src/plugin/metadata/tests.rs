use std::sync::Arc;

use coredns_plugin::wire::{Name, Rcode};
use coredns_plugin::{Answer, Failure};
use coredns_testkit::{Harness, Scripted, query, set_up_block, set_up_examples};

use super::DESCRIPTOR;
use crate::registry::DIRECTIVES;

#[test]
fn zones_of_the_block() {
    let cases: &[(&str, Option<&[&str]>)] = &[
        ("", None),
        ("metadata", Some(&["example.org.", "example.net."])),
        ("metadata example.com. net.", Some(&["example.com.", "net."])),
        ("metadata 10.0.0.0/15", Some(&["0.10.in-addr.arpa.", "1.10.in-addr.arpa."])),
        ("metadata .:53", Some(&["."])),
    ];
    for (stanza, expected) in cases {
        let text = format!("example.org example.net {{\n{stanza}\n}}\n");
        let block = set_up_block(&[&DESCRIPTOR], &text).expect(stanza);
        let zones = block.metadata.as_ref().map(|zones| zones.as_slice().iter().map(Name::to_string).collect());
        assert_eq!(zones, expected.map(|zones| zones.iter().map(|zone| (*zone).to_owned()).collect::<Vec<_>>()));
        assert_eq!(block.plugins.len(), usize::from(expected.is_some()), "{stanza}");
    }
}

#[test]
fn queries_pass() {
    let block = set_up_block(&[&DESCRIPTOR], "example.org {\nmetadata\n}\n").expect("valid");
    let mut chain = block.plugins;
    assert_eq!(chain[0].name(), "metadata");
    chain.push(Arc::new(Scripted::new("below", |_| Answer::Failed(Failure::silent(Rcode::NOTIMP)))));
    assert_eq!(Harness::new(chain).ask_now(&query("example.org A")).rcode(), Some(Rcode::NOTIMP));
}

#[test]
fn errors() {
    for (stanza, line, last) in [
        ("metadata example.com. {\nsome_param\n}", 3, "some_param"),
        ("metadata\nmetadata", 3, "metadata"),
        ("metadata a.org\nmetadata b.org", 3, "metadata"),
    ] {
        let refused = set_up_block(&[&DESCRIPTOR], &format!("example.org {{\n{stanza}\n}}\n")).expect_err(stanza);
        let text = "Error during parsing: Wrong argument count or unexpected line ending after";
        assert_eq!(refused.to_string(), format!("plugin/metadata: Testfile:{line} - {text} '{last}'"), "{stanza}");
    }
}

#[test]
fn readme() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    assert_eq!(blocks.iter().filter(|block| block.metadata.is_some()).count(), 2);
}
