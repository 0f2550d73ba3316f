//! A cluster's server against an API server: the Corefile that kubeadm writes, without what leads out of the cluster.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use coredns_plugin::clock;
use coredns_testkit::kube_api::{KubeApi, Settings};
use coredns_testkit::process::{Client, DEADLINE, Running};
use coredns_wire::Message;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::support::serve;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The server, and the ports of `ready` and `prometheus`.
fn cluster_server(api: &KubeApi, options: &str) -> (Running, u16, u16) {
    let (ready, metrics) = (free_port(), free_port());
    let running = serve(&format!(
        ".:0 {{\n    errors\n    health 127.0.0.1:0 {{\n        lameduck 1s\n    }}\n    ready 127.0.0.1:{ready}\n    \
         kubernetes cluster.local in-addr.arpa ip6.arpa {{\n        endpoint {}\n        pods insecure\n        \
         fallthrough in-addr.arpa ip6.arpa\n        ttl 30\n{options}    }}\n    prometheus 127.0.0.1:{metrics}\n    \
         loop\n    reload\n    loadbalance\n}}\n",
        api.url()
    ));
    (running, ready, metrics)
}

/// The status and the body of a resource.
fn get(port: u16, path: &str) -> (u16, String) {
    let attempt = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(DEADLINE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = attempt().unwrap_or_default();
    let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    (code, text)
}

/// Waits until something holds.
fn eventually(what: &str, running: &Running, mut holds: impl FnMut() -> bool) {
    let end = clock::now() + DEADLINE;
    while !holds() {
        assert!(clock::now() < end, "{what} does not come about:\n{}", running.lines().join("\n"));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn lines(message: &Message) -> Vec<String> {
    let mut lines: Vec<String> = message.answer.iter().map(ToString::to_string).collect();
    lines.sort();
    lines
}

fn namespace(name: &str) -> Value {
    json!({"kind": "Namespace", "metadata": {"name": name}})
}

fn service(namespace: &str, name: &str, ip: &str, port: (&str, &str, u16)) -> Value {
    let (port_name, protocol, number) = port;
    json!({"kind": "Service", "metadata": {"namespace": namespace, "name": name},
        "spec": {"type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip],
            "ports": [{"name": port_name, "protocol": protocol, "port": number}]}})
}

fn slice(namespace: &str, service: &str, endpoints: &[(&str, &str)]) -> Value {
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|(ip, host)| json!({"addresses": [ip], "hostname": host, "conditions": {"ready": true}}))
        .collect();
    json!({"kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"namespace": namespace, "name": format!("{service}-1"),
            "labels": {"kubernetes.io/service-name": service}},
        "endpoints": endpoints, "ports": [{"name": "http", "protocol": "TCP", "port": 80}]})
}

/// The objects of the conformance tests of Kubernetes.
fn conformance(api: &KubeApi) {
    for name in ["default", "kube-system", "dns-1"] {
        api.apply(namespace(name));
    }
    api.apply(service("default", "kubernetes", "10.96.0.1", ("https", "TCP", 443)));
    api.apply(service("kube-system", "kube-dns", "10.96.0.10", ("dns", "UDP", 53)));
    api.apply(service("dns-1", "test-service-2", "10.96.0.22", ("http", "TCP", 80)));
    api.apply(service("dns-1", "1test-service", "10.96.0.23", ("http", "TCP", 80)));
    api.apply(service("dns-1", "dns-test-service", "None", ("http", "TCP", 80)));
    api.apply(slice("dns-1", "dns-test-service", &[("10.244.0.5", "")]));
    api.apply(service("dns-1", "dns-test-service-2", "None", ("http", "TCP", 80)));
    api.apply(slice("dns-1", "dns-test-service-2", &[("10.244.0.6", "dns-querier-2")]));
    api.apply(alias("foo.example.com"));
}

fn alias(target: &str) -> Value {
    json!({"kind": "Service", "metadata": {"namespace": "dns-1", "name": "dns-test-service-3"},
        "spec": {"type": "ExternalName", "externalName": target}})
}

#[test]
fn the_names_of_the_conformance_tests_resolve_by_udp_and_tcp() {
    let runtime = runtime();
    let api = runtime.block_on(KubeApi::start());
    conformance(&api);
    let (running, ready, metrics) = cluster_server(&api, "");
    eventually("ready", &running, || get(ready, "/ready").0 == 200);
    let client = running.client(".");
    let cases: &[(&str, &[&str])] = &[
        ("kubernetes.default.svc.cluster.local A", &["kubernetes.default.svc.cluster.local. 30 IN A 10.96.0.1"]),
        (
            "dns-test-service.dns-1.svc.cluster.local A",
            &["dns-test-service.dns-1.svc.cluster.local. 30 IN A 10.244.0.5"],
        ),
        (
            "_http._tcp.test-service-2.dns-1.svc.cluster.local SRV",
            &[
                "_http._tcp.test-service-2.dns-1.svc.cluster.local. 30 IN SRV 0 100 80 test-service-2.dns-1.svc.cluster.local.",
            ],
        ),
        (
            "_http._tcp.dns-test-service.dns-1.svc.cluster.local SRV",
            &["_http._tcp.dns-test-service.dns-1.svc.cluster.local. 30 IN SRV 0 100 80 \
               10-244-0-5.dns-test-service.dns-1.svc.cluster.local."],
        ),
        (
            "22.0.96.10.in-addr.arpa PTR",
            &["22.0.96.10.in-addr.arpa. 30 IN PTR test-service-2.dns-1.svc.cluster.local."],
        ),
        (
            "dns-querier-2.dns-test-service-2.dns-1.svc.cluster.local A",
            &["dns-querier-2.dns-test-service-2.dns-1.svc.cluster.local. 30 IN A 10.244.0.6"],
        ),
        (
            "dns-test-service-3.dns-1.svc.cluster.local CNAME",
            &["dns-test-service-3.dns-1.svc.cluster.local. 30 IN CNAME foo.example.com."],
        ),
        ("1test-service.dns-1.svc.cluster.local A", &["1test-service.dns-1.svc.cluster.local. 30 IN A 10.96.0.23"]),
        ("dns-test-service.dns-1.svc.cluster.local.cluster.local A", &[]),
        ("10-244-0-5.dns-1.pod.cluster.local A", &["10-244-0-5.dns-1.pod.cluster.local. 30 IN A 10.244.0.5"]),
    ];
    for (question, expected) in cases {
        for message in [client.udp(question), client.tcp(question)] {
            assert_eq!(lines(&message), *expected, "{question}");
        }
    }
    // What the conformance tests do with the alias.
    let question = "dns-test-service-3.dns-1.svc.cluster.local CNAME";
    api.apply(alias("bar.example.com"));
    eventually("the new target", &running, || lines(&client.udp(question)).concat().ends_with("bar.example.com."));
    api.apply(service("dns-1", "dns-test-service-3", "10.96.0.33", ("http", "TCP", 80)));
    let question = "dns-test-service-3.dns-1.svc.cluster.local A";
    eventually("its address", &running, || lines(&client.tcp(question)).concat().ends_with(" A 10.96.0.33"));
    check_metrics(&api, metrics);
    drop(running);
}

fn check_metrics(api: &KubeApi, port: u16) {
    let (code, text) = get(port, "/metrics");
    assert_eq!(code, 200);
    let host = api.address();
    for expected in [
        format!("coredns_kubernetes_rest_client_requests_total{{code=\"200\",host=\"{host}\",method=\"GET\"}} 3"),
        format!("coredns_kubernetes_rest_client_request_duration_seconds_count{{host=\"{host}\",verb=\"GET\"}} 3"),
        format!("coredns_kubernetes_rest_client_rate_limiter_duration_seconds_count{{host=\"{host}\",verb=\"GET\"}} 3"),
        "coredns_kubernetes_watch_age_seconds{resource=\"services\"} ".to_owned(),
        "coredns_kubernetes_lists_total{resource=\"services\"} 1".to_owned(),
        "coredns_kubernetes_index_objects{kind=\"Service\"} 7".to_owned(),
    ] {
        assert!(text.contains(&expected), "{expected} is not in\n{text}");
    }
}

#[test]
fn a_server_starts_without_its_api_server() {
    let runtime = runtime();
    let api = runtime.block_on(KubeApi::start());
    conformance(&api);
    runtime.block_on(api.stop());
    let (running, ready, _) = cluster_server(&api, "        startup_timeout 1200ms\n");
    running.wait_for("[INFO] plugin/kubernetes: waiting for Kubernetes API before starting server", 2);
    running.wait_for("[WARNING] plugin/kubernetes: starting server with unsynced Kubernetes API", 1);
    running.wait_for("[WARNING] plugin/kubernetes: failed to watch services: cannot reach the API server", 1);
    let client = running.client(".");
    let question = "kubernetes.default.svc.cluster.local A";
    assert_eq!(client.udp(question).rcode().to_string(), "SERVFAIL");
    assert_eq!(get(ready, "/ready").0, 503);
    runtime.block_on(api.resume());
    eventually("ready", &running, || get(ready, "/ready").0 == 200);
    assert_eq!(lines(&client.udp(question)).len(), 1);
}

/// Everything is read again while queries are answered, and memory stays bounded.
#[test]
fn a_large_cluster_is_read_again_in_bounded_memory() {
    const SLICES: usize = 1_000;
    let runtime = runtime();
    let settings = Settings { streaming_lists: false, ..Settings::default() };
    let api = runtime.block_on(KubeApi::start_with(settings));
    api.apply(namespace("big"));
    for at in 0..SLICES {
        let name = format!("s{at}");
        api.apply(service("big", &name, "None", ("http", "TCP", 80)));
        let ip = |end: usize| format!("10.{}.{}.{end}", at >> 8, at & 255);
        let ips: Vec<String> = (0..100).map(ip).collect();
        let endpoints: Vec<(&str, &str)> = ips.iter().map(|ip| (&**ip, "")).collect();
        api.apply(slice("big", &name, &endpoints));
    }
    let (running, ready, _) = cluster_server(&api, "        startup_timeout 60s\n        apiserver_qps 50\n");
    eventually("ready", &running, || get(ready, "/ready").0 == 200);
    let client = running.client(".");
    let before = running.status_kb("VmHWM").expect("a peak");
    api.delete("EndpointSlice", "big", "s7-1");
    api.compact();
    runtime.block_on(api.cut());
    let question = "s7.big.svc.cluster.local A";
    eventually("the list", &running, || {
        assert_eq!(lines(&ask_whole(client, "s8.big.svc.cluster.local A")).len(), 100);
        lines(&ask_whole(client, question)).is_empty()
    });
    let after = running.status_kb("VmHWM").expect("a peak");
    assert!(after < 170 << 10, "{after} kB at the peak");
    assert!(after < before + before / 4, "{before} kB at the peak of the first list, {after} kB at that of the second");
}

/// Answers of a hundred addresses need TCP.
fn ask_whole(client: Client, question: &str) -> Message {
    client.tcp(question)
}
