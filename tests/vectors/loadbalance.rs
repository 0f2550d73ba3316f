//! The plugin *loadbalance*.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use coredns_plugin::wire::{Rcode, Record, RrType, parse_record};
use coredns_plugin::{Answer, Descriptor, Reply};
use coredns_rs::plugin::loadbalance::{Config, LoadBalance, Policy, Weights, draw, prefer, round_robin, weighted_top};
use coredns_testkit::libtest_mimic::Trial;
use coredns_testkit::vectors::{flag, tables, text, texts};
use coredns_testkit::{Harness, Scripted, query, set_up};
use toml::{Table, Value};

use crate::common::{judge, same, trials};

/// How often an order that depends on chance is tried.
const ROUNDS: usize = 50;

pub(crate) fn all() -> Vec<Trial> {
    let mut all = trials("loadbalance-setup", "case", setup);
    all.extend(trials("loadbalance-weightfile", "case", weight_file));
    all.extend(trials("loadbalance-order", "case", order));
    all
}

thread_local! {
    static PARSED: RefCell<Option<Config>> = const { RefCell::new(None) };
}

/// Reads the directive as the plugin does and keeps what it says.
static PARSER: Descriptor = Descriptor {
    name: "loadbalance",
    setup: |setup| {
        let config = Config::parse(setup)?;
        PARSED.set(Some(config));
        Ok(())
    },
    register_metrics: || {},
};

fn setup(_file: &Table, case: &Table) -> Result<(), String> {
    let stanza = text(case, "corefile").ok_or("no corefile")?;
    let outcome = set_up(&[&PARSER], stanza).map_err(|error| error.to_string());
    if judge(case, outcome)?.is_none() {
        return Ok(());
    }
    let config = PARSED.take().ok_or("nothing was parsed")?;
    let expected = case.get("expect").and_then(Value::as_table).ok_or("nothing expected")?;
    let (policy, file, reload) = match config.policy {
        Policy::RoundRobin => ("round_robin", None, None),
        Policy::Weighted { file, reload } => {
            ("weighted", Some(file.display().to_string()), Some(format!("{}s", reload.as_secs())))
        }
    };
    same("policy", &Some(policy), &text(expected, "policy"))?;
    same("file", &file.as_deref(), &text(expected, "file"))?;
    same("reload", &reload.as_deref(), &text(expected, "reload"))?;
    let ranges: Vec<String> = config.prefer.iter().map(ToString::to_string).collect();
    same("prefer", &ranges, &texts(expected, "prefer"))
}

type WeightTable = BTreeMap<String, BTreeMap<String, i64>>;

/// `{ domain = { address = weight } }`
fn weight_table(table: &Table) -> WeightTable {
    let weights = |value: &Value| -> BTreeMap<String, i64> {
        let list = value.as_table().into_iter().flatten();
        list.filter_map(|(address, weight)| Some((address.clone(), weight.as_integer()?))).collect()
    };
    table.iter().map(|(domain, value)| (domain.clone(), weights(value))).collect()
}

fn weight_file(_file: &Table, case: &Table) -> Result<(), String> {
    let outcome = Weights::parse(text(case, "content").unwrap_or_default(), "wf").map_err(|error| error.to_string());
    let Some(weights) = judge(case, outcome)? else { return Ok(()) };
    let found: WeightTable = weights
        .iter()
        .map(|(name, list)| {
            let list = list.iter().map(|(address, weight)| (address.to_string(), i64::from(*weight)));
            (name.to_string(), list.collect())
        })
        .collect();
    let expected = case.get("expect").and_then(Value::as_table).ok_or("nothing expected")?;
    same("weights", &found, &weight_table(expected))
}

