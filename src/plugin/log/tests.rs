//! The plugin as a whole: directive, rules, lines.

use std::net::SocketAddr;
use std::sync::Arc;

use coredns_plugin::wire::{Rcode, parse_record};
use coredns_plugin::{Answer, BlockConfig, Metadata, Query, Reply, Transport};
use coredns_testkit::{Ask, Harness, LogCapture, Scripted, query, set_up, set_up_examples};

use super::DESCRIPTOR;

/// What the plugin behind does with each query of these tests.
fn answer(query: &Query) -> Answer {
    let mut reply = Reply::authoritative("next");
    let first = query.name().labels().next().unwrap_or_default().to_ascii_lowercase();
    match &first[..] {
        b"denied" => {
            reply.rcode = Rcode::NXDOMAIN;
            reply
                .authority
                .push(parse_record("example.org. 5 IN SOA ns.example.org. h.example.org. 1 2 3 4 5").expect("valid"));
        }
        b"failed" => return Answer::failed(Rcode::SERVFAIL, "no"),
        b"refused" => return Answer::failed(Rcode::REFUSED, "no"),
        b"odd" => reply.rcode = Rcode(3841),
        b"dropped" => return Answer::Dropped,
        b"flags" => {
            reply.truncated = true;
            reply.recursion_available = true;
            reply.authentic_data = true;
        }
        _ => reply.answer.push(parse_record("www.example.org. 5 IN A 192.0.2.1").expect("valid")),
    }
    reply.into()
}

fn harness(config: &BlockConfig) -> Harness {
    let mut chain = config.plugins.clone();
    chain.push(Arc::new(Scripted::new("next", answer)));
    Harness::new(chain)
}

/// The line that a query leaves, without level.
fn line(stanza: &str, query: &Query) -> Option<String> {
    let config = set_up(&[&DESCRIPTOR], stanza).unwrap_or_else(|error| panic!("{stanza}: {error}"));
    let log = LogCapture::start();
    drop(harness(&config).ask_now(query));
    let lines = log.take();
    assert!(lines.len() < 2, "{lines:?}");
    lines.first().map(|line| line.strip_prefix("[INFO] ").expect("of this level, without a plugin's name").to_owned())
}

/// The line of a query without its last word, the duration.
fn without_duration(line: Option<String>) -> String {
    let line = line.expect("a line");
    let (head, duration) = line.rsplit_once(' ').expect("several words");
    let seconds = duration.strip_suffix('s').expect("seconds");
    assert!(seconds.parse::<f64>().is_ok_and(|seconds| (0.0..60.0).contains(&seconds)), "{line}");
    assert!(!seconds.contains('e'), "{line}");
    head.to_owned()
}

#[test]
fn the_default_line() {
    let mut ask = Ask::new("WWW.Example.org A DO");
    ask.client = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 50759));
    // Header 12, question 21, OPT 11; the answer adds 31.
    assert_eq!(
        without_duration(line("log", &ask.query())),
        "[::1]:50759 - 10794 \"A IN www.example.org. udp 44 true 4096\" NOERROR qr,aa,rd 64"
    );
    ask.transport = Transport::Tls;
    assert_eq!(
        without_duration(line("log", &ask.query())),
        "[::1]:50759 - 10794 \"A IN www.example.org. tcp 44 true 65535\" NOERROR qr,aa,rd 64"
    );
}

#[test]
fn what_the_server_will_cut_is_logged_with_tc_and_its_full_size() {
    for (records, udp_size, expected) in [
        // Header 12, question 21, 16 a record where compressed and 31 where not.
        (29, None, "qr,aa,rd 932"),
        (30, None, "qr,aa,tc,rd 963"),
        // The OPT record takes 11 octets of the 512.
        (30, Some(523), "qr,aa,tc,rd 963"),
        (30, Some(524), "qr,aa,rd 963"),
    ] {
        let config = set_up(&[&DESCRIPTOR], "log . \"{>rflags} {rsize}\"").expect("valid");
        let mut chain = config.plugins.clone();
        chain.push(Arc::new(Scripted::new("next", move |_| {
            let mut reply = Reply::authoritative("next");
            let record = parse_record("www.example.org. 5 IN A 192.0.2.1").expect("valid");
            reply.answer.extend(std::iter::repeat_n(record, records));
            reply.into()
        })));
        let log = LogCapture::start();
        let mut ask = Ask::new("www.example.org A");
        ask.udp_size = udp_size;
        drop(Harness::new(chain).ask_now(&ask.query()));
        assert_eq!(log.take(), [format!("[INFO] {expected}")], "{records} {udp_size:?}");
    }
}

