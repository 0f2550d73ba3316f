//! The plugin as a block holds it: from the directive to answers.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::{Answer, BlockConfig, Lifecycle, Plugin, Reply, ServerInfo, Start, Zones};
use coredns_testkit::{Ask, Harness, query, set_up_block, set_up_examples};

use super::DESCRIPTOR;

const NAMESPACE: &str = "{kind: Namespace, apiVersion: v1, metadata: {name: shop}}";

fn service(name: &str, ip: &str) -> String {
    format!(
        "{{kind: Service, apiVersion: v1, metadata: {{name: {name}, namespace: shop}}, \
         spec: {{clusterIP: {ip}, clusterIPs: [{ip}], ports: [{{name: http, port: 80}}]}}}}"
    )
}

fn pod(name: &str, ip: &str) -> String {
    format!(
        "{{kind: Pod, apiVersion: v1, metadata: {{name: {name}, namespace: shop, labels: {{app: {name}}}}}, \
         status: {{phase: Running, podIP: {ip}}}}}"
    )
}

fn write(folder: &Path, documents: &[String]) {
    fs::write(folder.join("objects.yaml"), documents.join("\n---\n")).expect("the file is written");
}

fn block(folder: &Path, options: &str) -> BlockConfig {
    let corefile = format!(
        "cluster.local {{\n kubernetes cluster.local in-addr.arpa {{\n  manifests {}\n{options}\n }}\n}}\n",
        folder.display()
    );
    set_up_block(&[&DESCRIPTOR], &corefile).expect("a valid directive")
}

fn start_of(block: &BlockConfig, host: &str) -> Start {
    let server = ServerInfo { label: "dns://:53".into(), host: host.into(), port: 53 };
    Start {
        servers: vec![Arc::new(server)],
        zones: Zones::default(),
        view: String::new(),
        plugins: block.plugins.clone().into(),
        first: true,
        shared: Arc::default(),
    }
}

fn part(block: &BlockConfig) -> Arc<dyn Lifecycle> {
    Arc::clone(block.parts.first().expect("a part"))
}

fn reply(harness: &Harness, question: &str) -> Reply {
    match harness.ask_now(&query(question)) {
        Answer::Reply(reply) => reply,
        other => panic!("{question}: {other:?}"),
    }
}

