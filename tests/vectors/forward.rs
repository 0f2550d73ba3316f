//! The plugin *forward*: directive and addresses.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::corefile::{GoDuration, split_scheme};
use coredns_plugin::{BlockConfig, Descriptor};
use coredns_rs::plugin::forward::{Config, DESCRIPTOR, Forward, Source, classify, expand};
use coredns_rs::upstream::address::{host_port, host_port_or_file, split_name};
use coredns_rs::upstream::{HostEntry, Protocol, Target};
use coredns_testkit::libtest_mimic::Trial;
use coredns_testkit::process::Scratch;
use coredns_testkit::vectors::{flag, text, texts};
use coredns_testkit::{Act, MockUpstream, set_up, start_parts, stop_parts};
use coredns_wire::Rcode;
use toml::{Table, Value};

use crate::common::{Check, judge, same, trials};

pub(crate) fn all() -> Vec<Trial> {
    let mut all = trials("forward-setup", "case", setup);
    let tables: [(&str, Check); 9] = [
        ("split", split),
        ("classify", classify_one),
        ("classify_list", classify_list),
        ("host_entry", host_entry),
        ("format", format_target),
        ("expand", expand_all),
        ("host_port_or_file", address_or_file),
        ("host_port", address),
        ("transport", transport),
    ];
    for (key, check) in tables {
        all.extend(trials("forward-addresses", key, check));
    }
    all.extend(crate::forward_behaviour::all());
    all
}

thread_local! {
    static PARSED: RefCell<Vec<Config>> = const { RefCell::new(Vec::new()) };
}

/// Reads the directive as the plugin does and keeps what it says.
static PARSER: Descriptor = Descriptor {
    name: "forward",
    setup: |setup| {
        let configs = Config::parse(setup)?;
        PARSED.set(configs);
        (DESCRIPTOR.setup)(&mut coredns_plugin::Setup::new("forward", setup.tokens.clone(), setup.block))
    },
    register_metrics: || {},
};

/// Puts the files of the vectors into a directory and their paths into a stanza.
fn with_files(file: &Table, stanza: &str) -> (Scratch, String) {
    let scratch = Scratch::new();
    let mut stanza = stanza.to_owned();
    let files = file.get("files").and_then(Value::as_table).cloned().unwrap_or_default();
    // The longest name first: RESOLV6 holds RESOLV.
    for (name, content) in files.iter().rev() {
        let path = scratch.write(name, content.as_str().unwrap_or_default());
        stanza = stanza.replace(&format!(" {name}"), &format!(" {}", path.display()));
    }
    (scratch, stanza)
}

