//! The plugin *cache*: its directive, its keys, and what it makes of replies.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coredns_plugin::corefile::GoDuration;
use coredns_plugin::wire::{Class, Header, Name, Opcode, Rcode, Record, Request, RrType, parse_record};
use coredns_plugin::{Answer, Descriptor, Plugin, Query, Reply, ServerInfo, Zones, clock};
use coredns_rs::plugin::cache::{
    Cache, Config, Hits, Limits, SHARDS, answers_question, clamp, kind_of, message_ttl, shard_capacity,
};
use coredns_testkit::libtest_mimic::Trial;
use coredns_testkit::vectors::{flag, tables, text, texts};
use coredns_testkit::{Ask, Harness, Scripted, same_records, set_up};
use toml::{Table, Value};

use crate::cache_sequence::sequence;
use crate::common::{judge, same, trials};

/// 2017-04-21T09:51:21Z, at which the signatures of the vectors are valid or not.
pub(crate) const EVALUATED: u32 = 1_492_768_281;

type Check = fn(&Table, &Table) -> Result<(), String>;

pub(crate) fn all() -> Vec<Trial> {
    let mut all = trials("cache-setup", "case", setup);
    all.extend(trials("cache-insert", "case", insert));
    let semantics: [(&str, Check); 9] = [
        ("key", key),
        ("hash", hash),
        ("answers_question", answers),
        ("clamp", clamped),
        ("message_ttl", lowest_ttl),
        ("typify", typify),
        ("sequence", sequence),
        ("hit_counter", hit_counter),
        ("capacity", capacity),
    ];
    for (table, check) in semantics {
        all.extend(trials("cache-semantics", table, check));
    }
    all
}

thread_local! {
    static PARSED: RefCell<Option<Config>> = const { RefCell::new(None) };
}

/// Reads the directive as the plugin does and keeps what it says.
pub(crate) static PARSER: Descriptor = Descriptor {
    name: "cache",
    setup: |setup| {
        let config = Config::parse(setup)?;
        PARSED.set(Some(config));
        Ok(())
    },
    register_metrics: || {},
};

/// The configuration of a stanza.
pub(crate) fn configured(stanza: &str) -> Result<Config, String> {
    set_up(&[&PARSER], stanza).map_err(|error| error.to_string())?;
    PARSED.take().ok_or_else(|| "nothing was parsed".to_owned())
}

/// A value of a configuration as the vectors write it; durations as nanoseconds.
enum Shown {
    Number(i64),
    Time(Duration),
    Switch(bool),
    List(Vec<String>),
}

fn shown(config: &Config, key: &str) -> Option<Shown> {
    let seconds = |seconds: u32| Shown::Time(Duration::from_secs(seconds.into()));
    let zones = |zones: &Zones| Shown::List(zones.as_slice().iter().map(ToString::to_string).collect());
    Some(match key {
        "success_cap" => Shown::Number(config.success.capacity),
        "success_ttl" => seconds(config.success.ttl),
        "success_min" => seconds(config.success.min_ttl),
        "denial_cap" => Shown::Number(config.denial.capacity),
        "denial_ttl" => seconds(config.denial.ttl),
        "denial_min" => seconds(config.denial.min_ttl),
        "prefetch" => Shown::Number(config.prefetch.amount.into()),
        "prefetch_window" => Shown::Time(config.prefetch.window),
        "prefetch_percent" => Shown::Number(config.prefetch.percent.into()),
        "stale_for" => Shown::Time(config.stale.up_to),
        "verify" => Shown::Switch(config.stale.verify),
        "verify_timeout" => Shown::Time(config.stale.verify_timeout),
        "response_ttl" => seconds(config.stale.response_ttl),
        "failure_recheck" => Shown::Time(config.stale.recheck),
        "prefer_positive" => Shown::Switch(config.stale.prefer_positive),
        "servfail" => Shown::Time(config.servfail),
        "keepttl" => Shown::Switch(config.keep_ttl),
        "zones" => zones(&config.zones),
        "disable_success" => zones(&config.disable_success),
        "disable_denial" => zones(&config.disable_denial),
        _ => return None,
    })
}

