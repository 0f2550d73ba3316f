//! The plugin *cache*: queries one after the other, with what stands behind the plugin answering or not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use coredns_plugin::corefile::GoDuration;
use coredns_plugin::wire::{Header, Rcode, Record, RrType};
use coredns_plugin::{Answer, Failure, Metadata, Next, Outcome, Plugin, Query, Reply, clock, metrics};
use coredns_rs::plugin::cache::{Cache, DESCRIPTOR};
use coredns_testkit::vectors::{flag, text, texts};
use coredns_testkit::{Ask, Harness};
use tokio::sync::Notify;
use toml::{Table, Value};

use crate::cache::{configured, query_at, record, steps};
use crate::common::same;

/// Signatures are judged at a time when those of [`reply_to`] are over.
const EVALUATED: u32 = 2_000_000_000;

/// What stands behind the cache, and what it has seen.
#[derive(Default)]
struct Backend {
    script: Mutex<String>,
    calls: AtomicUsize,
    /// Queries that came without AD.
    without_ad: AtomicUsize,
    release: Notify,
}

impl Backend {
    fn script(&self) -> String {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, script: &str) {
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = script.to_owned();
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

struct Behind(Arc<Backend>);

impl Plugin for Behind {
    fn name(&self) -> &'static str {
        "next"
    }

    fn serve<'a>(&'a self, query: &'a Query, _next: Next<'a>) -> Outcome<'a> {
        let count = self.0.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if !query.header().has(Header::AD) {
            self.0.without_ad.fetch_add(1, Ordering::Relaxed);
        }
        let script = self.0.script();
        let answer = answer_to(query, &script, count);
        if script.ends_with("held open") {
            let released = self.0.release.notified();
            return Outcome::Later(Box::pin(async move {
                released.await;
                answer
            }));
        }
        match script.split_once(" after ") {
            Some((_, time)) => {
                let time = duration(time);
                Outcome::Later(Box::pin(async move {
                    tokio::time::sleep(time).await;
                    answer
                }))
            }
            None => Outcome::Now(answer),
        }
    }
}

fn duration(text: &str) -> Duration {
    GoDuration::parse(text).ok().and_then(GoDuration::to_std).unwrap_or_else(|| panic!("no duration: {text:?}"))
}

/// The number behind the word `ttl`.
fn ttl_of(script: &str) -> u32 {
    let mut words = script.split([' ', ',']).skip_while(|word| *word != "ttl").skip(1);
    words.next().and_then(|ttl| ttl.parse().ok()).unwrap_or(60)
}

fn answer_to(query: &Query, script: &str, count: usize) -> Answer {
    let failing = ["down", "none", "asked", ""];
    if failing.contains(&script) {
        return Answer::Failed(Failure::silent(Rcode::SERVFAIL));
    }
    reply_to(query, script, count).into()
}

