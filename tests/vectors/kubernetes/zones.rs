//! Transfers, name servers, labels about queries.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use coredns_plugin::services::TransferError;
use coredns_plugin::wire::{Name, Record};
use coredns_plugin::{Metadata, Plugin};
use coredns_rs::plugin::kubernetes::local::local_addresses;
use coredns_rs::plugin::kubernetes::{Kubernetes, NameServers};
use coredns_testkit::libtest_mimic::Trial;
use coredns_testkit::vectors::{self, flag, load, tables, text, texts};
use coredns_testkit::{Ask, same_records};
use toml::{Table, Value};

use super::fixture;
use crate::data;

/// The trials of the three files, and of our own transfers.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = transfers("kubernetes-xfr");
    trials.extend(transfers("kubernetes-ours-xfr"));
    trials.extend(name_servers());
    trials.extend(metadata());
    trials
}

fn fixture_of(table: &Table) -> Table {
    table.get("fixture").and_then(Value::as_table).cloned().unwrap_or_default()
}

fn group<'t>(table: &'t Table, case: &Table) -> Result<&'t Table, String> {
    tables(table, "group").find(|group| text(group, "name") == text(case, "group")).ok_or_else(|| "no group".to_owned())
}

fn transfers(file: &str) -> Vec<Trial> {
    let table = load(&data(file));
    let whole = table.clone();
    vectors::trials(file, "case", &table, move |case| check_transfer(&whole, case))
}

fn check_transfer(table: &Table, case: &Table) -> Result<(), String> {
    let corefile = text(group(table, case)?, "corefile").ok_or("no corefile")?;
    let objects = fixture_of(table);
    let plugin = fixture::plugin(corefile, &objects, &texts(case, "local_ips"), true);
    let zone: Name = text(case, "zone").ok_or("no zone")?.parse().map_err(|error| format!("{error}"))?;
    let number = |table: &Table| table.get("serial").and_then(Value::as_integer).unwrap_or(0);
    // The serial of the fixture stands for the present one.
    let current = if plugin.options().multicluster.matching(&zone).is_some() {
        plugin.index().serials().multicluster()
    } else {
        plugin.index().serials().internal()
    };
    let serial = match number(case) {
        asked if asked == number(&objects) => current,
        asked => u32::try_from(asked).map_err(|error| error.to_string())?,
    };
    let source = plugin.transfer().ok_or("no transfer")?;
    let records: Vec<Record> = match (source.transfer(&zone, serial), text(case, "error")) {
        (Err(error), Some(expected)) if error.to_string().contains(expected) => return Ok(()),
        (Err(TransferError::NotAuthoritative | TransferError::Failed(_)), expected) => {
            return Err(format!("another error than {expected:?}"));
        }
        (Ok(_), Some(expected)) => return Err(format!("no error, want {expected:?}")),
        (Ok(records), None) => records.collect(),
    };
    let whole = tables(table, "case").find(|other| text(other, "id") == text(case, "same_as"));
    let expected = texts(whole.unwrap_or(case), "records");
    if !expected.is_empty() {
        let serial = format!(" {} 7200 ", number(&objects));
        let expected: Vec<String> =
            expected.iter().map(|line| line.replace(&serial, &format!(" {current} 7200 "))).collect();
        same_records(&records, &expected, true, true)?;
    }
    for (what, count) in case.get("count").and_then(Value::as_table).into_iter().flatten() {
        let (rtype, owner) = what.split_once(" at ").unwrap_or((what, ""));
        let matching = records.iter().filter(|record| {
            record.rtype.to_string() == rtype && (owner.is_empty() || record.owner.to_string() == owner)
        });
        if i64::try_from(matching.count()).ok() != count.as_integer() {
            return Err(format!("not {count:?} {what}"));
        }
    }
    for (key, record) in [("first", records.first()), ("last", records.last())] {
        if let Some(expected) = text(case, key)
            && record.is_none_or(|record| record.rtype.to_string() != expected)
        {
            return Err(format!("{key} is {record:?}"));
        }
    }
    Ok(())
}

fn name_servers() -> Vec<Trial> {
    let file = "kubernetes-nsaddrs";
    let table = load(&data(file));
    let objects = fixture_of(&table);
    let mut trials = vectors::trials(file, "case", &table, move |case| check_name_servers(objects.clone(), case));
    trials.extend(vectors::trials(file, "bound_ips", &table, |case| {
        let hosts = texts(case, "listen_hosts");
        let actual: Vec<String> =
            local_addresses(hosts.iter().map(String::as_str)).iter().map(ToString::to_string).collect();
        let expected = texts(case, "expect");
        if actual == expected { Ok(()) } else { Err(format!("{actual:?}, want {expected:?}")) }
    }));
    trials
}

fn check_name_servers(mut objects: Table, case: &Table) -> Result<(), String> {
    let external = case.get("set_external_ips").and_then(Value::as_table).cloned().unwrap_or_default();
    for service in objects.get_mut("service").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(service) = service.as_table_mut() else { continue };
        if let Some(ips) = text(service, "name").and_then(|name| external.get(name)).cloned() {
            service.insert("external_ips".into(), ips);
        }
    }
    let plugin = fixture::plugin("inter.webs.test {\n kubernetes\n}\n", &objects, &texts(case, "local_ips"), true);
    let zone: Name = text(case, "zone").ok_or("no zone")?.parse().map_err(|error| format!("{error}"))?;
    let whom = match (flag(case, "external"), flag(case, "headless")) {
        (Some(true), headless) => NameServers::External { headless: headless.unwrap_or(false) },
        _ => NameServers::Internal,
    };
    let mut actual: Vec<String> = plugin
        .name_servers(&zone, whom)
        .into_iter()
        .map(|(owner, ip)| format!("{owner} {} {ip}", if ip.is_ipv4() { "A" } else { "AAAA" }))
        .collect();
    actual.sort();
    let mut expected = texts(case, "records");
    expected.sort();
    if actual == expected { Ok(()) } else { Err(format!("{actual:?}, want {expected:?}")) }
}

fn metadata() -> Vec<Trial> {
    let file = "kubernetes-metadata";
    let table = load(&data(file));
    let whole = table.clone();
    vectors::trials(file, "case", &table, move |case| {
        let group = group(&whole, case)?;
        let zones = texts(group, "zones").join(" ");
        let multicluster = texts(group, "multicluster");
        let multicluster = if multicluster.is_empty() {
            String::new()
        } else {
            format!("  multicluster {}\n", multicluster.join(" "))
        };
        let pods = text(group, "pods").ok_or("no pods")?;
        let corefile = format!(". {{\n kubernetes {zones} {{\n{multicluster}  pods {pods}\n }}\n}}\n");
        check_labels(&fixture::plugin(&corefile, &fixture_of(&whole), &[], true), case)
    })
}

fn check_labels(plugin: &Kubernetes, case: &Table) -> Result<(), String> {
    let client: IpAddr = text(case, "client").ok_or("no client")?.parse().map_err(|error| format!("{error}"))?;
    let query = Ask::new(text(case, "q").ok_or("no q")?).from(SocketAddr::from((client, 40_212))).query();
    let store = Metadata::new();
    plugin.metadata(&query, &store);
    let actual: BTreeMap<String, String> = store.all().into_iter().collect();
    let labels = case.get("labels").and_then(Value::as_table).ok_or("no labels")?;
    let expected: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| (key.clone(), value.as_str().unwrap_or("").to_owned())).collect();
    if actual == expected { Ok(()) } else { Err(format!("{actual:?}, want {expected:?}")) }
}
