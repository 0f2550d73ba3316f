//! The trimmed objects.

use super::address::Address;
use super::labels::Labels;

/// The resource version of an object, for telling whether two states of it are the same.
///
/// A decimal version is kept as its number, other text as a hash; 0 means that the object carried none, as objects
/// in files usually do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version(u64);

impl Version {
    /// Reads a resource version as the API writes it.
    pub fn parse(text: &str) -> Self {
        if text.is_empty() {
            return Self(0);
        }
        // FNV-1a with the top bit set, away from the numbers that servers count up to.
        let hash = || {
            text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
                (hash ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01b3)
            }) | 1 << 63
        };
        Self(text.parse().unwrap_or_else(|_| hash()))
    }

    /// Whether both are known and the same, so that an update between them says nothing new.
    pub fn is_same(self, other: Self) -> bool {
        self.0 != 0 && self == other
    }
}

/// What kind of Service it is. Unknown text counts as `ClusterIp`, the API's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ServiceKind {
    /// A Service inside the cluster; also headless ones.
    #[default]
    ClusterIp,
    /// A cluster IP and a port on each node.
    NodePort,
    /// A cluster IP and addresses outside of the cluster.
    LoadBalancer,
    /// An alias of another name.
    ExternalName,
}

/// The transport protocol of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// None was given: the sentinel port, or a slice's port without a protocol.
    #[default]
    Unset,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// Another word, as written.
    Other(Box<str>),
}

impl Protocol {
    /// Reads a protocol in any case.
    pub fn parse(text: &str) -> Self {
        let known = [("TCP", Self::Tcp), ("UDP", Self::Udp), ("SCTP", Self::Sctp)];
        match known.into_iter().find(|(name, _)| text.eq_ignore_ascii_case(name)) {
            Some((_, protocol)) => protocol,
            None if text.is_empty() => Self::Unset,
            None => Self::Other(text.into()),
        }
    }

    /// The protocol as written by the API, empty when unset. Compare without regard to case.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unset => "",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
            Self::Other(text) => text,
        }
    }
}

/// A port of a Service, a slice or an import.
///
/// A Service or slice without ports has one sentinel port: no name, no protocol, no number. It makes the object match
/// a query that names no port, and yields no SRV record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Port {
    /// The name, empty for an unnamed port.
    pub name: Box<str>,
    /// The protocol.
    pub protocol: Protocol,
    /// The number, 0–65535; none for the sentinel, a slice's port without a number, and numbers out of range.
    pub number: Option<u16>,
}

/// A Service (`v1`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Service {
    /// The resource version.
    pub version: Version,
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// The kind.
    pub kind: ServiceKind,
    /// Whether the first cluster IP is `None`.
    pub headless: bool,
    /// The target of an ExternalName Service, empty for others.
    pub external_name: Box<str>,
    /// The cluster IPs; empty for headless and ExternalName Services, and before one is assigned.
    pub cluster_ips: Box<[Address]>,
    /// `spec.externalIPs`, then each ingress of the load balancer: its IP, else its host name.
    pub external_ips: Box<[Address]>,
    /// The ports, at least the sentinel.
    pub ports: Box<[Port]>,
}

/// A ready endpoint of a slice; an API endpoint with several addresses is several of these.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The address.
    pub address: Address,
    /// The host name, if it can be a label: 1–63 octets.
    pub hostname: Option<Box<str>>,
    /// The name of the object behind the endpoint (a Pod, usually), if it is shorter than 64 octets.
    pub target_name: Option<Box<str>>,
    /// The topology zone in lower case.
    pub zone: Option<Box<str>>,
}

/// Where a slice of a multicluster Service comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceCluster {
    /// The ServiceImport it belongs to: label `multicluster.kubernetes.io/service-name`.
    pub import: Box<str>,
    /// The cluster id: label `multicluster.kubernetes.io/source-cluster`, empty if absent.
    pub cluster: Box<str>,
}

/// An EndpointSlice (`discovery.k8s.io/v1`).
///
/// A slice that carries the multicluster label is also an ordinary slice; it is delivered once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EndpointSlice {
    /// The resource version.
    pub version: Version,
    /// The namespace.
    pub namespace: Box<str>,
    /// The slice's own name.
    pub name: Box<str>,
    /// The Service it belongs to: label `kubernetes.io/service-name`, empty if absent.
    pub service: Box<str>,
    /// The import it belongs to, if it carries the multicluster label.
    pub source: Option<Box<SourceCluster>>,
    /// The annotation `endpoints.kubernetes.io/last-change-trigger-time` as written.
    pub trigger_time: Option<Box<str>>,
    /// The ports, at least the sentinel.
    pub ports: Box<[Port]>,
    /// The ready endpoints, in the order of the slice.
    pub endpoints: Box<[Endpoint]>,
}

/// A Pod (`v1`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pod {
    /// The resource version.
    pub version: Version,
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// The addresses: `status.podIP` first, then the others of `status.podIPs`.
    pub addresses: Box<[Address]>,
    /// The labels, for metadata.
    pub labels: Labels,
    /// Whether it carries a deletion timestamp: such a state is no news, the last one stands until the deletion.
    pub terminating: bool,
}

/// A Namespace (`v1`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Namespace {
    /// The resource version.
    pub version: Version,
    /// The name.
    pub name: Box<str>,
}

/// A ServiceImport (`multicluster.x-k8s.io/v1alpha1`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServiceImport {
    /// The resource version.
    pub version: Version,
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// Whether the type is `Headless` rather than `ClusterSetIP`.
    pub headless: bool,
    /// The addresses.
    pub ips: Box<[Address]>,
    /// The ports; there is no sentinel.
    pub ports: Box<[Port]>,
}