fn reply_to(query: &Query, script: &str, count: usize) -> Reply {
    let name = query.name().to_string();
    let ttl = ttl_of(script);
    let line = |text: String| record(&text);
    let a = |ttl: u32| line(format!("{name} {ttl} IN A 192.0.2.10"));
    let soa = || line(format!("org. {ttl} IN SOA ns.org. h.org. 1 2 3 4 5"));
    let ns = |ttl: u32| line(format!("org. {ttl} IN NS ns.org."));
    let rrsig =
        |until: &str| line(format!("{name} {ttl} IN RRSIG A 8 2 60 {until} 20200101000000 1 org. c2lnbmF0dXJl"));
    let mut reply = Reply::new("next");
    let other = |owner: &str| line(format!("{owner} 60 IN A 192.0.2.1"));
    match script {
        "SERVFAIL" | "SERVFAIL, held open" => reply.rcode = Rcode::SERVFAIL,
        "NOTIMP" => reply.rcode = Rcode::NOTIMP,
        "FORMERR" => reply.rcode = Rcode::FORMERR,
        "NXDOMAIN without SOA" => reply.rcode = Rcode::NXDOMAIN,
        "truncated A" => {
            reply.answer.push(a(60));
            reply.truncated = true;
        }
        "A with expired RRSIG and DO" => reply.answer.extend([a(60), rrsig("20200102000000")]),
        "signed CNAME and A" => {
            reply.answer.push(line(format!("{name} 60 IN CNAME t.org.")));
            reply.answer.extend(query.dnssec_ok().then(|| rrsig("20380101000000")));
            reply.answer.push(other("t.org."));
            reply.answer.extend(query.dnssec_ok().then(|| rrsig("20380101000000")));
            reply.authentic_data = query.dnssec_ok();
        }
        "reply for other.org." => reply.answer.push(other("other.org.")),
        "reply whose question is example.net. A" => reply.answer.push(other("example.net.")),
        "reply whose question type is A" => reply.answer.push(a(60)),
        "matching message with QR=0" => reply.answer.push(a(60)),
        "AD set when the request has AD or DO" => {
            reply.answer.push(a(60));
            reply.authentic_data = query.header().has(Header::AD) || query.dnssec_ok();
        }
        "sets metadata zone/wildcard to *.bar.example.org." => {
            reply.answer.push(a(60));
            if let Some(metadata) = query.metadata() {
                metadata.set("zone/wildcard", "*.bar.example.org.");
            }
        }
        "empty NOERROR" => {}
        "NOERROR with NS in authority" => reply.authority.push(ns(60)),
        "NOERROR with NS in authority and its address in additional" => {
            reply.authority.push(ns(60));
            reply.additional.push(other("ns.org."));
        }
        "NOERROR with an address record in additional only" => reply.additional.push(other("ns.org.")),
        "CNAME missing.example.net. ttl 300, SOA ttl 300" => {
            reply.answer.push(line(format!("{name} 300 IN CNAME missing.example.net.")));
            reply.authority.push(soa());
        }
        "bare CNAME" => {
            reply.answer.push(line(format!("{name} 60 IN CNAME target.org.")));
        }
        "A ttl 300, A ttl 60, authority NS ttl 1000" => {
            reply.answer.extend([a(300), other("t.org.")]);
            reply.authority.push(ns(1000));
        }
        _ if script.starts_with("counted ttl ") => {
            reply.answer.push(line(format!("{name} {ttl} IN A 127.0.0.{count}")));
        }
        _ if script.starts_with("NXDOMAIN soa") => {
            reply.rcode = Rcode::NXDOMAIN;
            reply.authority.push(soa());
        }
        _ if script.starts_with("NODATA soa") => reply.authority.push(soa()),
        _ if script.starts_with("A ") => {
            let address = script.split(' ').nth(1).filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
            reply.answer.push(line(format!("{name} {ttl} IN A {}", address.unwrap_or("192.0.2.10"))));
            reply.authentic_data = script.ends_with("AD");
        }
        _ => panic!("unknown backend {script:?}"),
    }
    reply
}

/// One sequence under way.
struct Play {
    id: String,
    backend: Arc<Backend>,
    cache: Arc<Cache>,
    harness: Harness,
    start: Instant,
}

impl Play {
    fn new(id: &str, options: &[String]) -> Result<Self, String> {
        // Labels of its own, so that its numbers are its own.
        let config = configured(&format!("cache {{\n{}\n}}", options.join("\n")))?;
        let backend = Arc::new(Backend::default());
        let cache = Arc::new(Cache::with_wall_clock(config, || EVALUATED));
        let harness = Harness::new(vec![Arc::clone(&cache) as Arc<dyn Plugin>, Arc::new(Behind(Arc::clone(&backend)))]);
        Ok(Self { id: id.to_owned(), backend, cache, harness, start: clock::now() })
    }

    fn query(&self, asked: &str, at: Duration) -> Query {
        let mut query = query_at(&Ask::new(asked), &self.id, self.start + at);
        query.enter(None, Some(Arc::new(Metadata::new())));
        query
    }

    async fn ask(&self, asked: &str, at: Duration, script: &str) -> Answer {
        self.backend.set(script);
        self.harness.ask(&self.query(asked, at)).await
    }

    /// Asks, and waits for what goes on in the background.
    async fn ask_and_settle(&self, asked: &str, at: Duration, script: &str) {
        let _ = self.ask(asked, at, script).await;
        settle().await;
    }
}

/// Lets background tasks come to rest; time is paused, so this takes none.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

pub(crate) fn sequence(_file: &Table, case: &Table) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.map_err(|error| error.to_string())?.block_on(run(case))
}

async fn run(case: &Table) -> Result<(), String> {
    let id = text(case, "id").unwrap_or_default();
    let mut options = texts(case, "cache");
    if id == "ad-prefetch" {
        // 100 % is no setting that a Corefile can have; the window below is as good.
        options = vec!["prefetch 1 1m 90%".to_owned()];
    }
    let play = Play::new(id, &options)?;
    let mut steps = steps(case);
    prepare(&play, &mut steps).await;
    let first_counts = !id.starts_with("recheck");
    let default = match id {
        "prefetch-hits" | "prefetch-do" | "prefetch-cd" => "counted ttl 80",
        "prefetch-short" => "counted ttl 5",
        "prefetch-off" => "counted ttl 30",
        "dnssec-records-separate" => "signed CNAME and A",
        "dedup-stale" | "dedup-prefetch" => "A ttl 100",
        _ => "",
    };
    for (number, step) in steps.iter().enumerate() {
        let checked = perform(&play, step, default).await;
        checked.map_err(|error| format!("step {number}: {error}"))?;
        if number == 0 && !first_counts {
            play.backend.calls.store(0, Ordering::Relaxed);
        }
    }
    let without_ad = play.backend.without_ad.load(Ordering::Relaxed);
    same("queries that were passed on without AD", &without_ad, &0)
}

