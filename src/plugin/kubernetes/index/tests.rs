//! What changes do to the tables and to stamps.

use std::net::IpAddr;

use coredns_plugin::Stamp;

use super::super::object::{
    Address, Change, Endpoint, EndpointSlice, Namespace, Object, ObjectKey, ObjectKind, Pod, Port, Protocol, Service,
    ServiceKind,
};
use super::{Index, service_key};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn address(text: &str) -> Address {
    Address::parse(text).expect("an address")
}

fn service(name: &str, ips: &[&str]) -> Service {
    Service {
        namespace: "ns".into(),
        name: name.into(),
        headless: ips.is_empty(),
        cluster_ips: ips.iter().map(|ip| address(ip)).collect(),
        ports: [Port { name: "http".into(), protocol: Protocol::Tcp, number: Some(80) }].into(),
        ..Service::default()
    }
}

fn slice(name: &str, service: &str, ips: &[&str]) -> EndpointSlice {
    let endpoints =
        ips.iter().map(|ip| Endpoint { address: address(ip), hostname: None, target_name: None, zone: None });
    EndpointSlice {
        namespace: "ns".into(),
        name: name.into(),
        service: service.into(),
        ports: [Port::default()].into(),
        endpoints: endpoints.collect(),
        ..EndpointSlice::default()
    }
}

fn namespace(name: &str) -> Change {
    Change::Apply(Object::Namespace(Namespace { name: name.into(), ..Namespace::default() }))
}

fn put_service(service: Service) -> Change {
    Change::Apply(Object::Service(service))
}

fn put_slice(slice: EndpointSlice) -> Change {
    Change::Apply(Object::EndpointSlice(slice))
}

fn delete(kind: ObjectKind, name: &str) -> Change {
    Change::Delete(ObjectKey { kind, namespace: "ns".into(), name: name.into() })
}

/// The addresses without filter under a Service name; `None` where there is no object.
fn addresses(index: &Index, name: &str) -> Option<Vec<String>> {
    let found = index.service_named(name, "ns")?;
    let entry = found.entry().filter(|entry| entry.exists())?;
    Some(entry.v4().iter().map(ToString::to_string).chain(entry.v6().iter().map(ToString::to_string)).collect())
}

fn list(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}

#[test]
fn a_service_and_its_slices_meet_in_any_order() {
    let index = Index::new(true);
    index.apply(vec![put_slice(slice("b", "s", &["10.0.0.2", "2001:db8::2"]))]);
    assert_eq!(addresses(&index, "s"), None);
    index.apply(vec![put_service(service("s", &[])), put_slice(slice("a", "s", &["10.0.0.1", "10.0.0.2"]))]);
    assert_eq!(addresses(&index, "s"), list(&["10.0.0.1", "10.0.0.2", "2001:db8::2"]));
    assert_eq!(index.endpoint_address(ip("10.0.0.2")).len(), 2);
    index.apply(vec![delete(ObjectKind::EndpointSlice, "a")]);
    assert_eq!(addresses(&index, "s"), list(&["10.0.0.2", "2001:db8::2"]));
    index.apply(vec![put_service(service("s", &["10.9.9.9"]))]);
    assert_eq!(addresses(&index, "s"), list(&["10.9.9.9"]));
    assert_eq!(index.cluster_address(ip("10.9.9.9")).len(), 1);
    index.apply(vec![delete(ObjectKind::Service, "s"), delete(ObjectKind::EndpointSlice, "b")]);
    assert!(index.service_named("s", "ns").is_none());
    assert!(index.cluster_address(ip("10.9.9.9")).is_empty());
    assert!(index.endpoint_address(ip("10.0.0.2")).is_empty());
}

#[test]
fn a_slice_that_changes_twice_in_one_batch_counts_once() {
    let index = Index::new(true);
    index.apply(vec![
        put_service(service("s", &[])),
        put_service(service("t", &[])),
        put_slice(slice("a", "s", &["10.0.0.1"])),
        put_slice(slice("a", "s", &["10.0.0.1", "10.0.0.2"])),
        put_slice(slice("a", "t", &["10.0.0.1"])),
    ]);
    assert_eq!(addresses(&index, "s"), list(&[]));
    assert_eq!(addresses(&index, "t"), list(&["10.0.0.1"]));
    assert_eq!(index.endpoint_address(ip("10.0.0.1")).len(), 1);
    assert!(index.endpoint_address(ip("10.0.0.2")).is_empty());
}

#[test]
fn unserved_endpoints_are_not_in_the_tables() {
    let index = Index::new(false);
    index.apply(vec![put_service(service("s", &[])), put_slice(slice("a", "s", &["10.0.0.1"]))]);
    assert_eq!(addresses(&index, "s"), list(&[]));
    assert!(index.endpoint_address(ip("10.0.0.1")).is_empty());
}