fn lines(harness: &Harness, question: &str) -> Vec<String> {
    reply(harness, question).answer.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn manifests_are_served_and_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), &[NAMESPACE.to_owned(), service("web", "10.0.0.1")]);
    let block = block(folder.path(), "");
    let plugin = Arc::clone(block.plugins.first().expect("a plugin"));
    assert_eq!(plugin.ready(), Some(false));
    let harness = Harness::new(block.plugins.clone());
    assert_eq!(reply(&harness, "web.shop.svc.cluster.local A").rcode.to_string(), "SERVFAIL");

    part(&block).start(&start_of(&block, "192.0.2.53")).await.expect("it starts");
    assert_eq!(plugin.ready(), Some(true));
    let question = "web.shop.svc.cluster.local A";
    assert_eq!(lines(&harness, question), ["web.shop.svc.cluster.local. 5 IN A 10.0.0.1"]);
    assert_eq!(
        lines(&harness, "1.0.0.10.in-addr.arpa PTR"),
        ["1.0.0.10.in-addr.arpa. 5 IN PTR web.shop.svc.cluster.local."]
    );
    assert_eq!(lines(&harness, "cluster.local NS"), ["cluster.local. 5 IN NS ns.dns.cluster.local."]);

    let mut ask = query("api.shop.svc.cluster.local A");
    ask.want_stamp();
    let denied = match harness.ask_now(&ask) {
        Answer::Reply(reply) => reply.stamp.expect("a stamp"),
        other => panic!("{other:?}"),
    };
    assert!(denied.is_current());
    write(folder.path(), &[NAMESPACE.to_owned(), service("web", "10.0.0.1"), service("api", "10.0.0.2")]);
    // The source looks again at the latest after its poll interval.
    let followed = tokio::time::timeout(Duration::from_secs(30), async {
        while lines(&harness, "api.shop.svc.cluster.local A").is_empty() {
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    followed.await.expect("the change is seen");
    assert!(!denied.is_current());

    part(&block).stop().await;
    part(&block).stop().await;
    assert_eq!(lines(&harness, question).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_start_waits_no_longer_than_it_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = "  startup_timeout 3s";
    let block = block(folder.path(), options);
    let began = tokio::time::Instant::now();
    let plugin = super::Kubernetes::new(
        {
            let zone: coredns_plugin::wire::Name = "cluster.local".parse().expect("a name");
            let mut options = super::options::Options::new(Zones::new(vec![zone.clone()]), zone);
            options.startup_timeout = Duration::from_secs(3);
            options
        },
        Vec::new(),
    );
    plugin.wait_for_source().await;
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    plugin.index().set_synced();
    plugin.wait_for_source().await;
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    drop(block);
}

#[tokio::test]
async fn without_a_source_the_start_says_what_to_do() {
    let block = set_up_block(&[&DESCRIPTOR], "cluster.local {\n kubernetes\n}\n").expect("a valid directive");
    let error = part(&block).start(&start_of(&block, "")).await.expect_err("there is no cluster here").to_string();
    let text = "plugin/kubernetes: unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and \
                KUBERNETES_SERVICE_PORT must be defined";
    assert!(error.starts_with(text), "{error}");
    for option in ["endpoint", "kubeconfig", "manifests"] {
        assert!(error.contains(option), "{error}");
    }
    part(&block).stop().await;
}

#[tokio::test]
async fn search_paths_are_for_clients_that_are_one_pod() {
    let folder = tempfile::tempdir().expect("a folder");
    let pods = [pod("a", "10.1.0.1"), pod("b", "10.1.0.2"), pod("c", "10.1.0.2")];
    write(folder.path(), &[&[NAMESPACE.to_owned()][..], &pods[..]].concat());
    let verified = block(folder.path(), "  pods verified");
    part(&verified).start(&start_of(&verified, "")).await.expect("it starts");
    let plugin = Arc::clone(verified.plugins.first().expect("a plugin"));
    let path = |client: &str, name: &str| -> Vec<String> {
        let client: IpAddr = client.parse().expect("an address");
        let provider = plugin.auto_path().expect("a provider");
        let path = provider.search_path(client, &name.parse().expect("a name"));
        path.iter().map(|name| name.as_ref().map_or_else(String::new, ToString::to_string)).collect()
    };
    let own = path("10.1.0.1", "web.shop.svc.cluster.local");
    assert_eq!(own[..3], ["shop.svc.cluster.local.", "svc.cluster.local.", "cluster.local."]);
    assert_eq!(own.last().map(String::as_str), Some(""));
    assert!(path("10.1.0.2", "web.shop.svc.cluster.local").is_empty());
    assert!(path("10.1.0.3", "web.shop.svc.cluster.local").is_empty());
    assert!(path("10.1.0.1", "example.org").is_empty());
    part(&verified).stop().await;
}

/// A plugin for `cluster.local` and the reverse zones, with all that can be switched on.
fn whole_plugin() -> super::Kubernetes {
    let zones = ["cluster.local", "in-addr.arpa", "ip6.arpa"].map(|zone| zone.parse().expect("a name"));
    let mut options = super::options::Options::new(Zones::new(zones.to_vec()), zones[0].clone());
    options.pods = super::options::PodMode::Verified;
    options.endpoint_pod_names = true;
    options.zonal = true;
    let plugin = super::Kubernetes::new(options, Vec::new());
    plugin.set_local_addresses(vec![IpAddr::from([10, 0, 0, 1])]);
    plugin.index().set_synced();
    plugin
}

#[test]
fn queries_of_odd_names_are_answered() {
    let harness = Harness::new(vec![Arc::new(whole_plugin()) as Arc<dyn Plugin>]);
    let deep = format!("{}cluster.local", "a.".repeat(120));
    for name in [r"\000.\255.svc.cluster.local", "_._._.a.svc.cluster.local", "*.*.svc.cluster.local", &deep] {
        for qtype in ["A", "SRV", "PTR", "NS", "SOA", "ANY", "TYPE65535"] {
            let ask = Ask::new(&format!("{name} {qtype}")).query();
            match harness.ask_now(&ask) {
                Answer::Reply(reply) => assert_eq!(reply.rcode.to_string(), "NXDOMAIN", "{name} {qtype}"),
                other => panic!("{name} {qtype}: {other:?}"),
            }
        }
    }
}

#[test]
fn odd_objects_give_valid_messages() {
    let plugin = Arc::new(whole_plugin());
    plugin.index().apply(super::index::tests::odd_objects());
    let harness = Harness::new(vec![plugin.clone() as Arc<dyn Plugin>]);
    let labels = ["UPPER", "a_b", "a/b", r"a\.b", r"\000", r"\195\169", "10-0-0-1", "_._", "x.pin._zone"];
    let mut names =
        vec!["cluster.local".to_owned(), "1.0.0.10.in-addr.arpa".to_owned(), "ns.dns.cluster.local".to_owned()];
    for label in labels {
        names.push(format!("{label}.{label}.svc.cluster.local"));
        names.push(format!("10-0-0-1.{label}.pod.cluster.local"));
        names.extend(labels.map(|front| format!("{front}.{label}.{label}.svc.cluster.local")));
    }
    let mut answered = 0;
    for name in &names {
        for qtype in ["A", "AAAA", "SRV", "PTR", "NS", "CNAME", "SOA"] {
            let Ok(_) = name.parse::<coredns_plugin::wire::Name>() else { continue };
            let reply = reply(&harness, &format!("{name} {qtype}"));
            answered += usize::from(!reply.answer.is_empty());
            for record in reply.answer.iter().chain(&reply.authority).chain(&reply.additional) {
                // Written as text and read again, a record is what it was.
                let text = record.to_string();
                let read = coredns_plugin::wire::parse_record(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
                assert_eq!(read, *record, "{name} {qtype}");
            }
        }
    }
    assert!(answered > 20, "{answered}");
    let zone = "cluster.local".parse().expect("a name");
    let records = plugin.transfer().and_then(|source| source.transfer(&zone, 0).ok()).expect("a zone");
    assert!(records.count() > 4);
}

#[test]
fn examples_of_the_readme_are_valid() {
    let blocks = set_up_examples(&[&DESCRIPTOR], &["kubernetes"], include_str!("README.md"));
    assert!(blocks.iter().all(|block| block.plugins.len() == 1));
}
