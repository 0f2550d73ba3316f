//! Paths and parameters.

use std::fmt::Write as _;

use super::super::object::ObjectKind;
use super::super::object::raw::IMPORT_LABEL;
use super::super::source::{POD_FIELD_SELECTOR, Selection};

/// What is watched, and which of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) kind: ObjectKind,
    /// The resource, as ClusterRoles and error messages name it.
    pub(super) resource: &'static str,
    path: &'static str,
    labels: String,
    fields: &'static str,
}

/// Everything that a selection needs: one watch for each kind.
///
/// Slices of a cluster set are slices too, so one watch has both.
pub(super) fn targets(selection: &Selection) -> Vec<Target> {
    let labels = selection.labels.to_string();
    let target =
        |kind, resource, path, labels: &str| Target { kind, resource, path, labels: labels.to_owned(), fields: "" };
    let mut targets = vec![
        target(ObjectKind::Namespace, "namespaces", "/api/v1/namespaces", &selection.namespace_labels.to_string()),
        target(ObjectKind::Service, "services", "/api/v1/services", &labels),
    ];
    let slices = |labels: &str| {
        target(ObjectKind::EndpointSlice, "endpointslices", "/apis/discovery.k8s.io/v1/endpointslices", labels)
    };
    if selection.endpoints {
        targets.push(slices(&labels));
    } else if selection.multicluster {
        let comma = if labels.is_empty() { "" } else { "," };
        targets.push(slices(&format!("{labels}{comma}{IMPORT_LABEL}")));
    }
    if selection.pods {
        targets.push(Target { fields: POD_FIELD_SELECTOR, ..target(ObjectKind::Pod, "pods", "/api/v1/pods", &labels) });
    }
    if selection.multicluster {
        let path = "/apis/multicluster.x-k8s.io/v1alpha1/serviceimports";
        targets.push(target(ObjectKind::ServiceImport, "serviceimports", path, &labels));
    }
    targets
}

impl Target {
    /// A page of a list; `next` is where the page before said that it goes on.
    pub(super) fn list(&self, page: usize, next: Option<&str>) -> String {
        let mut text = format!("{}?limit={page}", self.path);
        self.select(&mut text);
        if let Some(next) = next {
            parameter(&mut text, "continue", next);
        }
        text
    }

    /// A watch from a version.
    pub(super) fn watch(&self, seconds: u32, version: &str) -> String {
        let mut text = self.open(seconds);
        parameter(&mut text, "resourceVersion", version);
        text
    }

    /// A watch that begins with the whole state.
    pub(super) fn stream(&self, seconds: u32) -> String {
        self.open(seconds) + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    }

    fn open(&self, seconds: u32) -> String {
        let mut text = format!("{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}", self.path);
        self.select(&mut text);
        text
    }

    fn select(&self, text: &mut String) {
        for (name, selector) in [("fieldSelector", self.fields), ("labelSelector", &self.labels)] {
            if !selector.is_empty() {
                parameter(text, name, selector);
            }
        }
    }
}

/// Appends a parameter with its value escaped (RFC 3986 section 2.1).
fn parameter(text: &mut String, name: &str, value: &str) {
    text.push('&');
    text.push_str(name);
    text.push('=');
    for octet in value.bytes() {
        if octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'~') {
            text.push(char::from(octet));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{octet:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::selector::Selector;
    use super::*;

    #[test]
    fn one_watch_for_each_kind() {
        let names = |selection: &Selection| targets(selection).iter().map(|target| target.resource).collect::<Vec<_>>();
        let plain = Selection::default();
        assert_eq!(names(&plain), ["namespaces", "services", "endpointslices"]);
        assert_eq!(names(&Selection { endpoints: false, ..plain.clone() }), ["namespaces", "services"]);
        let all = Selection { pods: true, multicluster: true, ..plain.clone() };
        assert_eq!(names(&all), ["namespaces", "services", "endpointslices", "pods", "serviceimports"]);
        let imported = Selection { endpoints: false, multicluster: true, ..plain };
        let slices = &targets(&imported)[2];
        assert!(slices.list(500, None).ends_with("labelSelector=multicluster.kubernetes.io%2Fservice-name"));
    }

    #[test]
    fn requests() {
        let selection = Selection {
            labels: Selector::parse("app in (a,b)").expect("valid"),
            namespace_labels: Selector::parse("!x").expect("valid"),
            pods: true,
            ..Selection::default()
        };
        let targets = targets(&selection);
        assert_eq!(targets[0].list(9, Some("a=/")), "/api/v1/namespaces?limit=9&labelSelector=%21x&continue=a%3D%2F");
        assert_eq!(
            targets[1].watch(300, "17"),
            "/api/v1/services?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&\
             labelSelector=app%20in%20%28a%2Cb%29&resourceVersion=17"
        );
        assert!(targets[3].stream(9).starts_with(
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=9&fieldSelector=status.phase%21%3DSucceeded"
        ));
        assert!(targets[3].stream(9).ends_with("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"));
    }
}
