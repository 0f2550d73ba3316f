//! Names, labels, changes.

use std::time::{Duration, UNIX_EPOCH};

use coredns_plugin::wire::Name;
use coredns_rs::plugin::kubernetes::endpoint::{endpoint_label, label_address};
use coredns_rs::plugin::kubernetes::index::Index;
use coredns_rs::plugin::kubernetes::metrics::{label_text, programming_latency};
use coredns_rs::plugin::kubernetes::object::{
    Address, Change, Endpoint, EndpointSlice, Object, Pod, Port, Protocol, Relevance, Service, ServiceImport,
    SourceCluster, relevance,
};
use coredns_rs::plugin::kubernetes::parse::{Grammar, Kind, parse, text as lower};
use coredns_testkit::libtest_mimic::Trial;
use coredns_testkit::vectors::{self, flag, load, text, texts};
use serde_json::json;
use toml::{Table, Value};

use crate::data;

type Check = fn(&Table) -> Result<(), String>;

/// The trials of the file.
pub(crate) fn trials() -> Vec<Trial> {
    let file = "kubernetes-units";
    let table = load(&data(file));
    let checks: [(&str, Check); 11] = [
        ("parse", check_parse),
        ("endpoint_hostname", check_endpoint_name),
        ("pod_label", check_pod_label),
        ("service_change", check_service_change),
        ("pod_change", check_pod_change),
        ("subset_equal", check_subset),
        ("slice_equal", check_difference),
        ("metric_label", check_metric_label),
        ("programming_latency", check_latency),
        ("slice_ready", check_ready),
        ("informer", check_events),
    ];
    checks.into_iter().flat_map(|(key, check)| vectors::trials(file, key, &table, check)).collect()
}

fn same<T: PartialEq + std::fmt::Debug>(actual: T, expected: T) -> Result<(), String> {
    if actual == expected { Ok(()) } else { Err(format!("{actual:?}, want {expected:?}")) }
}

fn get<'t>(case: &'t Table, key: &str) -> Result<&'t str, String> {
    text(case, key).ok_or_else(|| format!("no {key}"))
}

fn check_parse(case: &Table) -> Result<(), String> {
    let name: Name = get(case, "q")?.parse().map_err(|error| format!("{error}"))?;
    let zone: Name = get(case, "zone")?.parse().map_err(|error| format!("{error}"))?;
    let grammar = Grammar {
        multicluster: flag(case, "multicluster").unwrap_or(false),
        zonal: flag(case, "zonal").unwrap_or(false),
    };
    // A name outside of the zone has no place in it.
    let parsed = parse(&name, name.offset_of(&zone).unwrap_or(usize::MAX), grammar);
    let parsed = match (parsed, text(case, "error")) {
        (Err(error), Some(expected)) => return same(error.to_string(), expected.to_owned()),
        (Err(error), None) => return Err(error.to_string()),
        (Ok(parsed), Some(expected)) => return Err(format!("{parsed:?}, want {expected:?}")),
        (Ok(parsed), None) => parsed,
    };
    let expected = case.get("expect").and_then(Value::as_table).ok_or("no expect")?;
    let parts = [
        ("port", lower(parsed.port)),
        ("protocol", lower(parsed.protocol)),
        ("endpoint", lower(parsed.endpoint)),
        ("cluster", lower(parsed.cluster)),
        ("service", lower(parsed.service)),
        ("namespace", lower(parsed.namespace)),
        ("kind", parsed.kind.map_or("", Kind::as_str).to_owned()),
        ("topology_zone", parsed.scope.map(|scope| scope.text()).unwrap_or_default()),
    ];
    for (key, actual) in parts {
        same(actual, text(expected, key).unwrap_or("").to_owned()).map_err(|error| format!("{key}: {error}"))?;
    }
    same(parsed.scope.map(|scope| scope.prefer), flag(expected, "prefer"))
}

/// The slice as the API gives it.
fn decode(slice: serde_json::Value) -> Result<EndpointSlice, String> {
    serde_json::from_value(slice).map_err(|error| error.to_string())
}

