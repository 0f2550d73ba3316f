//! Which API server, with which credentials.

use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use foldhash::quality::RandomState;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::super::options::ApiOptions;

/// Where Pods find the credentials of their service account.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The largest file with credentials that is read, in bytes.
const FILE_MAX: u64 = 4 << 20;

/// Why there is no client of the API.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The process does not run in a Pod, and nothing else was configured.
    #[error(
        "plugin/kubernetes: unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and \
         KUBERNETES_SERVICE_PORT must be defined; outside of a cluster use the option endpoint, kubeconfig or manifests"
    )]
    NotInCluster,
    /// A file with credentials cannot be read.
    #[error("plugin/kubernetes: open {0}: {1}")]
    File(String, String),
    /// The kubeconfig cannot be used. Its content is never part of the text.
    #[error("plugin/kubernetes: kubeconfig {0}: {1}")]
    Kubeconfig(String, String),
    /// The credentials were read and are no good.
    #[error("plugin/kubernetes: failed to create kubernetes notification controller: \"{0}\"")]
    Client(String),
}

/// Where credentials come from. They are read again whenever they change.
#[derive(Clone, Debug)]
pub enum Access {
    /// The service account of the Pod.
    InCluster {
        /// The server's URL.
        url: String,
        /// The directory with `token` and `ca.crt`.
        account: PathBuf,
    },
    /// The options `endpoint` and `tls`.
    Endpoint {
        /// The server's URL.
        url: String,
        /// Client certificate, client key and CA certificates.
        tls: Option<[PathBuf; 3]>,
    },
    /// The option `kubeconfig`.
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// The context, unless it is the file's current one.
        context: Option<String>,
    },
}

/// Credentials as they were read.
pub(super) struct Loaded {
    pub(super) config: Config,
    /// Tells whether two readings are of the same credentials.
    pub(super) fingerprint: u64,
}

impl Access {
    /// The choice that the options make: `kubeconfig`, else `endpoint`, else the service account.
    ///
    /// # Errors
    /// Where nothing is configured outside of a cluster.
    pub fn choose(
        options: &ApiOptions,
        environment: impl Fn(&str) -> Option<String>,
        account: &Path,
    ) -> Result<Self, AccessError> {
        if let Some((file, context)) = &options.kubeconfig {
            return Ok(Self::Kubeconfig { file: file.clone(), context: context.clone() });
        }
        if let Some(url) = &options.endpoint {
            return Ok(Self::Endpoint { url: with_scheme(url, options.tls.is_some()), tls: options.tls.clone() });
        }
        let variable = |name| environment(name).filter(|value| !value.is_empty()).ok_or(AccessError::NotInCluster);
        let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        Ok(Self::InCluster { url: format!("https://{host}:{port}"), account: account.to_owned() })
    }

    /// The file with secrets that is the operator's; those of a service account are the kubelet's.
    pub(super) fn secret(&self) -> Option<&Path> {
        match self {
            Self::InCluster { .. } | Self::Endpoint { tls: None, .. } => None,
            Self::Endpoint { tls: Some([_, key, _]), .. } => Some(key),
            Self::Kubeconfig { file, .. } => Some(file),
        }
    }

    /// Reads the credentials.
    pub(super) async fn load(&self, state: &RandomState) -> Result<Loaded, AccessError> {
        let mut hasher = state.build_hasher();
        let config = match self {
            Self::InCluster { url, account } => {
                let mut config = config_of(url)?;
                let (token, ca) = (account.join("token"), account.join("ca.crt"));
                config.auth_info.token = Some(read_token(&token, &mut hasher)?.into());
                if read(&ca, &mut hasher).is_ok() {
                    config.root_cert_file = Some(ca);
                }
                config
            }
            Self::Endpoint { url, tls } => {
                let mut config = config_of(url)?;
                if let Some([certificate, key, ca]) = tls {
                    for file in [certificate, key, ca] {
                        read(file, &mut hasher)?;
                    }
                    config.auth_info.client_certificate = Some(certificate.display().to_string());
                    config.auth_info.client_key = Some(key.display().to_string());
                    config.root_cert_file = Some(ca.clone());
                }
                config
            }
            Self::Kubeconfig { file, context } => from_kubeconfig(file, context.clone(), &mut hasher).await?,
        };
        Ok(Loaded { config: tuned(config), fingerprint: hasher.finish() })
    }
}

