use super::super::super::object::{Endpoint, Protocol};
use super::*;

const WEB: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: n}
spec:
  clusterIP: None
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}]
";

/// A Pod in JSON, which is YAML too.
fn pod(name: &str, status: &str, more: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: n, labels: {{app: web, pod: {name}}}}}, status: {status}{more}}}\n"
    )
}

/// Each derived slice as text: `service family-of-addresses ports: addresses`.
fn derived(fixture: &Fixture) -> Vec<String> {
    let endpoint = |endpoint: &Endpoint| {
        let hostname = endpoint.hostname.as_deref().map(|name| format!("({name})")).unwrap_or_default();
        let target = endpoint.target_name.as_deref().map(|name| format!("@{name}")).unwrap_or_default();
        format!("{}{hostname}{target}", endpoint.address)
    };
    fixture
        .sink
        .slices()
        .iter()
        .map(|slice| {
            let ports: Vec<String> = slice
                .ports
                .iter()
                .map(|port| match port.number {
                    Some(number) => format!("{}={number}/{}", port.name, port.protocol.as_str()),
                    None => "none".to_owned(),
                })
                .collect();
            let endpoints: Vec<String> = slice.endpoints.iter().map(endpoint).collect();
            format!("{} {}: {}", slice.service, ports.join(","), endpoints.join(" "))
        })
        .collect()
}

fn selection() -> Selection {
    Selection { target_names: true, ..Selection::default() }
}

fn check(text: &str, expected: &[&str]) {
    let fixture = Fixture::new(&[("a.yaml", text)], selection());
    assert_eq!(fixture.load(), Vec::<String>::new());
    assert_eq!(derived(&fixture), expected, "{text}");
}

#[test]
fn ready_pods_become_endpoints() {
    let ready = |status: &str| format!("{{podIP: 10.0.0.1, conditions: [{{type: Ready, status: \"{status}\"}}]}}");
    // The Pod's status, whether it is an endpoint, and whether it is one if unready ones are published.
    let cases = [
        (ready("True"), true, true),
        (ready("False"), false, true),
        (ready("Unknown"), false, true),
        ("{podIP: 10.0.0.1}".to_owned(), true, true),
        ("{podIP: 10.0.0.1, phase: Running, conditions: []}".to_owned(), true, true),
        ("{podIP: 10.0.0.1, conditions: [{type: Initialized, status: \"True\"}]}".to_owned(), false, true),
        ("{podIP: 10.0.0.1, phase: Succeeded}".to_owned(), false, false),
        ("{podIP: 10.0.0.1, phase: Failed}".to_owned(), false, false),
        ("{}".to_owned(), false, false),
        ("{podIP: not-an-address}".to_owned(), false, false),
    ];
    let published = WEB.replace("clusterIP: None", "clusterIP: None\n  publishNotReadyAddresses: true");
    for (status, ready, always) in cases {
        let expected: &[&str] = &["web http=8080/TCP: 10.0.0.1@p"];
        check(&format!("{WEB}{}", pod("p", &status, "")), if ready { expected } else { &[] });
        check(&format!("{published}{}", pod("p", &status, "")), if always { expected } else { &[] });
    }
    let terminating =
        pod("p", "{podIP: 10.0.0.1}", "").replace("namespace: n,", "namespace: n, deletionTimestamp: now,");
    check(&format!("{WEB}{terminating}"), &[]);
    check(&format!("{published}{terminating}"), &["web http=8080/TCP: 10.0.0.1@p"]);
}

#[test]
fn each_family_has_its_slice() {
    let dual = |name: &str, last: u8| {
        pod(
            name,
            &format!("{{podIP: 10.0.0.{last}, podIPs: [{{ip: 10.0.0.{last}}}, {{ip: \"2001:db8::{last}\"}}]}}"),
            "",
        )
    };
    let pods = format!("{}{}", dual("b", 2), dual("a", 1));
    let v4 = "web http=8080/TCP: 10.0.0.1@a 10.0.0.2@b";
    let v6 = "web http=8080/TCP: 2001:db8::1@a 2001:db8::2@b";
    check(&format!("{WEB}{pods}"), &[v4, v6]);
    let families =
        |families: &str| WEB.replace("clusterIP: None", &format!("clusterIP: None\n  ipFamilies: [{families}]"));
    check(&format!("{}{pods}", families("IPv4")), &[v4]);
    check(&format!("{}{pods}", families("IPv6")), &[v6]);
    check(&format!("{}{pods}", families("IPv6, IPv4")), &[v4, v6]);
}

