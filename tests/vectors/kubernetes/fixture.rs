//! A plugin with the objects of a `[fixture]`.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use coredns_plugin::{BlockConfig, Descriptor};
use coredns_rs::plugin::kubernetes::Kubernetes;
use coredns_rs::plugin::kubernetes::object::{
    Address, Change, Endpoint, EndpointSlice, Namespace, Object, Pod, Port, Protocol, Service, ServiceImport,
    ServiceKind, SourceCluster, Version,
};
use coredns_rs::plugin::kubernetes::options::Options;
use coredns_testkit::set_up_block;
use coredns_testkit::vectors::{tables, text, texts};
use toml::{Table, Value};

thread_local! {
    static OPTIONS: RefCell<Option<Options>> = const { RefCell::new(None) };
}

/// The directive without a plugin behind it.
pub(crate) static CAPTURE: Descriptor = Descriptor {
    name: "kubernetes",
    setup: |setup| {
        let options = Options::parse(setup)?;
        OPTIONS.set(Some(options));
        Ok(())
    },
    register_metrics: || {},
};

/// A directive that stands beside it in some vectors.
static TRANSFER: Descriptor = Descriptor { name: "transfer", setup: |_| Ok(()), register_metrics: || {} };

/// The options of a whole server block.
pub(crate) fn options(corefile: &str) -> Result<(Options, BlockConfig), String> {
    let block = set_up_block(&[&TRANSFER, &CAPTURE], corefile).map_err(|error| error.to_string())?;
    OPTIONS.take().map(|options| (options, block)).ok_or_else(|| "no kubernetes directive".to_owned())
}

/// A plugin with the objects of `fixture`, at the addresses `local_ips`.
pub(crate) fn plugin(corefile: &str, fixture: &Table, local_ips: &[String], synced: bool) -> Arc<Kubernetes> {
    let (options, _) = options(corefile).unwrap_or_else(|error| panic!("{corefile}: {error}"));
    let plugin = Kubernetes::new(options, Vec::new());
    plugin.set_local_addresses(local_ips.iter().map(|ip| ip.parse().expect("an address")).collect());
    plugin.index().apply(changes(fixture));
    if synced {
        plugin.index().set_synced();
    }
    Arc::new(plugin)
}

/// The objects of a fixture.
pub(crate) fn changes(fixture: &Table) -> Vec<Change> {
    let namespaces = texts(fixture, "namespaces")
        .into_iter()
        .map(|name| Object::Namespace(Namespace { name: name.into(), ..Namespace::default() }));
    let services = tables(fixture, "service").map(|table| Object::Service(service(table)));
    let slices = tables(fixture, "slice").map(|table| Object::EndpointSlice(slice(table, false)));
    let imported = tables(fixture, "mc_slice").map(|table| Object::EndpointSlice(slice(table, true)));
    let imports = tables(fixture, "service_import").map(|table| Object::ServiceImport(import(table)));
    let pods = tables(fixture, "pod").map(|table| Object::Pod(pod(table)));
    namespaces.chain(services).chain(slices).chain(imported).chain(imports).chain(pods).map(Change::Apply).collect()
}

fn field(table: &Table, key: &str) -> Box<str> {
    text(table, key).unwrap_or("").into()
}

fn addresses(list: &[String]) -> Box<[Address]> {
    list.iter().filter_map(|one| Address::parse(one)).collect()
}

/// A Service as vectors describe it.
pub(crate) fn service(table: &Table) -> Service {
    let mut ips = texts(table, "cluster_ips");
    let headless = ips.first().is_some_and(|ip| ip == "None");
    ips.retain(|ip| ip != "None");
    let kind = match text(table, "type") {
        Some("ExternalName") => ServiceKind::ExternalName,
        _ => ServiceKind::ClusterIp,
    };
    Service {
        version: Version::default(),
        namespace: field(table, "namespace"),
        name: field(table, "name"),
        kind,
        headless,
        external_name: field(table, "external_name"),
        cluster_ips: addresses(&ips),
        external_ips: addresses(&texts(table, "external_ips")),
        ports: ports(table, true),
    }
}

fn ports(table: &Table, has_sentinel: bool) -> Box<[Port]> {
    let mut ports: Vec<Port> = tables(table, "ports")
        .map(|port| Port {
            name: field(port, "name"),
            protocol: Protocol::parse(&field(port, "protocol")),
            number: port.get("port").and_then(Value::as_integer).and_then(|number| u16::try_from(number).ok()),
        })
        .collect();
    if ports.is_empty() && has_sentinel {
        ports.push(Port::default());
    }
    ports.into()
}

fn slice(table: &Table, imported: bool) -> EndpointSlice {
    let endpoints = tables(table, "endpoints").flat_map(|endpoint| {
        let label = |key: &str| text(endpoint, key).map(Box::from);
        texts(endpoint, "ips").into_iter().filter_map(|ip| Address::parse(&ip)).map(move |address| Endpoint {
            address,
            hostname: label("hostname"),
            target_name: label("target"),
            zone: label("zone"),
        })
    });
    let service = field(table, "service");
    // In the tests that the vectors come from the two watches are apart; here a slice has one name in one place.
    let name = if imported { format!("imported-{}", field(table, "name")).into() } else { field(table, "name") };
    let source = SourceCluster { import: service.clone(), cluster: field(table, "cluster") };
    EndpointSlice {
        namespace: field(table, "namespace"),
        name,
        service: if imported { "".into() } else { service },
        source: imported.then(|| Box::new(source)),
        ports: ports(table, true),
        endpoints: endpoints.collect(),
        ..EndpointSlice::default()
    }
}

fn import(table: &Table) -> ServiceImport {
    ServiceImport {
        namespace: field(table, "namespace"),
        name: field(table, "name"),
        headless: text(table, "type") == Some("Headless"),
        ips: addresses(&texts(table, "ips")),
        ports: ports(table, false),
        ..ServiceImport::default()
    }
}

fn pod(table: &Table) -> Pod {
    let labels = table.get("labels").and_then(Value::as_table).into_iter().flatten();
    Pod {
        namespace: field(table, "namespace"),
        name: field(table, "name"),
        addresses: addresses(&[field(table, "ip").into()]),
        labels: labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or(""))).collect(),
        ..Pod::default()
    }
}

/// The client of a file's queries.
pub(crate) fn client(fixture: &Table) -> IpAddr {
    text(fixture, "client_ip").unwrap_or("10.240.0.1").parse().expect("an address")
}
