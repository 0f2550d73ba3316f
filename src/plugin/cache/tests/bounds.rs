//! What a store takes, what has to go, and what a hit costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coredns_plugin::wire::{Name, Rcode, Record, RrType};
use coredns_plugin::{Answer, Lifecycle, Plugin, Reply, Start, clock};
use coredns_testkit::{Ask, Harness, query};

use super::{address, at, behind, config, reply};
use crate::plugin::cache::entry::{Entry, Facts, Key};
use crate::plugin::cache::store::Store;

/// An entry with `octets` octets of data.
fn entry(name: &Name, hash: u64, octets: usize, now: Instant) -> Entry {
    let query = query("a.org A");
    let key = Key { hash, name, ..Key::of(&query, 0) };
    let mut reply = Reply::new("next");
    let strings = vec![b'x'; octets];
    reply.answer.push(Record::txt(name.clone(), 60, &[&strings]));
    let facts = Facts { stored: now, ttl: 60, answers: true, wildcard: None };
    Entry::of(&key, &reply, facts).expect("it fits into a message")
}

fn name(number: usize) -> Name {
    format!("n{number}.org").parse().expect("a name")
}

/// Spreads numbers over all bits, as the hashes of names are.
fn spread(number: usize) -> u64 {
    (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

#[test]
fn octets_are_bounded_whatever_the_number_of_entries() {
    let store = Store::new(10_000, Duration::ZERO, 7);
    let now = clock::now();
    let mut evicted = 0;
    for number in 0..4000 {
        evicted += store.put(entry(&name(number), spread(number), 60_000, now), now, |_, _| {}).evicted;
    }
    assert!(store.octets() <= 64 << 20, "{}", store.octets());
    assert!(store.len() > 700, "{}", store.len());
    assert_eq!(store.len() as u64 + evicted, 4000);
}

#[test]
fn the_number_of_entries_is_bounded() {
    let store = Store::new(1024, Duration::ZERO, 7);
    let now = clock::now();
    for number in 0..10_000 {
        store.put(entry(&name(number), spread(number), 10, now), now, |_, _| {});
    }
    assert_eq!(store.len(), 1024);
    for number in 0..10_000 {
        let question = query(&format!("n{number}.org A"));
        store.remove(&Key { hash: spread(number), ..Key::of(&question, 0) });
    }
    assert_eq!((store.len(), store.octets()), (0, 0));
}

#[test]
fn a_hash_that_two_questions_share_is_no_hit_for_either() {
    let store = Store::new(1024, Duration::ZERO, 7);
    let now = clock::now();
    store.put(entry(&name(1), 99, 10, now), now, |_, _| {});
    let found = |asked: &str| {
        let query = query(asked);
        store.get(&Key { hash: 99, ..Key::of(&query, 0) }).is_some()
    };
    assert!(found("N1.org A"));
    for other in ["n2.org A", "n1.org AAAA", "n1.org A CH", "n1.org A DO", "n1.org A CD"] {
        assert!(!found(other), "{other}");
    }
    store.put(entry(&name(2), 99, 10, now), now, |_, _| unreachable!("it is another question"));
    assert!(found("n2.org A") && !found("n1.org A"));
    assert_eq!(store.len(), 1);
}

/// A thousand names that are asked for all the time, beside a flood of names that are asked for once.
#[test]
fn a_flood_leaves_what_is_in_use() {
    let soa = "org. 60 IN SOA ns.org. h.org. 1 2 3 4 5";
    let soa = coredns_plugin::wire::parse_record(soa).expect("a record");
    for denied in [true, false] {
        let soa = soa.clone();
        let (_, harness, calls) = behind(config("success 10000 3600 3600"), move |query| {
            let hot = query.name().to_string().starts_with("hot");
            if denied && !hot {
                let mut reply = Reply::with_rcode("next", Rcode::NXDOMAIN);
                reply.authority.push(soa.clone());
                return reply.into();
            }
            address(query, 3600).into()
        });
        let now = clock::now();
        let ask = |asked: String, second: u64| {
            let _ = harness.ask_now(&at(&Ask::new(&asked), "flood", now + Duration::from_secs(second)));
        };
        (0..1000).for_each(|hot| ask(format!("hot{hot}.org A"), 0));
        let calls = || calls.load(std::sync::atomic::Ordering::Relaxed);
        let mut again = 0;
        for second in 1..=10 {
            (0..3000).for_each(|number| ask(format!("r{second}x{number}.org A"), second));
            let before = calls();
            (0..1000).for_each(|hot| ask(format!("hot{hot}.org A"), second));
            again += calls() - before;
        }
        assert!(again <= 500, "{again} of 10000 queries for hot names were misses (denied: {denied})");
    }
}

#[tokio::test]
async fn a_hit_allocates_nothing() {
    let (cache, harness, _) = behind(config("prefetch 100"), |query| {
        let mut reply = address(query, 60);
        let alias: Name = "alias.example.org".parse().expect("a name");
        reply.answer.push(Record::pointing(alias.clone(), 60, RrType::CNAME, query.name()));
        reply.additional.push(Record::txt(alias, 60, &[&[b'x'; 200]]));
        reply.into()
    });
    let query = at(&Ask::new("a.org A"), "allocations", clock::now());
    let start = Start { servers: vec![Arc::clone(query.server())], ..Start::default() };
    cache.start(&start).await.expect("it starts");
    for ask in ["a.org A", "a.org A DO AD"] {
        let query = at(&Ask::new(ask), "allocations", query.received());
        drop(harness.ask_now(&query));
        drop(harness.ask_now(&query));
        let measured = allocation_counter::measure(|| {
            let Answer::Reply(reply) = harness.ask_now(&query) else { panic!("no reply") };
            assert_eq!(reply.answer.len() + reply.additional.len(), 3);
        });
        assert_eq!(measured.count_total, 0, "{ask}");
    }
    assert_eq!(cache.entries(), (2, 0));
}

#[test]
fn an_instance_of_its_own_has_entries_of_its_own() {
    let (first, harness, _) = behind(config(""), |query| address(query, 60).into());
    assert_eq!(reply(harness.ask_now(&query("a.org A"))).answer.len(), 1);
    let (second, other, calls) = behind(config(""), |query| address(query, 60).into());
    let _ = other.ask_now(&query("a.org A"));
    assert_eq!((first.entries(), second.entries()), ((1, 0), (1, 0)));
    assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 1);
    let alone = Harness::new(vec![first as Arc<dyn Plugin>]);
    assert_eq!(alone.ask_now(&query("a.org A")).rcode(), Some(Rcode::NOERROR));
}
