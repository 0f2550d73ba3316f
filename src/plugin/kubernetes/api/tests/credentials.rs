//! Tokens and certificates that change.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::PrivateKeyDer;

use super::*;

#[tokio::test]
async fn a_new_token_is_used_and_none_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    fs::write(&token, "secret-one\n").expect("written");
    let api = shop(Settings { tokens: Some(["secret-one".to_owned()].into()), ..Settings::default() }).await;
    let access = Access::InCluster { url: api.url(), account: folder.path().to_owned() };
    let fixture = Fixture::start_with(access, timing(), |_| {}).await;
    fixture.synced().await;
    api.set(|settings| settings.tokens = Some(["secret-two".to_owned()].into()));
    api.clear_calls();
    api.cut().await;
    api.wait_calls("refusals", |calls| count(calls, Verb::Watch, "services") >= 2).await;
    assert_eq!(fixture.ask("web.shop.svc"), "10.0.0.1");
    fs::remove_file(&token).expect("removed");
    let refused = count(&api.calls(), Verb::Watch, "services");
    api.wait_calls("more refusals", |calls| count(calls, Verb::Watch, "services") > refused + 1).await;
    fs::write(&token, "secret-two").expect("written");
    api.apply(service("new", "10.0.0.9"));
    fixture.answers("new.shop.svc", "10.0.0.9").await;
    let log = fixture.log.take().join("\n");
    assert!(log.contains("the API server answers 401 Unauthorized") && log.contains("no such file or directory"));
    assert!(!log.contains("secret-"), "{log}");
    fixture.stop().await;
}

/// An authority that signs certificates for 127.0.0.1.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("valid");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate"))
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn sign(&self) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("valid");
        (params.signed_by(&key, &self.0).expect("a certificate"), key)
    }

    /// A server with a certificate of this authority; with `clients` it asks for certificates of that one.
    fn server(&self, clients: Option<&Self>) -> Arc<ServerConfig> {
        let (certificate, key) = self.sign();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.expect("versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.0.der().clone()).expect("a root");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.expect("a verifier"))
            }
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        Arc::new(builder.with_single_cert(vec![certificate.der().clone()], key).expect("a server"))
    }
}

fn account(folder: &Path, ca: &str) {
    fs::write(folder.join("token"), "token").expect("written");
    fs::write(folder.join("ca.crt"), ca).expect("written");
}

#[tokio::test]
async fn a_new_authority_is_trusted_once_its_file_is_there_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    account(folder.path(), &first.pem());
    let api = shop(Settings::default()).await;
    api.use_tls(first.server(None));
    assert!(api.url().starts_with("https://127.0.0.1:"));
    let access = Access::InCluster { url: api.url(), account: folder.path().to_owned() };
    let fixture = Fixture::start_with(access, timing(), |_| {}).await;
    fixture.synced().await;
    api.use_tls(second.server(None));
    api.clear_calls();
    api.cut().await;
    let is_distrusted = || warnings(&fixture.log).iter().any(|line| line.contains("certificate"));
    eventually("a complaint", is_distrusted, String::new).await;
    assert_eq!(api.calls().len(), 0, "nothing is sent to a server that is not trusted");
    fs::write(folder.path().join("ca.crt"), second.pem()).expect("written");
    api.apply(service("new", "10.0.0.9"));
    fixture.answers("new.shop.svc", "10.0.0.9").await;
    fixture.stop().await;
}

#[tokio::test]
async fn a_kubeconfig_says_where_and_as_whom() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config");
    let api = shop(Settings { tokens: Some(["secret".to_owned()].into()), ..Settings::default() }).await;
    fs::write(folder.path().join("token"), "secret\n").expect("written");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: other\nclusters:\n- name: c\n  cluster: {{server: {:?}}}\n\
         users:\n- name: u\n  user: {{tokenFile: token}}\ncontexts:\n- name: mine\n  context: {{cluster: c, user: u}}\n",
        api.url()
    );
    fs::write(&file, text).expect("written");
    let access = Access::Kubeconfig { file, context: Some("mine".to_owned()) };
    let fixture = Fixture::start_with(access, timing(), |_| {}).await;
    fixture.synced().await;
    assert_eq!(fixture.ask("web.shop.svc"), "10.0.0.1");
    fixture.stop().await;
}

#[tokio::test]
async fn exec_plugins_print_credentials_and_their_output_is_never_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config");
    let api = shop(Settings { tokens: Some(["hunter2".to_owned()].into()), ..Settings::default() }).await;
    let config = |script: &str| {
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": {"server": api.url()}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1",
                "interactiveMode": "Never", "command": "sh", "args": ["-c", script]}}}]});
        fs::write(&file, kubeconfig.to_string()).expect("written");
        Access::Kubeconfig { file: file.clone(), context: None }
    };
    let options = Options::new(Zones::default(), Name::default());
    let print = r#"echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"hunter2"}}'"#;
    for (script, expected) in [
        (format!("{print}; echo hunter2 >&2; exit 3"), "the exec plugin of the kubeconfig failed with exit status: 3"),
        ("echo hunter2".to_owned(), "the exec plugin of the kubeconfig does not print credentials"),
    ] {
        let source = ApiSource::new(config(&script), &options.api, options.selection(), timing()).await;
        let error = source.err().expect("an error").to_string();
        assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
    }
    let fixture = Fixture::start_with(config(print), timing(), |_| {}).await;
    fixture.synced().await;
    fixture.stop().await;
}

#[tokio::test]
async fn the_client_shows_its_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let api = shop(Settings::default()).await;
    api.use_tls(servers.server(Some(&clients)));
    let (certificate, key) = clients.sign();
    let files = [("c.pem", certificate.pem()), ("k.pem", key.serialize_pem()), ("ca.pem", servers.pem())];
    let tls = files.map(|(name, text)| {
        let file = folder.path().join(name);
        fs::write(&file, text).expect("written");
        file
    });
    let access = Access::Endpoint { url: api.url(), tls: Some(tls.clone()) };
    let fixture = Fixture::start_with(access, timing(), |_| {}).await;
    fixture.synced().await;
    // Another certificate, as when the first is about to expire.
    let (certificate, key) = clients.sign();
    fs::write(&tls[0], certificate.pem()).expect("written");
    fs::write(&tls[1], key.serialize_pem()).expect("written");
    api.cut().await;
    api.apply(service("new", "10.0.0.9"));
    fixture.answers("new.shop.svc", "10.0.0.9").await;
    fixture.stop().await;
}

#[tokio::test]
async fn unusable_certificates_are_an_error_of_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rubbish.pem");
    fs::write(&file, "rubbish").expect("written");
    let access =
        Access::Endpoint { url: "https://127.0.0.1:1".to_owned(), tls: Some([file.clone(), file.clone(), file]) };
    let options = Options::new(Zones::default(), Name::default());
    let source = ApiSource::new(access, &options.api, options.selection(), timing()).await;
    let error = source.err().expect("an error").to_string();
    assert!(error.starts_with("plugin/kubernetes: failed to create kubernetes notification controller: \""), "{error}");
}