fn records(case: &Table, key: &str) -> Vec<Record> {
    texts(case, key).iter().map(|line| parse_record(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

fn weights(case: &Table) -> Weights {
    let table = case.get("weights").and_then(Value::as_table).map(weight_table).unwrap_or_default();
    let mut content = String::new();
    for (domain, list) in table {
        content.extend([domain.as_str(), "\n"]);
        content.extend(list.iter().map(|(address, weight)| format!("{address} {weight}\n")));
    }
    Weights::parse(&content, "wf").unwrap_or_else(|error| panic!("{error}"))
}

fn order(_file: &Table, case: &Table) -> Result<(), String> {
    if flag(case, "unchanged") == Some(true) {
        return unchanged(case);
    }
    match text(case, "policy") {
        Some("round_robin") => {
            layout(case, "answer", "answer_layout")?;
            layout(case, "extra", "extra_layout")
        }
        Some("weighted") => {
            drawn(case, "answer")?;
            if case.contains_key("extra") { drawn(case, "extra") } else { Ok(()) }
        }
        Some("prefer") => {
            let mut sorted = records(case, "answer");
            let ranges: Vec<_> = texts(case, "cidrs").iter().map(|range| range.parse().expect("a range")).collect();
            prefer(&mut sorted, &ranges);
            let data: Vec<String> =
                sorted.iter().filter_map(|record| Some(record.to_string().split(' ').nth(4)?.to_owned())).collect();
            same("data", &data, &texts(case, "expect_rdata"))
        }
        policy => Err(format!("unknown policy {policy:?}")),
    }
}

/// Asks the plugin as a whole, since it decides what is left alone.
fn unchanged(case: &Table) -> Result<(), String> {
    let policy = match text(case, "policy") {
        Some("weighted") => Policy::Weighted { file: "unread".into(), reload: std::time::Duration::ZERO },
        _ => Policy::RoundRobin,
    };
    let rcode = Rcode::from_text(text(case, "rcode").unwrap_or("NOERROR")).ok_or("no code")?;
    let answer = records(case, "answer");
    let given = answer.clone();
    let next = Scripted::new("next", move |_| {
        let mut reply = Reply::with_rcode("next", rcode);
        reply.answer.extend_from_slice(&given);
        reply.into()
    });
    let plugin = LoadBalance::new(Config { policy, prefer: Vec::new() });
    let harness = Harness::new(vec![Arc::new(plugin), Arc::new(next)]);
    let asked = query(&format!("example.org {}", text(case, "qtype").unwrap_or("A")));
    for _ in 0..ROUNDS {
        let Answer::Reply(reply) = harness.ask_now(&asked) else { return Err("no reply".to_owned()) };
        same("answer", &reply.answer, &answer)?;
    }
    Ok(())
}

const fn class(record: &Record) -> &'static str {
    match record.rtype {
        RrType::CNAME => "CNAME",
        RrType::A | RrType::AAAA => "ADDRESS",
        RrType::MX => "MX",
        _ => "OTHER",
    }
}

fn layout(case: &Table, section: &str, key: &str) -> Result<(), String> {
    let given = records(case, section);
    for _ in 0..ROUNDS {
        let mut sorted = given.clone();
        round_robin(&mut sorted);
        let runs: Vec<String> = sorted
            .chunk_by(|one, other| class(one) == class(other))
            .map(|run| format!("{}[{}]", class(&run[0]), run.len()))
            .collect();
        same(section, &runs, &texts(case, key))?;
        for kind in ["CNAME", "OTHER"] {
            let of_kind = |records: &[Record]| -> Vec<Record> {
                records.iter().filter(|record| class(record) == kind).cloned().collect()
            };
            same(kind, &of_kind(&sorted), &of_kind(&given))?;
        }
        same("number", &sorted.len(), &given.len())?;
        if let Some(lost) = given.iter().find(|record| !sorted.contains(record)) {
            return Err(format!("{lost} is lost"));
        }
    }
    Ok(())
}

fn drawn(case: &Table, section: &str) -> Result<(), String> {
    let weights = weights(case);
    let given = records(case, section);
    let addresses: Vec<Record> = given.iter().filter(|record| class(record) == "ADDRESS").cloned().collect();
    if addresses.is_empty() {
        let mut sorted = given.clone();
        weighted_top(&mut sorted, &weights);
        return same(section, &sorted, &given);
    }
    for draws in tables(case, "draws") {
        let random = draws.get("random").and_then(Value::as_integer).ok_or("no random number")?;
        let mut sum = 0;
        let top = draw(&addresses, &weights, |bound| {
            sum = bound;
            u32::try_from(random).unwrap_or_default()
        });
        let top = addresses[top].ip().map(|address| address.to_string());
        same("drawn", &top.as_deref(), &text(draws, "top"))?;
        same("sum of weights", &Some(i64::from(sum)), &case.get("weight_sum").and_then(Value::as_integer))?;
    }
    // What is drawn stands first among the addresses, and the kinds stand in order.
    let mut sorted = given;
    weighted_top(&mut sorted, &weights);
    let runs: Vec<&str> = sorted.chunk_by(|one, other| class(one) == class(other)).map(|run| class(&run[0])).collect();
    let expected = ["CNAME", "OTHER", "ADDRESS", "MX"].into_iter().filter(|class| runs.contains(class)).collect();
    same("kinds", &runs, &expected)
}