fn setup(file: &Table, case: &Table) -> Result<(), String> {
    let (_scratch, mut stanza) = with_files(file, text(case, "corefile").ok_or("no corefile")?);
    // Tests ask nobody but themselves for the addresses of a host.
    let nobody = MockUpstream::start(|_| vec![Act::Rcode(Rcode::NXDOMAIN)]);
    if text(case, "id") == Some("bad-host") {
        stanza = format!("{stanza} {{\nresolver {}\n}}", nobody.address());
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let outcome = set_up(&[&PARSER], &stanza).map_err(|error| error.to_string()).and_then(|_| {
        let block = set_up(&[&DESCRIPTOR], &stanza).map_err(|error| error.to_string())?;
        let started = runtime.block_on(async {
            let started = start_parts(&block).await.map_err(|error| error.to_string());
            stop_parts(&block).await;
            started
        });
        started.map(|()| block)
    });
    if text(case, "error") == Some("") {
        return if outcome.is_err() { Ok(()) } else { Err("it is accepted".to_owned()) };
    }
    let Some(block) = judge(case, outcome)? else { return Ok(()) };
    let configs = PARSED.take();
    let nothing = Table::new();
    let expected = case.get("expect").and_then(Value::as_table).unwrap_or(&nothing);
    expected.iter().try_for_each(|(key, value)| compare(&configs, &block, key, value))
}

fn go(duration: Duration) -> String {
    GoDuration::from_nanos(duration.as_nanos() as i64).to_string()
}

fn compare(configs: &[Config], block: &BlockConfig, key: &str, expected: &Value) -> Result<(), String> {
    let config = configs.first().ok_or("nothing was parsed")?;
    let forward = Forward::new(config.clone(), false)?;
    let targets: Vec<Target> = forward.upstreams().load().iter().map(|upstream| upstream.target().clone()).collect();
    let strings = |list: Vec<String>| Value::Array(list.into_iter().map(Value::String).collect());
    let names = |list: &[coredns_wire::Name]| strings(list.iter().map(ToString::to_string).collect());
    let codes = |list: &[Rcode]| strings(list.iter().map(ToString::to_string).collect());
    let number = |number: usize| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let server_name = || {
        let name = targets.first().filter(|target| target.protocol != Protocol::Dns || config.tls_servername.is_some());
        name.and_then(|target| forward.upstreams().server_name(target)).unwrap_or_default()
    };
    let actual = match key {
        "from" => Value::String(config.from.to_string()),
        "except" => names(&config.except),
        "max_fails" => Value::Integer(config.check.max_fails.into()),
        "force_tcp" => Value::Boolean(config.force_tcp),
        "prefer_udp" => Value::Boolean(config.prefer_udp),
        "hc_recursion" => Value::Boolean(config.check.recursion),
        "hc_domain" => Value::String(config.check.domain.to_string()),
        "hc_interval" => Value::String(go(config.check.interval)),
        "expire" => Value::String(go(config.expire)),
        "max_age" => Value::String(go(config.max_age)),
        "read_timeout" => Value::String(go(config.read_timeout)),
        "policy" => Value::String(config.policy.name().to_owned()),
        "max_concurrent" => number(config.max_concurrent),
        "max_idle_conns" => number(config.max_idle_conns),
        "max_connect_attempts" => Value::String(match config.max_connect_attempts {
            None => "2 x upstreams".to_owned(),
            Some(0) => "unlimited".to_owned(),
            Some(number) => number.to_string(),
        }),
        "doh_method" => Value::String(config.doh_method.name().to_owned()),
        "failfast" => Value::Boolean(config.failfast),
        "next" => codes(&config.next),
        "next_on_nodata" => Value::Boolean(config.next_on_nodata),
        "source_address" => Value::String(config.source_address.map(|address| address.to_string()).unwrap_or_default()),
        "upstreams" => strings(targets.iter().map(|target| target.address.to_string()).collect()),
        "transport" => Value::String(targets.first().map_or("", |target| target.protocol.name()).to_owned()),
        "tls_servername" | "hc_tls_servername" => Value::String(server_name()),
        "tls_config_groups" => groups(&forward),
        "resolver" => strings(config.resolver.iter().map(|address| address.ip().to_string()).collect()),
        "instances" => number(configs.len()),
        "chain" => names(&configs.iter().map(|config| config.from.clone()).collect::<Vec<_>>()),
        "warns" => Value::Boolean(!block.warnings.is_empty()),
        other => return Err(format!("nobody knows how to compare {other:?}")),
    };
    let expected = match (key, expected) {
        // An address in the form that Rust gives it.
        ("source_address" | "upstreams", value) => canonical(value),
        (_, value) => value.clone(),
    };
    same(key, &actual, &expected)
}

/// Addresses in one form.
fn canonical(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let address = text.parse::<SocketAddr>().map(|address| address.to_string());
            let ip = || text.parse::<IpAddr>().map(|ip| ip.to_string());
            Value::String(address.or_else(|_| ip()).unwrap_or_else(|_| unpadded(text)))
        }
        Value::Array(list) => Value::Array(list.iter().map(canonical).collect()),
        value => value.clone(),
    }
}

/// An IPv6 address whose groups have leading zeros, with a port.
fn unpadded(text: &str) -> String {
    let parsed = text.strip_prefix('[').and_then(|rest| rest.split_once("]:"));
    let Some((ip, port)) = parsed.and_then(|(ip, port)| Some((ip.parse::<IpAddr>().ok()?, port))) else {
        return text.to_owned();
    };
    format!("[{ip}]:{port}")
}

/// Places of upstreams that have one TLS configuration.
fn groups(forward: &Forward) -> Value {
    let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let list = forward.upstreams().load();
    for (at, upstream) in list.iter().enumerate() {
        let name = forward.upstreams().server_name(upstream.target()).unwrap_or_default();
        groups.entry(name).or_default().push(Value::Integer(at as i64));
    }
    let mut groups: Vec<Vec<Value>> = groups.into_values().collect();
    groups.sort_by_key(|group| group.first().and_then(Value::as_integer));
    Value::Array(groups.into_iter().map(Value::Array).collect())
}

fn split(_file: &Table, case: &Table) -> Result<(), String> {
    let (host, name) = split_name(text(case, "input").ok_or("no input")?);
    same("host", &Some(host.as_str()), &text(case, "host"))?;
    same("name", &Some(name), &text(case, "name"))
}

/// A file that a vector describes in words: `RESOLV (a file with one nameserver line)`.
fn described(input: &str) -> (Scratch, String) {
    let scratch = Scratch::new();
    let content = if input.starts_with("COMMENTS") { "# nameserver 127.0.0.1\n" } else { "nameserver 127.0.0.1\n" };
    let path: PathBuf = scratch.write("file", content);
    let input = if input.contains(" (") { path.display().to_string() } else { input.to_owned() };
    (scratch, input)
}