/// Makes the entries that the first step of some sequences describes in words.
async fn prepare(play: &Play, steps: &mut Vec<Table>) {
    let at = Duration::from_secs;
    let described = match play.id.as_str() {
        "servfail-does-not-shadow" => {
            // The failure is on its way for long, and a query that waits for it goes its own way in the end.
            let (slow, quick) = (play.query("example.org. A", at(30)), play.query("example.org. A", at(0)));
            let succeed = async {
                play.backend.set("A ttl 120");
                let answer = play.harness.ask(&quick).await;
                play.backend.release.notify_one();
                answer
            };
            play.backend.set("SERVFAIL, held open");
            futures_util::future::join(play.harness.ask(&slow), succeed).await;
            assert_eq!(play.cache.entries(), (1, 1));
            true
        }
        "denial-wins-by-default" | "prefer-positive" => {
            play.ask_and_settle("example.org. A", at(0), "A ttl 60").await;
            play.ask_and_settle("example.org. A", at(120), "NXDOMAIN soa ttl 60").await;
            true
        }
        "prefer-positive-needs-answer" => {
            play.ask_and_settle("alias.example.org. A", at(0), "bare CNAME").await;
            play.ask_and_settle("alias.example.org. A", at(120), "NXDOMAIN soa ttl 60").await;
            true
        }
        "lkg-outside-window" => {
            play.ask_and_settle("cached.org. A", at(0), "A ttl 60").await;
            play.ask_and_settle("cached.org. A", at(120), "empty NOERROR").await;
            play.ask_and_settle("cached.org. A", at(7200), "NXDOMAIN soa ttl 60").await;
            true
        }
        _ => false,
    };
    if described {
        steps.remove(0);
        for step in steps {
            let at = match play.id.as_str() {
                "servfail-does-not-shadow" => "31s",
                "lkg-outside-window" => "2h1s",
                _ => "121s",
            };
            step.insert("at".to_owned(), at.into());
        }
    }
}

async fn perform(play: &Play, step: &Table, default: &str) -> Result<(), String> {
    let at = text(step, "at").map_or(Duration::ZERO, duration);
    let script = text(step, "backend").unwrap_or(default);
    let before = play.backend.calls();
    if let Some(script) = text(step, "refresh") {
        play.ask_and_settle("cached.org. A", at, script).await;
        return Ok(());
    }
    let asked = match (text(step, "q"), text(step, "flags")) {
        (Some(asked), _) => asked.to_owned(),
        (None, Some(flags)) => format!("name.org. A {flags}"),
        (None, None) if step.contains_key("upstream_calls") => "name.org. A".to_owned(),
        (None, None) if text(step, "note") == Some("held verify fails") => {
            play.backend.release.notify_one();
            settle().await;
            return Ok(());
        }
        // The sequence is about queries that were made before: those of the background carry AD as well.
        (None, None) => "invent.example.org. A".to_owned(),
    };
    if let Some(count) = step.get("concurrent").and_then(Value::as_integer) {
        let queries: Vec<Query> = (0..count).map(|_| play.query(&asked, at)).collect();
        play.backend.set(script);
        let answers = queries.iter().map(|query| play.harness.ask(query));
        let answers = futures_util::future::join_all(answers).await;
        let answered = answers.iter().filter(|answer| matches!(answer, Answer::Reply(_))).count();
        same("answers", &answered, &queries.len())?;
    } else {
        play.backend.set(script);
        let query = play.query(&asked, at);
        let begun = tokio::time::Instant::now();
        let answer = play.harness.ask(&query).await;
        if let Some(wait) = text(step, "max_wait") {
            same("in time", &(begun.elapsed() <= duration(wait)), &true)?;
        }
        check_answer(step, &answer)?;
        if let Some(wanted) = step.get("metadata").and_then(Value::as_table) {
            let found = query.metadata().and_then(|metadata| metadata.get("zone/wildcard"));
            same("zone/wildcard", &found.as_deref(), &text(wanted, "zone/wildcard"))?;
        }
    }
    settle().await;
    check_counts(play, step, before)?;
    if text(step, "backend") == Some("asked") {
        same("asked", &play.backend.calls(), &(before + 1))?;
    }
    if flag(step, "background_store") == Some(true) {
        let Answer::Reply(reply) = play.ask(&asked, at, "down").await else { return Err("not stored".to_owned()) };
        same("stored TTL", &reply.answer.first().map(|record| record.ttl), &Some(ttl_of(script)))?;
    }
    Ok(())
}

