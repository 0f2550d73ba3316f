//! The server answers, and says no.

use super::*;

fn status(code: u16, retry_after: Option<&'static str>) -> Fault {
    Fault::Status { code, retry_after, body: ErrorBody::Status("Refused", "not now") }
}

#[tokio::test]
async fn the_delay_that_the_server_asks_for_is_kept_by_that_watch_alone() {
    for (asked, least) in [(Some("1"), Duration::from_secs(1)), (None, Duration::ZERO)] {
        let api = shop(Settings::default()).await;
        api.fault(Rule::watch().of("services").times(1), status(429, asked));
        let fixture = Fixture::start(&api, timing()).await;
        fixture.synced().await;
        let calls = api.calls();
        let times: Vec<_> = calls.iter().filter(|call| call.resource == "services").map(|call| call.at).collect();
        let [first, second, ..] = &times[..] else { panic!("{calls:?}") };
        let delay = second.duration_since(*first);
        assert!(delay >= least && delay < least + Duration::from_millis(900), "{delay:?}");
        assert_eq!(reads(&calls).get("namespaces"), Some(&1));
        fixture.stop().await;
    }
}

#[tokio::test]
async fn in_a_long_outage_answers_stay_and_the_log_is_short() {
    let api = shop(Settings::default()).await;
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.fault(Rule::any(), status(503, None));
    api.clear_calls();
    api.cut().await;
    let attempts = |calls: &[Call]| count(calls, Verb::Watch, "services") >= 6;
    let present = || fixture.ask("web.shop.svc") == "10.0.0.1";
    meanwhile(present, api.wait_calls("attempts", attempts)).await;
    let lines = warnings(&fixture.log);
    for resource in ["namespaces", "services", "endpointslices"] {
        let text = format!("failed to watch {resource}: the API server answers 503 Service Unavailable: not now");
        assert_eq!(lines.iter().filter(|line| line.contains(&text)).count(), 1, "{lines:#?}");
    }
    api.apply(service("new", "10.0.0.9"));
    api.heal();
    fixture.answers("new.shop.svc", "10.0.0.9").await;
    let log = fixture.log.take();
    assert!(log.iter().any(|line| line.starts_with("[INFO] plugin/kubernetes: watching services works again after")));
    assert_eq!(reads(&api.calls()), BTreeMap::new());
    fixture.stop().await;
}

#[tokio::test]
async fn one_forbidden_resource_leaves_the_others_alone() {
    let denied = [(Verb::List, "endpointslices".to_owned()), (Verb::Watch, "endpointslices".to_owned())];
    let api = shop(Settings { denied: denied.into(), ..Settings::default() }).await;
    let fixture = Fixture::start(&api, timing()).await;
    fixture.answers("web.shop.svc", "10.0.0.1").await;
    let attempts = |calls: &[Call]| count(calls, Verb::Watch, "endpointslices") >= 3;
    api.wait_calls("attempts", attempts).await;
    assert_eq!(fixture.ask("no.shop.svc"), "SERVFAIL");
    assert_eq!(fixture.plugin.ready(), Some(false));
    let lines = warnings(&fixture.log);
    let text = "endpointslices is forbidden: User \"system:serviceaccount:kube-system:coredns\" cannot watch resource";
    assert_eq!(lines.iter().filter(|line| line.contains(text)).count(), 1, "{lines:#?}");
    api.set(|settings| settings.denied.clear());
    fixture.synced().await;
    assert_eq!(fixture.ask("db.shop.svc"), "10.1.0.1 10.1.0.2");
    fixture.stop().await;
}

