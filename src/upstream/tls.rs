//! TLS towards upstreams.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use coredns_plugin::corefile::{os_error_text, read_regular_file};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// The largest file of certificates that is read, in octets.
const FILE_MAX: u64 = 16 << 20;

/// Where systems keep the certificates that they trust, all in one file; the first that is there counts.
const SYSTEM_ROOTS: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What the option `tls` says: which files hold what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate that is shown to upstreams, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The authorities that are trusted; those of the system where there is none.
    pub authorities: Option<PathBuf>,
}

/// What can be wrong with files for TLS; the texts are CoreDNS's.
#[derive(Debug)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    read_regular_file(path, FILE_MAX).map_err(|error| format!("open {}: {}", path.display(), os_error_text(&error)))
}

impl TlsFiles {
    /// A configuration as a client, with a cache of sessions of its own. TLS 1.2 at least; the name or the address of the
    /// upstream is always verified.
    ///
    /// # Errors
    /// A file cannot be read, or holds something else.
    pub fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = match &self.authorities {
            Some(path) => Arc::new(authorities(path)?),
            None => Arc::clone(system_roots()),
        };
        let refused = |error: &dyn fmt::Display| TlsError(format!("could not load TLS cert: {error}"));
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| refused(&error))?;
        // Without a single root nothing can be verified, which is said when something is to be.
        let verifier: Arc<dyn ServerCertVerifier> = if roots.is_empty() {
            Arc::new(NoRoots(provider))
        } else {
            WebPkiServerVerifier::builder_with_provider(roots, provider).build().map_err(|error| refused(&error))?
        };
        // The verifier is that of webpki, or one that refuses everything.
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let Some((certificate, key)) = &self.identity else { return Ok(builder.with_no_client_auth()) };
        let chain = CertificateDer::pem_slice_iter(&read(certificate).map_err(|error| refused(&error))?)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| refused(&error))?;
        let key = PrivateKeyDer::from_pem_slice(&read(key).map_err(|error| refused(&error))?)
            .map_err(|error| refused(&error))?;
        builder.with_client_auth_cert(chain, key).map_err(|error| refused(&error))
    }
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let content = read_regular_file(path, FILE_MAX)
        .map_err(|error| TlsError(format!("error reading {}: {}", path.display(), os_error_text(&error))))?;
    let roots = parse_roots(&content);
    if roots.is_empty() {
        return Err(TlsError("could not read root certs: no certificate in the file".to_owned()));
    }
    Ok(roots)
}

/// The certificates in a text that can be authorities; others are left out.
fn parse_roots(pem: &[u8]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
    roots
}

/// The authorities that the system trusts, read once: `SSL_CERT_FILE`, or where distributions keep them.
fn system_roots() -> &'static Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let candidates = named.into_iter().chain(SYSTEM_ROOTS.iter().map(PathBuf::from));
        let content = candidates.filter_map(|path| read_regular_file(&path, FILE_MAX).ok()).next();
        Arc::new(content.map(|content| parse_roots(&content)).unwrap_or_else(RootCertStore::empty))
    })
}

/// Verifies nothing, since there is nothing to verify it by: every handshake fails.
#[derive(Debug)]
struct NoRoots(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for NoRoots {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &rustls_pki_types::ServerName<'_>,
        _ocsp_response: &[u8],
        _now: rustls_pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Err(rustls::Error::General("no certificate authorities were found on this system".to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