#[test]
fn each_placeholder() {
    for (format, asked, expected) in [
        ("{type} {class}", "a TYPE65280 CH", "TYPE65280 CH"),
        ("{name}", "A.B", "a.b."),
        ("{proto} {size} {>do} {>bufsize}", "a AAAA", "udp 19 false 512"),
        ("{remote} {port} {local}", "a A", "10.240.0.1 40212 127.0.0.1"),
        ("{>id} {>opcode}", "a A", "10794 0"),
        ("{rcode} {>rflags} {rsize}", "denied A", "NXDOMAIN qr,aa,rd 98"),
        ("{rcode} {>rflags} {rsize}", "flags A CD", "NOERROR qr,aa,tc,rd,ra,ad,cd 23"),
        ("{rcode} {>rflags} {rsize}", "failed A", "SERVFAIL qr,rd 24"),
        ("{rcode}", "refused A", "REFUSED"),
        ("{rcode}", "odd A", "3841"),
        ("{rcode} {>rflags} {rsize}", "dropped A", "- - 0"),
        ("{{remote}} { A {remote} A }", "a A", "{10.240.0.1} { A 10.240.0.1 A }"),
        ("{host} {NAME} }{ {name", "a A", "{host} {NAME} }{ {name"),
        ("{/a/b} {/a/c}", "a A", "- -"),
        ("{name}", r"foo\.%s\010\200 A", r"foo\.%s\010\200."),
    ] {
        let stanza = format!("log . \"{format}\"");
        assert_eq!(line(&stanza, &query(asked)).as_deref(), Some(expected), "{format}");
    }
}

#[test]
fn common_and_combined_are_expanded() {
    let asked = query("a A");
    let common = "10.240.0.1:40212 - 10794 \"A IN a. udp 19 false 512\" NOERROR qr,aa,rd 50";
    assert_eq!(without_duration(line("log", &asked)), common);
    assert_eq!(without_duration(line("log . {common}", &asked)), common);
    for (stanza, end) in [("log . {combined}", "\"0\""), ("log . \"{combined} {/forward/upstream}\"", "\"0\" -")] {
        let line = line(stanza, &asked).expect("a line");
        assert_eq!(without_duration(line.strip_suffix(end).map(|line| line.trim_end().to_owned())), common);
    }
}

#[test]
fn metadata_are_set_before_the_line_is_made() {
    let mut asked = query("denied A");
    let store = Arc::new(Metadata::new());
    store.set("a/b", "value");
    asked.enter(None, Some(Arc::clone(&store)));
    let stanza = "log . \"{/log/type} {/log/class} {/a/b} {/a/c}\"";
    assert_eq!(line(stanza, &asked).as_deref(), Some("NXDOMAIN denial value -"));
    assert_eq!(line("log . {/log/type} {\nclass error\n}", &asked), None);
    assert_eq!(store.get("log/class").as_deref(), Some("denial"));
}

#[test]
fn the_first_rule_that_names_the_query_decides() {
    let stanza = "log A.example.org \"1 {name}\" {\nclass error\n}\nlog example.org x.test \"2 {name}\"";
    for (asked, expected) in [
        ("a.example.org", None),
        ("failed.a.EXAMPLE.org", Some("1 failed.a.example.org.")),
        ("b.example.org", Some("2 b.example.org.")),
        ("X.test", Some("2 x.test.")),
        ("bexample.org", None),
    ] {
        assert_eq!(line(stanza, &query(asked)).as_deref(), expected, "{asked}");
    }
}

#[test]
fn classes() {
    let asked = ["a", "denied", "failed", "refused", "dropped"];
    for (options, logged) in [
        ("", "a denied failed refused dropped"),
        ("class all", "a denied failed refused dropped"),
        ("class success", "a"),
        ("class denial", "denied"),
        ("class error", "failed refused dropped"),
        ("class success\nclass denial", "a denied"),
        ("class denial error", "denied failed refused dropped"),
        ("class denial all", "a denied failed refused dropped"),
    ] {
        let stanza = format!("log . {{name}} {{\n{options}\n}}");
        let found: Vec<&str> = asked.into_iter().filter(|name| line(&stanza, &query(name)).is_some()).collect();
        assert_eq!(found.join(" "), logged, "{options}");
    }
}

#[test]
fn the_outcome_is_passed_on() {
    let config = set_up(&[&DESCRIPTOR], "log . {rcode}").expect("valid");
    let log = LogCapture::start();
    let Answer::Failed(failure) = Harness::new(config.plugins).ask_now(&query("a A")) else { panic!("answered") };
    assert_eq!(failure.error.expect("a reason").to_string(), "plugin/log: no next plugin found");
    assert_eq!(log.take(), ["[INFO] SERVFAIL"]);
}

#[test]
fn one_argument_is_a_name() {
    let config = set_up(&[&DESCRIPTOR], "log {combined}").expect("valid");
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    let log = LogCapture::start();
    drop(harness(&config).ask_now(&query("a A")));
    assert!(log.take().is_empty());
    assert_eq!(set_up(&[&DESCRIPTOR], "log a..b").expect("valid").warnings.len(), 1);
}

#[test]
fn error_texts() {
    for (stanza, error) in [
        ("log {\nclass abracadabra\n}", "invalid Class: abracadabra"),
        ("log {\nclass\n}", "Wrong argument count or unexpected line ending after 'class'"),
        ("log {\nunknown\n}", "unknown property 'unknown'"),
    ] {
        let found = set_up(&[&DESCRIPTOR], stanza).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(found, Err(format!("plugin/log: Testfile:4 - Error during parsing: {error}")), "{stanza}");
    }
}

#[test]
fn the_examples_are_accepted() {
    let blocks = set_up_examples(&[&DESCRIPTOR], &["log"], include_str!("README.md"));
    assert_eq!(blocks.len(), 3);
    assert!(blocks.iter().all(|block| block.warnings.is_empty() && block.plugins.len() == 1));
}
