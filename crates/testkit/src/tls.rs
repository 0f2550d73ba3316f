//! Upstreams behind TLS and HTTP.

use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::process::Scratch;

/// Runs a server of its own on a thread of its own until the process ends; returns its address.
fn spawn_server<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap_or_else(|error| panic!("{error}"));
    let address = listener.local_addr().unwrap_or_else(|error| panic!("{error}"));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.unwrap_or_else(|error| panic!("{error}"));
        runtime.block_on(async {
            let _ = listener.set_nonblocking(true);
            let listener = TcpListener::from_std(listener).unwrap_or_else(|error| panic!("{error}"));
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
    });
    address
}

/// Takes TLS off connections and passes their octets on.
pub struct TlsFront {
    address: SocketAddr,
    authority: PathBuf,
    _scratch: Scratch,
    /// Protects the protocols that clients have chosen, in order.
    protocols: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
}

impl TlsFront {
    /// A front for the server at `backend`, with a certificate for `name` (a host name or an address) from an authority of
    /// its own, that offers the application protocols `protocols`.
    ///
    /// # Panics
    /// Where no certificate can be made.
    #[must_use]
    pub fn start(backend: SocketAddr, name: &str, protocols: &[&str]) -> Self {
        let failed = |error: rcgen::Error| -> Infallible { panic!("{error}") };
        let key = || KeyPair::generate().unwrap_or_else(|error| match failed(error) {});
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, key()).unwrap_or_else(|error| match failed(error) {});
        let own_key = key();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap_or_else(|error| match failed(error) {});
        let certificate = params.signed_by(&own_key, &authority).unwrap_or_else(|error| match failed(error) {});
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let own_key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own_key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], own_key)
            })
            .unwrap_or_else(|error| panic!("{error}"));
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let chosen: Arc<Mutex<Vec<Option<Vec<u8>>>>> = Arc::default();
        let noted = Arc::clone(&chosen);
        let address = spawn_server(move |stream| {
            let (acceptor, noted) = (acceptor.clone(), Arc::clone(&noted));
            async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
                noted.lock().unwrap_or_else(PoisonError::into_inner).push(protocol);
                let Ok(mut backend) = TcpStream::connect(backend).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut backend).await;
            }
        });
        let scratch = Scratch::new();
        let authority = scratch.write("ca.pem", authority.pem());
        Self { address, authority, _scratch: scratch, protocols: chosen }
    }

    /// Its address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file with the certificate of its authority.
    #[must_use]
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// The application protocol of each connection so far.
    #[must_use]
    pub fn protocols(&self) -> Vec<Option<Vec<u8>>> {
        self.protocols.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A request as a script sees it.
#[derive(Clone, Debug)]
pub struct HttpSeen {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The header `Content-Type`.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Serves HTTP/1.1 and, as clients prefer, HTTP/2, without TLS: `script` gives status, media type and body.
#[must_use]
pub fn serve_http(script: impl Fn(HttpSeen) -> (u16, String, Vec<u8>) + Send + Sync + 'static) -> SocketAddr {
    let script = Arc::new(script);
    spawn_server(move |stream| {
        let script = Arc::clone(&script);
        async move {
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let script = Arc::clone(&script);
                async move { Ok::<_, Infallible>(respond(&*script, request).await) }
            });
            let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        }
    })
}

async fn respond(
    script: &(dyn Fn(HttpSeen) -> (u16, String, Vec<u8>) + Send + Sync),
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let method = request.method().to_string();
    let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let content_type = request.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = content_type.to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    let (status, media_type, body) = script(HttpSeen { method, path, content_type, body });
    let response = Response::builder().status(status).header("content-type", media_type);
    response.body(Full::new(Bytes::from(body))).unwrap_or_else(|error| panic!("{error}"))
}
