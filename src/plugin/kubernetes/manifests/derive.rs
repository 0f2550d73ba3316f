//! Endpoints of Services for which no slice is given.
//!
//! They come about as in a cluster: the Pods that the Service's selector matches, ready or wanted unready, in one
//! slice per address family and set of resolved ports.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::object::{Address, Endpoint, EndpointSlice, Port};
use super::entry::{PodFacts, ServiceFacts, Target, TargetPort, derived_slice};

/// Longest host name that can be a label (RFC 1035 section 2.3.4), in octets.
const LABEL_MAX: usize = 63;

/// What a namespace holds that matters here.
#[derive(Debug, Default)]
pub(super) struct Scene<'a> {
    pub(super) services: BTreeMap<&'a str, &'a ServiceFacts>,
    pub(super) pods: BTreeMap<&'a str, &'a PodFacts>,
    /// The Services for which slices are given.
    pub(super) given: HashSet<&'a str>,
}

/// The Pods that carry a label.
type ByLabel<'a> = HashMap<(&'a str, &'a str), Vec<(&'a str, &'a PodFacts)>>;

impl Scene<'_> {
    /// Derives all slices of the namespace, in the order of the Services, endpoints in the order of the Pods.
    pub(super) fn slices(&self, namespace: &str) -> Vec<EndpointSlice> {
        let mut by_label = ByLabel::new();
        for (name, pod) in &self.pods {
            for label in pod.labels.iter() {
                by_label.entry(label).or_default().push((name, pod));
            }
        }
        let mut slices = Vec::new();
        for (name, service) in self.services.iter().filter(|(name, _)| !self.given.contains(**name)) {
            slices.extend(slices_of(namespace, name, service, &by_label));
        }
        slices
    }
}

fn slices_of(namespace: &str, name: &str, service: &ServiceFacts, by_label: &ByLabel<'_>) -> Vec<EndpointSlice> {
    // The rarest of the selector's labels leaves the fewest Pods to compare.
    let candidates = service
        .selector
        .iter()
        .map(|label| by_label.get(&label).map_or(&[][..], Vec::as_slice))
        .min_by_key(|pods| pods.len())
        .unwrap_or_default();
    let mut groups: BTreeMap<(bool, Vec<Option<u16>>), Vec<Endpoint>> = BTreeMap::new();
    for (pod_name, pod) in candidates {
        if !(pod.ready || service.unready_too) || !service.selector.is_subset_of(&pod.labels) {
            continue;
        }
        let numbers: Vec<Option<u16>> = service.ports.iter().map(|port| resolve(port, pod)).collect();
        for address in &pod.addresses {
            let v6 = matches!(address, Address::V6(_));
            if (v6 && service.only_v4) || (!v6 && service.only_v6) {
                continue;
            }
            groups.entry((v6, numbers.clone())).or_default().push(endpoint(name, pod_name, pod, address));
        }
    }
    let mut sizes = [0_usize; 2];
    groups
        .into_iter()
        .map(|((v6, numbers), endpoints)| {
            let [v4_size, v6_size] = &mut sizes;
            let (family, size) = if v6 { ("IPv6", v6_size) } else { ("IPv4", v4_size) };
            *size += 1;
            // A slash cannot be part of a slice's name, so no given slice has this one.
            let mut slice = derived_slice(namespace, name, format!("{name}/{family}/{size}"));
            slice.ports = ports(service, &numbers);
            slice.endpoints = endpoints.into();
            slice
        })
        .collect()
}

/// The ports that the group's Pods have; the sentinel if there is none.
fn ports(service: &ServiceFacts, numbers: &[Option<u16>]) -> Box<[Port]> {
    let mut ports: Vec<Port> = service
        .ports
        .iter()
        .zip(numbers)
        .filter(|(_, number)| number.is_some())
        .map(|(port, number)| Port { name: port.name.clone(), protocol: port.protocol.clone(), number: *number })
        .collect();
    if ports.is_empty() {
        ports.push(Port::default());
    }
    ports.into()
}

/// The number that a Service's port has on a Pod, unless the Pod lacks it.
fn resolve(port: &TargetPort, pod: &PodFacts) -> Option<u16> {
    match &port.target {
        Target::Number(number) => *number,
        Target::Name(name) => {
            pod.ports.iter().find(|held| held.name == *name && held.protocol == port.protocol)?.number
        }
    }
}

fn endpoint(service: &str, pod_name: &str, pod: &PodFacts, address: &Address) -> Endpoint {
    let named = &*pod.subdomain == service && !pod.hostname.is_empty() && pod.hostname.len() <= LABEL_MAX;
    Endpoint {
        address: address.clone(),
        hostname: named.then(|| pod.hostname.clone()),
        target_name: (pod_name.len() <= LABEL_MAX).then(|| pod_name.into()),
        zone: None,
    }
}
