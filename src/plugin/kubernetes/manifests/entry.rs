//! An object of a file as the source holds it.

use super::super::object::raw::{IMPORT_LABEL, RawContainer, RawObject, SERVICE_LABEL, Section};
use super::super::object::{
    Address, EndpointSlice, Labels, Namespace, Object, ObjectKey, ObjectKind, Pod, Port, Protocol, Service,
    ServiceImport, Version,
};
use super::super::source::Selection;

/// The namespace of objects that name none, as for kubectl.
const DEFAULT_NAMESPACE: &str = "default";

/// An object, and what derivation needs of it.
#[derive(Debug, Hash)]
pub(super) struct Entry {
    pub(super) key: ObjectKey,
    pub(super) visible: Visible,
    pub(super) facts: Facts,
}

/// What the plugin sees of an object.
#[derive(Debug, Hash)]
pub(super) enum Visible {
    /// The object.
    Show(Box<Object>),
    /// Nothing: the selection does not admit it.
    Hide,
    /// What it saw before: the object is being deleted.
    Keep,
}

/// What endpoints are derived from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Facts {
    /// The object has no part in it.
    #[default]
    None,
    /// A Service with a selector.
    Service(Box<ServiceFacts>),
    /// A Pod that could be an endpoint.
    Pod(Box<PodFacts>),
    /// A slice, given for the Service of this name.
    Slice(Box<str>),
}

/// Of a Service with a selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ServiceFacts {
    pub(super) selector: Labels,
    /// Names, protocols and where they lead.
    pub(super) ports: Box<[TargetPort]>,
    /// Whether Pods count before they are ready.
    pub(super) unready_too: bool,
    /// The families it is restricted to; neither means both.
    pub(super) only_v4: bool,
    pub(super) only_v6: bool,
}

/// A Service's port, to be resolved for each Pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TargetPort {
    pub(super) name: Box<str>,
    pub(super) protocol: Protocol,
    pub(super) target: Target,
}

/// Where a Service's port leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Target {
    Number(Option<u16>),
    /// A port of that name in one of the Pod's containers.
    Name(Box<str>),
}

/// Of a Pod that has an address and has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PodFacts {
    pub(super) labels: Labels,
    pub(super) addresses: Box<[Address]>,
    pub(super) ready: bool,
    pub(super) hostname: Box<str>,
    pub(super) subdomain: Box<str>,
    /// The named ports of its containers.
    pub(super) ports: Box<[Port]>,
}

/// Turns an object into an entry.
///
/// Resource versions are dropped: an edited file keeps the version it was exported with, so they say nothing here.
pub(super) fn entry(kind: ObjectKind, mut raw: RawObject, selection: &Selection) -> Entry {
    raw.metadata.0.resource_version.0 = Box::default();
    if kind != ObjectKind::Namespace && raw.metadata.0.namespace.0.is_empty() {
        raw.metadata.0.namespace.0 = DEFAULT_NAMESPACE.into();
    }
    let meta = &raw.metadata.0;
    let imported = meta.labels.get(IMPORT_LABEL).is_some();
    let admitted = selection.admits(kind, &meta.labels, imported, &raw.status.0.phase.0);
    let key = ObjectKey {
        kind,
        namespace: if kind == ObjectKind::Namespace { Box::default() } else { meta.namespace.0.clone() },
        name: meta.name.0.clone(),
    };
    let facts = facts(kind, &raw, admitted, selection);
    let visible = match kind {
        _ if !admitted => Visible::Hide,
        ObjectKind::Pod if !meta.deletion_timestamp.0.is_empty() => Visible::Keep,
        _ => Visible::Show(Box::new(object(kind, raw, selection))),
    };
    Entry { key, visible, facts }
}

fn object(kind: ObjectKind, raw: RawObject, selection: &Selection) -> Object {
    match kind {
        ObjectKind::Namespace => Object::Namespace(Namespace::from(raw)),
        ObjectKind::Service => {
            let mut service = Service::from(raw);
            default_protocols(&mut service.ports);
            Object::Service(service)
        }
        ObjectKind::EndpointSlice => {
            let mut slice = EndpointSlice::from(raw);
            default_protocols(&mut slice.ports);
            selection.trim(&mut slice);
            Object::EndpointSlice(slice)
        }
        ObjectKind::Pod => Object::Pod(Pod::from(raw)),
        ObjectKind::ServiceImport => {
            let mut import = ServiceImport::from(raw);
            default_protocols(&mut import.ports);
            Object::ServiceImport(import)
        }
    }
}

