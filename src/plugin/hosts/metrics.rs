//! The plugin's metrics.

use std::path::Path;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use coredns_plugin::metrics::{prometheus, register};
use prometheus::{Gauge, GaugeVec, Opts};

static ENTRIES: LazyLock<GaugeVec> = LazyLock::new(|| {
    let opts = Opts::new("coredns_hosts_entries", "The combined number of entries in hosts and Corefile.");
    GaugeVec::new(opts, &["hostsfile"]).expect("the name and the label are valid")
});
static RELOAD_TIMESTAMP: LazyLock<Gauge> = LazyLock::new(|| {
    let help = "The timestamp of the last reload of hosts file.";
    Gauge::new("coredns_hosts_reload_timestamp_seconds", help).expect("the name is valid")
});

pub(super) fn register_metrics() {
    register(ENTRIES.clone());
    register(RELOAD_TIMESTAMP.clone());
}

/// Notes that the file was read: how many values there are, and the file's time.
pub(super) fn file_was_read(path: &Path, entries: usize, modified: SystemTime) {
    ENTRIES.with_label_values(&[&path.to_string_lossy()]).set(entries as f64);
    let seconds = match modified.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    };
    RELOAD_TIMESTAMP.set(seconds);
}
