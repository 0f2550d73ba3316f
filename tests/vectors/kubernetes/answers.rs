//! Queries and their replies.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use coredns_plugin::wire::{Rcode, RrType, parse_record};
use coredns_plugin::{Answer, Failure, Query, Reply};
use coredns_rs::plugin::kubernetes::Kubernetes;
use coredns_testkit::libtest_mimic::Trial;
use coredns_testkit::vectors::{self, flag, load, tables, text, texts};
use coredns_testkit::{Ask, Harness, Scripted, same_records};
use toml::{Table, Value};

use super::fixture;
use crate::data;

/// The trials of one file.
pub(crate) fn trials(topic: &str) -> Vec<Trial> {
    let file = format!("kubernetes-{topic}");
    let table = load(&data(&file));
    let objects = table.get("fixture").and_then(Value::as_table).cloned().unwrap_or_default();
    let defaults = table.get("defaults").and_then(Value::as_table).cloned().unwrap_or_default();
    let mut plugins = HashMap::new();
    for group in tables(&table, "group").chain(table.get("config").and_then(Value::as_table)) {
        let corefile = text(group, "corefile").expect("a Corefile");
        let synced = flag(group, "synced").unwrap_or(true);
        let plugin = fixture::plugin(corefile, &objects, &texts(group, "local_ips"), synced);
        plugins.insert(text(group, "name").unwrap_or("").to_owned(), plugin);
    }
    let client = SocketAddr::from((fixture::client(&objects), 40_212));
    let plugins = Arc::new(plugins);
    vectors::trials(&file, "case", &table, move |case| {
        let plugin = plugins.get(text(case, "group").unwrap_or("")).ok_or("no such group")?;
        check(plugin, case, &defaults, client)
    })
}

fn check(plugin: &Arc<Kubernetes>, case: &Table, defaults: &Table, client: SocketAddr) -> Result<(), String> {
    let query = Ask::new(text(case, "q").ok_or("no q")?).from(client).query();
    let next = Scripted::new("next", |_| Answer::Dropped);
    let upstream: Vec<Table> = tables(case, "upstream").cloned().collect();
    let harness = Harness::new(vec![plugin.clone(), Arc::new(next)]).with_core(move |query| reply_of(&upstream, query));
    let answer = harness.ask_now(&query);
    let rcode = match answer.rcode() {
        Some(rcode) => rcode.to_string(),
        None => "NEXT".to_owned(),
    };
    let expected = text(case, "rcode").ok_or("no rcode")?;
    if rcode != expected {
        return Err(format!("rcode {rcode}, want {expected}: {answer:?}"));
    }
    let writes = matches!(answer, Answer::Reply(_));
    if writes != flag(case, "writes").unwrap_or(true) {
        return Err(format!("a message is written: {writes}"));
    }
    let Answer::Reply(reply) = answer else { return Ok(()) };
    let ordered = flag(case, "ordered").unwrap_or(false);
    same_records(&reply.answer, &texts(case, "answer"), ordered, true).map_err(|text| format!("answer: {text}"))?;
    same_records(&reply.authority, &texts(case, "authority"), false, true)
        .map_err(|text| format!("authority: {text}"))?;
    same_records(&reply.additional, &texts(case, "extra"), false, true).map_err(|text| format!("extra: {text}"))?;
    check_order(case, &reply)?;
    let flags = [("aa", reply.authoritative), ("tc", reply.truncated), ("ra", reply.recursion_available)];
    for (name, actual) in flags {
        if let Some(wanted) = flag(case, name).or_else(|| flag(defaults, name))
            && wanted != actual
        {
            return Err(format!("{name} is {actual}"));
        }
    }
    Ok(())
}

fn check_order(case: &Table, reply: &Reply) -> Result<(), String> {
    let wanted = texts(case, "order");
    let actual: Vec<String> = reply.answer.iter().map(|record| record.rtype.to_string()).collect();
    if wanted.is_empty() || wanted == actual { Ok(()) } else { Err(format!("types in order {actual:?}")) }
}

/// What the server answers to a lookup of the plugin.
fn reply_of(upstream: &[Table], query: &Query) -> Answer {
    let found = upstream.iter().find(|one| {
        text(one, "name").is_some_and(|name| query.name().to_string().eq_ignore_ascii_case(name))
            && text(one, "type").and_then(RrType::from_text) == Some(query.qtype())
            && !one.contains_key("error")
    });
    let Some(found) = found else { return Answer::Failed(Failure::silent(Rcode::SERVFAIL)) };
    let mut reply = Reply::new("upstream");
    reply.rcode = text(found, "rcode").and_then(Rcode::from_text).unwrap_or_default();
    reply.truncated = flag(found, "tc").unwrap_or(false);
    reply.answer.extend(texts(found, "answer").iter().map(|line| parse_record(line).expect("a record")));
    reply.into()
}
