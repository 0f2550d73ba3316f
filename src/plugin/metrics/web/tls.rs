//! From the words of a web configuration to a TLS configuration.

use std::path::Path;
use std::sync::Arc;

use coredns_plugin::corefile::{excerpt, os_error_text, read_regular_file};
use coredns_plugin::exposed_secret;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{NamedGroup, ServerConfig, SupportedProtocolVersion, version};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::client_auth;
use super::config::{Config, TlsConfig};

/// HTTP/2 in a TLS handshake (RFC 9113 §3.2).
pub(super) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// The largest file of certificates or keys, in octets.
const FILE_MAX: u64 = 1 << 20;

/// The TLS configuration; files are looked for beside the web configuration, in `folder`. `None` where the web
/// configuration has no TLS.
pub(super) fn server_config(config: &Config, folder: &Path) -> Result<Option<Arc<ServerConfig>>, String> {
    let Some(tls) = config.tls() else { return Ok(None) };
    let certificate = pem(folder, "cert", tls.cert.as_deref(), tls.cert_file.as_deref())?;
    let key = pem(folder, "key", tls.key.as_deref(), tls.key_file.as_deref())?;
    let authorities = pem(folder, "client_ca", tls.client_ca.as_deref(), tls.client_ca_file.as_deref())?;
    if certificate.is_none() && key.is_none() && authorities.is_none() && text(&tls.client_auth_type).is_none() {
        return Ok(None);
    }
    let certificate = certificate.ok_or("missing one of cert or cert_file")?;
    let key = key.ok_or("missing one of key or key_file")?;
    let chain = CertificateDer::pem_slice_iter(&certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("failed to load X509KeyPair: certificate: {error}"))?;
    let key =
        PrivateKeyDer::from_pem_slice(&key).map_err(|error| format!("failed to load X509KeyPair: key: {error}"))?;

    let provider = Arc::new(provider(tls)?);
    let verifier = client_auth::verifier(tls, authorities.as_deref(), &provider)?;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions(tls)?)
        .map_err(|error| error.to_string())?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut server =
        builder.with_single_cert(chain, key).map_err(|error| format!("failed to load X509KeyPair: {error}"))?;
    server.ignore_client_order = tls.prefer_server_cipher_suites.unwrap_or(true);
    server.alpn_protocols = vec![HTTP1.to_vec()];
    if config.http2() {
        server.alpn_protocols.insert(0, HTTP2.to_vec());
    }
    Ok(Some(Arc::new(server)))
}

/// A setting that is there and not empty.
pub(super) fn text(setting: &Option<String>) -> Option<&str> {
    setting.as_deref().filter(|text| !text.is_empty())
}

/// PEM that stands in the configuration itself, or in the file that it names.
fn pem(folder: &Path, name: &str, inline: Option<&str>, file: Option<&str>) -> Result<Option<Vec<u8>>, String> {
    match (inline.filter(|text| !text.is_empty()), file.filter(|text| !text.is_empty())) {
        (Some(_), Some(_)) => Err(format!("only one of {name} and {name}_file can be configured")),
        (Some(inline), None) => Ok(Some(inline.as_bytes().to_vec())),
        (None, Some(file)) => {
            let path = folder.join(file);
            if name == "key"
                && let Some(warning) = exposed_secret(&path)
            {
                tracing::warn!(target: "metrics", "{warning}");
            }
            let octets = read_regular_file(&path, FILE_MAX);
            octets.map(Some).map_err(|error| format!("open {}: {}", path.display(), os_error_text(&error)))
        }
        (None, None) => Ok(None),
    }
}

/// The versions between `min_version` and `max_version`; TLS 1.0 and 1.1 are not spoken (RFC 8996).
fn versions(tls: &TlsConfig) -> Result<&'static [&'static SupportedProtocolVersion], String> {
    const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS12, &version::TLS13];
    let rank = |setting: &Option<String>, default| match text(setting) {
        None => Ok(default),
        Some("TLS10" | "TLS11") => Ok(1),
        Some("TLS12") => Ok(2),
        Some("TLS13") => Ok(3),
        Some(other) => Err(format!("unknown TLS version: {}", excerpt(other))),
    };
    match (rank(&tls.min_version, 2)?, rank(&tls.max_version, 3)?) {
        (_, 1) => Err("max_version: TLS 1.0 and 1.1 are not spoken; write TLS12 or TLS13".to_owned()),
        (3, 2) => Err("min_version is above max_version".to_owned()),
        (_, 2) => Ok(&BOTH[..1]),
        (3, _) => Ok(&BOTH[1..]),
        _ => Ok(BOTH),
    }
}

/// The cryptography with the cipher suites and groups that were asked for, in the order given.
fn provider(tls: &TlsConfig) -> Result<CryptoProvider, String> {
    let mut provider = aws_lc_rs::default_provider();
    if let Some(names) = tls.cipher_suites.as_deref().filter(|names| !names.is_empty()) {
        let all = std::mem::take(&mut provider.cipher_suites);
        // As in Go, those of TLS 1.3 are not to be chosen.
        provider.cipher_suites.extend(all.iter().filter(|suite| suite.tls13().is_some()));
        let before = provider.cipher_suites.len();
        for name in names {
            match all.iter().find(|suite| suite_names(suite.suite()).contains(name)) {
                Some(suite) if suite.tls13().is_some() => {}
                Some(suite) => provider.cipher_suites.push(*suite),
                None if name.starts_with("TLS_") => {
                    tracing::warn!(target: "metrics", "cipher suite {} is not available and is left out", excerpt(name));
                }
                None => return Err(format!("unknown cipher: {}", excerpt(name))),
            }
        }
        let chosen = provider.cipher_suites.len() > before || names.iter().any(|name| is_tls13(&all, name));
        if !chosen {
            return Err("none of the cipher_suites is available".to_owned());
        }
    }
    if let Some(names) = tls.curve_preferences.as_deref().filter(|names| !names.is_empty()) {
        let all = std::mem::take(&mut provider.kx_groups);
        for name in names {
            let group = group(name).ok_or_else(|| format!("unknown curve: {}", excerpt(name)))?;
            let found = all.iter().find(|one| one.name() == group);
            provider.kx_groups.push(*found.ok_or_else(|| format!("curve {name} is not available"))?);
        }
    }
    Ok(provider)
}

fn is_tls13(all: &[rustls::SupportedCipherSuite], name: &String) -> bool {
    all.iter().any(|suite| suite.tls13().is_some() && suite_names(suite.suite()).contains(name))
}

/// The names of a suite: rustls' own, and Go's, which has no `13` in those of TLS 1.3 and an older form for ChaCha.
fn suite_names(suite: rustls::CipherSuite) -> [String; 3] {
    let name = format!("{suite:?}");
    let go = name.replace("TLS13_", "TLS_");
    let old = go.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305");
    [name, go, old]
}

fn group(name: &str) -> Option<NamedGroup> {
    Some(match name {
        "CurveP256" => NamedGroup::secp256r1,
        "CurveP384" => NamedGroup::secp384r1,
        "CurveP521" => NamedGroup::secp521r1,
        "X25519" => NamedGroup::X25519,
        "X25519MLKEM768" => NamedGroup::X25519MLKEM768,
        _ => return None,
    })
}