fn setup(_file: &Table, case: &Table) -> Result<(), String> {
    let outcome = configured(text(case, "corefile").ok_or("no corefile")?);
    let Some(config) = judge(case, outcome)? else { return Ok(()) };
    let expected = case.get("expect").and_then(Value::as_table).ok_or("nothing expected")?;
    for (key, value) in expected {
        match shown(&config, key).ok_or_else(|| format!("unknown field {key}"))? {
            Shown::Number(number) => same(key, &Some(number), &value.as_integer())?,
            Shown::Switch(switch) => same(key, &Some(switch), &value.as_bool())?,
            Shown::List(list) => same(key, &list, &texts(expected, key))?,
            Shown::Time(time) => {
                let wanted =
                    GoDuration::parse(value.as_str().unwrap_or_default()).map_err(|error| error.to_string())?;
                same(key, &Some(time), &wanted.to_std())?;
            }
        }
    }
    Ok(())
}

/// A query as if it had come at `now` to the listener `label`.
pub(crate) fn query_at(ask: &Ask, label: &str, now: Instant) -> Query {
    let message = ask.message();
    let request = Request::parse(&message).unwrap_or_else(|reject| panic!("{ask:?}: {reject:?}"));
    let server = Arc::new(ServerInfo { label: label.to_owned(), host: String::new(), port: 53 });
    let mut query = Query::empty(server, ask.transport, now);
    query.receive(&message, request, ask.client, ([127, 0, 0, 1], 53).into(), now);
    query.want_stamp();
    query
}

/// The records of lines.
fn records(lines: &[String]) -> Vec<Record> {
    lines.iter().map(|line| record(line)).collect()
}