/// Stamps share their counters with other tests of the process, so a stamp may end without reason, and that it holds
/// is seen in one of a few tries.
fn holds(index: &Index, octets: &[u8], change: impl Fn()) -> bool {
    (0..8).any(|_| {
        let stamp = Stamp::take(index.hash(octets));
        change();
        stamp.is_current()
    })
}

#[test]
fn stamps_end_with_what_they_are_for() {
    let index = Index::new(true);
    let key = service_key("s", "ns").expect("a key");
    let other = service_key("other", "ns").expect("a key");
    index.apply(vec![put_service(service("s", &["10.0.0.1"])), put_service(service("other", &["10.0.0.2"]))]);
    let of_service = Stamp::take(index.hash(&key));
    let of_namespace = Stamp::take(index.hash(b"\x02ns"));
    let of_address = Stamp::take(index.address_hash(ip("10.0.0.3")));
    let of_zone = index.zone_stamp();
    index.apply(vec![put_service(service("s", &["10.0.0.3"]))]);
    for stamp in [of_service, of_namespace, of_address, of_zone] {
        assert!(!stamp.is_current());
    }
    let changes = std::cell::Cell::new(3_u8);
    assert!(holds(&index, &other, || {
        changes.set(changes.get() + 1);
        index.apply(vec![put_service(service("s", &[&format!("10.0.1.{}", changes.get())]))]);
    }));
    // Nothing new is no change.
    assert!(holds(&index, &other, || index.apply(vec![put_service(service("other", &["10.0.0.2"]))])));
}

#[test]
fn a_namespace_ends_the_stamps_of_all_within() {
    let index = Index::new(true);
    index.apply(vec![put_service(service("s", &["10.0.0.1"])), put_slice(slice("a", "s", &["10.0.0.7"]))]);
    let key = service_key("s", "ns").expect("a key");
    let stamps = || {
        let hashes = [index.hash(&key), index.hash(b"\x02NS"), index.address_hash(ip("10.0.0.1"))];
        hashes.map(Stamp::take).into_iter().chain([Stamp::take(index.address_hash(ip("10.0.0.7")))]).collect::<Vec<_>>()
    };
    let before = stamps();
    index.apply(vec![namespace("ns")]);
    assert!(before.iter().all(|stamp| !stamp.is_current()));
    assert!(index.has_namespace(b"\x02nS"));
    let before = stamps();
    index.apply(vec![Change::Delete(ObjectKey {
        kind: ObjectKind::Namespace,
        namespace: "".into(),
        name: "ns".into(),
    })]);
    assert!(before.iter().all(|stamp| !stamp.is_current()));
    assert!(!index.has_namespace_named("ns"));
}

#[test]
fn serials_move_with_what_a_zone_shows() {
    let index = Index::new(true);
    let serials = || (index.serials().internal(), index.serials().external(), index.serials().multicluster());
    assert_eq!(serials(), (0, 0, 0));
    index.apply(vec![namespace("ns")]);
    assert_eq!(serials(), (0, 0, 0));
    index.apply(vec![put_service(service("s", &["10.0.0.1"]))]);
    let (first, external, multicluster) = serials();
    assert!(first > 1_700_000_000);
    assert_eq!((external, multicluster), (0, 0));
    // Within the same second a change still moves the serial.
    index.apply(vec![put_slice(slice("a", "s", &["10.0.0.2"]))]);
    let (second, ..) = serials();
    assert!(second > first);
    index.apply(vec![put_slice(slice("a", "s", &["10.0.0.2"]))]);
    assert_eq!(serials().0, second);
    let external_ips = [address("192.0.2.1")].into();
    index.apply(vec![put_service(Service { external_ips, ..service("s", &["10.0.0.1"]) })]);
    assert_eq!(serials().0, second);
    assert!(serials().1 > 1_700_000_000);
}

/// Objects that no API server would take.
pub(in super::super) fn odd_objects() -> Vec<Change> {
    let long = "x".repeat(300);
    let names = ["", "UPPER", "a_b", "a/b", "a.b", "\0", "é", &long];
    let mut changes = Vec::new();
    for name in names {
        changes.push(namespace(name));
        changes.push(put_service(Service { name: name.into(), namespace: name.into(), ..service("s", &["10.0.0.1"]) }));
        changes.push(put_service(Service {
            kind: ServiceKind::ExternalName,
            external_name: name.into(),
            ..service(name, &["10.0.0.1", "10.0.0.1", "name", "fe80::1%eth0"])
        }));
        changes.push(put_slice(EndpointSlice {
            endpoints: ["10.0.0.1", "10.0.0.1", "::ffff:10.0.0.1", "x y", &long]
                .iter()
                .map(|ip| Endpoint {
                    address: address(ip),
                    hostname: Some(name.into()),
                    target_name: Some(name.into()),
                    zone: Some(name.into()),
                })
                .collect(),
            ..slice(name, name, &[])
        }));
        let addresses = [address("10.0.0.1"), address("nowhere")].into();
        let pod = Pod { name: name.into(), namespace: name.into(), addresses, ..Pod::default() };
        changes.push(Change::Apply(Object::Pod(pod)));
    }
    changes
}