fn check_endpoint_name(case: &Table) -> Result<(), String> {
    let slice = decode(json!({
        "metadata": {"name": "s", "namespace": "n"},
        "endpoints": [{
            "addresses": [get(case, "ip")?],
            "hostname": get(case, "hostname")?,
            "targetRef": {"kind": "Pod", "name": get(case, "target_name")?},
        }],
    }))?;
    let endpoint = slice.endpoints.first().ok_or("no endpoint")?;
    let label = endpoint_label(endpoint, flag(case, "endpoint_pod_names").unwrap_or(false)).ok_or("no label")?;
    same(String::from_utf8_lossy(&label).into_owned(), get(case, "expect")?.to_owned())
}

fn check_pod_label(case: &Table) -> Result<(), String> {
    let actual = label_address(get(case, "label")?.as_bytes()).map(|ip| ip.to_string());
    let valid = flag(case, "valid").ok_or("no valid")?;
    same(actual, valid.then(|| get(case, "ip").map(str::to_owned)).transpose()?)
}

fn check_service_change(case: &Table) -> Result<(), String> {
    let object = |key: &str| {
        let table = case.get(key)?.as_table()?;
        let ports = texts(table, "ports").into_iter();
        Some(Object::Service(Service {
            external_ips: texts(table, "external_ips").iter().filter_map(|ip| Address::parse(ip)).collect(),
            external_name: text(table, "external_name").unwrap_or("").into(),
            ports: ports.map(|name| Port { name: name.into(), ..Port::default() }).collect(),
            ..Service::default()
        }))
    };
    let moved = relevance(object("old").as_ref(), object("new").as_ref());
    same((Some(moved.internal), Some(moved.external)), (flag(case, "internal"), flag(case, "external")))
}

fn check_pod_change(case: &Table) -> Result<(), String> {
    let pod = |ip: &str| Object::Pod(Pod { addresses: Address::parse(ip).into_iter().collect(), ..Pod::default() });
    let moved = relevance(Some(&pod(get(case, "old_ip")?)), Some(&pod(get(case, "new_ip")?)));
    same(Some(moved.internal), flag(case, "changed"))
}

fn check_subset(case: &Table) -> Result<(), String> {
    let slice = |key: &str| {
        let table = case.get(key).and_then(Value::as_table).ok_or("no subset")?;
        let endpoints = texts(table, "addresses").into_iter().filter_map(|line| {
            let (ip, hostname) = line.split_once(' ')?;
            let address = Address::parse(ip)?;
            Some(Endpoint { address, hostname: Some(hostname.into()), target_name: None, zone: None })
        });
        let ports = texts(table, "ports").into_iter().filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [name, number, protocol] = words[..] else { return None };
            Some(Port { name: name.into(), number: number.parse().ok(), protocol: Protocol::parse(protocol) })
        });
        Ok::<_, String>(EndpointSlice {
            endpoints: endpoints.collect(),
            ports: ports.collect(),
            ..EndpointSlice::default()
        })
    };
    same(Some(slice("a")?.serves_same(&slice("b")?)), flag(case, "equal"))
}

