//! One query for many, and queries behind the client's back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coredns_plugin::wire::{Header, Rcode};
use coredns_plugin::{Answer, Core, Failure, Metadata, Next, Plugin, Query, Reply, Transport, clock};
use coredns_testkit::{Ask, Harness, Scripted};
use futures_util::future::join_all;

use super::{Gate, address, at, behind, config, reply};
use crate::plugin::cache::Cache;

fn gated(options: &str, gate: &Arc<Gate>) -> (Arc<Cache>, Arc<Harness>) {
    let cache = Arc::new(Cache::new(config(options)));
    let chain = vec![Arc::clone(&cache) as Arc<dyn Plugin>, Arc::clone(gate) as Arc<dyn Plugin>];
    (cache, Arc::new(Harness::new(chain)))
}

fn queries(count: usize, asked: &str, seconds: u64) -> Vec<Query> {
    let now = clock::now() + Duration::from_secs(seconds);
    (0..count).map(|_| at(&Ask::new(asked), "sharing", now)).collect()
}

/// Asks all at once and opens the gate for as many answers when they wait.
async fn ask_all(harness: &Harness, gate: &Gate, queries: &[Query], answers: usize) -> Vec<Answer> {
    let asking = join_all(queries.iter().map(|query| harness.ask(query)));
    let opening = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        gate.open.add_permits(answers);
    };
    futures_util::future::join(asking, opening).await.0
}

#[tokio::test(start_paused = true)]
async fn equal_questions_make_one_query() {
    let gate = Gate::new(|query| address(query, 60).into());
    let (cache, harness) = gated("", &gate);
    let answers = ask_all(&harness, &gate, &queries(200, "a.org A", 0), 1).await;
    assert_eq!((gate.calls(), cache.entries()), (1, (1, 0)));
    assert!(answers.into_iter().all(|answer| reply(answer).answer[0].ttl == 60));
}

#[tokio::test(start_paused = true)]
async fn other_bits_make_another_query() {
    let gate = Gate::new(|query| address(query, 60).into());
    let (_, harness) = gated("", &gate);
    let all: Vec<Query> =
        ["", "DO", "CD", "DO CD"].iter().flat_map(|bits| queries(2, &format!("a.org A {bits}"), 0)).collect();
    ask_all(&harness, &gate, &all, 4).await;
    assert_eq!(gate.calls(), 4);
}

