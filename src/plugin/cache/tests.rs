//! The plugin as a whole.

mod bounds;
mod sharing;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coredns_plugin::wire::{Header, Opcode, Rcode, Record, Request, option_code};
use coredns_plugin::{
    Answer, Failure, Lifecycle, Next, Outcome, Plugin, Query, Reply, ReplyEdns, ServerInfo, Stamp, Start, Zones, clock,
};
use coredns_testkit::{Ask, Harness, Scripted, query, set_up_examples};

use super::metrics::{Count, Numbers};
use super::{Cache, Config, DESCRIPTOR};

/// The configuration of a stanza.
fn config(options: &str) -> Config {
    use coredns_plugin::{BlockConfig, Setup, corefile};
    let text = format!(". {{\ncache {{\n{options}\n}}\n}}\n");
    let options = corefile::ParseOptions { directives: None, environment: &|_| None };
    let file = corefile::parse(&corefile::Source::new("Testfile", text), &options).expect("it parses");
    let directive = file.blocks[0].directive("cache").expect("it is there");
    let mut block = BlockConfig { zones: Zones::from_args(&["."]), ..BlockConfig::default() };
    Config::parse(&mut Setup::new("cache", directive.dispenser(), &mut block)).expect("valid")
}

/// A query as if it had come at `now`, to a listener called `label`.
fn at(ask: &Ask, label: &str, now: Instant) -> Query {
    let message = ask.message();
    let request = Request::parse(&message).expect("a query");
    let server = Arc::new(ServerInfo { label: label.to_owned(), host: String::new(), port: 53 });
    let mut query = Query::empty(server, ask.transport, now);
    query.receive(&message, request, ask.client, ([127, 0, 0, 1], 53).into(), now);
    query
}

fn address(query: &Query, ttl: u32) -> Reply {
    let mut reply = Reply::new("next");
    reply.answer.push(Record::a(query.name().clone(), ttl, [192, 0, 2, 1].into()));
    reply
}

/// A cache, and behind it what a script says at once; and how often that was asked.
fn behind(
    config: Config,
    script: impl Fn(&Query) -> Answer + Send + Sync + 'static,
) -> (Arc<Cache>, Harness, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let next = Scripted::new("next", move |query| {
        counted.fetch_add(1, Ordering::Relaxed);
        script(query)
    });
    let cache = Arc::new(Cache::new(config));
    let harness = Harness::new(vec![Arc::clone(&cache) as Arc<dyn Plugin>, Arc::new(next)]);
    (cache, harness, calls)
}

