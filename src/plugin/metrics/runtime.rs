//! `runtime_metrics`: more about the process and the runtime of its control plane. Once on, it stays on.

use std::fs;
use std::sync::OnceLock;

use coredns_plugin::metrics::{prometheus, register};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGauge, Opts};
use tokio::runtime::{Handle, RuntimeMetrics};

use super::process::labelled;

/// Fields of /proc/self/stat, counted from the state of the process: minor and major page faults.
const FAULT_FIELDS: [(&str, usize); 2] = [("minor", 7), ("major", 9)];
/// Lines of /proc/self/status.
const SWITCH_LINES: [(&str, &str); 2] =
    [("voluntary", "voluntary_ctxt_switches:"), ("involuntary", "nonvoluntary_ctxt_switches:")];

/// Registers the metrics, the first time that it is called.
pub(super) fn enable(runtime: Handle) {
    static ENABLED: OnceLock<()> = OnceLock::new();
    ENABLED.get_or_init(|| register(RuntimeCollector { descs: Reading::new().descs(), runtime: runtime.metrics() }));
}

struct RuntimeCollector {
    descs: Vec<Desc>,
    runtime: RuntimeMetrics,
}

impl Collector for RuntimeCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let reading = Reading::new();
        reading.take(&self.runtime);
        reading.collectors().iter().flat_map(|collector| collector.collect()).collect()
    }
}

/// The metrics of one scrape.
struct Reading {
    threads: IntGauge,
    switches: IntCounterVec,
    faults: IntCounterVec,
    workers: IntGauge,
    tasks: IntGauge,
    queue: IntGauge,
}

impl Reading {
    fn new() -> Self {
        Self {
            threads: gauge("process_threads", "Number of threads of the process."),
            switches: counters("process_context_switches_total", "Context switches of the main thread."),
            faults: counters("process_page_faults_total", "Page faults of the process."),
            workers: gauge("tokio_runtime_workers", "Threads of the runtime of the control plane."),
            tasks: gauge("tokio_runtime_alive_tasks", "Tasks of the runtime of the control plane."),
            queue: gauge("tokio_runtime_global_queue_depth", "Tasks that wait for a thread of the control plane."),
        }
    }

    fn take(&self, runtime: &RuntimeMetrics) {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        self.threads.set(labelled(&status, "Threads:").unwrap_or_default() as i64);
        for (label, line) in SWITCH_LINES {
            self.switches.with_label_values(&[label]).inc_by(labelled(&status, line).unwrap_or_default() as u64);
        }
        for (label, field) in FAULT_FIELDS {
            let count = fields.split_whitespace().nth(field).and_then(|text| text.parse().ok()).unwrap_or_default();
            self.faults.with_label_values(&[label]).inc_by(count);
        }
        let size = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.workers.set(size(runtime.num_workers()));
        self.tasks.set(size(runtime.num_alive_tasks()));
        self.queue.set(size(runtime.global_queue_depth()));
    }

    fn collectors(&self) -> [&dyn Collector; 6] {
        [&self.threads, &self.switches, &self.faults, &self.workers, &self.tasks, &self.queue]
    }

    fn descs(&self) -> Vec<Desc> {
        self.collectors().iter().flat_map(|collector| collector.desc()).cloned().collect()
    }
}

fn gauge(name: &str, help: &str) -> IntGauge {
    IntGauge::new(name, help).unwrap_or_else(|error| unreachable!("{name}: {error}"))
}

fn counters(name: &str, help: &str) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, help), &["type"]).unwrap_or_else(|error| unreachable!("{name}: {error}"))
}