/// `static`, `host` or `skipped`, and what it is.
fn kind(input: &str) -> Result<(&'static str, String), String> {
    Ok(match classify(input, |name| PathBuf::from(name))? {
        Source::Address(target) => ("static", target.to_string()),
        Source::Host(host) => ("host", format!("{}:{}", host.hostname, host.port)),
        Source::File(path) => {
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            let servers = coredns_rs::upstream::address::nameservers(&text);
            (if servers.is_empty() { "skipped" } else { "static" }, path.display().to_string())
        }
    })
}

fn classify_one(_file: &Table, case: &Table) -> Result<(), String> {
    let (_scratch, input) = described(text(case, "input").ok_or("no input")?);
    same("kind", &Some(kind(&input)?.0), &text(case, "kind"))
}

fn classify_list(_file: &Table, case: &Table) -> Result<(), String> {
    let kinds: Result<Vec<String>, String> =
        texts(case, "input").iter().map(|input| kind(input).map(|(kind, what)| format!("{kind} {what}"))).collect();
    same("kinds", &kinds?, &texts(case, "expect"))
}

fn host_entry(_file: &Table, case: &Table) -> Result<(), String> {
    let entry = HostEntry::parse(text(case, "input").ok_or("no input")?);
    same("valid", &Some(entry.is_some()), &flag(case, "valid"))?;
    let Some(entry) = entry else { return Ok(()) };
    same("hostname", &Some(entry.hostname.as_str()), &text(case, "hostname"))?;
    same("port", &Some(entry.port.to_string().as_str()), &text(case, "port"))?;
    same("transport", &Some(entry.protocol.name()), &text(case, "transport"))?;
    same("name", &Some(entry.server_name.as_str()), &text(case, "name"))
}

fn format_target(_file: &Table, case: &Table) -> Result<(), String> {
    let ip: IpAddr = text(case, "ip").and_then(|ip| ip.parse().ok()).ok_or("no address")?;
    let port = text(case, "port").and_then(|port| port.parse().ok()).ok_or("no port")?;
    let protocol = [Protocol::Dns, Protocol::Tls, Protocol::Https]
        .into_iter()
        .find(|one| Some(one.name()) == text(case, "transport"));
    let server_name = text(case, "name").filter(|name| !name.is_empty()).map(str::to_owned);
    let target = Target { address: SocketAddr::new(ip, port), protocol: protocol.ok_or("no transport")?, server_name };
    same("text", &Some(target.to_string().as_str()), &text(case, "expect"))
}

fn expand_all(_file: &Table, case: &Table) -> Result<(), String> {
    let hosts = case.get("dns").and_then(Value::as_table).ok_or("no hosts")?;
    let mut lists = Vec::new();
    for input in texts(case, "to") {
        lists.push(match classify(&input, |name| PathBuf::from(name))? {
            Source::Address(target) => vec![target],
            Source::Host(host) => {
                let addresses = texts(hosts, &host.hostname);
                addresses.iter().filter_map(|ip| Some(host.at(ip.parse().ok()?))).collect()
            }
            Source::File(path) => return Err(format!("{} is a file", path.display())),
        });
    }
    let addresses: Vec<String> = expand(&lists).iter().map(|target| target.address.to_string()).collect();
    same("addresses", &addresses, &texts(case, "expect"))
}

fn judge_address(case: &Table, outcome: Result<String, String>) -> Result<(), String> {
    match (outcome, flag(case, "fails") == Some(true)) {
        (Err(_), true) => Ok(()),
        (Ok(address), false) => same("address", &Some(address.as_str()), &text(case, "expect")),
        (outcome, _) => Err(format!("{outcome:?}")),
    }
}

fn address_or_file(_file: &Table, case: &Table) -> Result<(), String> {
    let (_scratch, input) = described(text(case, "input").ok_or("no input")?);
    judge_address(case, host_port_or_file(&input).map(|addresses| addresses.join(" ")))
}

fn address(_file: &Table, case: &Table) -> Result<(), String> {
    judge_address(case, host_port(text(case, "input").ok_or("no input")?, "53"))
}

fn transport(_file: &Table, case: &Table) -> Result<(), String> {
    same("scheme", &Some(split_scheme(text(case, "input").ok_or("no input")?).0.name()), &text(case, "expect"))
}

/// What a directive says, for the vectors of behaviour.
pub(crate) fn forwards(stanza: &str) -> Result<BlockConfig, String> {
    set_up(&[&DESCRIPTOR], stanza).map_err(|error| error.to_string())
}

/// One stanza at work.
pub(crate) fn forward(stanza: &str) -> Result<Arc<Forward>, String> {
    set_up(&[&PARSER], stanza).map_err(|error| error.to_string())?;
    let config = PARSED.take().into_iter().next().ok_or("nothing was parsed")?;
    Forward::new(config, false).map(Arc::new)
}
