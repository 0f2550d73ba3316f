//! The plugin against upstreams over TLS and HTTPS.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use coredns_plugin::Answer;
use coredns_plugin::wire::{Message, Rcode};
use coredns_testkit::{Act, Harness, HttpSeen, MockUpstream, TlsFront, query, serve_http, set_up};

use super::DESCRIPTOR;

const RECORD: &str = "example.org. 3600 IN A 127.0.0.1";
const MEDIA_TYPE: &str = "application/dns-message";

fn harness(stanza: &str) -> Harness {
    Harness::new(set_up(&[&DESCRIPTOR], stanza).unwrap_or_else(|error| panic!("{error}")).plugins)
}

async fn outcome(harness: &Harness) -> Result<usize, String> {
    match harness.ask(&query("example.org A")).await {
        Answer::Reply(reply) => Ok(reply.answer.len()),
        Answer::Failed(failure) => Err(failure.error.map_or_else(String::new, |error| error.to_string())),
        Answer::Dropped => Err("dropped".to_owned()),
    }
}

#[tokio::test]
async fn certificates_are_verified_by_name_or_address() {
    let upstream = MockUpstream::answering(&[RECORD]);
    let named = TlsFront::start(upstream.address(), "dns.example", &[]);
    let by_address = TlsFront::start(upstream.address(), "127.0.0.1", &[]);
    let port = named.address().port();
    let (ca, other_ca) = (named.authority().display().to_string(), by_address.authority().display().to_string());
    for (stanza, works) in [
        (format!("forward . tls://127.0.0.1%dns.example:{port} {{\ntls {ca}\n}}"), true),
        (format!("forward . tls://127.0.0.1:{port} {{\ntls {ca}\ntls_servername dns.example\n}}"), true),
        (format!("forward . tls://{} {{\ntls {other_ca}\n}}", by_address.address()), true),
        (format!("forward . tls://127.0.0.1:{port} {{\ntls {ca}\n}}"), false),
        (format!("forward . tls://127.0.0.1%other.example:{port} {{\ntls {ca}\n}}"), false),
        (format!("forward . tls://127.0.0.1%dns.example:{port} {{\ntls {other_ca}\n}}"), false),
        (format!("forward . tls://127.0.0.1%dns.example:{port}"), false),
    ] {
        let outcome = outcome(&harness(&stanza)).await;
        assert_eq!(outcome.is_ok(), works, "{stanza}: {outcome:?}");
        if let Err(text) = outcome {
            assert!(text.starts_with("dial tcp-tls 127.0.0.1:") && text.contains("certificate"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_connection_over_tls_is_used_again() {
    let upstream = MockUpstream::answering(&[RECORD]);
    let front = TlsFront::start(upstream.address(), "127.0.0.1", &[]);
    let harness = harness(&format!("forward . tls://{} {{\ntls {}\n}}", front.address(), front.authority().display()));
    for _ in 0..10 {
        assert_eq!(outcome(&harness).await, Ok(1));
    }
    assert_eq!(front.protocols().len(), 1);
    assert!(upstream.seen().iter().all(|seen| seen.proto == "tcp"));
}

/// An HTTPS upstream with a response of its own, and a stanza that trusts it.
fn https(
    options: &str,
    script: impl Fn(HttpSeen) -> (u16, String, Vec<u8>) + Send + Sync + 'static,
) -> (TlsFront, Harness) {
    let backend: SocketAddr = serve_http(script);
    let front = TlsFront::start(backend, "127.0.0.1", &["h2"]);
    let ca = front.authority().display();
    let harness = harness(&format!("forward . https://{} {{\ntls {ca}\n{options}\n}}", front.address()));
    (front, harness)
}

fn answer(body: &[u8]) -> Vec<u8> {
    Message::parse(body).ok().and_then(|message| Act::answer(&[RECORD]).octets(&message)).unwrap_or_default()
}

#[tokio::test]
async fn status_media_type_and_question_of_a_response_count() {
    type Script = fn(HttpSeen) -> (u16, String, Vec<u8>);
    let cases: [(Script, Result<usize, &str>); 6] = [
        (|seen| (200, MEDIA_TYPE.to_owned(), answer(&seen.body)), Ok(1)),
        (|seen| (200, "Application/DNS-Message; x=y".to_owned(), answer(&seen.body)), Ok(1)),
        (|seen| (500, MEDIA_TYPE.to_owned(), answer(&seen.body)), Err("unexpected HTTP status 500")),
        (|seen| (200, "text/html".to_owned(), answer(&seen.body)), Err("unexpected media type \"text/html\"")),
        (|_| (200, MEDIA_TYPE.to_owned(), vec![0; 70_000]), Err("length limit exceeded")),
        (|_| (200, MEDIA_TYPE.to_owned(), vec![0; 20]), Err("the body is no reply to the question")),
    ];
    for (script, expected) in cases {
        let (_front, harness) = https("", script);
        match (outcome(&harness).await, expected) {
            (Ok(count), Ok(expected)) => assert_eq!(count, expected),
            (Err(text), Err(expected)) => assert!(text.contains(expected), "{text}"),
            (outcome, expected) => panic!("{outcome:?} instead of {expected:?}"),
        }
    }
}

#[tokio::test]
async fn get_puts_the_query_into_the_path() {
    static GETS: AtomicUsize = AtomicUsize::new(0);
    let (_front, harness) = https("doh_method GET", |seen| {
        // Header, question and nothing else: 29 octets are 39 digits.
        let digits = seen.path.strip_prefix("/dns-query?dns=").map_or(0, str::len);
        if seen.method == "GET" && seen.body.is_empty() && digits == 39 {
            GETS.fetch_add(1, Ordering::Relaxed);
        }
        (404, String::new(), Vec::new())
    });
    assert!(outcome(&harness).await.is_err());
    assert_eq!(GETS.load(Ordering::Relaxed), 2, "two tries");
}

#[tokio::test]
async fn an_https_upstream_that_is_no_server_fails() {
    let upstream = MockUpstream::start(|_| Vec::new());
    let harness = harness(&format!("forward . https://{} {{\nmax_connect_attempts 1\n}}", upstream.address()));
    let Answer::Failed(failure) = harness.ask(&query("example.org A")).await else { panic!("answered") };
    assert_eq!(failure.rcode, Rcode::SERVFAIL);
}