/// Fills in TCP for ports without a protocol, as the API server does on the way in.
fn default_protocols(ports: &mut [Port]) {
    for port in ports.iter_mut().filter(|port| port.number.is_some() && port.protocol == Protocol::Unset) {
        port.protocol = Protocol::Tcp;
    }
}

fn facts(kind: ObjectKind, raw: &RawObject, admitted: bool, selection: &Selection) -> Facts {
    if !selection.endpoints {
        return Facts::None;
    }
    match kind {
        ObjectKind::Service if admitted => service_facts(raw),
        // All Pods count, whatever `labels` says of them, and all slices: the cluster's controllers see them all.
        ObjectKind::Pod => pod_facts(raw),
        ObjectKind::EndpointSlice => {
            raw.metadata.0.labels.get(SERVICE_LABEL).map_or(Facts::None, |service| Facts::Slice(service.into()))
        }
        _ => Facts::None,
    }
}

fn service_facts(raw: &RawObject) -> Facts {
    let spec = &raw.spec.0;
    if spec.selector.is_empty() || &*spec.kind.0 == "ExternalName" {
        return Facts::None;
    }
    let ports = spec.ports.0.iter().map(|Section(port)| {
        let target = &*port.target_port.0;
        let number = port.port.0.and_then(|number| u16::try_from(number).ok());
        TargetPort {
            name: port.name.0.clone(),
            protocol: protocol(&port.protocol.0),
            target: match target.parse::<i64>() {
                // An absent target port, or 0, is the port itself.
                Ok(0) => Target::Number(number),
                Ok(target) => Target::Number(u16::try_from(target).ok()),
                Err(_) if target.is_empty() => Target::Number(number),
                Err(_) => Target::Name(target.into()),
            },
        }
    });
    let family = |family| spec.ip_families.0.iter().any(|listed| &*listed.0 == family);
    let (v4, v6) = (family("IPv4"), family("IPv6"));
    Facts::Service(Box::new(ServiceFacts {
        selector: spec.selector.clone(),
        ports: ports.collect(),
        unready_too: spec.publish_not_ready_addresses.0.unwrap_or(false),
        only_v4: v4 && !v6,
        only_v6: v6 && !v4,
    }))
}

fn protocol(text: &str) -> Protocol {
    match Protocol::parse(text) {
        Protocol::Unset => Protocol::Tcp,
        protocol => protocol,
    }
}

fn pod_facts(raw: &RawObject) -> Facts {
    let addresses: Box<[Address]> = raw.addresses().into_iter().filter(|address| address.ip().is_some()).collect();
    let (spec, status) = (&raw.spec.0, &raw.status.0);
    if addresses.is_empty() || matches!(&*status.phase.0, "Succeeded" | "Failed") {
        return Facts::None;
    }
    let terminating = !raw.metadata.0.deletion_timestamp.0.is_empty();
    let conditions = &status.conditions.0;
    let said_ready = conditions
        .iter()
        .any(|Section(condition)| &*condition.kind.0 == "Ready" && condition.status.0.eq_ignore_ascii_case("true"));
    // Init containers that run on beside the others count, but after them.
    let sidecars = spec.init_containers.0.iter().filter(|container| &*container.0.restart_policy.0 == "Always");
    Facts::Pod(Box::new(PodFacts {
        labels: raw.metadata.0.labels.clone(),
        addresses,
        ready: !terminating && (conditions.is_empty() || said_ready),
        hostname: spec.hostname.0.clone(),
        subdomain: spec.subdomain.0.clone(),
        ports: spec.containers.0.iter().chain(sidecars).flat_map(|Section(container)| named_ports(container)).collect(),
    }))
}

fn named_ports(container: &RawContainer) -> impl Iterator<Item = Port> {
    container.ports.0.iter().filter(|port| !port.0.name.0.is_empty()).map(|Section(port)| Port {
        name: port.name.0.clone(),
        protocol: protocol(&port.protocol.0),
        number: port.container_port.0.and_then(|number| u16::try_from(number).ok()),
    })
}

/// A slice without a version, made here.
pub(super) fn derived_slice(namespace: &str, service: &str, name: String) -> EndpointSlice {
    EndpointSlice {
        version: Version::default(),
        namespace: namespace.into(),
        name: name.into(),
        service: service.into(),
        source: None,
        trigger_time: None,
        ports: Box::default(),
        endpoints: Box::default(),
    }
}