#[tokio::test]
async fn without_cluster_sets_the_cluster_is_served() {
    let api = shop(Settings { missing: ["serviceimports".to_owned()].into(), ..Settings::default() }).await;
    let set: Name = "clusterset.local".parse().expect("a name");
    let fixture = Fixture::start_with(Access::Endpoint { url: api.url(), tls: None }, timing(), |options| {
        let zones = vec![options.primary_zone.clone(), set.clone()];
        options.zones = Zones::new(zones);
        options.multicluster = Zones::new(vec![set.clone()]);
    })
    .await;
    fixture.synced().await;
    assert_eq!(fixture.ask("web.shop.svc"), "10.0.0.1");
    assert_eq!(fixture.ask("no.shop.svc"), "NXDOMAIN");
    assert!(warnings(&fixture.log).iter().any(|line| line.contains("serviceimports: the API server answers 404")));
    api.set(|settings| settings.missing.clear());
    api.apply(json!({"kind": "ServiceImport", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"type": "ClusterSetIP", "ips": ["10.9.0.1"], "ports": [{"name": "http", "protocol": "TCP", "port": 80}]}}));
    let imported = || {
        let answer = fixture.harness.ask_now(&query("web.shop.svc.clusterset.local A"));
        matches!(answer, Answer::Reply(reply) if reply.answer.len() == 1)
    };
    eventually("the import", imported, || format!("{:#?}", fixture.told.lines())).await;
    fixture.stop().await;
}

#[tokio::test]
async fn failures_told_of_within_a_watch_count_too() {
    let api = shop(paged()).await;
    let error = json!({"type": "ERROR", "object": {"kind": "Status", "code": 500, "reason": "InternalError",
        "message": "etcdserver: no leader"}});
    api.fault(Rule::watch().of("services").resumed().times(2), Fault::Body(format!("{error}\n")));
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.apply(service("new", "10.0.0.9"));
    fixture.answers("new.shop.svc", "10.0.0.9").await;
    let lines = warnings(&fixture.log);
    assert!(lines.iter().any(|line| line.contains("500 Internal Server Error: etcdserver: no leader")), "{lines:#?}");
    assert_eq!(count(&api.calls(), Verb::List, "services"), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn a_version_that_is_refused_is_given_up() {
    let api = shop(paged()).await;
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.wait_watches(3).await;
    api.fault(Rule::watch().of("services").resumed().times(2), status(400, None));
    api.clear_calls();
    api.vanish("Service", "shop", "web");
    api.cut().await;
    fixture.answers("web.shop.svc", "NXDOMAIN").await;
    assert_eq!(reads(&api.calls()), [("services", 1)].into());
    fixture.stop().await;
}

#[tokio::test]
async fn a_stale_watch_is_logged_once() {
    let api = shop(Settings::default()).await;
    let fixture = Fixture::start(&api, Timing { stale: Duration::from_millis(300), ..timing() }).await;
    fixture.synced().await;
    api.fault(Rule::any(), status(503, None));
    api.cut().await;
    let attempts = |calls: &[Call]| count(calls, Verb::Watch, "services") >= 9;
    api.wait_calls("attempts", attempts).await;
    let lines = warnings(&fixture.log);
    let stale = lines.iter().filter(|line| line.contains("nothing was heard about services for"));
    assert_eq!(stale.count(), 1, "{lines:#?}");
    fixture.stop().await;
}

#[tokio::test]
async fn only_lists_and_watches_of_what_is_needed_are_asked_for() {
    let api = shop(paged()).await;
    let fixture = Fixture::start_with(Access::Endpoint { url: api.url(), tls: None }, timing(), |options| {
        options.pods = PodMode::Verified;
    })
    .await;
    fixture.synced().await;
    api.wait_watches(4).await;
    let calls = api.calls();
    let mut verbs: Vec<_> = calls.iter().map(|call| (call.group, call.resource, call.verb.as_str())).collect();
    verbs.sort_unstable();
    verbs.dedup();
    let role = [
        ("", "namespaces", "list"),
        ("", "namespaces", "watch"),
        ("", "pods", "list"),
        ("", "pods", "watch"),
        ("", "services", "list"),
        ("", "services", "watch"),
        ("discovery.k8s.io", "endpointslices", "list"),
        ("discovery.k8s.io", "endpointslices", "watch"),
    ];
    assert_eq!(verbs, role);
    for call in &calls {
        assert_eq!(call.header("accept-encoding"), Some("identity"), "{call:?}");
        let agent = call.header("user-agent").unwrap_or_default();
        assert!(agent.starts_with("CoreDNS/1.14.7 git_commit:"), "{agent}");
    }
    fixture.stop().await;
}
