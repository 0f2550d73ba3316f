use std::net::Ipv4Addr;

use serde_json::json;

use super::*;

fn service(value: serde_json::Value) -> Service {
    serde_json::from_value(value).expect("any content decodes")
}

fn slice(value: serde_json::Value) -> EndpointSlice {
    serde_json::from_value(value).expect("any content decodes")
}

fn v4(text: &str) -> Address {
    Address::V4(text.parse::<Ipv4Addr>().expect("an IPv4 address"))
}

fn named_port(name: &str) -> Port {
    Port { name: name.into(), protocol: Protocol::Tcp, number: Some(80) }
}

#[test]
fn addresses_are_parsed_to_one_value_each() {
    let cases = [
        ("192.0.2.1", "192.0.2.1", true),
        ("::ffff:192.0.2.1", "192.0.2.1", true),
        ("2001:DB8:0::1", "2001:db8::1", true),
        ("fe80::1%eth0", "fe80::1%eth0", false),
        ("192.0.2.01", "192.0.2.01", false),
        ("300.1.1.1", "300.1.1.1", false),
        ("lb.example.org", "lb.example.org", false),
    ];
    for (text, canonical, is_ip) in cases {
        let address = Address::parse(text).expect(text);
        assert_eq!((address.to_string().as_str(), address.ip().is_some()), (canonical, is_ip), "{text}");
    }
    assert_eq!(Address::parse(""), None);
}

#[test]
fn a_service_keeps_its_fields() {
    let full = service(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "42", "labels": {"a": "b"}, "managedFields": [{}]},
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.1", "2001:db8::1"],
            "externalIPs": ["192.0.2.1"],
            "ports": [{"name": "http", "protocol": "TCP", "port": 80}, {"port": 53, "protocol": "UDP"}],
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.2", "hostname": "x"}, {"hostname": "lb.example.org"}]}},
    }));
    let expected = Service {
        version: Version::parse("42"),
        namespace: "shop".into(),
        name: "web".into(),
        kind: ServiceKind::LoadBalancer,
        headless: false,
        external_name: "".into(),
        cluster_ips: [v4("10.0.0.1"), Address::V6("2001:db8::1".parse().expect("an address"))].into(),
        external_ips: [v4("192.0.2.1"), v4("192.0.2.2"), Address::Text("lb.example.org".into())].into(),
        ports: [named_port("http"), Port { name: "".into(), protocol: Protocol::Udp, number: Some(53) }].into(),
    };
    assert_eq!(full, expected);

    let single = service(json!({"spec": {"clusterIP": "10.0.0.9"}}));
    assert_eq!(*single.cluster_ips, [v4("10.0.0.9")]);
    assert_eq!(*single.ports, [Port::default()], "a Service without ports has the sentinel");
    let headless = service(json!({"spec": {"clusterIP": "None"}}));
    assert!(headless.headless && headless.cluster_ips.is_empty());
    let alias = service(json!({"spec": {"type": "ExternalName", "externalName": "example.org"}}));
    assert_eq!((alias.kind, &*alias.external_name), (ServiceKind::ExternalName, "example.org"));
}

#[test]
fn only_ready_endpoints_are_kept() {
    // The conditions, and whether the endpoint is served; serving and terminating are not read.
    let cases = [
        (json!({"ready": true}), true),
        (json!({"ready": false}), false),
        (json!({}), true),
        (json!(null), true),
        (json!({"ready": null}), true),
        (json!({"ready": false, "serving": true, "terminating": true}), false),
    ];
    for (conditions, served) in cases {
        let slice = slice(json!({"endpoints": [{"addresses": ["10.0.0.1"], "conditions": conditions}]}));
        assert_eq!(slice.endpoints.len(), usize::from(served), "{conditions}");
    }
}