/// Whether the change that the vector names moves no serial.
fn check_difference(case: &Table) -> Result<(), String> {
    let port = |number| [Port { number: Some(number), ..Port::default() }].into();
    let endpoint = |zone: Option<&str>, target: Option<&str>| Endpoint {
        address: Address::parse("10.0.0.1").expect("an address"),
        hostname: None,
        target_name: target.map(Box::from),
        zone: zone.map(Box::from),
    };
    let slice = |zone, target, cluster: &str| {
        let source = SourceCluster { import: "i".into(), cluster: cluster.into() };
        Object::EndpointSlice(EndpointSlice {
            source: Some(Box::new(source)),
            endpoints: [endpoint(zone, target)].into(),
            ..EndpointSlice::default()
        })
    };
    let import = |headless, number, ip: &str| {
        let ips = Address::parse(ip).into_iter().collect();
        Object::ServiceImport(ServiceImport { headless, ips, ports: port(number), ..ServiceImport::default() })
    };
    let service = |ip: &str| {
        let cluster_ips = Address::parse(ip).into_iter().collect();
        Object::Service(Service { cluster_ips, ports: port(1), ..Service::default() })
    };
    let (old, new) = match get(case, "id")? {
        "slice-cluster-id" => (slice(None, None, "a"), slice(None, None, "b")),
        "slice-zone-only" => (slice(Some("a"), None, "c"), slice(Some("b"), None, "c")),
        "slice-node-only" => (slice(None, Some("a"), "c"), slice(None, Some("b"), "c")),
        "import-type" => (import(true, 1, ""), import(false, 1, "")),
        "import-port" => (import(true, 1, ""), import(true, 2, "")),
        "import-ips" => (import(false, 1, "10.0.0.1"), import(false, 1, "10.0.0.2")),
        "service-clusterip-only" => (service("10.0.0.1"), service("10.0.0.2")),
        other => return Err(format!("unknown case {other}")),
    };
    let is_equal = relevance(Some(&old), Some(&new)) == Relevance::default();
    same(Some(is_equal), flag(case, "equal"))
}

fn check_metric_label(case: &Table) -> Result<(), String> {
    let octets = match text(case, "input_hex") {
        Some(hex) => (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16)).collect(),
        None => Ok(get(case, "input_utf8")?.as_bytes().to_vec()),
    };
    let octets: Vec<u8> = octets.map_err(|error| error.to_string())?;
    same(label_text(&octets), get(case, "expect")?.to_owned())
}

fn check_latency(case: &Table) -> Result<(), String> {
    let services = texts(case, "services");
    let service = services.first().map(|ip| Service { headless: ip == "None", ..Service::default() });
    let now = UNIX_EPOCH + Duration::from_secs(1_136_214_250);
    let observed = programming_latency(get(case, "annotation")?, service.as_ref(), now);
    same(i64::from(observed.is_some()), case.get("observations").and_then(Value::as_integer).unwrap_or(0))?;
    observed.map_or(Ok(()), |(kind, seconds)| same((kind, seconds), (get(case, "service_kind")?, 5.0)))
}

fn check_ready(case: &Table) -> Result<(), String> {
    let mut conditions = serde_json::Map::new();
    for key in ["ready", "serving", "terminating"] {
        if let Some(value) = text(case, key).filter(|value| *value != "absent") {
            conditions.insert(key.to_owned(), (value == "true").into());
        }
    }
    let slice = decode(json!({
        "metadata": {"name": "s", "namespace": "n"},
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": conditions}],
    }))?;
    same(Some(!slice.endpoints.is_empty()), flag(case, "served"))
}

fn check_events(case: &Table) -> Result<(), String> {
    let index = Index::new(true);
    let ip = "10.0.0.1".parse().map_err(|error| format!("{error}"))?;
    let pod = |terminating| {
        Object::Pod(Pod {
            name: "pod1".into(),
            namespace: "n".into(),
            addresses: Address::parse("10.0.0.1").into_iter().collect(),
            terminating,
            ..Pod::default()
        })
    };
    let service = || {
        let cluster_ips = Address::parse("10.0.0.1").into_iter().collect();
        Object::Service(Service { name: "service1".into(), namespace: "n".into(), cluster_ips, ..Service::default() })
    };
    for (event, expected) in texts(case, "events").iter().zip(texts(case, "after_each")) {
        let object = if event.contains("pod1") { pod(event.contains("deletionTimestamp")) } else { service() };
        let change = if event.starts_with("delete") { Some(Change::Delete(object.key())) } else { Change::of(object) };
        index.apply(change.into_iter().collect());
        let is_present = !index.pods(ip).is_empty() || !index.cluster_address(ip).is_empty();
        same(if is_present { "present" } else { "absent" }.to_owned(), expected)
            .map_err(|error| format!("{event}: {error}"))?;
    }
    Ok(())
}
