//! Certificates of clients: asked for, demanded, verified, and for whom they may be.

use std::sync::Arc;

use coredns_plugin::corefile::excerpt;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::config::TlsConfig;
use super::tls::text;

/// What happens to certificates of clients; `None` where none is asked for.
pub(super) fn verifier(
    tls: &TlsConfig,
    authorities: Option<&[u8]>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    let (mandatory, verified) = match text(&tls.client_auth_type) {
        None | Some("NoClientCert") => {
            return match authorities {
                Some(_) => Err("Client CA's have been configured without a Client Auth Policy".to_owned()),
                None => Ok(None),
            };
        }
        Some("RequestClientCert") => (false, false),
        Some("RequireAnyClientCert" | "RequireClientCert") => (true, false),
        Some("VerifyClientCertIfGiven") => (false, true),
        Some("RequireAndVerifyClientCert") => (true, true),
        Some(other) => return Err(format!("Invalid ClientAuth: {}", excerpt(other))),
    };
    let chains = match (verified, authorities) {
        (false, _) => None,
        (true, Some(authorities)) => Some(chain_verifier(authorities, provider)?),
        (true, None) => return Err("client_auth_type needs one of client_ca or client_ca_file".to_owned()),
    };
    let names = tls.client_allowed_sans.iter().flatten().map(|name| {
        let parsed = ServerName::try_from(name.clone());
        parsed.map_err(|_| format!("client_allowed_sans: {} is neither a host name nor an address", excerpt(name)))
    });
    let names = names.collect::<Result<Vec<_>, String>>()?;
    Ok(Some(Arc::new(Verifier { mandatory, chains, names, provider: Arc::clone(provider) })))
}

fn chain_verifier(authorities: &[u8], provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities) {
        let certificate = certificate.map_err(|error| format!("client_ca: {error}"))?;
        roots.add(certificate).map_err(|error| format!("client_ca: {error}"))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map(|verifier| verifier as _)
        .map_err(|error| format!("client_ca: {error}"))
}

#[derive(Debug)]
struct Verifier {
    /// A client without a certificate is refused.
    mandatory: bool,
    /// Verifies chains; `None` lets every certificate pass whose key the client has.
    chains: Option<Arc<dyn ClientCertVerifier>>,
    /// One of these must be in the certificate; empty for any.
    names: Vec<ServerName<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for Verifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.as_ref().map_or(&[], |chains| chains.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if let Some(chains) = &self.chains {
            chains.verify_client_cert(end_entity, intermediates, now)?;
        }
        if !self.names.is_empty() {
            let parsed = ParsedCertificate::try_from(end_entity)?;
            if !self.names.iter().any(|name| verify_server_name(&parsed, name).is_ok()) {
                return Err(CertificateError::NotValidForName.into());
            }
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