#[test]
fn a_slice_keeps_its_fields() {
    let name63 = "x".repeat(63);
    let slice = slice(json!({
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.0.0.1", "10.0.0.2"], "hostname": "a", "zone": "Us-West-2A", "nodeName": "n",
             "targetRef": {"kind": "Pod", "name": name63}},
            {"addresses": ["web.example.org"], "targetRef": {"name": "x".repeat(64)}},
        ],
        "kind": "EndpointSlice",
        "metadata": {
            "name": "web-1", "namespace": "shop",
            "labels": {"kubernetes.io/service-name": "web", "multicluster.kubernetes.io/service-name": "imported",
                       "multicluster.kubernetes.io/source-cluster": "east"},
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2006-01-02T15:04:05Z", "other": "y"},
        },
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}, {"name": null, "port": null, "protocol": null}],
    }));
    assert_eq!(&*slice.service, "web");
    let source = SourceCluster { import: "imported".into(), cluster: "east".into() };
    assert_eq!(slice.source.as_deref(), Some(&source));
    assert_eq!(slice.trigger_time.as_deref(), Some("2006-01-02T15:04:05Z"));
    assert_eq!(*slice.ports, [named_port("http"), Port::default()]);
    let endpoint = |address: Address, hostname: Option<&str>, target: Option<&str>, zone: Option<&str>| Endpoint {
        address,
        hostname: hostname.map(Box::from),
        target_name: target.map(Box::from),
        zone: zone.map(Box::from),
    };
    let expected = [
        endpoint(v4("10.0.0.1"), Some("a"), Some(&name63), Some("us-west-2a")),
        endpoint(v4("10.0.0.2"), Some("a"), Some(&name63), Some("us-west-2a")),
        endpoint(Address::Text("web.example.org".into()), None, None, None),
    ];
    assert_eq!(*slice.endpoints, expected);
}

