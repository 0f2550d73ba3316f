//! What the directive says.

use std::path::PathBuf;
use std::time::Duration;

use coredns_plugin::corefile::{GoDuration, excerpt, quote};
use coredns_plugin::wire::Name;
use coredns_plugin::{Fallthrough, Setup, SetupError, Zones};

use super::reverse::is_reverse_zone;
use super::selector::Selector;
use super::source::Selection;

/// The time to live of records, in seconds.
const DEFAULT_TTL: u32 = 5;
const TTL_MAX: i64 = 3_600;
/// How long the start waits for the first synchronisation.
const DEFAULT_STARTUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The option `pods`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodMode {
    /// No names of Pods.
    #[default]
    Disabled,
    /// Any address in an existing namespace has a name.
    Insecure,
    /// Addresses of existing Pods have names.
    Verified,
}

/// The options `endpoint`, `tls`, `kubeconfig` and the limits of the client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiOptions {
    /// The URL of the API server.
    pub endpoint: Option<String>,
    /// Client certificate, client key and CA certificate, for `endpoint`.
    pub tls: Option<[PathBuf; 3]>,
    /// The kubeconfig file, and the context in it.
    pub kubeconfig: Option<(PathBuf, Option<String>)>,
    /// Requests a second; 0 for the client's default.
    pub qps: f32,
    /// Requests at once above that; 0 for the client's default.
    pub burst: u32,
    /// Requests under way at once; 0 for no limit.
    pub max_inflight: u32,
}

/// All options of one directive, checked.
#[derive(Clone, Debug)]
pub struct Options {
    /// The zones.
    pub zones: Zones,
    /// The first zone that holds no names of addresses: all targets of PTR records lie in it.
    pub primary_zone: Name,
    /// How to reach the API server.
    pub api: ApiOptions,
    /// Files, directories and patterns with manifests; no API server is asked where there are any.
    pub manifests: Vec<PathBuf>,
    /// The namespaces that are served; empty for all.
    pub namespaces: Vec<Box<str>>,
    /// Which Namespace objects are watched.
    pub namespace_labels: Selector,
    /// Which other objects are watched.
    pub labels: Selector,
    /// Names of Pods.
    pub pods: PodMode,
    /// Endpoints without a host name are named after their Pods.
    pub endpoint_pod_names: bool,
    /// The time to live of records, in seconds; 0 to 3,600.
    pub ttl: u32,
    /// Whether endpoints are watched; false under `noendpoints`.
    pub endpoints: bool,
    /// For which names the next plugin is asked.
    pub fallthrough: Fallthrough,
    /// Services without a ready endpoint do not exist.
    pub ignore_empty_service: bool,
    /// The zones of cluster sets.
    pub multicluster: Zones,
    /// Names of topology zones.
    pub zonal: bool,
    /// How long the start waits for the first synchronisation; 0 for not at all.
    pub startup_timeout: Duration,
}

impl Options {
    /// Reads the directive of one server block.
    ///
    /// # Errors
    /// What is wrong, with its place.
    pub fn parse(setup: &mut Setup<'_, '_>) -> Result<Self, SetupError> {
        let mut parsed = None;
        while setup.tokens.next_token().is_some() {
            if parsed.is_some() {
                return Err(setup.tokens.once_error().in_plugin(setup.name()));
            }
            parsed = Some(Self::parse_one(setup)?);
        }
        parsed.ok_or_else(|| setup.tokens.end_error().in_plugin(setup.name()))
    }

    fn parse_one(setup: &mut Setup<'_, '_>) -> Result<Self, SetupError> {
        let args = setup.tokens.remaining_args();
        let zones = Zones::from_args_or(&args, setup.zones());
        let primary_zone = zones.as_slice().iter().find(|zone| !is_reverse_zone(zone)).cloned();
        let primary_zone = primary_zone.ok_or_else(|| {
            plain(setup, "non-reverse zone name must be used")
                .with_remedy("name a zone for the cluster's names first, such as cluster.local")
        })?;
        let mut options = Self::new(zones, primary_zone);
        while let Some(option) = setup.tokens.next_block() {
            options.read(option.text(), setup)?;
        }
        options.check(setup)?;
        Ok(options)
    }

    /// The defaults for some zones.
    #[must_use]
    pub fn new(zones: Zones, primary_zone: Name) -> Self {
        Self {
            zones,
            primary_zone,
            api: ApiOptions::default(),
            manifests: Vec::new(),
            namespaces: Vec::new(),
            namespace_labels: Selector::default(),
            labels: Selector::default(),
            pods: PodMode::default(),
            endpoint_pod_names: false,
            ttl: DEFAULT_TTL,
            endpoints: true,
            fallthrough: Fallthrough::NEVER,
            ignore_empty_service: false,
            multicluster: Zones::default(),
            zonal: false,
            startup_timeout: DEFAULT_STARTUP_TIMEOUT,
        }
    }