async fn from_kubeconfig(
    file: &Path,
    context: Option<String>,
    hasher: &mut impl Hasher,
) -> Result<Config, AccessError> {
    let named = |error: &KubeconfigError| AccessError::Kubeconfig(file.display().to_string(), describe(error));
    read(file, hasher)?;
    let kubeconfig = Kubeconfig::read_from(file).map_err(|error| named(&error))?;
    let options = KubeConfigOptions { context, cluster: None, user: None };
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| named(&error))?;
    let files = [&config.auth_info.client_certificate, &config.auth_info.client_key];
    for file in files.into_iter().flatten() {
        read(Path::new(file), hasher)?;
    }
    config.root_cert.iter().flatten().for_each(|certificate| hasher.write(certificate));
    // Read here, so that a line feed behind the token does no harm and a new token counts at once.
    let auth = &mut config.auth_info;
    if let (Some(file), None) = (&auth.token_file, &auth.token) {
        auth.token = Some(read_token(Path::new(file), hasher)?.into());
        auth.token_file = None;
    }
    Ok(config)
}

/// The text of an error that may be logged: the words of YAML errors quote the file, which holds secrets.
fn describe(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(_) => "it is no kubeconfig: the YAML has other fields or other types".to_owned(),
        KubeconfigError::ParseProxyUrl(_) => "its proxy-url is no URL".to_owned(),
        other => other.to_string(),
    }
}

/// What is the same for all servers.
fn tuned(mut config: Config) -> Config {
    // Retries behind our back are neither logged nor counted.
    config.default_retry = false;
    config.connect_timeout = Some(std::time::Duration::from_secs(10));
    config
}

fn config_of(url: &str) -> Result<Config, AccessError> {
    let refuse = |why: String| AccessError::Client(format!("host must be a URL or a host:port pair: {why}"));
    let uri: http::Uri = url.parse().map_err(|error| refuse(format!("{error}")))?;
    if uri.scheme().is_none() || uri.authority().is_none() {
        Err(refuse(uri.path().to_owned()))
    } else {
        Ok(Config::new(uri))
    }
}

/// Host and port of a URL, without a user's name or password.
pub(super) fn host_of(url: &http::Uri) -> String {
    let authority = url.authority().map_or("", http::uri::Authority::as_str);
    authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned()
}

/// A URL from what may be just a host and a port.
fn with_scheme(url: &str, secure: bool) -> String {
    match url {
        url if url.contains("://") => url.to_owned(),
        url if secure => format!("https://{url}"),
        url => format!("http://{url}"),
    }
}

fn read_token(file: &Path, hasher: &mut impl Hasher) -> Result<String, AccessError> {
    let octets = read(file, hasher)?;
    let text = String::from_utf8(octets).map_err(|_| unusable(file, "it is no text"))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(unusable(file, "it is empty"));
    }
    Ok(token.to_owned())
}

fn unusable(file: &Path, why: &str) -> AccessError {
    AccessError::File(file.display().to_string(), why.to_owned())
}

/// Reads a file and counts its content in.
fn read(file: &Path, hasher: &mut impl Hasher) -> Result<Vec<u8>, AccessError> {
    let octets = fs::metadata(file)
        .and_then(
            |metadata| if metadata.len() > FILE_MAX { Err(io::ErrorKind::FileTooLarge.into()) } else { fs::read(file) },
        )
        .map_err(|error| AccessError::File(file.display().to_string(), words(&error)))?;
    hasher.write_usize(octets.len());
    hasher.write(&octets);
    Ok(octets)
}

