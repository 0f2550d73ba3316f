//! Watches that end early, often, or oddly.

use super::super::super::selector::Selector;
use super::*;

#[tokio::test]
async fn watches_that_end_properly_are_opened_again_in_silence() {
    let api = shop(Settings { bookmarks: None, ..paged() }).await;
    api.fault(Rule::watch().resumed(), Fault::End(Duration::from_millis(200)));
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.clear_calls();
    let begun = tokio::time::Instant::now();
    api.wait_calls("eight watches", |calls| count(calls, Verb::Watch, "services") >= 8).await;
    let elapsed = begun.elapsed();
    assert!(elapsed >= Duration::from_millis(1_350), "not more often than they end: {elapsed:?}");
    assert!(elapsed < Duration::from_secs(6), "no delay that grows: {elapsed:?}");
    assert_eq!(warnings(&fixture.log), Vec::<String>::new());
    api.apply(service("new", "10.0.0.9"));
    fixture.answers("new.shop.svc", "10.0.0.9").await;
    assert_eq!(reads(&api.calls()), BTreeMap::new());
    fixture.stop().await;
}

#[tokio::test]
async fn watches_without_anything_do_not_spin() {
    let api = shop(Settings::default()).await;
    api.fault(Rule::watch(), Fault::Empty);
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.clear_calls();
    let span = Duration::from_millis(1_500);
    tokio::time::sleep(span).await;
    let calls = api.calls();
    let watches = count(&calls, Verb::Watch, "services");
    // Delays of 20 ms that double to 200 ms, a quarter shorter at most.
    assert!((5..=15).contains(&watches), "{watches}");
    assert_eq!(reads(&calls), BTreeMap::new());
    assert_eq!(fixture.ask("web.shop.svc"), "10.0.0.1");
    assert!(warnings(&fixture.log).iter().any(|line| line.contains("ended the watch as soon as it began")));
    fixture.stop().await;
}

#[tokio::test]
async fn without_streaming_lists_there_are_pages() {
    let api = shop(paged()).await;
    let fixture = Fixture::start(&api, Timing { page: 1, ..timing() }).await;
    fixture.synced().await;
    api.compact();
    api.cut().await;
    api.apply(service("new", "10.0.0.9"));
    fixture.answers("new.shop.svc", "10.0.0.9").await;
    let calls = api.calls();
    let streamed = calls.iter().filter(|call| call.is_streaming_list() && call.resource == "services").count();
    assert_eq!(streamed, 1, "the server is not asked again for what it refused");
    let pages = count(&calls, Verb::List, "services");
    assert!(pages >= 4, "{pages}");
    assert_eq!(warnings(&fixture.log).iter().filter(|line| line.contains("422")).count(), 0);
    fixture.stop().await;
}

#[tokio::test]
async fn streaming_lists_that_never_end_give_way_to_pages() {
    let api = shop(Settings::default()).await;
    api.fault(Rule::watch().of("services").times(2), Fault::Silence { after: 1 });
    let fixture = Fixture::start(&api, Timing { list: Duration::from_millis(300), ..timing() }).await;
    fixture.synced().await;
    assert_eq!(fixture.ask("web.shop.svc"), "10.0.0.1");
    assert_eq!(count(&api.calls(), Verb::List, "services"), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn streaming_lists_that_break_give_way_to_pages() {
    let api = shop(Settings::default()).await;
    api.fault(Rule::watch().of("services"), Fault::Cut { after: 100 });
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    assert_eq!(fixture.ask("web.shop.svc"), "10.0.0.1");
    assert_eq!(count(&api.calls(), Verb::List, "services"), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn a_pod_that_has_ended_has_no_name() {
    let api = shop(Settings::default()).await;
    api.apply(pod("one", "10.2.0.1", "Running"));
    api.apply(pod("two", "10.2.0.2", "Failed"));
    let fixture = Fixture::start_with(Access::Endpoint { url: api.url(), tls: None }, timing(), |options| {
        options.pods = PodMode::Verified;
    })
    .await;
    fixture.synced().await;
    assert_eq!(fixture.ask("10-2-0-1.shop.pod"), "10.2.0.1");
    assert_eq!(fixture.ask("10-2-0-2.shop.pod"), "NXDOMAIN");
    api.apply(pod("one", "10.2.0.1", "Succeeded"));
    fixture.answers("10-2-0-1.shop.pod", "NXDOMAIN").await;
    assert_eq!(fixture.told.count("+two"), 0, "the server selects");
    fixture.stop().await;
}

#[tokio::test]
async fn selectors_are_the_servers_work() {
    let api = shop(Settings::default()).await;
    api.apply(json!({"kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "x"}}}));
    let fixture = Fixture::start_with(Access::Endpoint { url: api.url(), tls: None }, timing(), |options| {
        options.labels = Selector::parse("app in (web, api)").expect("valid");
        options.namespace_labels = Selector::parse("team!=x").expect("valid");
    })
    .await;
    fixture.synced().await;
    assert_eq!(fixture.ask("web.shop.svc"), "10.0.0.1");
    assert_eq!(fixture.ask("db.shop.svc"), "NXDOMAIN");
    assert_eq!(fixture.ask("other.svc"), "NXDOMAIN");
    let mut relabelled = service("web", "10.0.0.1");
    relabelled["metadata"]["labels"]["app"] = json!("old");
    api.apply(relabelled);
    fixture.answers("web.shop.svc", "NXDOMAIN").await;
    assert_eq!(fixture.told.count("+db"), 0);
    fixture.stop().await;
}

#[tokio::test]
async fn events_are_read_however_they_come() {
    let event = |kind: &str, version: u64, mut object: Value| {
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        json!({"type": kind, "object": object}).to_string()
    };
    let odd = [
        event("ADDED", 100, service("a", "10.0.2.1")),
        event("FANCY", 101, service("x", "10.0.2.9")),
        String::new(),
        format!("{{\"object\":{},\"type\":\"ADDED\"}}\r", {
            let mut object = service("b", "10.0.2.2");
            object["metadata"]["resourceVersion"] = json!("102");
            object
        }),
        json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "103"}}}).to_string(),
        event("DELETED", 104, service("a", "10.0.2.1")),
        event("ADDED", 105, service("c", "10.0.2.3")),
    ];
    let api = shop(Settings { bookmarks: None, ..paged() }).await;
    api.fault(Rule::watch().of("services").resumed().times(1), Fault::Hang(odd.join("\n") + "\n"));
    let fixture = Fixture::start(&api, timing()).await;
    fixture.answers("c.shop.svc", "10.0.2.3").await;
    assert_eq!(fixture.ask("b.shop.svc"), "10.0.2.2");
    assert_eq!(fixture.ask("a.shop.svc"), "NXDOMAIN");
    assert_eq!(fixture.ask("x.shop.svc"), "NXDOMAIN");
    fixture.stop().await;

    let api = shop(paged()).await;
    api.fault(Rule::watch().of("services").resumed(), Fault::Drip);
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.apply(service("new", "10.0.0.9"));
    fixture.answers("new.shop.svc", "10.0.0.9").await;
    fixture.stop().await;
}