/// The record of a line, an RRSIG in the form of RFC 4034 §3.2 included; its signature may be any word.
pub(crate) fn record(line: &str) -> Record {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [owner, ttl, _, "RRSIG", covered, algorithm, labels, original, end, begin, tag, signer, ..] = words[..] else {
        return parse_record(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    };
    let number = |word: &str| word.parse::<u32>().unwrap_or_else(|error| panic!("{line}: {word}: {error}"));
    let octet = |word: &str| number(word).to_be_bytes()[3];
    let name = |word: &str| word.parse::<Name>().unwrap_or_else(|error| panic!("{line}: {word}: {error}"));
    let covered = RrType::from_text(covered).unwrap_or_else(|| panic!("{line}: {covered}"));
    let mut data = covered.0.to_be_bytes().to_vec();
    data.extend([octet(algorithm), octet(labels)]);
    for word in [number(original), seconds(end), seconds(begin)] {
        data.extend(word.to_be_bytes());
    }
    data.extend(&number(tag).to_be_bytes()[2..]);
    data.extend(name(signer).as_wire());
    data.extend(b"signature");
    let rdata = coredns_plugin::wire::Rdata::new(&data).unwrap_or_else(|error| panic!("{line}: {error}"));
    Record::new(name(owner), number(ttl), RrType::RRSIG, rdata)
}

/// The seconds from 1970 to a time written as `YYYYMMDDHHmmSS`.
fn seconds(time: &str) -> u32 {
    let part = |from: usize, to: usize| time[from..to].parse::<u32>().unwrap_or_else(|error| panic!("{time}: {error}"));
    let (year, month, day) = (part(0, 4), part(4, 6), part(6, 8));
    let is_leap = |year: u32| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let years: u32 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let days = years + months.iter().take(month as usize - 1).sum::<u32>() + day - 1;
    days * 86_400 + part(8, 10) * 3600 + part(10, 12) * 60 + part(12, 14)
}

fn reply_of(table: &Table) -> Result<Reply, String> {
    let rcode = text(table, "rcode").and_then(Rcode::from_text).ok_or("no code")?;
    let mut reply = Reply::with_rcode("next", rcode);
    let flags = texts(table, "flags");
    reply.recursion_available = flags.contains(&"RA".to_owned());
    reply.authentic_data = flags.contains(&"AD".to_owned());
    reply.truncated = flags.contains(&"TC".to_owned());
    reply.answer.extend(records(&texts(table, "answer")));
    reply.authority.extend(records(&texts(table, "authority")));
    reply.additional.extend(records(&texts(table, "extra")));
    Ok(reply)
}

/// The question of a message, with the flags that its reply shows.
fn question_of(table: &Table) -> Result<Ask, String> {
    let mut asked = text(table, "q").ok_or("no question")?.to_owned();
    for word in texts(table, "flags").iter().filter(|word| ["AD", "CD", "DO"].contains(&word.as_str())) {
        asked.extend([" ", word]);
    }
    Ok(Ask::new(&asked))
}

fn insert(file: &Table, case: &Table) -> Result<(), String> {
    let settings = file.get("config").and_then(Value::as_table).ok_or("no config")?;
    let mut config = Config::new(Zones::from_args(&["."]));
    // All that is kept lasts for the same time, whatever the records say.
    let ttl = settings.get("max_ttl").and_then(Value::as_integer).and_then(|ttl| u32::try_from(ttl).ok());
    let ttl = ttl.ok_or("no TTL")?;
    config.success = Limits { capacity: 10_000, ttl, min_ttl: ttl };
    config.denial = config.success;
    config.servfail = Duration::from_secs(ttl.into());
    config.disable_denial = Zones::from_args(&texts(settings, "disable_denial"));
    config.disable_success = Zones::from_args(&texts(settings, "disable_success"));
    let cache = Arc::new(Cache::with_wall_clock(config, || EVALUATED));
    let given = case.get("reply").and_then(Value::as_table).ok_or("no reply")?;
    let reply = reply_of(given)?;
    let next = Scripted::new("next", move |_| reply.clone().into());
    let harness = Harness::new(vec![Arc::clone(&cache) as Arc<dyn Plugin>, Arc::new(next)]);
    let now = clock::now();
    let _ = harness.ask_now(&query_at(&question_of(given)?, "insert", now));
    same("stored", &(cache.entries() != (0, 0)), &flag(case, "stored").ok_or("stored or not?")?)?;
    let Some(hit) = case.get("hit").and_then(Value::as_table) else { return Ok(()) };
    let alone = Harness::new(vec![cache as Arc<dyn Plugin>]);
    let mut ask = question_of(hit)?;
    // Whether a message has DO is told with the reply that was kept.
    ask.dnssec_ok = texts(given, "flags").contains(&"DO".to_owned());
    ask.udp_size = ask.dnssec_ok.then_some(4096);
    let Answer::Reply(found) = alone.ask_now(&query_at(&ask, "insert", now)) else { return Err("no hit".to_owned()) };
    let expected = reply_of(hit)?;
    same("rcode", &found.rcode, &expected.rcode)?;
    same("AA", &found.authoritative, &true)?;
    same("RA", &found.recursion_available, &expected.recursion_available)?;
    same("AD", &found.authentic_data, &expected.authentic_data)?;
    let lines = |records: &[Record]| -> Vec<String> { records.iter().map(ToString::to_string).collect() };
    same_records(&found.answer, &lines(&expected.answer), true, false)?;
    same_records(&found.authority, &lines(&expected.authority), true, false)?;
    same_records(&found.additional, &lines(&expected.additional), true, false)
}

/// Reads a question of the table `key`, whose words are in any order.
fn loose(asked: &str) -> Ask {
    let (asked, remark) = asked.split_once(" (").unwrap_or((asked, ""));
    let mut words: Vec<&str> = asked.split_whitespace().filter(|word| *word != "IN").collect();
    if words.get(1) == Some(&"CH") {
        words.swap(1, 2);
    }
    let recursion_desired = !words.contains(&"RD=0");
    words.retain(|word| !word.starts_with("RD="));
    let mut ask = Ask::new(&words.join(" "));
    if !recursion_desired {
        ask.flags &= !Header::RD;
    }
    if remark.starts_with("AA bit") {
        ask.flags |= Header::AA;
    }
    if let Some(subnet) = remark.strip_prefix("client subnet ") {
        let address: Vec<u8> = subnet.split(['.', '/']).take(3).filter_map(|part| part.parse().ok()).collect();
        ask.udp_size = Some(1232);
        ask.options = [&[0, 8, 0, 7, 0, 1, 24, 0][..], &address].concat();
    }
    ask
}

fn key(_file: &Table, case: &Table) -> Result<(), String> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let next = Scripted::new("next", move |query| {
        counted.fetch_add(1, Ordering::Relaxed);
        let mut reply = Reply::new("next");
        let rdata = Record::a(query.name().clone(), 60, [192, 0, 2, 1].into()).rdata;
        reply.answer.push(Record {
            owner: query.name().clone(),
            rtype: query.qtype(),
            class: query.qclass(),
            ttl: 60,
            rdata,
        });
        reply.into()
    });
    let cache = Cache::new(Config::new(Zones::from_args(&["."])));
    let harness = Harness::new(vec![Arc::new(cache), Arc::new(next)]);
    let now = clock::now();
    for question in ["first", "second"] {
        let ask = loose(text(case, question).ok_or("no question")?);
        let _ = harness.ask_now(&query_at(&ask, "key", now));
    }
    same("shared", &(calls.load(Ordering::Relaxed) == 1), &flag(case, "shared").ok_or("shared or not?")?)
}