fn reply(answer: Answer) -> Reply {
    match answer {
        Answer::Reply(reply) => reply,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hit_has_the_case_of_its_question_and_the_author_of_the_answer() {
    let (_, harness, calls) = behind(config(""), |query| address(query, 60).into());
    let now = clock::now();
    for asked in ["www.Example.org A", "WWW.example.ORG A"] {
        let query = at(&Ask::new(asked), "case", now);
        let reply = reply(harness.ask_now(&query));
        assert!(reply.answer[0].owner.eq_exact(query.name()), "{asked}");
        assert_eq!(reply.author, "next");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn only_clients_that_ask_for_authenticity_see_it_and_hits_are_authoritative() {
    let (_, harness, _) = behind(config(""), |query| {
        let mut reply = address(query, 60);
        reply.authentic_data = query.header().has(Header::AD);
        reply.recursion_available = true;
        reply.into()
    });
    let now = clock::now();
    let seen: Vec<_> = ["a.org A", "a.org A AD", "a.org A"]
        .map(|asked| reply(harness.ask_now(&at(&Ask::new(asked), "ad", now))))
        .iter()
        .map(|reply| (reply.authentic_data, reply.authoritative, reply.recursion_available))
        .collect();
    assert_eq!(seen, [(false, false, true), (true, true, true), (false, true, true)]);
}

#[test]
fn what_is_no_query_is_passed_on() {
    let (cache, harness, calls) = behind(config(""), |query| address(query, 60).into());
    let now = clock::now();
    let _ = harness.ask_now(&at(&Ask::new("a.org SOA"), "opcode", now));
    let mut notify = Ask::new("a.org SOA");
    notify.flags = u16::from(Opcode::NOTIFY.0) << 11;
    for ask in [notify.clone(), notify, Ask::new("a.org AXFR"), Ask::new("a.org IXFR")] {
        let before = calls.load(Ordering::Relaxed);
        let reply = reply(harness.ask_now(&at(&ask, "opcode", now)));
        assert_eq!((calls.load(Ordering::Relaxed), reply.answer[0].ttl), (before + 1, 60));
    }
    assert!(cache.entries().0 <= 1);
}

#[test]
fn names_outside_of_the_zones_are_passed_on_without_a_count() {
    let mut config = config("");
    config.zones = Zones::from_args(&["example.org"]);
    let (cache, harness, _) = behind(config, |query| address(query, 1).into());
    let now = clock::now();
    assert_eq!(reply(harness.ask_now(&at(&Ask::new("a.net A"), "zones", now))).answer[0].ttl, 1);
    assert_eq!(cache.entries(), (0, 0));
    let numbers = Numbers::of("zones", "example.org.", "");
    assert_eq!(numbers.sum(Count::Requests), 0);
    assert_eq!(reply(harness.ask_now(&at(&Ask::new("a.Example.org A"), "zones", now))).answer[0].ttl, 5);
    assert_eq!((numbers.sum(Count::Requests), numbers.sum(Count::Misses)), (1, 1));
}

#[test]
fn an_answer_whose_data_have_changed_is_not_served() {
    let hash = 0x0009_0000_8765_4321;
    let (_, harness, calls) = behind(config("serve_stale"), move |query| {
        let mut reply = address(query, 60);
        reply.stamp = Some(Stamp::take(hash));
        reply.into()
    });
    let ask = |seconds| {
        let query = at(&Ask::new("a.org A"), "stamp", clock::now() + Duration::from_secs(seconds));
        let _ = harness.ask_now(&query);
        calls.load(Ordering::Relaxed)
    };
    assert_eq!((ask(0), ask(0)), (1, 1));
    Stamp::advance(hash);
    assert_eq!((ask(0), ask(0)), (2, 2));
    Stamp::advance(hash);
    assert_eq!(ask(90), 3, "not even as a stale answer");
}

#[test]
fn an_answer_for_a_subnet_is_for_its_client_alone() {
    let subnet =
        |scope: u8| [&option_code::CLIENT_SUBNET.to_be_bytes()[..], &[0, 7, 0, 1, 24, scope, 192, 0, 2]].concat();
    for (scope, calls_after_two, kept_edns) in [(0, 1, false), (24, 2, true)] {
        let (cache, harness, calls) = behind(config(""), move |query| {
            let mut reply = address(query, 60);
            reply.edns = Some(ReplyEdns { flags: 0, options: subnet(scope) });
            reply.into()
        });
        let now = clock::now();
        let first = reply(harness.ask_now(&at(&Ask::new("a.org A"), "subnet", now)));
        let _ = harness.ask_now(&at(&Ask::new("a.org A"), "subnet", now));
        assert_eq!(calls.load(Ordering::Relaxed), calls_after_two, "scope {scope}");
        assert_eq!(first.edns.is_some(), kept_edns, "scope {scope}");
        assert_eq!(cache.entries().0, usize::from(scope == 0));
    }
}

#[test]
fn a_failure_is_never_served_beyond_its_time() {
    let (_, harness, calls) = behind(config("serve_stale 1h"), |_| Reply::with_rcode("next", Rcode::SERVFAIL).into());
    let now = clock::now();
    for (seconds, asked) in [(0, 1), (4, 1), (5, 2), (20, 3)] {
        let query = at(&Ask::new("a.org A"), "failure", now + Duration::from_secs(seconds));
        assert_eq!(harness.ask_now(&query).rcode(), Some(Rcode::SERVFAIL));
        assert_eq!(calls.load(Ordering::Relaxed), asked, "after {seconds} s");
    }
}

#[test]
fn a_failure_that_comes_at_once_is_not_remembered() {
    let failing = |_: &Query| Answer::Failed(Failure::silent(Rcode::SERVFAIL));
    let (cache, harness, calls) = behind(config(""), failing);
    for _ in 0..3 {
        let _ = harness.ask_now(&query("a.org A"));
    }
    assert_eq!((calls.load(Ordering::Relaxed), cache.entries()), (3, (0, 0)));
}

#[test]
fn a_clock_that_goes_back_changes_no_ttl() {
    let (_, harness, _) = behind(config(""), |query| address(query, 60).into());
    let now = clock::now() + Duration::from_secs(3600);
    let ttl = |at_time| reply(harness.ask_now(&at(&Ask::new("a.org A"), "clock", at_time))).answer[0].ttl;
    // A query of an older batch sees the entry as new.
    assert_eq!((ttl(now), ttl(now - Duration::from_secs(3000)), ttl(now + Duration::from_secs(59))), (60, 60, 1));
}

#[test]
fn data_of_any_length_and_owners_of_any_kind_come_back() {
    let lines = [
        "a.org. 60 IN CNAME b.org.",
        "b.org. 60 IN CNAME c.org.",
        "c.org. 60 IN A 192.0.2.1",
        "c.org. 60 IN A 192.0.2.2",
    ];
    let long = [b'x'; 200];
    let (_, harness, _) = behind(config(""), move |_| {
        let mut reply = Reply::new("next");
        reply.answer.extend(lines.iter().map(|line| coredns_plugin::wire::parse_record(line).expect("a record")));
        reply.authority.push(Record::txt("org".parse().expect("a name"), 60, &[&long]));
        reply.additional.push(Record::txt("a.org".parse().expect("a name"), 60, &[&long, b"y"]));
        reply.into()
    });
    let now = clock::now();
    let ask = || reply(harness.ask_now(&at(&Ask::new("a.org A"), "data", now)));
    let (first, hit) = (ask(), ask());
    assert!(!first.authoritative && hit.authoritative);
    assert_eq!((&first.answer, &first.authority, &first.additional), (&hit.answer, &hit.authority, &hit.additional));
    assert_eq!(hit.answer.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn numbers_go_by_listener_zones_and_view() {
    let cache = Arc::new(Cache::new(config("serve_stale 1h")));
    let server = Arc::new(ServerInfo { label: "dns://:1053".into(), host: String::new(), port: 1053 });
    let start = Start { servers: vec![server], view: "inside".into(), ..Start::default() };
    cache.start(&start).await.expect("it starts");
    let next = Scripted::new("next", |query| address(query, 60).into());
    let harness = Harness::new(vec![Arc::clone(&cache) as Arc<dyn Plugin>, Arc::new(next)]);
    let now = clock::now();
    for seconds in [0, 1, 100] {
        let _ = harness.ask_now(&at(&Ask::new("a.org A"), "dns://:1053", now + Duration::from_secs(seconds)));
    }
    let numbers = Numbers::of("dns://:1053", ".", "inside");
    use super::judge::Side;
    let counts = [
        Count::Requests,
        Count::Hits(Side::Success),
        Count::Hits(Side::Denial),
        Count::Misses,
        Count::Stale,
        Count::Prefetches,
    ];
    assert_eq!(counts.map(|count| numbers.sum(count)), [3, 2, 0, 1, 1, 1]);
    (DESCRIPTOR.register_metrics)();
    let families = coredns_plugin::metrics::registry().gather();
    let entries = families.iter().find(|family| family.name() == "coredns_cache_entries").expect("registered");
    let of_view =
        entries.get_metric().iter().filter(|one| one.get_label().iter().any(|label| label.value() == "inside"));
    assert_eq!(of_view.map(|one| one.get_gauge().get_value()).sum::<f64>(), 1.0);
}

#[test]
fn the_examples_are_accepted() {
    let blocks = set_up_examples(&[&DESCRIPTOR], &["cache", "whoami"], include_str!("README.md"));
    assert_eq!(blocks.len(), 5);
    assert!(blocks.iter().all(|block| block.warnings.is_empty() && block.plugins.len() == 1));
}

/// Answers when a test lets it.
struct Gate {
    open: tokio::sync::Semaphore,
    calls: AtomicUsize,
    answer: Box<dyn Fn(&Query) -> Answer + Send + Sync>,
}

impl Gate {
    fn new(answer: impl Fn(&Query) -> Answer + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { open: tokio::sync::Semaphore::new(0), calls: AtomicUsize::new(0), answer: Box::new(answer) })
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Plugin for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn serve<'a>(&'a self, query: &'a Query, _next: Next<'a>) -> Outcome<'a> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Outcome::Later(Box::pin(async move {
            if let Ok(permit) = self.open.acquire().await {
                permit.forget();
            }
            (self.answer)(query)
        }))
    }
}
