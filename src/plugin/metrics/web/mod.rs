//! The web configuration of the endpoint (`tls WEB_CONFIG_FILE`), as the exporters of Prometheus have it: TLS, HTTP
//! options and headers, users with passwords, a limit on requests.
//!
//! The file and those that it names are read again for every handshake and every request, so that a renewed
//! certificate or a changed password needs no reload. A file that has become wrong refuses what it decides.

mod auth;
mod client_auth;
mod config;
mod limit;
mod tls;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coredns_plugin::corefile::excerpt_path;
use coredns_plugin::{BoxError, BoxFuture, HttpConnection, HttpRequest, HttpResponse, HttpSecurity, clock};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use auth::Users;
use limit::Limiter;

/// The first octet of a TLS connection: a handshake record (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 22;
/// What a client gets that speaks HTTP where TLS is spoken.
const PLAIN_HTTP: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// The web configuration of one endpoint.
#[derive(Debug)]
pub(super) struct Web {
    path: PathBuf,
    /// The configuration had TLS when the listener was opened; then no connection is served without.
    secured: AtomicBool,
    users: Users,
    limiter: Limiter,
}

impl Web {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, secured: AtomicBool::new(false), users: Users::default(), limiter: Limiter::default() }
    }

    /// Lets a request through, with headers for its response, or refuses it.
    pub(super) async fn admit(&self, request: &HttpRequest) -> Result<Vec<(&'static str, String)>, HttpResponse> {
        let config = self.read(config::read).await.map_err(|error| {
            tracing::error!(target: "metrics", "Unable to parse configuration: {error}");
            HttpResponse::text(500, "Internal Server Error\n")
        })?;
        let headers = config.headers();
        let refuse = |mut response: HttpResponse| {
            response.headers.extend(headers.clone());
            response
        };
        if !self.limiter.admits(config.limit(), clock::now()) {
            return Err(refuse(HttpResponse::text(429, "Too Many Requests\n")));
        }
        if !self.users.admit(config.users(), request.header("authorization")).await {
            let mut response = HttpResponse::text(401, "Unauthorized\n");
            response.headers.push(("www-authenticate", "Basic".to_owned()));
            return Err(refuse(response));
        }
        Ok(headers)
    }

    /// Reads files off the runtime's threads.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Path) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || read(&path)).await.map_err(|error| error.to_string())?
    }
}

/// Reads the configuration and what TLS needs; `None` where it has no TLS.
fn read_tls(path: &Path) -> Result<Option<Arc<rustls::ServerConfig>>, String> {
    let config = config::read(path)?;
    tls::server_config(&config, path.parent().unwrap_or_else(|| Path::new("")))
}

impl HttpSecurity for Web {
    fn prepare(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            if !tokio::fs::try_exists(&self.path).await.unwrap_or(true) {
                return Err(
                    format!("TLS config file does not exist: {}", excerpt_path(&self.path.to_string_lossy())).into()
                );
            }
            let secured = self.read(read_tls).await?.is_some();
            // Relaxed: connections are accepted only after this, by the one who called it.
            self.secured.store(secured, Ordering::Relaxed);
            Ok(())
        })
    }

    fn accept(&self, mut stream: TcpStream) -> BoxFuture<'_, io::Result<HttpConnection>> {
        Box::pin(async move {
            if !self.secured.load(Ordering::Relaxed) {
                return Ok(HttpConnection { stream: Box::new(stream), http2: false });
            }
            let mut first = [0];
            if stream.peek(&mut first).await? == 1 && first != [TLS_HANDSHAKE] {
                stream.write_all(PLAIN_HTTP).await?;
                stream.shutdown().await?;
                return Err(io::ErrorKind::InvalidData.into());
            }
            let config = self.read(read_tls).await.map_err(|error| {
                tracing::error!(target: "metrics", "Unable to parse configuration: {error}");
                io::Error::from(io::ErrorKind::InvalidData)
            })?;
            let Some(config) = config else {
                tracing::error!(target: "metrics", "TLS was taken out of the web configuration; reload to serve without");
                return Err(io::ErrorKind::InvalidData.into());
            };
            let stream = TlsAcceptor::from(config).accept(stream).await?;
            let http2 = stream.get_ref().1.alpn_protocol() == Some(tls::HTTP2);
            Ok(HttpConnection { stream: Box::new(stream), http2 })
        })
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
