//! The plugin *forward*: upstreams over HTTPS.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use coredns_plugin::wire::{Header, Message};
use coredns_plugin::{Answer, Plugin};
use coredns_testkit::vectors::text;
use coredns_testkit::{Act, Harness, HttpSeen, TlsFront, query, serve_http};
use toml::Table;

use crate::common::same;
use crate::forward::{forward, forwards};
use crate::forward_behaviour::{judge_exchange, number, run};

const MEDIA_TYPE: &str = "application/dns-message";

/// Requests with the messages in them.
type Requests = Arc<Mutex<Vec<(HttpSeen, Message)>>>;

/// A DoH server that answers everything with `records`, and what it has been asked.
fn server(records: &[&str]) -> (SocketAddr, Requests) {
    let answer = Act::answer(records);
    let seen: Requests = Arc::default();
    let noted = Arc::clone(&seen);
    let address = serve_http(move |request| {
        let Ok(message) = Message::parse(&request.body) else { return (400, "text/plain".to_owned(), Vec::new()) };
        let octets = answer.octets(&message).unwrap_or_default();
        noted.lock().expect("not poisoned").push((request, message));
        (200, MEDIA_TYPE.to_owned(), octets)
    });
    (address, seen)
}

pub(crate) fn exchange(case: &Table) -> Result<(), String> {
    for protocols in [&["h2"][..], &["http/1.1"], &[]] {
        let (backend, seen) = server(&["example.org. 3600 IN A 127.0.0.1"]);
        let front = TlsFront::start(backend, "127.0.0.1", protocols);
        let upstream = format!("https://{} {{\ntls {}\n}}", front.address(), front.authority().display());
        let stanza = text(case, "corefile").ok_or("no corefile")?.replace("https://U1", &upstream);
        run(async {
            let harness = Harness::new(forwards(&stanza)?.plugins);
            for _ in 0..3 {
                let answer: Answer = harness.ask(&query(text(case, "q").ok_or("no query")?)).await;
                judge_exchange(case, &answer)?;
            }
            Ok::<(), String>(())
        })?;
        let seen = seen.lock().expect("not poisoned");
        same("requests", &seen.len(), &3)?;
        same("connections", &front.protocols(), &vec![protocols.first().map(|protocol| protocol.as_bytes().to_vec())])?;
        let (request, message) = &seen[0];
        let facts = (request.method.as_str(), request.path.as_str(), request.content_type.as_str(), message.header.id);
        same("request", &facts, &("POST", "/dns-query", MEDIA_TYPE, 0))?;
    }
    Ok(())
}

pub(crate) fn probe(case: &Table) -> Result<(), String> {
    let (backend, seen) = server(&[]);
    let front = TlsFront::start(backend, "127.0.0.1", &["h2", "http/1.1"]);
    let forward =
        forward(&format!("forward . https://{} {{\ntls {}\n}}", front.address(), front.authority().display()))?;
    same("plugin", &forward.name(), &"forward")?;
    run(async { forward.upstreams().load()[0].probe().await }).map_err(|error| error.to_string())?;
    let seen = seen.lock().expect("not poisoned");
    same("probes", &Some(seen.len() as i64), &number(case, "probes"))?;
    let (request, message) = &seen[0];
    same("request", &(request.method.as_str(), request.path.as_str()), &("POST", "/dns-query"))?;
    let flags = if message.header.has(Header::RD) { "RD=1" } else { "RD=0" };
    let question = &message.questions[0];
    same("probe", &Some(format!("{} {} {flags}", question.name, question.qtype).as_str()), &text(case, "probe"))
}
