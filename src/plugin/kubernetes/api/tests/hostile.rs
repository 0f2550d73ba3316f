//! A server that means harm, or is badly broken: nothing spins, nothing grows.

use super::super::lines::LINE_MAX;
use super::*;

#[tokio::test]
async fn what_cannot_be_read_leads_to_a_list_and_does_not_spin() {
    let api = shop(paged()).await;
    api.fault(Rule::watch().of("services").resumed(), Fault::Hang("{]\n".to_owned()));
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.clear_calls();
    let span = Duration::from_millis(1_000);
    tokio::time::sleep(span).await;
    let calls = api.calls();
    let (watches, lists) = (count(&calls, Verb::Watch, "services"), count(&calls, Verb::List, "services"));
    assert!((2..=14).contains(&watches) && (1..=8).contains(&lists), "{watches} watches, {lists} lists");
    assert_eq!(fixture.ask("web.shop.svc"), "10.0.0.1");
    api.apply(service("new", "10.0.0.9"));
    fixture.answers("new.shop.svc", "10.0.0.9").await;
    assert!(warnings(&fixture.log).iter().any(|line| line.contains("services: an event cannot be read")));
    fixture.stop().await;
}

#[tokio::test]
async fn an_event_without_a_version_leads_to_a_list() {
    let api = shop(paged()).await;
    let event = json!({"type": "ADDED", "object": {"metadata": {"name": "x", "namespace": "shop"}}});
    api.fault(Rule::watch().of("services").resumed().times(1), Fault::Hang(format!("{event}\n")));
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.wait_calls("a list", |calls| count(calls, Verb::List, "services") >= 2).await;
    fixture.answers("x.shop.svc", "NXDOMAIN").await;
    fixture.stop().await;
}

#[tokio::test]
async fn a_huge_event_is_passed_over() {
    let api = shop(Settings { bookmarks: None, ..paged() }).await;
    let mut huge = service("huge", "10.0.0.8");
    huge["metadata"]["annotations"] = json!({"x": "y".repeat(LINE_MAX)});
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.wait_watches(3).await;
    api.apply(huge);
    api.apply(service("new", "10.0.0.9"));
    fixture.answers("new.shop.svc", "10.0.0.9").await;
    assert_eq!(fixture.ask("huge.shop.svc"), "NXDOMAIN");
    assert!(warnings(&fixture.log).iter().any(|line| line.contains("an event about services is too large")));
    fixture.stop().await;
}

#[tokio::test]
async fn a_server_that_knows_no_version_is_read_once_a_second_at_most() {
    let api = shop(paged()).await;
    let gone =
        json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}});
    api.fault(Rule::watch().of("services").resumed(), Fault::Body(format!("{gone}\n")));
    let usual = Timing::default();
    let usual = Timing { settle: usual.settle, relist: usual.relist, backoff: usual.backoff, ..timing() };
    let fixture = Fixture::start(&api, usual).await;
    fixture.synced().await;
    let begun = tokio::time::Instant::now();
    api.wait_calls("lists", |calls| count(calls, Verb::List, "services") >= 4).await;
    assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(fixture.ask("web.shop.svc"), "10.0.0.1");
    fixture.stop().await;
}

#[tokio::test]
async fn a_list_that_goes_on_for_ever_is_given_up() {
    let api = shop(paged()).await;
    let page = json!({"metadata": {"resourceVersion": "1", "continue": "again"}, "items": []}).to_string();
    api.fault(Rule::list().of("services"), Fault::Body(page));
    let fixture = Fixture::start(&api, timing()).await;
    api.wait_calls("lists", |calls| count(calls, Verb::List, "services") >= 9).await;
    let lines = warnings(&fixture.log);
    assert!(lines.iter().any(|line| line.contains("services: a list goes on where it began")), "{lines:#?}");
    assert!(!fixture.plugin.index().is_synced());
    api.heal();
    fixture.synced().await;
    fixture.stop().await;
}

#[tokio::test]
async fn a_flood_of_events_is_read_to_its_end() {
    let api = shop(Settings { bookmarks: None, ..paged() }).await;
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.wait_watches(3).await;
    for at in 0..3_000_u32 {
        api.apply(service("web", &format!("10.0.{}.{}", at >> 8 & 7, at & 255)));
    }
    api.apply(service("last", "10.0.9.9"));
    fixture.answers("last.shop.svc", "10.0.9.9").await;
    assert_eq!(fixture.ask("web.shop.svc"), "10.0.3.183");
    fixture.stop().await;
}

#[tokio::test]
async fn requests_are_made_at_the_rate_that_is_configured() {
    let api = shop(paged()).await;
    let access = Access::Endpoint { url: api.url(), tls: None };
    let fixture = Fixture::start_with(access, timing(), |options| {
        options.api.qps = 10.0;
        options.api.burst = 1;
        options.api.max_inflight = 1;
    })
    .await;
    fixture.synced().await;
    api.wait_watches(3).await;
    let calls = api.calls();
    let (first, last) = (calls.first().expect("calls").at, calls.last().expect("calls").at);
    // A refused stream, a list and a watch of three resources: nine requests with 100 ms between them.
    assert_eq!(calls.len(), 9);
    let span = last.duration_since(first);
    assert!(span >= Duration::from_millis(700), "{span:?}");
    fixture.stop().await;
}
