//! Web configurations: what is refused, and what clients get.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use coredns_plugin::{HttpHandler as _, HttpRequest};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;

use super::super::endpoint::Endpoint;
use super::*;

/// Certificates for tests, and a folder with their files.
struct Files {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Files {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let files = Self { folder: tempfile::tempdir().expect("a folder"), authority };
        files.write("ca.pem", &files.authority.pem());
        let (certificate, key) = files.issue("localhost");
        files.write("cert.pem", &certificate.pem());
        let key = files.write("key.pem", &key.serialize_pem());
        std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).expect("our file");
        files
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        (params.signed_by(&key, &self.authority).expect("signed"), key)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    fn web(&self, text: &str) -> Arc<Web> {
        Arc::new(Web::new(self.write("web.yml", text)))
    }

    /// A client that trusts the authority, with a certificate of `issuer` for `scraper.example` where there is one.
    fn client(&self, issuer: Option<&Self>, protocols: &[&[u8]]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
        let mut config = match issuer {
            None => builder.with_no_client_auth(),
            Some(issuer) => {
                let (certificate, key) = issuer.issue("scraper.example");
                let chain = vec![CertificateDer::from(certificate)];
                let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
                builder.with_client_auth_cert(chain, key).expect("a certificate")
            }
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

const TLS: &str = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";

#[tokio::test]
async fn configurations_that_are_refused() {
    let files = Files::new();
    let missing = Web::new(files.folder.path().join("none.yml"));
    let error = missing.prepare().await.expect_err("there is no file").to_string();
    assert_eq!(error, format!("TLS config file does not exist: {}", files.folder.path().join("none.yml").display()));
    let (foreign, _) = files.issue("other");
    files.write("foreign.pem", &foreign.pem());
    for (text, expected) in [
        ("tls_server_config: [", "line "),
        ("tls_server_configs:\n  cert_file: cert.pem\n", "unknown field"),
        ("tls_server_config:\n  cert_file: \"\"\n  key_file: key.pem\n", "missing one of cert or cert_file"),
        ("tls_server_config:\n  cert_file: cert.pem\n  key_file: \"\"\n", "missing one of key or key_file"),
        ("tls_server_config:\n  cert_file: none.pem\n  key_file: key.pem\n", "none.pem: no such file or directory"),
        ("tls_server_config:\n  cert_file: cert.pem\n  key_file: cert.pem\n", "failed to load X509KeyPair"),
        ("tls_server_config:\n  cert_file: foreign.pem\n  key_file: key.pem\n", "failed to load X509KeyPair"),
        (&format!("{TLS}  key: x\n"), "only one of key and key_file can be configured"),
        (&format!("{TLS}  min_version: TLS14\n"), "unknown TLS version: TLS14"),
        (&format!("{TLS}  max_version: TLS11\n"), "TLS 1.0 and 1.1 are not spoken"),
        (&format!("{TLS}  min_version: TLS13\n  max_version: TLS12\n"), "min_version is above max_version"),
        (&format!("{TLS}  cipher_suites: [AES]\n"), "unknown cipher: AES"),
        (&format!("{TLS}  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]\n"), "none of the cipher_suites is available"),
        (&format!("{TLS}  curve_preferences: [CurveP999]\n"), "unknown curve: CurveP999"),
        (&format!("{TLS}  client_auth_type: Sometimes\n"), "Invalid ClientAuth: Sometimes"),
        (&format!("{TLS}  client_ca_file: ca.pem\n"), "Client CA's have been configured without a Client Auth Policy"),
        (&format!("{TLS}  client_auth_type: RequireAndVerifyClientCert\n"), "needs one of client_ca or client_ca_file"),
        ("http_server_config:\n  headers:\n    X-Other: a\n", "HTTP header \"X-Other\" can not be configured"),
        ("http_server_config:\n  headers:\n    X-Frame-Options: b\n", "Expected one of: [\"deny\" \"sameorigin\"]"),
        ("basic_auth_users:\n  a: secret-word\n", "the password of \"a\" is no bcrypt hash"),
        ("rate_limit:\n  interval: 1x\n", "time: unknown unit"),
        ("rate_limit:\n  interval: 1s\n", "a burst of 0 refuses every request"),
    ] {
        let error = files.web(text).prepare().await.expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(!error.contains("secret-word"), "{error}");
    }
}

#[tokio::test]
async fn configurations_that_are_good() {
    let files = Files::new();
    for (text, secured) in [
        ("", false),
        ("# nothing\n", false),
        ("tls_server_config:\nhttp_server_config:\n  http2: false\n", false),
        (TLS, true),
        (&format!("{TLS}  min_version: TLS10\n  max_version: TLS12\n  prefer_server_cipher_suites: false\n"), true),
        (
            &format!(
                "{TLS}  min_version: TLS13\n  cipher_suites: [TLS_AES_128_GCM_SHA256]\n  \
                 curve_preferences: [X25519, CurveP256]\n"
            ),
            true,
        ),
        (&format!("{TLS}  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_RSA_WITH_RC4_128_SHA]\n"), true),
    ] {
        let web = files.web(text);
        web.prepare().await.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(web.secured.load(Ordering::Relaxed), secured, "{text}");
    }
}

/// Takes one connection through the handshake and says what came of it: whether HTTP/2 was agreed upon.
async fn accept_one(web: Arc<Web>) -> (SocketAddr, tokio::task::JoinHandle<Option<bool>>) {
    web.prepare().await.expect("a good configuration");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let task = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let mut connection = web.accept(stream).await.ok()?;
        // The client reads this when the server has accepted its certificate as well.
        connection.stream.write_all(b"x").await.ok()?;
        connection.stream.flush().await.ok()?;
        Some(connection.http2)
    });
    (address, task)
}

async fn shake_hands(address: SocketAddr, client: &TlsConnector) -> bool {
    let stream = TcpStream::connect(address).await.expect("listens");
    let name = ServerName::try_from("localhost").expect("a name");
    match client.connect(name, stream).await {
        Ok(mut stream) => stream.read_u8().await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test]
async fn http2_is_offered_unless_it_is_switched_off() {
    let files = Files::new();
    for (text, asked, http2) in [
        (TLS.to_owned(), &[b"h2".as_slice(), b"http/1.1"][..], true),
        (TLS.to_owned(), &[b"http/1.1".as_slice()][..], false),
        (TLS.to_owned(), &[][..], false),
        (format!("{TLS}http_server_config:\n  http2: false\n"), &[b"h2".as_slice(), b"http/1.1"][..], false),
    ] {
        let (address, task) = accept_one(files.web(&text)).await;
        assert!(shake_hands(address, &files.client(None, asked)).await, "{text}");
        assert_eq!(task.await.expect("no panic"), Some(http2), "{text} {asked:?}");
    }
}

#[tokio::test]
async fn certificates_of_clients() {
    let (files, strangers) = (Files::new(), Files::new());
    let ca = "  client_ca_file: ca.pem\n";
    for (kind, none, known, stranger) in [
        ("  client_auth_type: NoClientCert\n".to_owned(), true, true, true),
        ("  client_auth_type: RequestClientCert\n".to_owned(), true, true, true),
        ("  client_auth_type: RequireAnyClientCert\n".to_owned(), false, true, true),
        (format!("  client_auth_type: VerifyClientCertIfGiven\n{ca}"), true, true, false),
        (format!("  client_auth_type: RequireAndVerifyClientCert\n{ca}"), false, true, false),
        (
            format!("  client_auth_type: RequireAndVerifyClientCert\n{ca}  client_allowed_sans: [scraper.example]\n"),
            false,
            true,
            false,
        ),
        (
            format!("  client_auth_type: RequireAndVerifyClientCert\n{ca}  client_allowed_sans: [other.example]\n"),
            false,
            false,
            false,
        ),
    ] {
        let web = files.web(&format!("{TLS}{kind}"));
        let clients = [
            (files.client(None, &[]), none),
            (files.client(Some(&files), &[]), known),
            (files.client(Some(&strangers), &[]), stranger),
        ];
        for (client, expected) in clients {
            let (address, task) = accept_one(Arc::clone(&web)).await;
            assert_eq!(shake_hands(address, &client).await, expected, "{kind}");
            assert_eq!(task.await.expect("no panic").is_some(), expected, "{kind}");
        }
    }
}

#[tokio::test]
async fn certificates_are_read_anew_for_each_handshake() {
    let files = Files::new();
    let web = files.web(TLS);
    let (address, task) = accept_one(Arc::clone(&web)).await;
    assert!(shake_hands(address, &files.client(None, &[])).await);
    assert_eq!(task.await.expect("no panic"), Some(false));
    let renewed = Files::new();
    for name in ["cert.pem", "key.pem"] {
        std::fs::copy(renewed.folder.path().join(name), files.folder.path().join(name)).expect("copied");
    }
    for (client, expected) in [(renewed.client(None, &[]), true), (files.client(None, &[]), false)] {
        let (address, task) = accept_one(Arc::clone(&web)).await;
        assert_eq!(shake_hands(address, &client).await, expected);
        let _outcome = task.await.expect("no panic");
    }
}

#[tokio::test]
async fn plain_http_on_the_port_gets_400_and_never_metrics() {
    let files = Files::new();
    let web = files.web(TLS);
    let (address, task) = accept_one(Arc::clone(&web)).await;
    let mut stream = TcpStream::connect(address).await.expect("listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response).await;
    assert!(response.starts_with("HTTP/1.0 400 Bad Request\r\n"), "{response}");
    assert_eq!(task.await.expect("no panic"), None);

    // TLS that is taken out of the file later does not open the port to everybody.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let client = files.client(None, &[]);
    let address = listener.local_addr().expect("bound");
    let shaking = tokio::spawn(async move { shake_hands(address, &client).await });
    let (stream, _) = listener.accept().await.expect("a client");
    files.write("web.yml", "");
    assert!(web.accept(stream).await.is_err());
    assert!(!shaking.await.expect("no panic"));
}

async fn scrape(endpoint: &Endpoint, authorization: &str) -> (u16, Vec<(&'static str, String)>) {
    let headers = vec![("authorization".to_owned(), authorization.as_bytes().to_vec())];
    let peer = "127.0.0.1:1".parse().expect("an address");
    let response = endpoint.respond(&HttpRequest { path: "/metrics".into(), headers, peer }).await;
    (response.status, response.headers)
}

#[tokio::test]
async fn users_headers_and_limits_hold_without_tls_as_well() {
    let files = Files::new();
    let hash = bcrypt::hash("secret", 4).expect("a cost that bcrypt has");
    let head = "http_server_config:\n  headers:\n    X-Frame-Options: deny\n";
    let users = format!("basic_auth_users:\n  scraper: {hash}\n");
    let endpoint = Endpoint::new(Some(files.web(&format!("{head}{users}"))));
    let frame = ("X-Frame-Options", "deny".to_owned());

    let (status, headers) = scrape(&endpoint, "Basic c2NyYXBlcjpzZWNyZXQ=").await;
    assert_eq!(status, 200);
    assert!(headers.contains(&frame), "{headers:?}");
    let (status, headers) = scrape(&endpoint, "").await;
    assert_eq!(status, 401);
    assert!(headers.contains(&frame) && headers.contains(&("www-authenticate", "Basic".to_owned())), "{headers:?}");

    // The file is read for each request.
    files.write("web.yml", "rate_limit:\n  interval: 1h\n  burst: 2\n");
    let statuses = [scrape(&endpoint, "").await.0, scrape(&endpoint, "").await.0, scrape(&endpoint, "").await.0];
    assert_eq!(statuses, [200, 200, 429]);
    files.write("web.yml", "basic_auth_users: 5\n");
    assert_eq!(scrape(&endpoint, "").await.0, 500);
}

#[test]
fn a_key_that_others_may_read_is_warned_about_once() {
    let files = Files::new();
    let key = files.folder.path().join("key.pem");
    let tls: config::Config =
        config::read(&files.write("web.yml", "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"))
            .expect("a configuration");
    let log = coredns_testkit::LogCapture::start();
    for mode in [0o600, 0o640, 0o644] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).expect("our file");
        assert!(tls::server_config(&tls, files.folder.path()).is_ok_and(|server| server.is_some()));
    }
    let lines = log.take();
    assert!(matches!(&lines[..], [line] if line.contains("key.pem holds a secret")), "{lines:?}");
}
