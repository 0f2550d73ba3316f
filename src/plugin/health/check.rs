//! The self-check: once a second the endpoint is asked as a probe would ask it, so that its metrics tell how loaded the
//! process is.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::clock;
use coredns_plugin::corefile::{GoDuration, os_error_text};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::MissedTickBehavior;

use super::metrics;

/// The pause between two checks.
const INTERVAL: Duration = Duration::from_secs(1);
/// A check that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(3);
/// A check that takes longer is remarked on.
const SLOW: Duration = Duration::from_secs(1);
/// What a status line begins with.
const STATUS_START: &[u8] = b"HTTP/1.";

/// Where a listener is reached from inside: the wildcard is asked on the loopback address, which every host has.
pub(super) fn local(listening: SocketAddr) -> SocketAddr {
    if listening.ip().is_unspecified() {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), listening.port())
    } else {
        listening
    }
}

/// Checks until it is aborted.
pub(super) async fn run(url: Arc<str>, address: SocketAddr) {
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval.tick().await;
    loop {
        interval.tick().await;
        check(&url, address).await;
    }
}

/// One check, counted and where need be logged.
pub(super) async fn check(url: &str, address: SocketAddr) {
    let start = clock::now();
    let result = tokio::time::timeout(TIMEOUT, ask(address)).await;
    let elapsed = clock::now().saturating_duration_since(start);
    metrics::duration().observe(elapsed.as_secs_f64());
    match result {
        Ok(Ok(())) if elapsed > SLOW => {
            let elapsed = GoDuration::from_nanos(i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX));
            tracing::warn!(target: "plugin/health", "Local health request to \"{url}\" took more than 1s: {elapsed}");
        }
        Ok(Ok(())) => {}
        Ok(Err(problem)) => failed(url, &problem),
        Err(_) => failed(url, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
    }
}

fn failed(url: &str, problem: &str) {
    metrics::failures().inc();
    let reason = format!("Get \"{url}\": {problem}");
    tracing::warn!(target: "plugin/health", "Local health request to \"{url}\" failed: {reason}");
}

/// Asks for the page; any response will do.
async fn ask(address: SocketAddr) -> Result<(), String> {
    let io = |step: &'static str| move |error: io::Error| format!("{step} tcp {address}: {}", os_error_text(&error));
    let mut stream = TcpStream::connect(address).await.map_err(|error| {
        let connect = "connect";
        format!("dial tcp {address}: {connect}: {}", os_error_text(&error))
    })?;
    let request =
        format!("GET {} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: coredns\r\nConnection: close\r\n\r\n", super::PATH);
    stream.write_all(request.as_bytes()).await.map_err(io("write"))?;
    let mut response = Vec::new();
    stream.take(4096).read_to_end(&mut response).await.map_err(io("read"))?;
    if response.starts_with(STATUS_START) { Ok(()) } else { Err("EOF".to_owned()) }
}
