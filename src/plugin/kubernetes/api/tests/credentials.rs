//! Tokens and certificates that change.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
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

/// An authority and a server certificate for 127.0.0.1 that it has signed.
fn authority(name: &str) -> (String, Arc<ServerConfig>) {
    let mut params = CertificateParams::new(Vec::new()).expect("valid");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate");
    let key = KeyPair::generate().expect("a key");
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("valid");
    let certificate = server.signed_by(&key, &issuer).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
        .expect("a server");
    (issuer.pem(), Arc::new(config))
}

fn account(folder: &Path, ca: &str) {
    fs::write(folder.join("token"), "token").expect("written");
    fs::write(folder.join("ca.crt"), ca).expect("written");
}

#[tokio::test]
async fn a_new_authority_is_trusted_once_its_file_is_there_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let ((first, first_server), (second, second_server)) = (authority("first"), authority("second"));
    account(folder.path(), &first);
    let api = shop(Settings::default()).await;
    api.use_tls(first_server);
    assert!(api.url().starts_with("https://127.0.0.1:"));
    let access = Access::InCluster { url: api.url(), account: folder.path().to_owned() };
    let fixture = Fixture::start_with(access, timing(), |_| {}).await;
    fixture.synced().await;
    api.use_tls(second_server);
    api.clear_calls();
    api.cut().await;
    let is_distrusted = || warnings(&fixture.log).iter().any(|line| line.contains("certificate"));
    eventually("a complaint", is_distrusted, String::new).await;
    assert_eq!(api.calls().len(), 0, "nothing is sent to a server that is not trusted");
    fs::write(folder.path().join("ca.crt"), second).expect("written");
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

/// A server whose clients need a certificate is asked with the one of the option `tls`.
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
