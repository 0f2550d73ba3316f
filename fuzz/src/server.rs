//! The targets for what the server reads when it is set up: directives, and manifests of cluster objects.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use coredns_plugin::corefile::Source;
use coredns_plugin::{Answer, Plugin, Zones};
use coredns_rs::plugin::kubernetes::Kubernetes;
use coredns_rs::plugin::kubernetes::index::Index;
use coredns_rs::plugin::kubernetes::manifests::{Config, Manifests};
use coredns_rs::plugin::kubernetes::object::{Change, Object, ObjectKey, ObjectKind};
use coredns_rs::plugin::kubernetes::options::{Options, PodMode};
use coredns_rs::plugin::kubernetes::source::Sink;
use coredns_testkit::{Ask, Harness};
use coredns_wire::{Name, Record, parse_record};

/// Longest text of an error: a path, a quotation and the words around them.
const ERROR_LEN_MAX: usize = 4096;
/// Objects whose names are asked for, for each input.
const OBJECTS_ASKED_MAX: usize = 32;

/// A Corefile, set up as far as can be done without opening anything: what is wrong is said in printable lines.
pub fn setup(data: &[u8]) {
    let findings = coredns_rs::server::check(&Source::new("/nowhere/Corefile", data), "53");
    let errors = findings.errors.iter().map(|error| error.explain());
    for text in errors.chain(findings.warnings) {
        assert!(text.len() <= ERROR_LEN_MAX, "{} octets: {text}", text.len());
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}

/// A file of manifests, once as YAML and once as JSON: objects come and go without a trace, what has not changed is
/// not delivered again, and whatever is asked is answered by records that can be read.
pub fn manifest(data: &[u8]) {
    let folder = std::env::temp_dir().join(format!("coredns-fuzz-manifest-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for temporary files");
    for ending in ["yaml", "json"] {
        follow(&folder.join(format!("input.{ending}")), data);
    }
}

fn follow(path: &Path, data: &[u8]) {
    let plugin = Arc::new(plugin());
    let config = Config::new(vec![PathBuf::from(path)], plugin.options().selection());
    let held = Held { index: Arc::clone(plugin.index()), objects: Mutex::default(), changes: Mutex::default() };
    let source = Manifests::new(config);

    fs::write(path, data).expect("the folder is ours");
    let report = source.load_once(&held);
    for error in &report.errors {
        assert!(error.what.len() <= ERROR_LEN_MAX, "{} octets of error", error.what.len());
        assert!(!error.what.chars().any(char::is_control), "{:?}", error.what);
    }
    assert_eq!(report.objects, held.count());
    let changes = held.changes();
    source.load_once(&held);
    assert_eq!(held.changes(), changes, "the same content is no change");
    ask_all(&plugin, &held);

    fs::write(path, "").expect("the folder is ours");
    source.load_once(&held);
    // A broken file keeps what was read before, which here is nothing.
    assert_eq!(held.count(), 0, "what is gone is deleted");
    assert!(plugin.index().entries(false).is_empty() && plugin.index().entries(true).is_empty());
}

/// Everything that can be switched on.
fn plugin() -> Kubernetes {
    let zones = ["cluster.local", "in-addr.arpa", "ip6.arpa"].map(|zone| zone.parse::<Name>().expect("a name"));
    let mut options = Options::new(Zones::new(zones.to_vec()), zones[0].clone());
    options.pods = PodMode::Verified;
    options.endpoint_pod_names = true;
    options.zonal = true;
    options.multicluster = Zones::new(vec![zones[0].clone()]);
    let plugin = Kubernetes::new(options, Vec::new());
    plugin.index().set_synced();
    plugin
}

/// Passes changes on to the index, and holds what it should have then.
struct Held {
    index: Arc<Index>,
    objects: Mutex<BTreeMap<ObjectKey, Object>>,
    changes: Mutex<usize>,
}

impl Held {
    fn count(&self) -> u64 {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn changes(&self) -> usize {
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Held {
    fn apply(&self, changes: Vec<Change>) {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner) += changes.len();
        for change in &changes {
            match change {
                Change::Apply(object) => drop(objects.insert(object.key(), object.clone())),
                Change::Delete(key) => assert!(objects.remove(key).is_some(), "{key:?} is deleted once"),
            }
        }
        self.index.apply(changes);
    }

    fn retain(&self, kind: ObjectKind, keep: &dyn Fn(&ObjectKey) -> bool) {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.retain(|key, _| key.kind != kind || keep(key));
        self.index.retain(kind, keep);
    }

    fn synced(&self) {}
}

/// Asks for the names of the objects, and for those around them.
fn ask_all(plugin: &Arc<Kubernetes>, held: &Held) {
    let harness = Harness::new(vec![Arc::clone(plugin) as Arc<dyn Plugin>]);
    let objects = held.objects.lock().unwrap_or_else(PoisonError::into_inner);
    let mut names = vec!["cluster.local".to_owned()];
    for object in objects.values().take(OBJECTS_ASKED_MAX) {
        names.extend(names_of(object));
    }
    for name in names.iter().filter(|name| !name.contains(char::is_whitespace) && name.parse::<Name>().is_ok()) {
        for qtype in ["A", "AAAA", "SRV", "PTR", "TXT"] {
            let query = Ask::new(&format!("{name} {qtype}")).query();
            let answer = match pin!(harness.ask(&query)).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => answer,
                Poll::Pending => panic!("{name} {qtype} waits for something"),
            };
            if let Answer::Reply(reply) = answer {
                [&reply.answer, &reply.authority, &reply.additional].into_iter().flatten().for_each(is_readable);
            }
        }
    }
    if let Some(source) = plugin.transfer()
        && let Ok(records) = source.transfer(&plugin.options().primary_zone, 0)
    {
        records.take(10_000).for_each(|record| is_readable(&record));
    }
}

/// Written as text and read again, a record is what it was.
fn is_readable(record: &Record) {
    let text = record.to_string();
    assert_eq!(parse_record(&text).ok().as_ref(), Some(record), "{text}");
}

fn names_of(object: &Object) -> Vec<String> {
    let key = object.key();
    let service = format!("{}.{}.svc.cluster.local", key.name, key.namespace);
    let mut names = vec![format!("{}.svc.cluster.local", key.name), format!("_http._tcp.{service}"), service];
    let mut addresses: Vec<IpAddr> = Vec::new();
    match object {
        Object::EndpointSlice(slice) => {
            names.push(format!("{}.{}.svc.cluster.local", slice.service, key.namespace));
            for endpoint in slice.endpoints.iter().take(OBJECTS_ASKED_MAX) {
                addresses.extend(endpoint.address.ip());
            }
        }
        Object::Pod(pod) => addresses.extend(pod.addresses.iter().filter_map(|address| address.ip())),
        Object::Service(service) => addresses.extend(service.cluster_ips.iter().filter_map(|address| address.ip())),
        Object::Namespace(_) | Object::ServiceImport(_) => {}
    }
    for address in addresses {
        let dashed = address.to_string().replace(['.', ':'], "-");
        names.push(format!("{dashed}.{}.pod.cluster.local", key.namespace));
        names.push(match address {
            IpAddr::V4(ip) => {
                let [a, b, c, d] = ip.octets();
                format!("{d}.{c}.{b}.{a}.in-addr.arpa")
            }
            IpAddr::V6(ip) => {
                let digits = ip.octets().into_iter().rev().map(|octet| format!("{:x}.{:x}.", octet % 16, octet / 16));
                format!("{}ip6.arpa", digits.collect::<String>())
            }
        });
    }
    names
}
