//! The API's shapes, and how they become the trimmed types.
//!
//! A raw object holds the few fields that matter in the API's nesting, only while one object is decoded. The manifests
//! source reads raw objects itself, since it needs more of them than the plugin keeps: labels for selection, the
//! selectors of Services and what endpoints are derived from in Pods.

use serde::de::{Deserialize, Deserializer};

use super::address::Address;
use super::labels::Labels;
pub(in super::super) use super::lenient::{Flag, List, Number, Section, Text};
use super::types::{
    Endpoint, EndpointSlice, Namespace, Pod, Port, Protocol, Service, ServiceImport, ServiceKind, SourceCluster,
    Version,
};

/// The label that ties a slice to its Service.
pub(in super::super) const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The label that ties a slice to its ServiceImport.
pub(in super::super) const IMPORT_LABEL: &str = "multicluster.kubernetes.io/service-name";
const CLUSTER_LABEL: &str = "multicluster.kubernetes.io/source-cluster";
/// Longest name that can be a label of a domain name (RFC 1035 section 2.3.4).
const LABEL_MAX: usize = 63;

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct RawMeta {
    pub(in super::super) name: Text,
    pub(in super::super) namespace: Text,
    pub(in super::super) resource_version: Text,
    pub(in super::super) deletion_timestamp: Text,
    pub(in super::super) labels: Labels,
    pub(in super::super) annotations: Section<RawAnnotations>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(in super::super) struct RawAnnotations {
    #[serde(rename = "endpoints.kubernetes.io/last-change-trigger-time")]
    trigger_time: Text,
    /// Of a bookmark: the initial state of a watch has been told.
    #[serde(rename = "k8s.io/initial-events-end")]
    pub(in super::super) initial_events_end: Text,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(in super::super) struct RawPort {
    pub(in super::super) name: Text,
    pub(in super::super) protocol: Text,
    pub(in super::super) port: Number,
    #[serde(rename = "targetPort")]
    pub(in super::super) target_port: Text,
}

/// An object of any of the kinds: the union of the fields, since the kind may come after them.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(in super::super) struct RawObject {
    pub(in super::super) metadata: Section<RawMeta>,
    pub(in super::super) spec: Section<RawSpec>,
    pub(in super::super) status: Section<RawStatus>,
    /// Of a slice.
    pub(in super::super) ports: List<Section<RawPort>>,
    /// Of a slice.
    pub(in super::super) endpoints: List<Section<RawEndpoint>>,
}

/// The specification of a Service, a ServiceImport or a Pod.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct RawSpec {
    #[serde(rename = "type")]
    pub(in super::super) kind: Text,
    external_name: Text,
    #[serde(rename = "clusterIP")]
    cluster_ip: Text,
    #[serde(rename = "clusterIPs")]
    cluster_ips: List<Text>,
    #[serde(rename = "externalIPs")]
    external_ips: List<Text>,
    ips: List<Text>,
    pub(in super::super) ports: List<Section<RawPort>>,
    pub(in super::super) selector: Labels,
    pub(in super::super) publish_not_ready_addresses: Flag,
    pub(in super::super) ip_families: List<Text>,
    pub(in super::super) hostname: Text,
    pub(in super::super) subdomain: Text,
    pub(in super::super) containers: List<Section<RawContainer>>,
    pub(in super::super) init_containers: List<Section<RawContainer>>,
}