fn hash(_file: &Table, case: &Table) -> Result<(), String> {
    Err(format!("there is no hash of {:?} that is known beforehand", text(case, "name")))
}

fn answers(_file: &Table, case: &Table) -> Result<(), String> {
    let name: Name = text(case, "qname").unwrap_or_default().parse().map_err(|_| "no name".to_owned())?;
    let qtype = text(case, "qtype").and_then(RrType::from_text).ok_or("no type")?;
    let found = answers_question(&name, qtype, Class::IN, &records(&texts(case, "answer")));
    same("answers", &Some(found), &flag(case, "answers"))
}

fn number(case: &Table, key: &str) -> Result<u32, String> {
    let number = case.get(key).and_then(Value::as_integer).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| format!("no {key}"))
}

fn clamped(_file: &Table, case: &Table) -> Result<(), String> {
    let ttl = clamp(number(case, "message_ttl")?, number(case, "min")?, number(case, "max")?);
    same("ttl", &ttl, &number(case, "expect")?)
}

fn lowest_ttl(_file: &Table, case: &Table) -> Result<(), String> {
    use coredns_plugin::ResponseType::{Delegation, NoData, NoError, NxDomain};
    let kinds = [NoError, NxDomain, NoData, Delegation];
    let kind = kinds.into_iter().find(|kind| Some(kind.text()) == text(case, "cls")).ok_or("no class")?;
    let sections = case.get("record_ttls").and_then(Value::as_table).ok_or("no records")?;
    let mut all = Vec::new();
    for value in sections.values().filter_map(Value::as_array).flatten() {
        let opt = value.as_str().and_then(|text| text.strip_prefix("OPT ")?.parse().ok());
        let ttl = opt.or_else(|| value.as_integer().and_then(|ttl| u32::try_from(ttl).ok())).ok_or("no TTL")?;
        let mut record = Record::a(Name::root(), ttl, [192, 0, 2, 1].into());
        if opt.is_some() {
            record.rtype = RrType::OPT;
        }
        all.push(record);
    }
    same("ttl", &message_ttl(kind, all.iter(), u32::MAX), &number(case, "expect")?)
}

