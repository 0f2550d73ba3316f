//! Search paths of Pods, for the plugin autopath.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use coredns_plugin::services::AutoPath;
use coredns_plugin::wire::Name;
use tracing::warn;

use super::Kubernetes;
use super::options::PodMode;

impl AutoPath for Kubernetes {
    fn search_path(&self, client: IpAddr, name: &Name) -> Vec<Option<Name>> {
        if self.options.pods != PodMode::Verified {
            return Vec::new();
        }
        let Some((zone, _)) = self.zone_of(name) else { return Vec::new() };
        let pods = self.index.pods(client.to_canonical());
        // Pods in the network of their host share its address: then nobody knows whose search path it is.
        let [pod] = &pods[..] else { return Vec::new() };
        let namespace = pod.object().namespace.as_bytes();
        let Ok(svc) = zone.name.prepend_all([&b"svc"[..]]) else { return Vec::new() };
        let Ok(own) = svc.prepend_all([namespace]) else { return Vec::new() };
        let path = [own, svc, zone.name.clone()].into_iter().chain(self.host_search.iter().cloned());
        path.map(Some).chain([None]).collect()
    }
}

/// The search list of the host; empty where there is none.
pub(super) fn host_search(file: &Path) -> Vec<Name> {
    match fs::read_to_string(file) {
        Ok(text) => search_list(&text),
        Err(error) => {
            warn!(target: "plugin/kubernetes", "search paths lack the host's own, {} cannot be read: {error}", file.display());
            Vec::new()
        }
    }
}

/// The last `search` or `domain` line counts; what is no name is left out.
fn search_list(text: &str) -> Vec<Name> {
    let mut list = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("search") => list = words.collect(),
            Some("domain") => list = words.take(1).collect(),
            _ => {}
        }
    }
    list.into_iter().filter_map(|word| word.parse().ok()).map(|name: Name| name.to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts() {
        let names = |text: &str| search_list(text).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names("search a.example B.example.\nnameserver 192.0.2.1\n"), ["a.example.", "b.example."]);
        assert_eq!(names("search a.example\ndomain c.example d.example\n"), ["c.example."]);
        assert_eq!(names("search a..example ok.example\n"), ["ok.example."]);
        assert!(names("# search a.example\n").is_empty());
    }
}