/// The status of a Service or a Pod.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct RawStatus {
    load_balancer: Section<RawLoadBalancer>,
    pub(in super::super) phase: Text,
    #[serde(rename = "podIP")]
    pod_ip: Text,
    #[serde(rename = "podIPs")]
    pod_ips: List<Section<RawPodIp>>,
    pub(in super::super) conditions: List<Section<RawCondition>>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(in super::super) struct RawLoadBalancer {
    ingress: List<Section<RawIngress>>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
struct RawIngress {
    ip: Text,
    hostname: Text,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct RawEndpoint {
    addresses: List<Text>,
    conditions: Section<RawConditions>,
    hostname: Text,
    target_ref: Section<RawReference>,
    zone: Text,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
struct RawConditions {
    ready: Flag,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
struct RawReference {
    name: Text,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct RawContainer {
    pub(in super::super) restart_policy: Text,
    pub(in super::super) ports: List<Section<RawContainerPort>>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct RawContainerPort {
    pub(in super::super) name: Text,
    pub(in super::super) protocol: Text,
    pub(in super::super) container_port: Number,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(in super::super) struct RawPodIp {
    ip: Text,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(in super::super) struct RawCondition {
    #[serde(rename = "type")]
    pub(in super::super) kind: Text,
    pub(in super::super) status: Text,
}

impl RawObject {
    /// The addresses of a Pod, `status.podIP` first, each once.
    pub(in super::super) fn addresses(&self) -> Vec<Address> {
        let status = &self.status.0;
        let mut addresses = Vec::new();
        for text in std::iter::once(&status.pod_ip).chain(status.pod_ips.0.iter().map(|ip| &ip.0.ip)) {
            if let Some(address) = Address::parse(&text.0).filter(|address| !addresses.contains(address)) {
                addresses.push(address);
            }
        }
        addresses
    }
}

impl From<RawObject> for Namespace {
    fn from(raw: RawObject) -> Self {
        let meta = raw.metadata.0;
        Self { version: Version::parse(&meta.resource_version.0), name: meta.name.0 }
    }
}

impl From<RawObject> for Service {
    fn from(raw: RawObject) -> Self {
        let (meta, spec) = (raw.metadata.0, raw.spec.0);
        let mut cluster_ips = spec.cluster_ips.0;
        if cluster_ips.is_empty() {
            cluster_ips.push(spec.cluster_ip);
        }
        let headless = cluster_ips.first().is_some_and(|first| &*first.0 == "None");
        if headless {
            cluster_ips.clear();
        }
        let ingress = raw
            .status
            .0
            .load_balancer
            .0
            .ingress
            .0
            .into_iter()
            .map(|Section(ingress)| if ingress.ip.0.is_empty() { ingress.hostname } else { ingress.ip });
        Self {
            version: Version::parse(&meta.resource_version.0),
            namespace: meta.namespace.0,
            name: meta.name.0,
            kind: match &*spec.kind.0 {
                "NodePort" => ServiceKind::NodePort,
                "LoadBalancer" => ServiceKind::LoadBalancer,
                "ExternalName" => ServiceKind::ExternalName,
                _ => ServiceKind::ClusterIp,
            },
            headless,
            external_name: spec.external_name.0,
            cluster_ips: addresses(cluster_ips),
            external_ips: addresses(spec.external_ips.0.into_iter().chain(ingress)),
            ports: ports_or_sentinel(spec.ports),
        }
    }
}

impl From<RawObject> for EndpointSlice {
    fn from(raw: RawObject) -> Self {
        let meta = raw.metadata.0;
        let label = |key| meta.labels.get(key).unwrap_or_default();
        let source = meta
            .labels
            .get(IMPORT_LABEL)
            .map(|import| Box::new(SourceCluster { import: import.into(), cluster: label(CLUSTER_LABEL).into() }));
        let trigger_time = meta.annotations.0.trigger_time.0;
        Self {
            version: Version::parse(&meta.resource_version.0),
            service: label(SERVICE_LABEL).into(),
            namespace: meta.namespace.0,
            name: meta.name.0,
            source,
            trigger_time: Some(trigger_time).filter(|time| !time.is_empty()),
            ports: ports_or_sentinel(raw.ports),
            endpoints: raw.endpoints.0.into_iter().flat_map(|Section(endpoint)| endpoint.ready()).collect(),
        }
    }
}

impl RawEndpoint {
    /// An endpoint for each address if the endpoint is ready; readiness unsaid means ready.
    fn ready(self) -> impl Iterator<Item = Endpoint> {
        let ready = self.conditions.0.ready.0.unwrap_or(true);
        let addresses = if ready { self.addresses.0 } else { Vec::new() };
        let hostname = as_label(self.hostname);
        let target_name = as_label(self.target_ref.0.name);
        let zone = Some(self.zone.0.to_ascii_lowercase().into_boxed_str()).filter(|zone| !zone.is_empty());
        addresses.into_iter().filter_map(move |Text(address)| {
            Some(Endpoint {
                address: Address::parse(&address)?,
                hostname: hostname.clone(),
                target_name: target_name.clone(),
                zone: zone.clone(),
            })
        })
    }
}

impl From<RawObject> for Pod {
    fn from(raw: RawObject) -> Self {
        let addresses = raw.addresses().into();
        let meta = raw.metadata.0;
        Self {
            version: Version::parse(&meta.resource_version.0),
            namespace: meta.namespace.0,
            name: meta.name.0,
            addresses,
            labels: meta.labels,
            terminating: !meta.deletion_timestamp.0.is_empty(),
        }
    }
}

impl From<RawObject> for ServiceImport {
    fn from(raw: RawObject) -> Self {
        let (meta, spec) = (raw.metadata.0, raw.spec.0);
        Self {
            version: Version::parse(&meta.resource_version.0),
            namespace: meta.namespace.0,
            name: meta.name.0,
            headless: &*spec.kind.0 == "Headless",
            ips: addresses(spec.ips.0),
            ports: spec.ports.0.into_iter().map(|Section(port)| port.into()).collect(),
        }
    }
}

impl From<RawPort> for Port {
    fn from(raw: RawPort) -> Self {
        Self {
            name: raw.name.0,
            protocol: Protocol::parse(&raw.protocol.0),
            number: raw.port.0.and_then(|number| u16::try_from(number).ok()),
        }
    }
}

/// Implements `Deserialize` of the trimmed types through the raw shape.
macro_rules! deserialize_through_raw {
    ($($trimmed:ty),*) => {$(
        impl<'de> Deserialize<'de> for $trimmed {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                RawObject::deserialize(deserializer).map(Self::from)
            }
        }
    )*};
}
deserialize_through_raw!(Service, EndpointSlice, Pod, Namespace, ServiceImport);

fn addresses(texts: impl IntoIterator<Item = Text>) -> Box<[Address]> {
    texts.into_iter().filter_map(|Text(text)| Address::parse(&text)).collect()
}

fn ports_or_sentinel(ports: List<Section<RawPort>>) -> Box<[Port]> {
    if ports.0.is_empty() {
        return Box::new([Port::default()]);
    }
    ports.0.into_iter().map(|Section(port)| port.into()).collect()
}

/// The text, if it is short enough for a label of a domain name.
fn as_label(Text(text): Text) -> Option<Box<str>> {
    Some(text).filter(|text| !text.is_empty() && text.len() <= LABEL_MAX)
}