#[test]
fn those_that_wait_on_other_threads_are_woken() {
    let gate = Gate::new(|query| address(query, 60).into());
    let (_, harness) = gated("", &gate);
    std::thread::scope(|scope| {
        let asking = |harness: &Arc<Harness>| {
            let harness = Arc::clone(harness);
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                let query = at(&Ask::new("a.org A"), "threads", clock::now());
                runtime.block_on(harness.ask(&query))
            }
        };
        let first = scope.spawn(asking(&harness));
        while gate.calls() == 0 {
            std::thread::yield_now();
        }
        // Those behind wait for at most two seconds; the gate opens long before, or for all of them.
        let others: Vec<_> = (0..4).map(|_| scope.spawn(asking(&harness))).collect();
        gate.open.add_permits(1);
        for one in others.into_iter().chain([first]) {
            assert_eq!(reply(one.join().expect("no panic")).answer.len(), 1);
        }
    });
    assert_eq!(gate.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_waits_goes_on_when_the_first_has_gone() {
    let gate = Gate::new(|query| address(query, 60).into());
    let (_, harness) = gated("", &gate);
    let all = queries(11, "a.org A", 0);
    let (first, others) = all.split_first().expect("some");
    let mut leader = Box::pin(harness.ask(first));
    assert!(futures_util::poll!(&mut leader).is_pending());
    let waiting = ask_all(&harness, &gate, others, 1);
    let leaving = async { drop(leader) };
    let (answers, ()) = futures_util::future::join(waiting, leaving).await;
    assert_eq!((answers.len(), gate.calls()), (10, 2));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_two_seconds_for_another() {
    let gate = Gate::new(|query| address(query, 60).into());
    let (_, harness) = gated("", &gate);
    let all = queries(2, "a.org A", 0);
    let begun = tokio::time::Instant::now();
    let opening = async {
        while gate.calls() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let waited = begun.elapsed();
        gate.open.add_permits(2);
        waited
    };
    let (_, waited) = futures_util::future::join(join_all(all.iter().map(|query| harness.ask(query))), opening).await;
    assert!((1990..2020).contains(&waited.as_millis()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_one_client_is_not_shared() {
    let gate = Gate::new(|query| {
        let mut reply = address(query, 60);
        reply.truncated = true;
        reply.into()
    });
    let (cache, harness) = gated("", &gate);
    ask_all(&harness, &gate, &queries(3, "a.org A", 0), 3).await;
    assert_eq!((gate.calls(), cache.entries()), (3, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_does_not_answer_is_left_alone_for_a_while() {
    let gate = Gate::new(|_| Answer::Failed(Failure::silent(Rcode::SERVFAIL)));
    let (cache, harness) = gated("", &gate);
    for (seconds, calls, answered) in [(0, 1, 1), (4, 1, 0), (6, 2, 1)] {
        let answers = ask_all(&harness, &gate, &queries(50, "a.org A", seconds), answered).await;
        assert!(answers.iter().all(|answer| matches!(answer, Answer::Failed(one) if one.rcode == Rcode::SERVFAIL)));
        assert_eq!((gate.calls(), cache.entries()), (calls, (0, 1)), "after {seconds} s");
    }
    let (cache, harness) = gated("servfail 0", &gate);
    ask_all(&harness, &gate, &queries(50, "a.org A", 0), 1).await;
    assert_eq!((gate.calls(), cache.entries()), (3, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_refresh_has_no_client_and_keeps_its_question() {
    let (_, harness, _) = behind(config("prefetch 1 1m 90%"), |query| {
        let of_client = query.client().port() != 0;
        if !of_client {
            assert_eq!(query.transport(), Transport::Tcp);
            assert!(query.header().has(Header::AD) && query.header().has(Header::CD) && query.dnssec_ok());
            assert!(query.client().ip().is_unspecified());
            query.metadata().expect("labels of its own").set("zone/wildcard", "*.org.");
        }
        address(query, if of_client { 10 } else { 60 }).into()
    });
    let now = clock::now();
    let ask = |seconds| {
        let mut query = at(&Ask::new("a.org A DO CD"), "refresh", now + Duration::from_secs(seconds));
        query.enter(None, Some(Arc::new(Metadata::new())));
        query
    };
    let mut seen = Vec::new();
    for seconds in [0, 5, 6] {
        let query = ask(seconds);
        let ttl = reply(harness.ask(&query).await).answer[0].ttl;
        tokio::time::sleep(Duration::from_millis(1)).await;
        seen.push((ttl, query.metadata().and_then(|metadata| metadata.get("zone/wildcard"))));
    }
    assert_eq!(seen, [(10, None), (5, None), (59, Some("*.org.".to_owned()))]);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_keeps_nothing_that_is_disabled() {
    let (cache, harness, calls) = behind(config("serve_stale 1h\ndisable denial org"), |query| {
        if query.client().port() == 0 {
            let mut reply = Reply::with_rcode("next", Rcode::NXDOMAIN);
            let soa = "org. 60 IN SOA ns.org. h.org. 1 2 3 4 5";
            reply.authority.push(coredns_plugin::wire::parse_record(soa).expect("a record"));
            return reply.into();
        }
        address(query, 60).into()
    });
    for seconds in [0, 90] {
        let query = at(&Ask::new("a.org A"), "disable", clock::now() + Duration::from_secs(seconds));
        assert_eq!(harness.ask(&query).await.rcode(), Some(Rcode::NOERROR));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!((calls.load(Ordering::Relaxed), cache.entries()), (2, (1, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_positive_answer_ends_a_stale_denial_also_with_verify() {
    let (cache, harness, calls) = behind(config("serve_stale 1h verify"), |query| {
        if query.received() > clock::now() + Duration::from_secs(60) {
            return address(query, 60).into();
        }
        let mut reply = Reply::with_rcode("next", Rcode::NXDOMAIN);
        let soa = "org. 60 IN SOA ns.org. h.org. 1 2 3 4 5";
        reply.authority.push(coredns_plugin::wire::parse_record(soa).expect("a record"));
        reply.into()
    });
    let mut rcodes = Vec::new();
    for seconds in [0, 90, 91] {
        let query = at(&Ask::new("a.org A"), "denial", clock::now() + Duration::from_secs(seconds));
        rcodes.push(harness.ask(&query).await.rcode());
    }
    assert_eq!(rcodes, [Some(Rcode::NXDOMAIN), Some(Rcode::NOERROR), Some(Rcode::NOERROR)]);
    assert_eq!((calls.load(Ordering::Relaxed), cache.entries()), (2, (1, 0)));
}

/// Whatever the source says, a stale answer comes whole, and never longer than it may.
#[tokio::test(start_paused = true)]
async fn stale_answers_outlive_any_source_for_their_time_only() {
    let modes = ["immediate", "verify", "verify 1s", "verify 1s 30s 30s", "immediate 30s 30s"];
    for mode in modes {
        for asked in ["a.org A", "a.org ANY", "a.org RRSIG", "a.org CNAME"] {
            for fault in [Rcode::SERVFAIL, Rcode::REFUSED, Rcode::FORMERR, Rcode::NOERROR] {
                stale_matrix(mode, asked, fault).await;
            }
        }
    }
}

async fn stale_matrix(mode: &str, asked: &str, fault: Rcode) {
    let now = clock::now();
    let line = match asked.rsplit(' ').next() {
        // Covers A, by algorithm 8; valid from 1970 to 2038.
        Some("RRSIG") => r"a.org. 60 IN RRSIG \# 24 0001 08 02 0000003c 7fffffff 00000000 0001 036f726700 00",
        Some("CNAME") => "a.org. 60 IN CNAME b.org.",
        _ => "a.org. 60 IN A 192.0.2.1",
    };
    let (_, harness, _) = behind(config(&format!("serve_stale 10m {mode}")), move |query| {
        let mut reply = Reply::new("next");
        reply.answer.push(coredns_plugin::wire::parse_record(line).expect("a record"));
        if query.received() > now + Duration::from_secs(30) {
            reply.rcode = fault;
            // With NOERROR the fault is that the reply is cut.
            reply.truncated = true;
        }
        reply.into()
    });
    let ask = async |seconds| {
        let query = at(&Ask::new(asked), "matrix", now + Duration::from_secs(seconds));
        let answer = reply(harness.ask(&query).await);
        tokio::time::sleep(Duration::from_millis(1)).await;
        (answer.rcode, answer.truncated, answer.answer.len())
    };
    for seconds in [0, 61, 120, 600, 659] {
        assert_eq!(ask(seconds).await, (Rcode::NOERROR, false, 1), "{mode}, {asked}, {fault}, after {seconds} s");
    }
    assert_eq!(ask(660).await, (fault, true, 1), "{mode}, {asked}, {fault}: too old");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_background_is_reported_and_the_next_refresh_runs() {
    use std::sync::atomic::AtomicUsize;
    #[derive(Default)]
    struct Reporting(AtomicUsize);
    struct Server(Arc<Reporting>);
    impl Core for Server {
        fn dispatch(&self, _query: Query) -> coredns_plugin::BoxFuture<'_, Answer> {
            Box::pin(async { Answer::Dropped })
        }
        fn shared(&self) -> Option<Arc<dyn Core>> {
            Some(Arc::new(Self(Arc::clone(&self.0))))
        }
        fn panicked(&self, _panic: Box<dyn std::any::Any + Send>) {
            self.0.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let next = Scripted::new("next", |query| {
        assert_ne!(query.client().port(), 0, "a refresh");
        address(query, 60).into()
    });
    let cache = Cache::new(config("serve_stale 1h"));
    let chain: Arc<[Arc<dyn Plugin>]> = Arc::new([Arc::new(cache) as Arc<dyn Plugin>, Arc::new(next)]);
    let server = Server(Arc::default());
    let now = clock::now();
    for (seconds, panics) in [(0, 0), (90, 1), (91, 2)] {
        let query = at(&Ask::new("a.org A"), "panic", now + Duration::from_secs(seconds));
        let answer = Next::start(&chain, &server).serve(&query).wait().await;
        assert_eq!(answer.rcode(), Some(Rcode::NOERROR));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(server.0.0.load(Ordering::Relaxed), panics);
    }
}
