//! Objects of a cluster that whoever may create them can make.

use std::net::Ipv4Addr;

use coredns_testkit::process::{DEADLINE, Running};
use coredns_wire::{Message, Rcode};

use crate::support::{ask, serve_with_file, socket};

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";

fn service(name: &str, spec: &str) -> String {
    format!("---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{{spec}}}\n")
}

fn alias(name: &str, target: &str) -> String {
    service(name, &format!("type: ExternalName, externalName: {target}"))
}

/// A server with one port whose zones are served from a manifest.
fn cluster(zones: &[&str], manifest: &str) -> Running {
    let block = |zone: &&str| {
        format!("{zone}:0 {{\n    errors\n    kubernetes {zone} {{\n        manifests objects.yaml\n    }}\n}}\n")
    };
    let blocks: String = zones.iter().map(block).collect();
    serve_with_file(&blocks, "objects.yaml", [NAMESPACE, manifest].concat())
}

#[test]
fn rings_of_aliases_end() {
    let around = |at: usize| alias(&format!("r{at}"), &format!("r{}.shop.svc.cluster.test", (at + 1) % 20));
    let mut manifest: String = (0..20).map(around).collect();
    manifest += &alias("self", "self.shop.svc.cluster.test");
    manifest += &alias("across", "across.shop.svc.other.test");
    manifest += &alias("back", "back.shop.svc.cluster.test");
    manifest += &service("web", "clusterIP: 10.0.0.1");
    let server = cluster(&["cluster.test", "other.test"], &manifest);
    let client = socket(Ipv4Addr::LOCALHOST, server.client("cluster.test.").server);
    for zone in ["cluster.test", "other.test"] {
        for name in ["r0", "r7", "self", "across", "back"] {
            for qtype in ["A", "AAAA", "CNAME", "SRV", "PTR"] {
                let reply = ask(&client, &format!("{name}.shop.svc.{zone} {qtype}"), 1);
                assert!(reply.answer.len() <= 22, "{name} {zone} {qtype}: {reply:?}");
            }
        }
        let reply = ask(&client, &format!("web.shop.svc.{zone} A"), 2);
        assert_eq!((reply.header.rcode(), reply.answer.len()), (Rcode::NOERROR, 1));
    }
}

#[test]
fn stars_are_ordinary_labels_and_nothing_lists_services() {
    let server = cluster(&["cluster.test"], &service("web", "clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]"));
    let tcp = server.client("cluster.test.");
    let client = socket(Ipv4Addr::LOCALHOST, tcp.server);
    for name in ["*.shop.svc", "web.*.svc", "any.shop.svc", "web.any.svc", "*.*.svc", "*", "*.any.web.shop.svc"] {
        for qtype in ["A", "SRV", "ANY"] {
            let reply = ask(&client, &format!("{name}.cluster.test {qtype}"), 1);
            assert_eq!((reply.header.rcode(), reply.answer.len()), (Rcode::NXDOMAIN, 0), "{name} {qtype}");
        }
    }
    for name in ["cluster.test", "svc.cluster.test", "shop.svc.cluster.test", "pod.cluster.test"] {
        for qtype in ["NS", "SOA", "SRV", "ANY", "A", "TXT", "PTR", "AXFR", "IXFR"] {
            let question = format!("{name} {qtype}");
            let reply = if qtype == "AXFR" { tcp.tcp(&question) } else { ask(&client, &question, 1) };
            let all = [&reply.answer, &reply.authority, &reply.additional];
            let text: String = all.into_iter().flatten().map(ToString::to_string).collect();
            assert!(!text.contains("web") && !text.contains("10.0.0.1"), "{name} {qtype}: {text}");
        }
    }
}

#[test]
fn a_service_with_very_many_endpoints_gives_readable_messages() {
    let endpoints: String = (0..5000)
        .map(|at| format!("- {{addresses: [10.1.{}.{}], hostname: h{at}}}\n", at / 250, at % 250 + 1))
        .collect();
    let slice = format!(
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: s, namespace: shop, \
         labels: {{kubernetes.io/service-name: many}}}}\nports: [{{name: http, port: 80, protocol: TCP}}]\n\
         endpoints:\n{endpoints}"
    );
    let manifest = [service("many", "clusterIP: None"), slice, service("web", "clusterIP: 10.0.0.1")].concat();
    let server = cluster(&["cluster.test"], &manifest);
    let client = server.client("cluster.test.");
    let own = socket(Ipv4Addr::LOCALHOST, client.server);
    for question in
        ["many.shop.svc.cluster.test SRV", "_http._tcp.many.shop.svc.cluster.test SRV", "many.shop.svc.cluster.test A"]
    {
        let reply = ask(&own, question, 1);
        assert!(reply.header.has(coredns_wire::Header::TC), "{question}: {:?}", reply.header);
        let reply = client.tcp(question);
        assert!(!reply.answer.is_empty(), "{question}");
    }
    // Whoever asks for them keeps nobody else from being answered.
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let wanted = coredns_testkit::Ask::new("many.shop.svc.cluster.test SRV").message();
                let reply = client.exchange(&wanted, DEADLINE).expect("an answer");
                assert!(Message::parse(&reply).is_ok());
            }
        });
        for number in 0..200 {
            let reply = ask(&own, "web.shop.svc.cluster.test A", number);
            assert_eq!(reply.answer.len(), 1);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