#[test]
fn a_pod_and_an_import_keep_their_fields() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "n", "labels": {"b": "2", "a": "1"}, "deletionTimestamp": "2006-01-02T15:04:05Z"},
        "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}]},
    }))
    .expect("a Pod");
    assert_eq!(pod.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.1", "2001:db8::1"]);
    assert_eq!(pod.labels.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
    assert!(pod.terminating);
    let import: ServiceImport = serde_json::from_value(json!({
        "metadata": {"name": "i", "namespace": "n"},
        "spec": {"type": "Headless", "ips": ["10.0.0.1"], "ports": []},
    }))
    .expect("an import");
    assert!(import.headless && import.ports.is_empty());
    assert_eq!(*import.ips, [v4("10.0.0.1")]);
}

#[test]
fn odd_fields_count_as_absent() {
    let odd_ports = json!([
        null, {"port": null}, {"port": 0}, {"port": 70000}, {"port": -1}, {"port": "http"}, {"port": "80"},
        {"port": 1.5}, {"port": [], "name": {}, "protocol": 7}, "text",
    ]);
    let numbers = [None, None, Some(0), None, None, None, Some(80), None, None, None];
    for object in [service(json!({"spec": {"ports": odd_ports}})).ports, slice(json!({"ports": odd_ports})).ports] {
        assert_eq!(object.iter().map(|port| port.number).collect::<Vec<_>>(), numbers);
    }
    let odd = service(json!({
        "metadata": {"name": "A_b/c.d\u{0}", "namespace": 7, "labels": ["x"], "annotations": "y"},
        "spec": {"clusterIPs": "10.0.0.1", "clusterIP": ["x"], "externalIPs": ["", null, "a b", "192.0.2.1"], "ports": {"a": 1}},
        "status": [{"loadBalancer": 1}],
    }));
    assert_eq!((&*odd.name, &*odd.namespace), ("A_b/c.d\u{0}", "7"));
    assert_eq!(*odd.external_ips, [Address::Text("a b".into()), v4("192.0.2.1")]);
    assert_eq!(*odd.ports, [Port::default()]);
    let odd = slice(json!({
        "metadata": null,
        "endpoints": [
            {"addresses": ["", "10.0.0.1", "10.0.0.1", "::ffff:10.0.0.1"], "hostname": "h".repeat(300)},
            {"addresses": null}, null, {"addresses": [["x"], {}]},
        ],
    }));
    assert_eq!(odd.endpoints.len(), 3, "duplicates stay, empty addresses go");
    assert!(odd.endpoints.iter().all(|endpoint| endpoint.hostname.is_none() && endpoint.address == v4("10.0.0.1")));
    let heavy: Pod =
        serde_json::from_value(json!({"metadata": {"labels": {"a": "x".repeat(1 << 20), "b": "c"}}})).expect("a Pod");
    assert_eq!(heavy.labels.iter().collect::<Vec<_>>(), [("b", "c")]);
    assert_eq!(
        service(json!({"spec": null, "status": 3})),
        Service { ports: [Port::default()].into(), ..Service::default() }
    );
    let many = slice(json!({"endpoints": vec![json!({"addresses": ["10.0.0.1"]}); 100_000]}));
    assert_eq!(many.endpoints.len(), 100_000);
}

#[test]
fn a_service_moves_serials() {
    let ips = |ip: &str| Service { external_ips: [v4(ip)].into(), ..Service::default() };
    let alias = |name: &str| Service { external_name: name.into(), ..Service::default() };
    let ports =
        |names: &[&str]| Service { ports: names.iter().map(|name| named_port(name)).collect(), ..Service::default() };
    let cluster = |ip: &str| Service { cluster_ips: [v4(ip)].into(), ..Service::default() };
    let cases = [
        ("add", None, Some(Service::default()), true, false),
        ("delete", Some(Service::default()), None, true, false),
        ("add with external address", None, Some(ips("10.0.0.1")), true, true),
        ("delete with external address", Some(ips("10.0.0.1")), None, true, true),
        ("external address", Some(ips("10.0.0.1")), Some(ips("10.0.0.2")), false, true),
        ("external name", Some(alias("10.0.0.1")), Some(alias("10.0.0.2")), true, false),
        ("port", Some(ports(&["test1"])), Some(ports(&["test2"])), true, true),
        ("number of ports", Some(ports(&["test1"])), Some(ports(&["test2", "test3"])), true, true),
        ("cluster address", Some(cluster("10.0.0.1")), Some(cluster("10.0.0.2")), false, false),
    ];
    for (name, old, new, internal, external) in cases {
        let (old, new) = (old.map(Object::Service), new.map(Object::Service));
        let expected = Relevance { internal, external, multicluster: false };
        assert_eq!(relevance(old.as_ref(), new.as_ref()), expected, "{name}");
    }
    let same = |ip: &str| Some(Object::Service(Service { version: Version::parse("7"), ..ips(ip) }));
    assert_eq!(
        relevance(same("10.0.0.1").as_ref(), same("10.0.0.2").as_ref()),
        Relevance::default(),
        "one resource version is one state"
    );
}

#[test]
fn a_pod_moves_the_internal_serial_with_its_address() {
    let pod = |ip: &str| Object::Pod(Pod { addresses: Address::parse(ip).into_iter().collect(), ..Pod::default() });
    for (old, new, changed) in
        [("10.240.0.1", "10.240.0.1", false), ("", "10.240.0.1", true), ("10.240.0.1", "10.240.0.2", true)]
    {
        let expected = Relevance { internal: changed, ..Relevance::default() };
        assert_eq!(relevance(Some(&pod(old)), Some(&pod(new))), expected, "{old} to {new}");
    }
}

fn endpoint(address: &str, hostname: &str) -> Endpoint {
    Endpoint { address: v4(address), hostname: Some(hostname.into()), target_name: None, zone: None }
}

#[test]
fn slices_are_compared_by_what_is_served() {
    let base = || EndpointSlice {
        endpoints: [endpoint("10.0.0.1", "a")].into(),
        ports: [named_port("http")].into(),
        ..EndpointSlice::default()
    };
    let port = |port: Port| EndpointSlice { ports: [port].into(), ..base() };
    let with = |endpoint: Endpoint| EndpointSlice { endpoints: [endpoint].into(), ..base() };
    let cases = [
        ("same", base(), true),
        ("address count", EndpointSlice { endpoints: Box::default(), ..base() }, false),
        ("port count", EndpointSlice { ports: Box::default(), ..base() }, false),
        ("address", with(endpoint("10.0.0.2", "a")), false),
        ("host name", with(endpoint("10.0.0.1", "b")), false),
        ("port number", port(Port { number: Some(8080), ..named_port("http") }), false),
        ("protocol", port(Port { protocol: Protocol::Udp, ..named_port("http") }), false),
        ("zone", with(Endpoint { zone: Some("z".into()), ..endpoint("10.0.0.1", "a") }), false),
        ("target only", with(Endpoint { target_name: Some("p".into()), ..endpoint("10.0.0.1", "a") }), true),
    ];
    for (name, other, equal) in cases {
        assert_eq!(base().serves_same(&other), equal, "{name}");
        let changed = relevance(Some(&Object::EndpointSlice(base())), Some(&Object::EndpointSlice(other)));
        assert_eq!(changed, Relevance { internal: !equal, ..Relevance::default() }, "{name}");
    }
    let two = |first: &str, second: &str| EndpointSlice {
        endpoints: [endpoint(first, "a"), endpoint(second, "a")].into(),
        ..base()
    };
    assert!(!two("10.0.0.1", "10.0.0.2").serves_same(&two("10.0.0.2", "10.0.0.1")), "order counts");
    let of = |cluster: &str| {
        let source = Some(Box::new(SourceCluster { import: "i".into(), cluster: cluster.into() }));
        Object::EndpointSlice(EndpointSlice { source, ..base() })
    };
    assert_eq!(
        relevance(Some(&of("east")), Some(&of("west"))),
        Relevance { multicluster: true, ..Relevance::default() },
        "cluster id"
    );
}

#[test]
fn an_import_moves_the_multicluster_serial() {
    let base = ServiceImport { ports: [named_port("http")].into(), ..ServiceImport::default() };
    let number = Port { number: Some(81), ..named_port("http") };
    let cases = [
        ("type", ServiceImport { headless: true, ..base.clone() }, true),
        ("port number", ServiceImport { ports: [number].into(), ..base.clone() }, true),
        ("addresses only", ServiceImport { ips: [v4("10.0.0.1")].into(), ..base.clone() }, false),
    ];
    for (name, new, multicluster) in cases {
        let changed = relevance(Some(&Object::ServiceImport(base.clone())), Some(&Object::ServiceImport(new)));
        assert_eq!(changed, Relevance { multicluster, ..Relevance::default() }, "{name}");
    }
    let namespace = Object::Namespace(Namespace::default());
    assert_eq!(relevance(None, Some(&namespace)), Relevance::default(), "a Namespace moves none");
}

#[test]
fn a_pod_being_deleted_stays_until_it_is() {
    let pod = |terminating| Object::Pod(Pod { name: "pod1".into(), terminating, ..Pod::default() });
    let mut present = std::collections::HashSet::new();
    let events =
        [(Change::of(pod(false)), true), (Change::of(pod(true)), true), (Some(Change::Delete(pod(true).key())), false)];
    for (change, expected) in events {
        match change {
            Some(Change::Apply(object)) => drop(present.insert(object.key())),
            Some(Change::Delete(key)) => drop(present.remove(&key)),
            None => {}
        }
        assert_eq!(!present.is_empty(), expected);
    }
    assert_eq!(Change::of(pod(true)), None);
}

#[test]
fn versions_tell_states_apart() {
    let same = |a: &str, b: &str| Version::parse(a).is_same(Version::parse(b));
    assert!(same("12", "12") && same("a1", "a1"));
    assert!(!same("12", "13") && !same("a1", "a2") && !same("", ""));
}

#[test]
fn objects_are_compact() {
    assert!(size_of::<Endpoint>() <= 72, "{}", size_of::<Endpoint>());
    assert!(size_of::<Port>() <= 48, "{}", size_of::<Port>());
    assert!(size_of::<Service>() <= 120, "{}", size_of::<Service>());
}