#[test]
fn target_ports_are_resolved() {
    let ports = |ports: &str| WEB.replace("[{name: http, port: 80, targetPort: 8080}]", ports);
    let containers = |number: u16| {
        format!(
            ", spec: {{containers: [{{name: x}}, {{ports: [{{name: web, containerPort: {number}}}, {{name: dns, containerPort: 53, protocol: UDP}}]}}]}}"
        )
    };
    let one = pod("a", "{podIP: 10.0.0.1}", &containers(8080));
    let cases = [
        ("[{port: 80}]", "web =80/TCP: 10.0.0.1@a"),
        ("[{port: 80, targetPort: 0}]", "web =80/TCP: 10.0.0.1@a"),
        ("[{port: 80, targetPort: \"81\"}]", "web =81/TCP: 10.0.0.1@a"),
        ("[{name: h, port: 80, targetPort: web}]", "web h=8080/TCP: 10.0.0.1@a"),
        ("[{name: d, port: 53, protocol: UDP, targetPort: dns}]", "web d=53/UDP: 10.0.0.1@a"),
        ("[{name: d, port: 53, protocol: TCP, targetPort: dns}]", "web none: 10.0.0.1@a"),
        (
            "[{name: h, port: 80, targetPort: web}, {name: x, port: 1, targetPort: absent}]",
            "web h=8080/TCP: 10.0.0.1@a",
        ),
        ("[]", "web none: 10.0.0.1@a"),
    ];
    for (text, expected) in cases {
        check(&format!("{}{one}", ports(text)), &[expected]);
    }
    // Pods that resolve a name differently are in different slices.
    let other = pod("b", "{podIP: 10.0.0.2}", &containers(9090));
    let expected = ["web h=8080/TCP: 10.0.0.1@a", "web h=9090/TCP: 10.0.0.2@b"];
    check(&format!("{}{one}{other}", ports("[{name: h, port: 80, targetPort: web}]")), &expected);
    let sidecar = |policy: &str| {
        let spec = format!(
            ", spec: {{initContainers: [{{restartPolicy: {policy}, ports: [{{name: web, containerPort: 7}}]}}]}}"
        );
        format!("{}{}", ports("[{port: 80, targetPort: web}]"), pod("a", "{podIP: 10.0.0.1}", &spec))
    };
    check(&sidecar("Always"), &["web =7/TCP: 10.0.0.1@a"]);
    check(&sidecar("Never"), &["web none: 10.0.0.1@a"]);
}

#[test]
fn a_pod_in_the_subdomain_has_its_hostname() {
    let spec = |hostname: &str, subdomain: &str| format!(", spec: {{hostname: {hostname}, subdomain: {subdomain}}}");
    let text = |spec: &str| format!("{WEB}{}", pod("p", "{podIP: 10.0.0.1}", spec));
    check(&text(&spec("db-0", "web")), &["web http=8080/TCP: 10.0.0.1(db-0)@p"]);
    check(&text(&spec("db-0", "other")), &["web http=8080/TCP: 10.0.0.1@p"]);
    check(&text(&spec("\"\"", "web")), &["web http=8080/TCP: 10.0.0.1@p"]);
}

#[test]
fn nothing_is_derived_where_the_cluster_would_not() {
    let one = pod("p", "{podIP: 10.0.0.1}", "");
    check(&format!("{}{one}", WEB.replace("selector: {app: web}", "selector: {}")), &[]);
    check(&format!("{}{one}", WEB.replace("selector: {app: web}", "selector: {app: web, tier: x}")), &[]);
    check(&format!("{}{one}", WEB.replace("clusterIP: None", "type: ExternalName")), &[]);
    check(&format!("{}{one}", WEB.replace("namespace: n", "namespace: m")), &[]);
    let given = "---\n{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: s, namespace: n, labels: {kubernetes.io/service-name: web}}, endpoints: [{addresses: [10.0.0.9]}]}\n";
    check(&format!("{WEB}{one}{given}"), &["web none: 10.0.0.9"]);
    let elsewhere = given.replace("namespace: n", "namespace: m");
    check(&format!("{WEB}{one}{elsewhere}"), &["web none: 10.0.0.9", "web http=8080/TCP: 10.0.0.1@p"]);
    let fixture = Fixture::new(&[("a.yaml", &format!("{WEB}{one}"))], Selection { endpoints: false, ..selection() });
    fixture.load();
    assert_eq!(fixture.sink.slices(), Vec::new(), "with noendpoints");
}

#[test]
fn derived_endpoints_follow_their_pods() {
    let fixture = Fixture::new(&[("service.yaml", WEB), ("a.yaml", &pod("a", "{podIP: 10.0.0.1}", ""))], selection());
    fixture.load();
    assert_eq!(derived(&fixture), ["web http=8080/TCP: 10.0.0.1@a"]);
    fixture.write("b.yaml", &pod("b", "{podIP: 10.0.0.2}", ""));
    fixture.load();
    assert_eq!(derived(&fixture), ["web http=8080/TCP: 10.0.0.1@a 10.0.0.2@b"]);
    let changes = fixture.sink.changes();
    fixture.write("b.yaml", &pod("b", "{podIP: 10.0.0.2}", ", spec: {nodeName: elsewhere}"));
    fixture.load();
    assert_eq!(fixture.sink.changes(), changes, "what does not matter is no change");
    fixture.write("service.yaml", &WEB.replace("8080", "9090"));
    fixture.load();
    assert_eq!(derived(&fixture), ["web http=9090/TCP: 10.0.0.1@a 10.0.0.2@b"]);
    fixture.remove("a.yaml");
    fixture.load();
    assert_eq!(derived(&fixture), ["web http=9090/TCP: 10.0.0.2@b"]);
    let given = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: s, namespace: n, labels: {kubernetes.io/service-name: web}}}";
    fixture.write("slice.yaml", given);
    fixture.load();
    assert_eq!(derived(&fixture), ["web none: "], "a given slice takes over");
    fixture.remove("slice.yaml");
    fixture.load();
    assert_eq!(derived(&fixture), ["web http=9090/TCP: 10.0.0.2@b"]);
    fixture.remove("service.yaml");
    fixture.load();
    assert_eq!((derived(&fixture), fixture.sink.names()), (Vec::new(), Vec::new()));
    assert_eq!(Protocol::parse("tcp"), Protocol::Tcp);
}