fn integer<T: TryFrom<i64>>(step: &Table, key: &str) -> Option<T> {
    step.get(key).and_then(Value::as_integer).and_then(|number| T::try_from(number).ok())
}

fn check_counts(play: &Play, step: &Table, before: usize) -> Result<(), String> {
    let (success, denial) = play.cache.entries();
    if let Some(stored) = flag(step, "stored") {
        same("stored", &(success + denial > 0), &stored)?;
    }
    if let Some(entries) = integer(step, "success_entries") {
        same("success entries", &success, &entries)?;
    }
    if let Some(entries) = integer(step, "denial_entries") {
        same("denial entries", &denial, &entries)?;
    }
    if let Some(calls) = integer(step, "upstream_calls") {
        same("calls", &play.backend.calls(), &calls)?;
    }
    if let Some(called) = flag(step, "upstream_call") {
        same("called", &(play.backend.calls() > before), &called)?;
    }
    if let Some(drops) = integer(step, "drops") {
        same("drops", &dropped(&play.id), &drops)?;
    }
    Ok(())
}

/// The value of `coredns_cache_drops_total` for a listener.
fn dropped(server: &str) -> u64 {
    (DESCRIPTOR.register_metrics)();
    let families = metrics::registry().gather();
    let family = families.iter().find(|family| family.name() == "coredns_cache_drops_total");
    let series = family.into_iter().flat_map(|family| family.get_metric());
    let mine = series.filter(|metric| metric.get_label().iter().any(|label| label.value() == server));
    mine.map(|metric| metric.get_counter().get_value() as u64).sum()
}

fn check_answer(step: &Table, answer: &Answer) -> Result<(), String> {
    let none = Vec::new();
    let (records, authority): (&[Record], &[Record]) = match answer {
        Answer::Reply(reply) => (&reply.answer, &reply.authority),
        _ => (&none, &none),
    };
    let address = records.iter().rfind(|record| record.rtype == RrType::A).and_then(Record::ip);
    if let Some(served) = text(step, "served") {
        check_served(served, answer, records, authority)?;
    }
    let first = records.iter().chain(authority).next().map(|record| record.ttl);
    if let Some(ttl) = integer::<u32>(step, "ttl").or_else(|| integer(step, "served_ttl")) {
        same("TTL", &first, &Some(ttl))?;
    }
    if let Some(wanted) = integer::<u8>(step, "address") {
        same("address", &address, &Some([127, 0, 0, wanted].into()))?;
    }
    let Answer::Reply(reply) = answer else { return Ok(()) };
    if let Some(aa) = flag(step, "aa") {
        same("AA", &reply.authoritative, &aa)?;
    }
    if let Some(ad) = flag(step, "served_ad") {
        same("AD", &reply.authentic_data, &ad)?;
    }
    Ok(())
}

fn check_served(served: &str, answer: &Answer, records: &[Record], authority: &[Record]) -> Result<(), String> {
    let types: Vec<String> = records.iter().map(|record| record.rtype.to_string()).collect();
    if served == "none" {
        return same("answered", &matches!(answer, Answer::Reply(_)), &false);
    }
    if served == "hit" {
        return same("answered", &types, &vec!["A".to_owned()]);
    }
    if let Some(ttl) = served.strip_prefix("every record ttl ") {
        let wanted: u32 = ttl.parse().map_err(|_| "no TTL".to_owned())?;
        let other = records.iter().chain(authority).find(|record| record.ttl != wanted);
        return same("record with another TTL", &other, &None);
    }
    if let Some((wanted, ad)) = served.split_once("; AD=") {
        same("types", &types.join(", ").as_str(), &wanted)?;
        let found = matches!(answer, Answer::Reply(reply) if reply.authentic_data);
        return same("AD", &found, &(ad == "1"));
    }
    let rcode = answer.rcode().map(|rcode| rcode.to_string()).unwrap_or_default();
    if served != "A" && !served.starts_with("A ") {
        return same("rcode", &rcode.as_str(), &served);
    }
    same("rcode", &rcode.as_str(), &"NOERROR")?;
    same("type", &types.first().map(String::as_str), &Some("A"))?;
    if let Some(ttl) = served.strip_prefix("A ttl ") {
        return same("TTL", &records.first().map(|record| record.ttl.to_string()).as_deref(), &Some(ttl));
    }
    if let Some(wanted) = served.strip_prefix("A ") {
        let address = records.first().and_then(Record::ip).map(|address| address.to_string());
        return same("address", &address.as_deref(), &Some(wanted));
    }
    Ok(())
}
