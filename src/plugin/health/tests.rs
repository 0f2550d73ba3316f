//! The directive, the endpoint, the pause and the self-check.

use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::{HttpRequest, HttpResponse, Start};
use coredns_testkit::{set_up, set_up_examples};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::DESCRIPTOR;
use super::check;
use crate::registry::DIRECTIVES;

const ERROR_AT: &str = "plugin/health: Testfile:";

#[test]
fn directives() {
    for (stanza, expected) in [
        ("health", Ok(":8080")),
        ("health localhost:1234", Ok("localhost:1234")),
        ("health localhost:1234 {\n lameduck 4s\n}", Ok("localhost:1234")),
        ("health {\n lameduck 0\n}", Ok(":8080")),
        ("health bla:a", Ok("bla:a")),
        ("health :1\nhealth :2", Ok(":2")),
        ("health bla", Err("plugin/health: address bla: missing port in address".to_owned())),
        (
            "health bla bla",
            Err(format!(
                "{ERROR_AT}3 - Error during parsing: Wrong argument count or unexpected line ending after 'bla'"
            )),
        ),
        (
            "health {\n lameduck a\n}",
            Err("plugin/health: unable to parse lameduck duration value: 'a' : time: invalid duration \"a\"".to_owned()),
        ),
        (
            "health {\n lameduck\n}",
            Err(format!(
                "{ERROR_AT}4 - Error during parsing: Wrong argument count or unexpected line ending after 'lameduck'"
            )),
        ),
        (
            "health {\n lameduck 1s 2s\n}",
            Err(format!(
                "{ERROR_AT}4 - Error during parsing: Wrong argument count or unexpected line ending after '2s'"
            )),
        ),
        ("health {\n lamedudk 4\n}", Err(format!("{ERROR_AT}4 - Error during parsing: unknown property 'lamedudk'"))),
    ] {
        let set = set_up(&[&DESCRIPTOR], stanza);
        let set = set.map(|block| block.http.iter().map(|endpoint| endpoint.address.clone()).collect::<Vec<_>>());
        let expected = expected.map(|address| vec![address.to_owned()]);
        assert_eq!(set.map_err(|error| error.to_string()), expected, "{stanza}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_endpoint_is_required_and_says_ok_before_and_after_the_pause() {
    let block = set_up(&[&DESCRIPTOR], "health {\n lameduck 5s\n}").expect("a good directive");
    let endpoint = &block.http[0];
    assert!(endpoint.required);
    assert_eq!(endpoint.path, "/health");
    let peer = "127.0.0.1:1".parse().expect("an address");
    let request = HttpRequest { path: "/health".into(), headers: Vec::new(), peer };
    assert_eq!(endpoint.handler.respond(&request).await, HttpResponse::text(200, "OK"));
    let start = Instant::now();
    block.parts[0].lameduck().await;
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(endpoint.handler.respond(&request).await, HttpResponse::text(200, "OK"));
}

#[tokio::test]
async fn without_lameduck_there_is_no_pause_and_stop_works_at_any_time() {
    let block = set_up(&[&DESCRIPTOR], "health").expect("a good directive");
    let part = &block.parts[0];
    part.lameduck().await;
    part.stop().await;
    part.stop().await;
    // Nothing is asked where nothing listens.
    part.serving(&Start::default()).await;
    part.stop().await;
}

#[tokio::test]
async fn the_check_runs_from_serving_to_stop() {
    let health = super::endpoint::Health::new(":0".into(), Duration::ZERO);
    coredns_plugin::HttpHandler::listening(&health, "127.0.0.1:9".parse().expect("an address"));
    assert!(!health.is_checking());
    coredns_plugin::Lifecycle::serving(&health, &Start::default()).await;
    assert!(health.is_checking());
    coredns_plugin::Lifecycle::stop(&health).await;
    assert!(!health.is_checking());
}

/// Both cases in one test: the metrics belong to the process.
#[tokio::test]
async fn checks_are_timed_and_failures_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a check");
        let mut request = [0; 256];
        let length = stream.read(&mut request).await.expect("a request");
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK").await.expect("sent");
        String::from_utf8(request[..length].to_vec()).expect("text")
    });
    let url = Arc::<str>::from("http://:8080/health");
    let (count, failures) = (super::metrics::duration().get_sample_count(), super::metrics::failures().get());
    check::check(&url, check::local(address)).await;
    assert!(server.await.expect("it was asked").starts_with("GET /health HTTP/1.1\r\n"));
    assert_eq!(super::metrics::duration().get_sample_count(), count + 1);
    assert_eq!(super::metrics::failures().get(), failures);
    // The listener is gone: the failed check is timed as well.
    check::check(&url, address).await;
    assert_eq!(super::metrics::duration().get_sample_count(), count + 2);
    assert_eq!(super::metrics::failures().get(), failures + 1);
}

#[test]
fn the_wildcard_is_asked_on_the_loopback_address() {
    for (listening, asked) in [
        ("[::]:8080", "127.0.0.1:8080"),
        ("0.0.0.0:80", "127.0.0.1:80"),
        ("[::1]:1", "[::1]:1"),
        ("192.0.2.1:1", "192.0.2.1:1"),
    ] {
        assert_eq!(check::local(listening.parse().expect("an address")).to_string(), asked);
    }
}

#[test]
fn the_examples_of_the_readme_are_good() {
    let blocks = set_up_examples(&[&DESCRIPTOR], DIRECTIVES, include_str!("README.md"));
    let addresses: Vec<&str> =
        blocks.iter().flat_map(|block| &block.http).map(|endpoint| endpoint.address.as_str()).collect();
    assert_eq!(addresses, [":8080", "localhost:8091"]);
}
