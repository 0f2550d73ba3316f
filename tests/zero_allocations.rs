//! A query that is answered from memory costs no allocation, through the whole server: parse, routing, chain,
//! encoding.
#![forbid(unsafe_code)]
#![cfg(all(plugin = "errors", plugin = "hosts", plugin = "kubernetes", plugin = "loadbalance", plugin = "metrics"))]

use std::net::SocketAddr;

use allocation_counter::measure;
use coredns_rs::server::InProcess;
use coredns_testkit::Ask;
use coredns_testkit::process::Scratch;
use coredns_wire::{Message, Rcode, Request};

const CLUSTER: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.20, clusterIPs: [10.96.0.20, "fd00::20"], ports: [{name: http, protocol: TCP, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, clusterIPs: [None], ports: [{name: sql, protocol: TCP, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
ports: [{name: sql, protocol: TCP, port: 5432}]
endpoints:
- {addresses: [10.244.0.5], hostname: db-0}
- {addresses: [10.244.0.6], hostname: db-1}
- {addresses: [10.244.0.7], hostname: db-2}
"#;

/// Name and type, and how many records the answer has.
const KUBERNETES: [(&str, usize); 7] = [
    ("web.shop.svc.cluster.local A", 1),
    ("web.shop.svc.cluster.local A DO", 1),
    ("web.shop.svc.cluster.local AAAA", 1),
    ("WEB.shop.svc.Cluster.Local A", 1),
    ("db.shop.svc.cluster.local A", 3),
    ("_http._tcp.web.shop.svc.cluster.local SRV", 1),
    ("20.0.96.10.in-addr.arpa PTR", 1),
];
const HOSTS: [(&str, usize); 3] = [("a.example.org A", 1), ("b.example.org A", 2), ("1.2.0.192.in-addr.arpa PTR", 1)];

fn count(corefile: &str, questions: &[(&str, usize)]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut server = runtime.block_on(InProcess::start(corefile)).expect("a server");
    let client = SocketAddr::from(([10, 240, 0, 1], 40212));
    for (question, records) in questions {
        let message = Ask::new(question).message();
        // The pools of the thread and the numbers of the metrics fill with the first queries.
        for _ in 0..3 {
            let octets = server.answer(&message, client).expect("at once").expect("a reply");
            let reply = Message::parse(octets).expect("readable");
            assert_eq!((reply.rcode(), reply.answer.len()), (Rcode::NOERROR, *records), "{question}");
        }
        let counted = measure(|| {
            for _ in 0..100 {
                assert!(server.answer(&message, client).is_ok_and(|reply| reply.is_some()));
            }
        });
        assert_eq!(counted.count_total, 0, "{question}");
    }
    runtime.block_on(server.stop());
}

#[test]
fn hits_in_kubernetes_cost_no_allocation() {
    let scratch = Scratch::new();
    let manifests = scratch.write("cluster.yaml", CLUSTER);
    let corefile = format!(
        ".:53 {{\n errors\n prometheus localhost:0\n loadbalance\n \
         kubernetes cluster.local in-addr.arpa {{\n manifests {}\n }}\n}}\n",
        manifests.display()
    );
    count(&corefile, &KUBERNETES);
}

#[test]
fn hits_in_hosts_cost_no_allocation() {
    let corefile = ".:53 {\n errors\n prometheus localhost:0\n loadbalance\n hosts {\n 192.0.2.1 a.example.org\n \
                    192.0.2.2 b.example.org\n 192.0.2.3 b.example.org\n }\n}\n";
    count(corefile, &HOSTS);
}

/// However long a message is and whatever it holds, reading it as a query takes no memory to speak of.
#[test]
fn reading_a_query_of_any_content_takes_little_memory() {
    let pointers = [0xc0, 0x0c].repeat(33_000);
    let labels = [b"\x01a".repeat(126), vec![0]].concat();
    let question = [&labels[..], &[0, 1, 0, 1]].concat();
    let option = [0, 10, 0, 0].repeat(16_000);
    let [high, low] = u16::try_from(option.len()).expect("it fits").to_be_bytes();
    let opt = [&[0, 0, 41, 16, 0, 0, 0, 0, 0, high, low][..], &option].concat();
    for body in [vec![0; 65_523], vec![0xff; 65_523], pointers, labels.repeat(250), [question, opt].concat()] {
        for counts in [[0, 1, 0, 0, 0, 0, 0, 0], [0, 1, 0, 1, 0, 1, 0, 2], [0, 1, 0, 0, 0, 0, 0, 1]] {
            let mut message = [&[0, 1, 1, 0][..], &counts, &body].concat();
            message.truncate(65_535);
            let counted = measure(|| drop(Request::parse(&message)));
            assert!(counted.bytes_max < 64 * 1024, "{} octets for {counts:?}", counted.bytes_max);
        }
    }
}
