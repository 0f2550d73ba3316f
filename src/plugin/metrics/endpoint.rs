//! The endpoint `/metrics`.

use std::sync::Arc;

use coredns_plugin::{BoxFuture, HttpEvent, HttpHandler, HttpRequest, HttpResponse};

use super::exposition::{accepts_gzip, gather};
use super::web::Web;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The endpoint of one server block; every endpoint shows all metrics of the process.
pub(super) struct Endpoint {
    web: Option<Arc<Web>>,
}

impl Endpoint {
    pub(super) const fn new(web: Option<Arc<Web>>) -> Self {
        Self { web }
    }
}

impl HttpHandler for Endpoint {
    fn respond<'a>(&'a self, request: &'a HttpRequest) -> BoxFuture<'a, HttpResponse> {
        Box::pin(async move {
            let Some(web) = &self.web else { return expose(request).await };
            match web.admit(request).await {
                Ok(headers) => {
                    let mut response = expose(request).await;
                    response.headers.extend(headers);
                    response
                }
                Err(refusal) => refusal,
            }
        })
    }
}

async fn expose(request: &HttpRequest) -> HttpResponse {
    let exposition = match gather().await {
        Ok(exposition) => exposition,
        Err(error) => {
            tracing::error!(target: "metrics", "Failed to gather metrics: {error}");
            return HttpResponse::text(500, "An error has occurred while serving metrics\n");
        }
    };
    let mut headers = vec![("content-type", CONTENT_TYPE.to_owned()), ("vary", "Accept-Encoding".to_owned())];
    let gzip =
        if accepts_gzip(request.header("accept-encoding").unwrap_or_default()) { exposition.gzip() } else { None };
    let body = match gzip {
        Some(gzip) => {
            headers.push(("content-encoding", "gzip".to_owned()));
            gzip.to_vec()
        }
        None => exposition.text().to_vec(),
    };
    HttpResponse { status: 200, headers, body }
}

/// Logs what becomes of a plain listener.
pub(super) fn report(event: HttpEvent<'_>) {
    match event {
        HttpEvent::Opened => {}
        HttpEvent::OpenFailed(problem) => {
            tracing::error!(target: "metrics", "Failed to start metrics handler: {problem}");
        }
        HttpEvent::CloseFailed(problem) => {
            tracing::error!(target: "metrics", "Failed to stop prometheus http server: {problem}");
        }
    }
}

/// Logs what becomes of a listener with a web configuration.
pub(super) fn report_secured(event: HttpEvent<'_>) {
    match event {
        HttpEvent::Opened => tracing::info!(target: "metrics", "Server is ready and accepting connections"),
        event => report(event),
    }
}
