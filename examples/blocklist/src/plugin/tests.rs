use coredns_plugin::metrics::registry;
use coredns_plugin::wire::Rcode;
use coredns_plugin::{Answer, Reply};
use coredns_testkit::process::Scratch;
use coredns_testkit::{Harness, Scripted, query, same_records, set_up, set_up_examples};

use super::{DESCRIPTOR, NAME};

/// A chain of the plugin and one that answers everything without error.
fn chain(stanza: &str) -> Harness {
    let mut plugins = set_up(&[&DESCRIPTOR], stanza).expect("a valid stanza").plugins;
    plugins.push(std::sync::Arc::new(Scripted::new("behind", |_| Reply::new("behind").into())));
    Harness::new(plugins)
}

fn reply(harness: &Harness, question: &str) -> Reply {
    let Answer::Reply(reply) = harness.ask_now(&query(question)) else { panic!("no reply to {question}") };
    reply
}

#[test]
fn listed_names_and_all_below_are_blocked() {
    let harness = chain("blocklist ads.example.net Tracker.example.org.");
    for (question, listed) in [
        ("ads.example.net A", Some("ads.example.net.")),
        ("ADS.Example.Net HTTPS", Some("ads.example.net.")),
        ("a.b.ads.example.net AAAA", Some("ads.example.net.")),
        ("x.tracker.example.org A", Some("Tracker.example.org.")),
        ("example.net A", None),
        ("badads.example.net A", None),
        (". NS", None),
    ] {
        let reply = reply(&harness, question);
        let Some(listed) = listed else {
            assert_eq!((reply.rcode, reply.author), (Rcode::NOERROR, "behind"), "{question}");
            continue;
        };
        assert_eq!((reply.rcode, reply.author, reply.authoritative), (Rcode::NXDOMAIN, NAME, true), "{question}");
        let soa = format!("{listed} 300 IN SOA ns.{listed} hostmaster.{listed} 1 7200 1800 86400 300");
        same_records(&reply.authority, &[soa], true, true).unwrap_or_else(|text| panic!("{question}: {text}"));
        assert!(reply.answer.is_empty(), "{question}");
    }
}

#[test]
fn the_root_blocks_everything_and_the_longest_name_counts() {
    let harness = chain("blocklist . example.org");
    for (question, owner) in [("www.example.org A", "example.org."), ("example.net A", "."), (". NS", ".")] {
        assert_eq!(reply(&harness, question).authority[0].owner.to_string(), owner, "{question}");
    }
}

#[test]
fn refuse_says_refused_and_why() {
    let reply = reply(&chain("blocklist example.net {\n refuse\n}"), "www.example.net A DO");
    assert_eq!(reply.rcode, Rcode::REFUSED);
    assert!(reply.authority.is_empty());
    let options = reply.edns.as_ref().map(|edns| edns.options.as_slice());
    assert_eq!(options, Some(&[0, 15, 0, 2, 0, 15][..]), "extended error 15, blocked");
}

#[test]
fn names_come_from_files() {
    let scratch = Scratch::new();
    let list = scratch.write("list", "# advertising\nads.example.net\n\n  tracker.example.org  # and below\n");
    let harness = chain(&format!("blocklist {} example.com", list.display()));
    for name in ["ads.example.net", "www.tracker.example.org", "example.com"] {
        assert_eq!(reply(&harness, name).rcode, Rcode::NXDOMAIN, "{name}");
    }
    assert_eq!(reply(&harness, "advertising").rcode, Rcode::NOERROR);
}

#[test]
fn blocked_queries_are_counted() {
    (DESCRIPTOR.register_metrics)();
    let count = || {
        let families = registry().gather();
        let family = families.iter().find(|family| family.name() == "coredns_blocklist_blocked_total");
        family.expect("registered").get_metric()[0].get_counter().get_value()
    };
    let before = count();
    let harness = chain("blocklist example.net");
    assert_eq!(reply(&harness, "example.net A").rcode, Rcode::NXDOMAIN);
    // Other tests count as well, in threads of the same process.
    assert!(count() >= before + 1.0);
}

#[test]
fn mistakes_are_explained() {
    let scratch = Scratch::new();
    let list = scratch.write("list", "example.net\nexample..org\n");
    let list = list.display();
    for (stanza, text) in [
        ("blocklist a..b".to_owned(), "Testfile:3 - Error during parsing: 'a..b' is not a domain name: ".to_owned()),
        (format!("blocklist {list}"), format!("Testfile:3 - Error during parsing: {list}:2: 'example..org' is not a ")),
        (
            "blocklist ./nothing".to_owned(),
            "Testfile:3 - Error during parsing: open ./nothing: no such file or directory".to_owned(),
        ),
        ("blocklist a {\n drop\n}".to_owned(), "Testfile:4 - Error during parsing: unknown property 'drop'".to_owned()),
        (
            "blocklist a {\n refuse x\n}".to_owned(),
            "Testfile:4 - Error during parsing: Wrong argument count or unexpected line ending after 'x'".to_owned(),
        ),
        ("blocklist a\nblocklist b".to_owned(), "this plugin can only be used once per Server Block".to_owned()),
    ] {
        let refused = set_up(&[&DESCRIPTOR], &stanza).expect_err(&stanza).to_string();
        assert!(refused.starts_with(&format!("plugin/blocklist: {text}")), "{stanza}: {refused}");
    }
}

#[test]
fn an_empty_list_is_remarked_on() {
    let block = set_up(&[&DESCRIPTOR], "blocklist").expect("legal");
    let warnings: Vec<String> = block.warnings.iter().map(ToString::to_string).collect();
    let text = "plugin/blocklist: the list is empty, so nothing is blocked";
    assert_eq!(warnings, [text]);
}

#[test]
fn examples_of_the_readme() {
    let blocks = set_up_examples(&[&DESCRIPTOR], &["blocklist", "whoami"], include_str!("../../README.md"));
    assert_eq!(blocks.iter().map(|block| block.plugins.len()).collect::<Vec<_>>(), [1]);
}
