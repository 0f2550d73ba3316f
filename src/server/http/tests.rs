//! Endpoints over real sockets.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use coredns_plugin::{BoxFuture, HttpHandler, HttpRequest, HttpResponse};
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout};

use super::connection::DEADLINE;
use super::listener::CONNECTIONS_MAX;
use super::tests_client::{PATIENCE, Reply, ask, connect, drain, receive, send};
use super::*;

/// Says the same to everybody, and where it is told to listen.
struct Fixed {
    body: Vec<u8>,
    address: Mutex<Option<SocketAddr>>,
}

impl HttpHandler for Fixed {
    fn respond<'a>(&'a self, request: &'a HttpRequest) -> BoxFuture<'a, HttpResponse> {
        Box::pin(async {
            let mut response = HttpResponse::text(200, self.body.clone());
            response.headers.push(("x-agent", request.header("User-Agent").unwrap_or("none").to_owned()));
            response
        })
    }

    fn listening(&self, address: SocketAddr) {
        *self.address.lock().expect("not poisoned") = Some(address);
    }
}

fn fixed(body: impl Into<Vec<u8>>) -> Arc<Fixed> {
    Arc::new(Fixed { body: body.into(), address: Mutex::new(None) })
}

fn endpoint(address: &str, path: &'static str, handler: &Arc<Fixed>) -> HttpEndpoint {
    HttpEndpoint {
        plugin: "test",
        address: address.to_owned(),
        path,
        handler: Arc::clone(handler) as _,
        required: true,
        security: None,
        report: |_| {},
    }
}

/// Serves one endpoint on a port of the kernel's choice.
async fn serve(listeners: &HttpListeners, body: impl Into<Vec<u8>>) -> SocketAddr {
    let handler = fixed(body);
    listeners.replace(vec![endpoint("127.0.0.1:0", "/x", &handler)]).await.expect("listens").commit();
    let address = *handler.address.lock().expect("not poisoned");
    address.expect("told where")
}

fn parts(reply: Option<Reply>) -> Option<(u16, String)> {
    reply.map(|reply| (reply.status, reply.body))
}

