//! Directives and their options.

use coredns_plugin::BlockConfig;
use coredns_plugin::wire::Name;
use coredns_rs::plugin::kubernetes::options::{Options, PodMode};
use coredns_testkit::libtest_mimic::Trial;
use coredns_testkit::vectors::{self, load, text};
use toml::{Table, Value};

use super::fixture;
use crate::data;

/// The trials of the file.
pub(crate) fn trials() -> Vec<Trial> {
    let file = "kubernetes-setup";
    vectors::trials(file, "case", &load(&data(file)), check)
}

fn check(case: &Table) -> Result<(), String> {
    let stanza = text(case, "corefile").ok_or("no corefile")?;
    let outcome = fixture::options(&format!(".\n{{\n{stanza}\n}}\n"));
    match (text(case, "error"), outcome) {
        (Some(expected), Err(error)) if error.contains(expected) => Ok(()),
        (Some(expected), Err(error)) => Err(format!("error {error:?}, want {expected:?}")),
        (Some(expected), Ok(_)) => Err(format!("no error, want {expected:?}")),
        (None, Err(error)) => Err(error),
        (None, Ok((options, block))) => {
            let expected = case.get("expect").and_then(Value::as_table);
            expected.into_iter().flatten().try_for_each(|(key, value)| {
                let actual = actual(key, &options, &block)?;
                if actual == *value { Ok(()) } else { Err(format!("{key} is {actual:?}, want {value:?}")) }
            })
        }
    }
}

fn actual(key: &str, options: &Options, block: &BlockConfig) -> Result<Value, String> {
    let names = |names: &[Name]| Value::from(names.iter().map(ToString::to_string).collect::<Vec<_>>());
    let kubeconfig = options.api.kubeconfig.as_ref();
    Ok(match key {
        "zones" => names(options.zones.as_slice()),
        "primary_zone" => options.primary_zone.to_string().into(),
        "multicluster" => names(options.multicluster.as_slice()),
        "fallthrough" => names(options.fallthrough.zones()),
        "pods" => match options.pods {
            PodMode::Disabled => "disabled".into(),
            PodMode::Insecure => "insecure".into(),
            PodMode::Verified => "verified".into(),
        },
        "startup_timeout" => format!("{:?}", options.startup_timeout).into(),
        "ttl" => i64::from(options.ttl).into(),
        "endpoint" => options.api.endpoint.clone().unwrap_or_default().into(),
        "warns" => (!block.warnings.is_empty()).into(),
        "namespaces" => options.namespaces.iter().map(ToString::to_string).collect::<Vec<_>>().into(),
        "labels" => options.labels.to_string().into(),
        "namespace_labels" => options.namespace_labels.to_string().into(),
        "kubeconfig" => kubeconfig.map(|(file, _)| file.display().to_string()).unwrap_or_default().into(),
        "context" => kubeconfig.and_then(|(_, context)| context.clone()).unwrap_or_default().into(),
        "endpoint_pod_names" => options.endpoint_pod_names.into(),
        "endpoints_watch" => options.endpoints.into(),
        "ignore_empty_service" => options.ignore_empty_service.into(),
        "zonal" => options.zonal.into(),
        "apiserver_qps" => f64::from(options.api.qps).into(),
        "apiserver_burst" => i64::from(options.api.burst).into(),
        "apiserver_max_inflight" => i64::from(options.api.max_inflight).into(),
        other => return Err(format!("unknown field {other}")),
    })
}