    fn read(&mut self, option: &str, setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
        match option {
            "endpoint" => self.read_endpoint(setup)?,
            "tls" => {
                let args = exactly::<3>(setup)?;
                self.api.tls = Some(args.map(|arg| setup.path(&arg)));
            }
            "kubeconfig" => {
                let args = some_args(setup)?;
                let [file, context @ ..] = &args[..] else { return Err(arg_error(setup)) };
                if context.len() > 1 {
                    return Err(arg_error(setup));
                }
                self.api.kubeconfig = Some((setup.path(file), context.first().cloned()));
            }
            "manifests" => {
                let paths = some_args(setup)?;
                self.manifests.extend(paths.iter().map(|path| setup.path(path)));
            }
            "apiserver_qps" => self.api.qps = read_qps(setup)?,
            "apiserver_burst" => self.api.burst = read_count(setup, "apiserver_burst")?,
            "apiserver_max_inflight" => self.api.max_inflight = read_count(setup, "apiserver_max_inflight")?,
            "namespaces" => self.namespaces.extend(some_args(setup)?.into_iter().map(String::into_boxed_str)),
            "namespace_labels" => self.namespace_labels = read_selector(setup, "namespace_label")?,
            "labels" => self.labels = read_selector(setup, "label")?,
            "pods" => self.read_pods(setup)?,
            "endpoint_pod_names" => self.endpoint_pod_names = flag(setup)?,
            "noendpoints" => self.endpoints = !flag(setup)?,
            "zonal" => self.zonal = flag(setup)?,
            "ttl" => self.ttl = read_ttl(setup)?,
            "fallthrough" => self.fallthrough = Fallthrough::from_args(&setup.tokens.remaining_args()),
            "ignore" => {
                let args = setup.tokens.remaining_args();
                match args.first() {
                    Some(&"empty_service") => self.ignore_empty_service = true,
                    Some(other) => {
                        return Err(plain(setup, format!("unable to parse ignore value: '{}'", excerpt(other))));
                    }
                    None => {
                        setup.warn("ignore without a value does nothing; write 'ignore empty_service' or remove it")
                    }
                }
            }
            "multicluster" => self.multicluster = Zones::from_args(&setup.tokens.remaining_args()),
            "startup_timeout" => self.startup_timeout = read_timeout(setup)?,
            other => return Err(setup.error(format!("unknown property '{}'", excerpt(other)))),
        }
        Ok(())
    }

    fn read_endpoint(&mut self, setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
        let args = some_args(setup)?;
        let first = args.first().cloned().unwrap_or_default();
        if args.len() > 1 {
            setup.warn(format!(
                "Multiple endpoints have been deprecated, only the first specified endpoint '{}' is used",
                excerpt(&first)
            ));
        }
        self.api.endpoint = Some(first);
        Ok(())
    }

    fn read_pods(&mut self, setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
        let [mode] = exactly(setup)?;
        self.pods = match mode.as_str() {
            "disabled" => PodMode::Disabled,
            "insecure" => PodMode::Insecure,
            "verified" => PodMode::Verified,
            other => {
                return Err(plain(
                    setup,
                    format!("wrong value for pods: {},  must be one of: disabled, verified, insecure", excerpt(other)),
                ));
            }
        };
        if self.pods == PodMode::Insecure {
            setup.warn(
                "pods insecure gives every address a name in every namespace, so a wildcard certificate for one \
                 namespace's Pods covers any host; use 'pods verified' or 'pods disabled'",
            );
        }
        Ok(())
    }

    /// Options that exclude each other.
    fn check(&self, setup: &Setup<'_, '_>) -> Result<(), SetupError> {
        if !self.namespaces.is_empty() && !self.namespace_labels.is_empty() {
            return Err(setup.error("namespaces and namespace_labels cannot both be set"));
        }
        if self.zonal && !self.endpoints {
            return Err(plain(setup, "zonal requires the endpoint cache; remove noendpoints"));
        }
        if !self.manifests.is_empty() && (self.api.endpoint.is_some() || self.api.kubeconfig.is_some()) {
            return Err(setup
                .error("manifests cannot be combined with endpoint or kubeconfig")
                .with_remedy("keep the one that the names shall come from"));
        }
        for zone in self.multicluster.as_slice() {
            if !self.zones.as_slice().contains(zone) {
                let zones: Vec<String> = self.zones.as_slice().iter().map(ToString::to_string).collect();
                return Err(setup.error(format!(
                    "is not authoritative for the multicluster zone {zone} (authoritative zones: [{}])",
                    zones.join(" ")
                )));
            }
        }
        Ok(())
    }