fn typify(_file: &Table, case: &Table) -> Result<(), String> {
    let line = |line: &str| records(&[line.to_owned()]).remove(0);
    let a = || line("example.org. 60 IN A 192.0.2.1");
    let ns = || line("example.org. 60 IN NS ns.example.org.");
    let soa = || line("example.org. 60 IN SOA ns.example.org. h.example.org. 1 2 3 4 5");
    let signed = |until: &str| {
        line(&format!("example.org. 60 IN RRSIG NS 8 2 60 {until} 20170421031301 12051 example.org. SIGDATA"))
    };
    let (valid, expired) = ("20170521031301", "20170421031302");
    let reply = |rcode: Rcode, answer: Vec<Record>, authority: Vec<Record>| {
        let mut reply = Reply::with_rcode("next", rcode);
        reply.answer.extend(answer);
        reply.authority.extend(authority);
        Answer::Reply(reply)
    };
    let id = text(case, "id").unwrap_or_default();
    let answer = match id {
        "typ-nil" => Answer::Dropped,
        "typ-deleg" => reply(Rcode::NOERROR, vec![], vec![ns()]),
        "typ-deleg-sig" => reply(Rcode::NOERROR, vec![], vec![ns(), signed(valid)]),
        "typ-deleg-expired-nodo" | "typ-deleg-expired-do" => reply(Rcode::NOERROR, vec![], vec![ns(), signed(expired)]),
        "typ-nx-answer" => reply(Rcode::NXDOMAIN, vec![a()], vec![]),
        "typ-refused" => reply(Rcode::REFUSED, vec![], vec![]),
        "typ-nx-nosoa" => reply(Rcode::NXDOMAIN, vec![], vec![]),
        "typ-servfail" => reply(Rcode::SERVFAIL, vec![], vec![]),
        "typ-notimp" => reply(Rcode::NOTIMP, vec![], vec![]),
        "typ-nodata" => reply(Rcode::NOERROR, vec![], vec![soa()]),
        "typ-soa-and-ns" => reply(Rcode::NOERROR, vec![], vec![soa(), ns()]),
        "typ-cname-soa" => reply(Rcode::NOERROR, vec![line("example.org. 60 IN CNAME a.org.")], vec![soa()]),
        "typ-empty" | "typ-update" | "typ-notify" | "typ-axfr" => reply(Rcode::NOERROR, vec![], vec![]),
        _ => return Err(format!("unknown message {:?}", text(case, "message"))),
    };
    let mut ask = Ask::new(if id == "typ-axfr" { "example.org. AXFR" } else { "example.org. A" });
    ask.dnssec_ok = id == "typ-deleg-expired-do";
    ask.udp_size = ask.dnssec_ok.then_some(1232);
    if id == "typ-notify" {
        ask.flags |= u16::from(Opcode::NOTIFY.0) << 11;
    }
    if id == "typ-update" {
        // A listener refuses such a message before any plugin sees it.
        let message = Ask { flags: u16::from(Opcode::UPDATE.0) << 11, ..ask }.message();
        return same("accepted", &Request::parse(&message).is_ok(), &false);
    }
    let kind = kind_of(&query_at(&ask, "typify", clock::now()), &answer, EVALUATED);
    same("class", &Some(kind.text()), &text(case, "cls"))
}

fn hit_counter(_file: &Table, case: &Table) -> Result<(), String> {
    let window = GoDuration::parse(text(case, "window").unwrap_or_default()).ok().and_then(GoDuration::to_std);
    let now = clock::now() + Duration::from_secs(3600);
    let mut hits = Hits::default();
    let mut count = 0;
    for event in texts(case, "events") {
        let at = match event.as_str() {
            "now" => now,
            "3 minutes before now" => now - Duration::from_secs(180),
            "reset to 0 at now" => {
                hits = Hits::default();
                continue;
            }
            _ => return Err(format!("unknown event {event:?}")),
        };
        count = hits.count(window.ok_or("no window")?, at);
    }
    same("hits", &count, &number(case, "hits")?)
}

fn capacity(_file: &Table, case: &Table) -> Result<(), String> {
    let configured = case.get("configured").and_then(Value::as_integer).ok_or("no capacity")?;
    let entries = shard_capacity(configured);
    same("per shard", &entries, &(number(case, "per_shard")? as usize))?;
    same("total", &(entries * SHARDS), &(number(case, "total")? as usize))
}

/// The tables of a list of inline tables.
pub(crate) fn steps(case: &Table) -> Vec<Table> {
    tables(case, "steps").cloned().collect()
}