#[test]
fn odd_objects_come_and_go_without_a_trace() {
    let index = Index::new(true);
    index.apply(odd_objects());
    assert!(index.service_named("UPPER", "upper").is_some());
    assert!(index.service_named("a.b", "a.b").is_some());
    assert!(!index.endpoint_address(ip("10.0.0.1")).is_empty());
    let keys = odd_objects().into_iter().map(|change| match change {
        Change::Apply(object) => Change::Delete(object.key()),
        delete => delete,
    });
    index.apply(keys.collect());
    assert!(index.entries(false).is_empty());
    for table in [index.endpoint_address(ip("10.0.0.1")).len(), index.cluster_address(ip("10.0.0.1")).len()] {
        assert_eq!(table, 0);
    }
    assert!(index.pods(ip("10.0.0.1")).is_empty());
}

#[test]
fn names_do_not_run_into_each_other() {
    let index = Index::new(true);
    let parts = [("a.b", "c"), ("a", "b.c"), ("a\u{1}b", "c"), ("a", "b\u{1}c"), ("ab", "c"), ("a", "bc")];
    for (at, (name, namespace)) in (1_u8..).zip(parts) {
        let mut service = service(name, &[&format!("10.0.0.{at}")]);
        service.namespace = namespace.into();
        index.apply(vec![put_service(service)]);
    }
    for (at, (name, namespace)) in (1_u8..).zip(parts) {
        let found = index.service_named(name, namespace).expect("it is there");
        let own = found.entry().map(|entry| entry.v4().to_vec());
        assert_eq!(own, Some(vec![std::net::Ipv4Addr::new(10, 0, 0, at)]), "{name} {namespace}");
    }
}

#[test]
fn odd_objects_are_warned_about_once() {
    let log = coredns_testkit::LogCapture::start();
    let index = Index::new(true);
    for name in ["svc", "pod", "com", "de", "shop", "kube-system"] {
        index.apply(vec![namespace(name)]);
    }
    let warned =
        |lines: &[String], name: &str| lines.iter().filter(|line| line.contains(&format!(" {name}: "))).count();
    let lines = log.take();
    let counts = ["svc", "pod", "com", "de", "shop", "kube-system"].map(|name| warned(&lines, name));
    assert_eq!(counts, [1, 1, 1, 1, 0, 0], "{lines:?}");
    for round in 0..50 {
        let mut odd = service("odd", &[]);
        odd.kind = ServiceKind::ExternalName;
        odd.external_name = format!("{round} spaces in it").into();
        index.apply(vec![put_service(odd), namespace("svc")]);
    }
    let lines = log.take();
    assert!(warned(&lines, "ns/odd") <= 1 && warned(&lines, "svc") == 0, "{lines:?}");
}

#[test]
fn readers_see_whole_states_while_a_writer_changes_them() {
    const CHANGES: u8 = 200;
    let index = Index::new(true);
    index.apply(vec![put_service(service("s", &["10.0.0.0"]))]);
    let key = service_key("s", "ns").expect("a key");
    let hash = index.hash(&key);
    let read = || {
        let stamp = Stamp::take(hash);
        let found = index.service(&key, hash).expect("the Service is always there");
        let entry = found.entry().expect("an entry");
        assert_eq!(entry.v4().len(), 1);
        (stamp, entry.v4().first().map_or(0, |ip| ip.octets()[3]))
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 1..=CHANGES {
                let neighbours = (0..8)
                    .map(|other| put_service(service(&format!("n{other}"), &[&format!("10.{other}.1.{number}")])));
                index.apply(neighbours.chain([put_service(service("s", &[&format!("10.0.0.{number}")]))]).collect());
            }
        });
        let mut answers = Vec::new();
        while !writer.is_finished() {
            let answer = read();
            let last = answers.last().map_or(0, |(_, number)| *number);
            assert!(answer.1 >= last, "{} after {last}", answer.1);
            answers.push(answer);
        }
        // An answer that still counts as current is the newest.
        assert!(answers.iter().all(|(stamp, number)| !stamp.is_current() || *number == CHANGES));
        let (stamp, number) = read();
        assert!(stamp.is_current());
        assert_eq!(number, CHANGES);
    });
}
