//! What queries and data cost in allocations: nothing for hits, and a bounded number of octets for an address.
#![forbid(unsafe_code)]
#![cfg(plugin = "kubernetes")]

use std::net::Ipv4Addr;
use std::sync::Arc;

use allocation_counter::measure;
use coredns_plugin::wire::Name;
use coredns_plugin::{Answer, Plugin, Zones};
use coredns_rs::plugin::kubernetes::Kubernetes;
use coredns_rs::plugin::kubernetes::object::{
    Address, Change, Endpoint, EndpointSlice, Namespace, Object, Port, Protocol, Service,
};
use coredns_rs::plugin::kubernetes::options::Options;
use coredns_testkit::{Harness, query};

/// Services of the cluster, and ready endpoints of each.
const SERVICES: u32 = 10_000;
const ENDPOINTS: u32 = 15;
/// What the index may take, in octets: 200 for an address, and 2,000 for a Service with its slice.
const INDEX_MAX: i64 = 200 * (SERVICES as i64 * ENDPOINTS as i64) + 2_000 * SERVICES as i64;

fn plugin() -> Kubernetes {
    let zone: Name = "cluster.local".parse().expect("a name");
    Kubernetes::new(Options::new(Zones::new(vec![zone.clone()]), zone), Vec::new())
}

fn ports() -> Box<[Port]> {
    [Port { name: "http".into(), protocol: Protocol::Tcp, number: Some(80) }].into()
}

/// A Service with a cluster IP and a slice of endpoints.
fn changes(number: u32) -> [Change; 2] {
    let name: Box<str> = format!("service-{number}").into();
    let ip = |number: u32| Address::V4(Ipv4Addr::from_bits(0x0a00_0000 + number));
    let service = Service {
        namespace: "default".into(),
        name: name.clone(),
        cluster_ips: [ip(0x0080_0000 + number)].into(),
        ports: ports(),
        ..Service::default()
    };
    let endpoints = (0..ENDPOINTS).map(|one| Endpoint {
        address: ip(number * ENDPOINTS + one),
        hostname: None,
        target_name: None,
        zone: None,
    });
    let slice = EndpointSlice {
        namespace: "default".into(),
        name: format!("{name}-abcde").into(),
        service: name,
        ports: ports(),
        endpoints: endpoints.collect(),
        ..EndpointSlice::default()
    };
    [Change::Apply(Object::Service(service)), Change::Apply(Object::EndpointSlice(slice))]
}

#[test]
fn an_address_of_a_service_costs_no_allocation() {
    let plugin = Arc::new(plugin());
    let namespace = Namespace { name: "default".into(), ..Namespace::default() };
    plugin.index().apply(vec![Change::Apply(Object::Namespace(namespace))]);
    plugin.index().apply((0..100).flat_map(changes).collect());
    plugin.index().set_synced();
    let harness = Harness::new(vec![plugin as Arc<dyn Plugin>]);
    let mut query = query("Service-7.default.svc.Cluster.local A");
    query.want_stamp();
    let ask = || match harness.ask_now(&query) {
        Answer::Reply(reply) => assert_eq!(reply.answer.len(), 1),
        other => panic!("{other:?}"),
    };
    // The thread's pool of replies fills with the first.
    ask();
    assert_eq!(measure(ask).count_total, 0);
}

#[test]
fn a_large_cluster_fits() {
    let plugin = plugin();
    let taken = measure(|| {
        for first in (0..SERVICES).step_by(100) {
            plugin.index().apply((first..first + 100).flat_map(changes).collect());
        }
    });
    assert_eq!(plugin.index().endpoint_address(Ipv4Addr::new(10, 0, 0, 7).into()).len(), 1);
    assert!(taken.bytes_current <= INDEX_MAX, "{} octets, at most {INDEX_MAX}", taken.bytes_current);
}
