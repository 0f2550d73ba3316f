//! The server goes away, in many ways, and comes back.

use super::*;

#[tokio::test]
async fn the_first_state_is_read_and_followed() {
    for settings in [Settings::default(), paged()] {
        let api = shop(settings.clone()).await;
        let fixture = Fixture::start(&api, Timing { page: 1, ..timing() }).await;
        fixture.synced().await;
        assert_eq!(fixture.plugin.ready(), Some(true));
        assert_eq!(fixture.ask("web.shop.svc"), "10.0.0.1");
        assert_eq!(fixture.ask("db.shop.svc"), "10.1.0.1 10.1.0.2");
        assert_eq!(fixture.ask("no.shop.svc"), "NXDOMAIN");
        api.apply(service("api", "10.0.0.2"));
        fixture.answers("api.shop.svc", "10.0.0.2").await;
        api.apply(service("api", "10.0.0.3"));
        fixture.answers("api.shop.svc", "10.0.0.3").await;
        api.apply(slice("db", &["10.1.0.2"]));
        fixture.answers("db.shop.svc", "10.1.0.2").await;
        api.delete("Service", "shop", "api");
        fixture.answers("api.shop.svc", "NXDOMAIN").await;
        assert_eq!(fixture.told.count("synced"), 1);
        assert_eq!(warnings(&fixture.log), Vec::<String>::new());
        let streamed = api.calls().iter().filter(|call| call.is_streaming_list()).count();
        assert_eq!(streamed, 3, "one attempt for each resource");
        fixture.stop().await;
        api.wait_watches(0).await;
    }
}

#[tokio::test]
async fn a_server_that_comes_late_is_found() {
    let api = shop(Settings::default()).await;
    api.stop().await;
    let fixture = Fixture::start(&api, timing()).await;
    eventually("an attempt", || !warnings(&fixture.log).is_empty(), String::new).await;
    assert_eq!(fixture.ask("web.shop.svc"), "SERVFAIL");
    assert_eq!(fixture.plugin.ready(), Some(false));
    api.resume().await;
    fixture.synced().await;
    assert_eq!(fixture.ask("web.shop.svc"), "10.0.0.1");
    assert_eq!(fixture.plugin.ready(), Some(true));
    fixture.stop().await;
}

#[tokio::test]
async fn after_an_outage_the_watches_go_on_where_they_were() {
    let api = shop(paged()).await;
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.wait_watches(3).await;
    api.stop().await;
    api.clear_calls();
    api.apply(service("new", "10.0.0.9"));
    api.delete("Service", "shop", "web");
    assert_eq!(fixture.ask("web.shop.svc"), "10.0.0.1", "the last state stands");
    api.resume().await;
    fixture.answers("new.shop.svc", "10.0.0.9").await;
    fixture.answers("web.shop.svc", "NXDOMAIN").await;
    assert_eq!(reads(&api.calls()), BTreeMap::new(), "nothing is read again");
    assert_eq!(fixture.plugin.ready(), Some(true));
    fixture.stop().await;
}

#[tokio::test]
async fn after_a_longer_outage_everything_is_read_once() {
    for settings in [Settings::default(), paged()] {
        let api = shop(settings).await;
        let fixture = Fixture::start(&api, timing()).await;
        fixture.synced().await;
        api.wait_watches(3).await;
        api.stop().await;
        api.clear_calls();
        api.delete("Service", "shop", "web");
        api.delete("Service", "shop", "db");
        api.apply(service("new", "10.0.0.9"));
        api.compact();
        api.resume().await;
        fixture.answers("new.shop.svc", "10.0.0.9").await;
        fixture.answers("web.shop.svc", "NXDOMAIN").await;
        assert_eq!(fixture.ask("db.shop.svc"), "NXDOMAIN", "both went in one step");
        assert_eq!(fixture.told.count("-web"), 0, "no watch told of it");
        let resource = |calls: &[Call]| reads(calls).get("services").copied().unwrap_or_default();
        let streams = api.calls().iter().any(Call::is_streaming_list);
        assert_eq!(resource(&api.calls()), 1, "{streams}");
        fixture.stop().await;
    }
}

#[tokio::test]
async fn a_refusal_with_410_leads_to_a_list() {
    let api = shop(paged()).await;
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.wait_watches(3).await;
    let gone = Fault::Status { code: 410, retry_after: None, body: ErrorBody::Text("gone") };
    api.fault(Rule::watch().of("services").resumed().times(1), gone);
    api.clear_calls();
    api.vanish("Service", "shop", "web");
    api.cut().await;
    fixture.answers("web.shop.svc", "NXDOMAIN").await;
    assert_eq!(reads(&api.calls()), [("services", 1)].into());
    fixture.stop().await;
}