#[tokio::test]
async fn methods_and_paths() {
    let listeners = HttpListeners::new();
    let address = serve(&listeners, "hello").await;
    for (request, status, body) in [
        ("GET /x", 200, "hello"),
        ("GET /x?y=z", 200, "hello"),
        ("HEAD /x", 200, ""),
        ("GET /", 404, "404 page not found\n"),
        ("GET /x/", 404, "404 page not found\n"),
        ("POST /x", 405, "Method Not Allowed\n"),
        ("DELETE /x", 405, "Method Not Allowed\n"),
        ("OPTIONS /x", 405, "Method Not Allowed\n"),
    ] {
        let reply = ask(address, request, "User-Agent: probe\r\n").await.expect("an answer");
        assert_eq!((reply.status, reply.body.as_str()), (status, body), "{request}");
        match status {
            200 => {
                assert_eq!(reply.field("content-length"), Some("5"), "{request}");
                assert_eq!(reply.field("x-agent"), Some("probe"), "{request}");
            }
            405 => assert_eq!(reply.field("allow"), Some("GET, HEAD"), "{request}"),
            _ => {}
        }
    }
    listeners.close().await;
    assert!(ask(address, "GET /x", "").await.is_none());
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_no_body_is_read() {
    let listeners = HttpListeners::new();
    let address = serve(&listeners, "hello").await;
    let mut stream = connect(address).await;
    for _ in 0..3 {
        send(&mut stream, "GET /x", "").await;
        assert_eq!(parts(receive(&mut stream, true).await), Some((200, "hello".into())));
    }
    send(&mut stream, "GET /x", "Content-Length: 1000000000\r\n").await;
    assert_eq!(parts(receive(&mut stream, true).await), Some((200, "hello".into())));
    assert_eq!(timeout(PATIENCE, drain(&mut stream)).await, Ok(0));
}

#[tokio::test]
async fn a_head_of_more_than_16_kib_is_refused() {
    let listeners = HttpListeners::new();
    let address = serve(&listeners, "hello").await;
    let fits = format!("X-Long: {}\r\n", "a".repeat(15 * 1024));
    assert_eq!(ask(address, "GET /x", &fits).await.map(|reply| reply.status), Some(200));
    let exceeds = format!("X-Long: {}\r\n", "a".repeat(17 * 1024));
    assert_ne!(ask(address, "GET /x", &exceeds).await.map(|reply| reply.status), Some(200));
}

/// A clock that runs ahead whenever everybody waits: a deadline of 5 s takes no time.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_slow_to_ask_is_cut_off() {
    let listeners = HttpListeners::new();
    let address = serve(&listeners, "hello").await;
    for sent in ["", "GET /x HTTP/1.1\r\nHost: te"] {
        let mut stream = connect(address).await;
        let start = Instant::now();
        stream.write_all(sent.as_bytes()).await.expect("sent");
        drain(&mut stream).await;
        assert!((DEADLINE..DEADLINE * 2).contains(&start.elapsed()), "{sent:?}: {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn octets_that_drip_do_not_extend_the_deadline() {
    let listeners = HttpListeners::new();
    let address = serve(&listeners, "hello").await;
    let mut stream = connect(address).await;
    let start = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    for octet in b"GET /x HTTP/1.1\r\nHost: te".iter().cycle() {
        ticks.tick().await;
        if stream.write_all(&[*octet]).await.is_err() {
            break;
        }
    }
    assert!((DEADLINE..DEADLINE * 2).contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_slow_to_read_is_cut_off() {
    const LENGTH: usize = 64 << 20;
    let listeners = HttpListeners::new();
    let address = serve(&listeners, vec![b'x'; LENGTH]).await;
    let mut stream = connect(address).await;
    send(&mut stream, "GET /x", "").await;
    tokio::time::sleep(DEADLINE * 3).await;
    assert!(drain(&mut stream).await < LENGTH);
}

#[tokio::test]
async fn the_connection_above_the_limit_waits_for_its_turn() {
    let listeners = HttpListeners::new();
    let address = serve(&listeners, "hello").await;
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let mut stream = connect(address).await;
        send(&mut stream, "GET /x", "").await;
        assert!(receive(&mut stream, true).await.is_some());
        open.push(stream);
    }
    let mut next = connect(address).await;
    send(&mut next, "GET /x", "").await;
    assert!(timeout(Duration::from_millis(50), next.readable()).await.is_err());
    open.pop();
    let reply = timeout(PATIENCE, receive(&mut next, true)).await.expect("a turn");
    assert_eq!(parts(reply), Some((200, "hello".into())));
}

#[tokio::test]
async fn endpoints_of_one_address_share_its_listener() {
    let listeners = HttpListeners::new();
    let (health, ready, other) = (fixed("health"), fixed("ready"), fixed("other"));
    let paths = [("/health", &health), ("/ready", &ready), ("/health", &other)];
    let first = paths.map(|(path, handler)| endpoint("127.0.0.1:0", path, handler)).to_vec();
    listeners.replace(first).await.expect("listens").commit();
    let address = health.address.lock().expect("not poisoned").expect("told where");
    assert_eq!(*ready.address.lock().expect("not poisoned"), Some(address));
    assert_eq!(parts(ask(address, "GET /health", "").await), Some((200, "health".into())));
    assert_eq!(parts(ask(address, "GET /ready", "").await), Some((200, "ready".into())));
}

#[tokio::test]
async fn a_name_and_its_address_are_one_listener() {
    let listeners = HttpListeners::new();
    let (one, two) = (fixed("one"), fixed("two"));
    let port = free_port();
    let endpoints = vec![
        endpoint(&format!("127.0.0.1:{port}"), "/one", &one),
        endpoint(&format!("localhost:{port}"), "/two", &two),
    ];
    listeners.replace(endpoints).await.expect("listens").commit();
    for _ in 0..20 {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(parts(ask(address, "GET /one", "").await), Some((200, "one".into())));
        assert_eq!(parts(ask(address, "GET /two", "").await), Some((200, "two".into())));
    }
}

#[tokio::test]
async fn no_host_means_both_families() {
    let listeners = HttpListeners::new();
    let handler = fixed("hello");
    listeners.replace(vec![endpoint(":0", "/x", &handler)]).await.expect("listens").commit();
    let address = handler.address.lock().expect("not poisoned").expect("told where");
    let mut hosts = vec!["127.0.0.1"];
    if address.is_ipv6() && std::net::TcpListener::bind("[::1]:0").is_ok() {
        hosts.push("::1");
    }
    for host in hosts {
        let address = SocketAddr::new(host.parse().expect("an address"), address.port());
        assert_eq!(parts(ask(address, "GET /x", "").await), Some((200, "hello".into())), "{host}");
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("bound").port()
}

#[tokio::test]
async fn an_address_in_use_fails_what_requires_it_and_only_that() {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let text = format!("listen tcp {address}: bind: address already in use");
    let listeners = HttpListeners::new();
    let handler = fixed("hello");
    let outcome = listeners.replace(vec![endpoint(&address, "/x", &handler)]).await;
    assert_eq!(outcome.map(drop), Err(text.clone()));

    let report = |event: HttpEvent<'_>| TOLD.lock().expect("not poisoned").push(format!("{event:?}"));
    let optional = HttpEndpoint { required: false, report, ..endpoint(&address, "/y", &handler) };
    let both = vec![optional.clone(), optional, endpoint("127.0.0.1:0", "/x", &handler)];
    listeners.replace(both).await.expect("the other listens").commit();
    let address = handler.address.lock().expect("not poisoned").expect("told where");
    assert_eq!(parts(ask(address, "GET /x", "").await), Some((200, "hello".into())));
    assert_eq!(*TOLD.lock().expect("not poisoned"), [format!("OpenFailed({text:?})")]);
}

#[tokio::test]
async fn addresses_that_are_none() {
    let listeners = HttpListeners::new();
    for (address, expected) in [
        ("bla:a", "listen tcp: lookup tcp/a: unknown port"),
        ("127.0.0.1:65536", "listen tcp: address 65536: invalid port"),
        ("no-such-host.invalid:1", "listen tcp: lookup no-such-host.invalid: no such host"),
        ("192.0.2.1:0", "listen tcp 192.0.2.1:0: bind: cannot assign requested address"),
    ] {
        let outcome = listeners.replace(vec![endpoint(address, "/x", &fixed(""))]).await;
        assert_eq!(outcome.map(drop), Err(expected.to_owned()));
    }
}

#[tokio::test]
async fn a_handover_that_is_not_committed_changes_nothing() {
    let listeners = HttpListeners::new();
    let address = serve(&listeners, "old").await;
    let (new, gone) = (fixed("new"), fixed(""));
    let port = free_port();
    let next = vec![endpoint("127.0.0.1:0", "/x", &new), endpoint(&format!("127.0.0.1:{port}"), "/y", &gone)];
    drop(listeners.replace(next).await.expect("listens"));
    assert_eq!(parts(ask(address, "GET /x", "").await), Some((200, "old".into())));
    assert!(ask(SocketAddr::from(([127, 0, 0, 1], port)), "GET /y", "").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_while_listeners_are_handed_over() {
    let listeners = HttpListeners::new();
    let address = serve(&listeners, "0").await;
    let end = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for client in 0..4 {
        let (end, answered) = (Arc::clone(&end), Arc::clone(&answered));
        clients.push(tokio::spawn(async move {
            let mut kept = connect(address).await;
            while !end.load(Ordering::Relaxed) {
                // Half of them on new connections, half on one that stays.
                let reply = if client % 2 == 0 {
                    ask(address, "GET /x", "").await
                } else {
                    send(&mut kept, "GET /x", "").await;
                    receive(&mut kept, true).await
                };
                assert_eq!(reply.map(|reply| reply.status), Some(200));
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for round in 1..=50 {
        let before = answered.load(Ordering::Relaxed);
        assert_eq!(serve(&listeners, round.to_string()).await, address);
        assert_eq!(parts(ask(address, "GET /x", "").await), Some((200, round.to_string())));
        let progress = async {
            while answered.load(Ordering::Relaxed) < before + 8 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, progress).await.expect("the clients go on");
    }
    end.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no request failed");
    }
    // An address that is gone is closed.
    listeners.replace(Vec::new()).await.expect("nothing to open").commit();
    listeners.close().await;
    assert!(ask(address, "GET /x", "").await.is_none());
}
