//! The plugin *hosts*.

use std::cell::RefCell;
use std::sync::Arc;

use coredns_plugin::wire::Rcode;
use coredns_plugin::{Answer, BlockConfig, Descriptor, Reply};
use coredns_rs::plugin::hosts::{Config, DESCRIPTOR};
use coredns_testkit::libtest_mimic::Trial;
use coredns_testkit::vectors::{flag, tables, text, texts};
use coredns_testkit::{Harness, Scripted, query, same_records, set_up, start_parts};
use toml::{Table, Value};

use crate::common::{judge, same, trials};

pub(crate) fn all() -> Vec<Trial> {
    let mut all = trials("hosts-setup", "case", setup);
    all.extend(trials("hosts-serve", "case", serve));
    all.extend(trials("hosts-lookup", "forward", forward));
    all.extend(trials("hosts-lookup", "reverse", reverse));
    all
}

thread_local! {
    static PARSED: RefCell<Option<Config>> = const { RefCell::new(None) };
}

/// Reads the directive as the plugin does and keeps what it says.
static PARSER: Descriptor = Descriptor {
    name: "hosts",
    setup: |setup| {
        let config = Config::parse(setup)?;
        PARSED.set(Some(config));
        Ok(())
    },
    register_metrics: || {},
};

fn setup(_file: &Table, case: &Table) -> Result<(), String> {
    let directive = text(case, "directive").ok_or("no directive")?;
    let outcome = set_up(&[&PARSER], directive).map_err(|error| error.to_string());
    if judge(case, outcome)?.is_none() {
        return Ok(());
    }
    let config = PARSED.take().ok_or("nothing was parsed")?;
    if let Some(path) = text(case, "path") {
        same("path", &config.path.to_string_lossy().as_ref(), &path)?;
    }
    if case.contains_key("zones") {
        let mut zones = texts(case, "zones");
        if zones.is_empty() {
            // Those of the server block.
            zones.push(".".to_owned());
        }
        let found: Vec<String> = config.zones.as_slice().iter().map(ToString::to_string).collect();
        same("zones", &found, &zones)?;
    }
    if case.contains_key("fallthrough") {
        let found: Vec<String> = config.fallthrough.zones().iter().map(ToString::to_string).collect();
        same("fallthrough", &found, &texts(case, "fallthrough"))?;
    }
    let inline = case.get("inline").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table);
    let mut lines: Vec<String> = inline
        .map(|entry| format!("{} {}", text(entry, "address").unwrap_or_default(), texts(entry, "names").join(" ")))
        .collect();
    // Lines without an address stand in the list and have no effect; names there lack the closing dot.
    let mut found: Vec<String> =
        config.inline.iter().filter(|line| line.starts_with(char::is_numeric)).map(|line| format!("{line}.")).collect();
    lines.sort_unstable();
    found.sort_unstable();
    same("inline", &found, &lines)?;
    let expected = |key: &str| case.get(key).and_then(Value::as_integer);
    same("ttl", &i64::from(config.ttl), &expected("ttl").unwrap_or(3600))?;
    same("reload", &config.reload.as_millis(), &u128::from(expected("reload_ms").unwrap_or(5000).unsigned_abs()))?;
    same("no_reverse", &!config.reverse, &flag(case, "no_reverse").unwrap_or(false))?;
    let unsupported = flag(case, "fallthrough_unsupported").unwrap_or(false);
    same("fallthrough_unsupported", &config.fallthrough_unsupported, &unsupported)
}

/// Sets the plugin up with a file of this text and starts it.
fn started(hosts_text: &str, zones: &str, options: &str) -> Result<BlockConfig, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = directory.path().join("hosts");
    std::fs::write(&path, hosts_text).map_err(|error| error.to_string())?;
    let stanza = format!("hosts {} {zones} {{\nreload 0\n{options}\n}}", path.display());
    let config = set_up(&[&DESCRIPTOR], &stanza).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(start_parts(&config)).map_err(|error| error.to_string())?;
    Ok(config)
}

/// The chain with a plugin behind that answers NOTAUTH, which *hosts* never does.
fn ask(config: &BlockConfig, asked: &str) -> Answer {
    let mut chain = config.plugins.clone();
    chain.push(Arc::new(Scripted::new("next", |_| Reply::with_rcode("next", Rcode::NOTAUTH).into())));
    Harness::new(chain).ask_now(&query(asked))
}

fn serve(file: &Table, case: &Table) -> Result<(), String> {
    let mut options = texts(case, "inline");
    if let Some(ttl) = case.get("ttl").and_then(Value::as_integer) {
        options.push(format!("ttl {ttl}"));
    }
    if flag(case, "no_reverse") == Some(true) {
        options.push("no_reverse".to_owned());
    }
    if case.contains_key("fallthrough") {
        options.push(format!("fallthrough {}", texts(case, "fallthrough").join(" ")));
    }
    if flag(case, "fallthrough_unsupported") == Some(true) {
        options.push("fallthrough_unsupported".to_owned());
    }
    let hosts_text = text(file, "hosts_text").ok_or("no hosts_text")?;
    let config = started(hosts_text, &texts(case, "zones").join(" "), &options.join("\n"))?;
    let asked = format!("{} {}", text(case, "name").unwrap_or_default(), text(case, "type").unwrap_or_default());
    let answer = ask(&config, &asked);
    let rcode = answer.rcode().map(|rcode| rcode.to_string()).unwrap_or_default();
    if flag(case, "passes_to_next") == Some(true) {
        return same("code", &rcode.as_str(), &"NOTAUTH");
    }
    same("code", &Some(rcode.as_str()), &text(case, "rcode"))?;
    let Answer::Reply(reply) = answer else {
        return same("answer", &texts(case, "answer"), &Vec::new());
    };
    same("aa", &Some(reply.authoritative), &flag(case, "aa"))?;
    same("authority and additional", &(reply.authority.len() + reply.additional.len()), &0)?;
    same_records(&reply.answer, &texts(case, "answer"), true, true)
}

/// The data of the records in the answer, without those of failures.
fn data(config: &BlockConfig, asked: &str) -> Vec<String> {
    let Answer::Reply(reply) = ask(config, asked) else { return Vec::new() };
    reply.answer.iter().filter_map(|record| Some(record.to_string().split(' ').nth(4)?.to_owned())).collect()
}

fn with_file(file: &Table, case: &Table) -> Result<BlockConfig, String> {
    let wanted = text(case, "hostsfile");
    let hostsfile = tables(file, "hostsfile").find(|table| text(table, "id") == wanted).ok_or("no such file")?;
    started(text(hostsfile, "text").unwrap_or_default(), "", "")
}

fn forward(file: &Table, case: &Table) -> Result<(), String> {
    let config = with_file(file, case)?;
    let name = text(case, "name").ok_or("no name")?;
    same("A", &data(&config, &format!("{name} A")), &texts(case, "a"))?;
    same("AAAA", &data(&config, &format!("{name} AAAA")), &texts(case, "aaaa"))
}

fn reverse(file: &Table, case: &Table) -> Result<(), String> {
    let config = with_file(file, case)?;
    let address = text(case, "address").unwrap_or_default().parse().map_err(|_| "no address".to_owned())?;
    let name = match address {
        std::net::IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        std::net::IpAddr::V6(v6) => {
            let digits: Vec<String> =
                format!("{:032x}", v6.to_bits()).chars().rev().map(|digit| digit.to_string()).collect();
            format!("{}.ip6.arpa", digits.join("."))
        }
    };
    same("names", &data(&config, &format!("{name} PTR")), &texts(case, "names"))
}