#[tokio::test]
async fn a_list_that_expires_half_way_begins_again() {
    let api = shop(paged()).await;
    for at in 0..5 {
        api.apply(service(&format!("s{at}"), &format!("10.0.1.{at}")));
    }
    let fixture = Fixture::start(&api, Timing { page: 2, ..timing() }).await;
    fixture.synced().await;
    api.wait_watches(3).await;
    let expired = Fault::Status { code: 410, retry_after: None, body: ErrorBody::Status("Expired", "too old") };
    // The second page comes, the third does not.
    api.fault(Rule::list().of("services").continued().times(1), Fault::Drip);
    api.fault(Rule::list().of("services").continued().times(1), expired);
    api.clear_calls();
    api.delete("Service", "shop", "s0");
    api.compact();
    let cut = async {
        api.cut().await;
        fixture.answers("s0.shop.svc", "NXDOMAIN").await;
    };
    let present = || (1..5).all(|at| fixture.ask(&format!("s{at}.shop.svc")) == format!("10.0.1.{at}"));
    meanwhile(present, cut).await;
    assert_eq!(reads(&api.calls()).get("services"), Some(&2), "from the first page again");
    fixture.stop().await;
}

#[tokio::test]
async fn a_silent_watch_is_renewed() {
    // Silent from the start until it should have ended, and silent after bookmarks.
    let by_end = Timing { watch_seconds: (1, 1), ..timing() };
    let by_bookmarks = Timing { quiet: Duration::from_millis(500), ..timing() };
    for (after, timing) in [(0, by_end), (2, by_bookmarks)] {
        let api = shop(paged()).await;
        api.fault(Rule::watch().of("services").resumed().times(1), Fault::Silence { after });
        let fixture = Fixture::start(&api, timing).await;
        fixture.synced().await;
        api.wait_watches(3).await;
        if after > 0 {
            let bookmarks = Duration::from_millis(450);
            tokio::time::sleep(bookmarks).await;
        }
        api.apply(service("new", "10.0.0.9"));
        let begun = tokio::time::Instant::now();
        fixture.answers("new.shop.svc", "10.0.0.9").await;
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert!(warnings(&fixture.log).iter().any(|line| line.contains("services: the API server was silent for")));
        assert_eq!(reads(&api.calls()).get("services"), Some(&2), "the refused stream and the first list");
        fixture.stop().await;
    }
}

#[tokio::test]
async fn a_list_without_an_answer_or_an_end_is_tried_again() {
    for fault in [Fault::BlackHole, Fault::Hang("{\"items\":[".to_owned()), Fault::Close, Fault::Cut { after: 40 }] {
        let api = shop(paged()).await;
        api.fault(Rule::list().of("services").times(1), fault);
        let fixture = Fixture::start(&api, Timing { list: Duration::from_millis(500), ..timing() }).await;
        fixture.synced().await;
        assert_eq!(fixture.ask("web.shop.svc"), "10.0.0.1");
        assert_eq!(count(&api.calls(), Verb::List, "services"), 2);
        fixture.stop().await;
    }
}

#[tokio::test]
async fn a_watch_that_breaks_in_a_line_loses_nothing_and_repeats_nothing() {
    let api = shop(Settings { bookmarks: None, ..paged() }).await;
    api.fault(Rule::watch().of("services").resumed().times(1), Fault::Cut { after: 700 });
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.wait_watches(3).await;
    for at in 0..4 {
        api.apply(service(&format!("s{at}"), &format!("10.0.1.{at}")));
    }
    fixture.answers("s3.shop.svc", "10.0.1.3").await;
    for at in 0..4 {
        assert_eq!(fixture.told.count(&format!("+s{at}")), 1, "{:?}", fixture.told.lines());
    }
    assert_eq!(count(&api.calls(), Verb::List, "services"), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn a_name_that_went_and_came_back_has_only_its_new_data() {
    let api = shop(Settings::default()).await;
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.stop().await;
    api.delete("Service", "shop", "web");
    api.apply(service("web", "10.0.0.77"));
    api.resume().await;
    fixture.answers("web.shop.svc", "10.0.0.77").await;
    assert_eq!(fixture.told.count("-web"), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn a_server_that_was_restored_from_a_backup_is_read_again() {
    let api = shop(paged()).await;
    for _ in 0..20 {
        api.apply(service("web", "10.0.0.1"));
    }
    let fixture = Fixture::start(&api, timing()).await;
    fixture.synced().await;
    api.wait_watches(3).await;
    api.clear_calls();
    api.vanish("Service", "shop", "web");
    api.reset_version(3);
    fixture.answers("web.shop.svc", "NXDOMAIN").await;
    api.apply(service("late", "10.0.0.5"));
    fixture.answers("late.shop.svc", "10.0.0.5").await;
    assert_eq!(reads(&api.calls()).get("services"), Some(&1));
    fixture.stop().await;
}