/// The error as the operating system words it, in the lower case of CoreDNS.
fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// Makes the client of some credentials; plugins that print credentials are run now.
pub(super) fn connect(config: Config) -> Result<kube::Client, AccessError> {
    kube::Client::try_from(config).map_err(|error| AccessError::Client(super::failure::chain(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(options: &ApiOptions, environment: &[(&str, &str)]) -> Result<Access, AccessError> {
        let look_up =
            |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Access::choose(options, look_up, Path::new("/account"))
    }

    #[test]
    fn kubeconfig_beats_endpoint_beats_the_service_account() {
        let environment = [("KUBERNETES_SERVICE_HOST", "fd00::1"), ("KUBERNETES_SERVICE_PORT", "443")];
        let mut options = ApiOptions::default();
        assert!(matches!(choose(&options, &environment[..1]), Err(AccessError::NotInCluster)));
        assert!(
            matches!(choose(&options, &environment), Ok(Access::InCluster { url, .. }) if url == "https://[fd00::1]:443")
        );
        options.endpoint = Some("192.0.2.1:6443".to_owned());
        assert!(
            matches!(choose(&options, &environment), Ok(Access::Endpoint { url, .. }) if url == "http://192.0.2.1:6443")
        );
        options.tls = Some(["c", "k", "a"].map(PathBuf::from));
        assert!(
            matches!(choose(&options, &environment), Ok(Access::Endpoint { url, .. }) if url == "https://192.0.2.1:6443")
        );
        options.kubeconfig = Some(("k".into(), None));
        assert!(matches!(choose(&options, &environment), Ok(Access::Kubeconfig { .. })));
    }

    #[tokio::test]
    async fn errors_name_the_file_and_never_its_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config");
        let access = Access::Kubeconfig { file: file.clone(), context: None };
        let load = async || access.load(&RandomState::default()).await.err().expect("an error").to_string();
        let error = load().await;
        assert!(error.starts_with("plugin/kubernetes: open ") && error.ends_with("config: no such file or directory"));
        for (text, expected) in [
            ("users: {token: hunter2}", "it is no kubeconfig"),
            ("apiVersion: v1\nkind: Config\nusers:\n- name: u\n  user: {token: hunter2}\n", "current context"),
            ("current-context: x\nusers:\n- name: u\n  user: {token: hunter2}\n", "failed to load current context: x"),
        ] {
            fs::write(&file, text).expect("written");
            let error = load().await;
            assert!(error.contains(expected) && !error.contains("hunter2"), "{text}: {error}");
        }
        let missing = Access::Endpoint {
            url: "https://h:1".to_owned(),
            tls: Some([file.clone(), file.clone(), folder.path().join("no")]),
        };
        let error = missing.load(&RandomState::default()).await.err().expect("an error").to_string();
        assert!(error.ends_with("no: no such file or directory"), "{error}");
    }

    #[test]
    fn hosts_have_no_passwords() {
        let host = |url: &str| host_of(&url.parse().expect("a URL"));
        assert_eq!(host("https://192.0.2.1:6443/k8s"), "192.0.2.1:6443");
        assert_eq!(host("https://me:hunter2@api.example.org"), "api.example.org");
        assert!(config_of("nonsense").is_err() && config_of("http://a b").is_err());
    }

    #[tokio::test]
    async fn tokens_are_trimmed_and_changes_are_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let account = folder.path().to_owned();
        let access = Access::InCluster { url: "https://192.0.2.1:443".to_owned(), account: account.clone() };
        let state = RandomState::default();
        assert!(access.load(&state).await.is_err());
        fs::write(account.join("token"), "one\n").expect("written");
        let first = access.load(&state).await.expect("credentials");
        assert!(first.config.root_cert_file.is_none());
        assert_eq!(first.fingerprint, access.load(&state).await.expect("credentials").fingerprint);
        fs::write(account.join("token"), "two\n").expect("written");
        assert_ne!(first.fingerprint, access.load(&state).await.expect("credentials").fingerprint);
    }
}
