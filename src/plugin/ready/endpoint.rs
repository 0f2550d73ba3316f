//! The endpoint `/ready`.

use std::sync::{Arc, OnceLock};

use coredns_plugin::{BoxError, BoxFuture, HttpEvent, HttpHandler, HttpRequest, HttpResponse, Lifecycle, Start};

use super::readiness::{Monitor, Readiness, State};

/// The endpoint of one server block; it speaks for all blocks of its instance.
pub(super) struct Ready {
    monitor: Monitor,
    readiness: OnceLock<Arc<Readiness>>,
}

impl Ready {
    pub(super) const fn new(monitor: Monitor) -> Self {
        Self { monitor, readiness: OnceLock::new() }
    }

    fn state(&self) -> State {
        self.readiness.get().map_or(State::Starting, |readiness| readiness.state())
    }
}

impl HttpHandler for Ready {
    fn respond<'a>(&'a self, _request: &'a HttpRequest) -> BoxFuture<'a, HttpResponse> {
        Box::pin(async {
            match self.state() {
                State::Ready => HttpResponse::text(200, "OK"),
                State::Starting => HttpResponse::text(503, "Starting"),
                State::ShuttingDown => HttpResponse::text(503, "Shutting down"),
                State::Waiting(names) => {
                    tracing::info!(target: "plugin/ready", "Plugins not ready: \"{names}\"");
                    HttpResponse::text(503, names)
                }
            }
        })
    }
}

impl Lifecycle for Ready {
    fn start<'a>(&'a self, start: &'a Start) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async {
            let readiness = self.readiness.get_or_init(|| start.shared.of());
            readiness.watch(&start.plugins, self.monitor);
            // On a reload the old instance serves all the while.
            if !start.first {
                readiness.open();
            }
            Ok(())
        })
    }

    fn serving<'a>(&'a self, _start: &'a Start) -> BoxFuture<'a, ()> {
        Box::pin(async {
            if let Some(readiness) = self.readiness.get() {
                readiness.open();
            }
        })
    }

    fn lameduck(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(readiness) = self.readiness.get() {
                readiness.shut_down();
            }
        })
    }
}

/// Logs what becomes of the listener.
pub(super) fn report(event: HttpEvent<'_>) {
    match event {
        HttpEvent::Opened => {}
        HttpEvent::OpenFailed(problem) => {
            tracing::error!(target: "plugin/ready", "Failed to start ready handler: {problem}");
        }
        HttpEvent::CloseFailed(problem) => {
            tracing::error!(target: "plugin/ready", "Failed to stop ready handler: {problem}");
        }
    }
}
