//! The endpoint `/health`, and the pause before the end.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coredns_plugin::corefile::GoDuration;
use coredns_plugin::{Background, BoxFuture, HttpEvent, HttpHandler, HttpRequest, HttpResponse, Lifecycle, Start};

use super::check;

/// The endpoint of one server block.
#[derive(Debug)]
pub(super) struct Health {
    address: String,
    lameduck: Duration,
    /// Where the endpoint really is; protects one value.
    listening: Mutex<Option<SocketAddr>>,
    /// The task that asks the endpoint; a check under way ends uncounted with it.
    checking: Background,
}

impl Health {
    pub(super) const fn new(address: String, lameduck: Duration) -> Self {
        Self { address, lameduck, listening: Mutex::new(None), checking: Background::new() }
    }

    #[cfg(test)]
    pub(super) fn is_checking(&self) -> bool {
        self.checking.is_running()
    }
}

impl HttpHandler for Health {
    fn respond<'a>(&'a self, _request: &'a HttpRequest) -> BoxFuture<'a, HttpResponse> {
        Box::pin(async { HttpResponse::text(200, "OK") })
    }

    fn listening(&self, address: SocketAddr) {
        *self.listening.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }
}

impl Lifecycle for Health {
    fn serving<'a>(&'a self, _start: &'a Start) -> BoxFuture<'a, ()> {
        let listening = *self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        Box::pin(async move {
            if let Some(listening) = listening {
                let url = Arc::from(format!("http://{}{}", self.address, super::PATH));
                self.checking.run(check::run(url, check::local(listening)));
            }
        })
    }

    fn lameduck(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if self.lameduck.is_zero() {
                return;
            }
            let shown = GoDuration::from_nanos(i64::try_from(self.lameduck.as_nanos()).unwrap_or(i64::MAX));
            tracing::info!(target: "plugin/health", "Going into lameduck mode for {shown}");
            tokio::time::sleep(self.lameduck).await;
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.checking.stop())
    }
}

/// Logs what becomes of the listener; that it cannot be opened ends the start and is logged there.
pub(super) fn report(event: HttpEvent<'_>) {
    match event {
        HttpEvent::Opened => {}
        HttpEvent::OpenFailed(problem) => tracing::error!(target: "plugin/health", "{problem}"),
        HttpEvent::CloseFailed(problem) => {
            tracing::error!(target: "plugin/health", "Failed to stop health http server: {problem}");
        }
    }
}