    /// What is watched for these options.
    #[must_use]
    pub fn selection(&self) -> Selection {
        Selection {
            labels: self.labels.clone(),
            namespace_labels: self.namespace_labels.clone(),
            pods: self.pods == PodMode::Verified,
            endpoints: self.endpoints,
            multicluster: !self.multicluster.is_empty(),
            zones: self.zonal,
            target_names: self.endpoint_pod_names,
        }
    }
}

/// An error whose text shows no place, as CoreDNS words it.
fn plain(setup: &Setup<'_, '_>, text: impl Into<String>) -> SetupError {
    setup.tokens.plain_error(text).in_plugin(setup.name())
}

fn arg_error(setup: &Setup<'_, '_>) -> SetupError {
    setup.tokens.arg_error().in_plugin(setup.name())
}

/// The arguments of an option that needs at least one.
fn some_args(setup: &mut Setup<'_, '_>) -> Result<Vec<String>, SetupError> {
    let args: Vec<String> = setup.tokens.remaining_args().into_iter().map(str::to_owned).collect();
    if args.is_empty() { Err(arg_error(setup)) } else { Ok(args) }
}

/// The arguments of an option that has so many.
fn exactly<const N: usize>(setup: &mut Setup<'_, '_>) -> Result<[String; N], SetupError> {
    some_args(setup)?.try_into().map_err(|_| arg_error(setup))
}

/// An option without arguments.
fn flag(setup: &mut Setup<'_, '_>) -> Result<bool, SetupError> {
    if setup.tokens.remaining_args().is_empty() { Ok(true) } else { Err(arg_error(setup)) }
}

fn read_selector(setup: &mut Setup<'_, '_>, what: &str) -> Result<Selector, SetupError> {
    let text = some_args(setup)?.join(" ");
    Selector::parse(&text).map_err(|error| {
        let shown = excerpt(&text);
        let inner = format!("couldn't parse the selector string \"{shown}\": {error}");
        plain(setup, format!("unable to parse {what} selector value: '{shown}': {inner}"))
    })
}

fn read_qps(setup: &mut Setup<'_, '_>) -> Result<f32, SetupError> {
    let [text] = exactly(setup)?;
    let value = text.parse::<f32>().ok().filter(|value| value.is_finite()).ok_or_else(|| {
        let shown = quote(&text);
        setup.error(format!("invalid apiserver_qps {shown}: strconv.ParseFloat: parsing {shown}: invalid syntax"))
    })?;
    if value < 0.0 { Err(setup.error("apiserver_qps must be >= 0")) } else { Ok(value) }
}

fn read_count(setup: &mut Setup<'_, '_>, option: &str) -> Result<u32, SetupError> {
    let [text] = exactly(setup)?;
    let value =
        read_integer(&text).map_err(|error| setup.error(format!("invalid {option} {}: {error}", quote(&text))))?;
    if value < 0 {
        return Err(setup.error(format!("{option} must be >= 0")));
    }
    // More than four billion requests are no limit that anything could reach.
    Ok(u32::try_from(value).unwrap_or(u32::MAX))
}

fn read_ttl(setup: &mut Setup<'_, '_>) -> Result<u32, SetupError> {
    let args = some_args(setup)?;
    let text = args.first().map_or("", String::as_str);
    let value = read_integer(text).map_err(|error| plain(setup, error))?;
    match u32::try_from(value) {
        Ok(ttl) if value <= TTL_MAX => Ok(ttl),
        _ => Err(setup.error(format!("ttl must be in range [0, 3600]: {value}"))),
    }
}

/// Reads a decimal number; the error is Go's text.
fn read_integer(text: &str) -> Result<i64, String> {
    text.parse().map_err(|error: std::num::ParseIntError| {
        let is_overflow =
            matches!(error.kind(), std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow);
        let reason = if is_overflow { "value out of range" } else { "invalid syntax" };
        format!("strconv.Atoi: parsing {}: {reason}", quote(text))
    })
}

fn read_timeout(setup: &mut Setup<'_, '_>) -> Result<Duration, SetupError> {
    let args = some_args(setup)?;
    let text = args.first().map_or("", String::as_str);
    let duration = GoDuration::parse(text).map_err(|error| {
        plain(setup, format!("failed to parse startup_timeout: {}, {error}", excerpt(text)))
            .with_remedy("write a number with its unit: 300ms, 30s, 5m")
    })?;
    // A negative time waits no longer than none.
    Ok(duration.to_std().unwrap_or(Duration::ZERO))
}
