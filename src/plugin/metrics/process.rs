//! `process_*`: what the kernel says about the process, under the names that the client libraries of Prometheus use.

use std::fs;

use coredns_plugin::metrics::{prometheus, register as register_metric};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter as CounterValue, Gauge as GaugeValue, Metric, MetricFamily, MetricType};

/// Ticks of a second in /proc: `USER_HZ`, 100 on every architecture that we build for.
const TICKS: f64 = 100.0;
/// What the libraries give for a limit that is none.
const UNLIMITED: f64 = u64::MAX as f64;

struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    value: fn(&Files) -> Option<f64>,
}

/// The files that the values are read from; empty where one is missing.
struct Files {
    /// The fields of /proc/self/stat behind the name of the program, of which `state` is the first.
    stat: Vec<String>,
    status: String,
    limits: String,
    system: String,
    network: String,
    descriptors: Option<usize>,
}

const FAMILIES: [Family; 9] = [
    Family {
        name: "process_cpu_seconds_total",
        help: "Total user and system CPU time spent in seconds.",
        kind: MetricType::COUNTER,
        value: |files| Some((files.field(14)? + files.field(15)?) / TICKS),
    },
    Family {
        name: "process_open_fds",
        help: "Number of open file descriptors.",
        kind: MetricType::GAUGE,
        value: |files| files.descriptors.map(|count| count as f64),
    },
    Family {
        name: "process_max_fds",
        help: "Maximum number of open file descriptors.",
        kind: MetricType::GAUGE,
        value: |files| files.limit("Max open files"),
    },
    Family {
        name: "process_virtual_memory_bytes",
        help: "Virtual memory size in bytes.",
        kind: MetricType::GAUGE,
        value: |files| files.field(23),
    },
    Family {
        name: "process_virtual_memory_max_bytes",
        help: "Maximum amount of virtual memory available in bytes.",
        kind: MetricType::GAUGE,
        value: |files| files.limit("Max address space"),
    },
    Family {
        name: "process_resident_memory_bytes",
        help: "Resident memory size in bytes.",
        kind: MetricType::GAUGE,
        value: |files| Some(labelled(&files.status, "VmRSS:")? * 1024.0),
    },
    Family {
        name: "process_start_time_seconds",
        help: "Start time of the process since unix epoch in seconds.",
        kind: MetricType::GAUGE,
        value: |files| Some(labelled(&files.system, "btime ")? + files.field(22)? / TICKS),
    },
    Family {
        name: "process_network_receive_bytes_total",
        help: "Number of bytes received by the process over the network.",
        kind: MetricType::COUNTER,
        value: |files| files.octets("InOctets"),
    },
    Family {
        name: "process_network_transmit_bytes_total",
        help: "Number of bytes sent by the process over the network.",
        kind: MetricType::COUNTER,
        value: |files| files.octets("OutOctets"),
    },
];

impl Files {
    fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = text("/proc/self/stat");
        // The name of the program is in parentheses and may hold anything.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        Self {
            stat: fields.split_whitespace().map(str::to_owned).collect(),
            status: text("/proc/self/status"),
            limits: text("/proc/self/limits"),
            system: text("/proc/stat"),
            network: text("/proc/self/net/netstat"),
            descriptors: fs::read_dir("/proc/self/fd").ok().map(Iterator::count),
        }
    }

    /// A field of /proc/self/stat by its number in proc(5).
    fn field(&self, number: usize) -> Option<f64> {
        self.stat.get(number.checked_sub(3)?)?.parse().ok()
    }

    /// A soft limit.
    fn limit(&self, name: &str) -> Option<f64> {
        let line = self.limits.lines().find_map(|line| line.strip_prefix(name))?;
        match line.split_whitespace().next()? {
            "unlimited" => Some(UNLIMITED),
            number => number.parse().ok(),
        }
    }

    /// A column of the rows `IpExt:`, the first of which has the names.
    fn octets(&self, name: &str) -> Option<f64> {
        let mut rows = self.network.lines().filter_map(|line| line.strip_prefix("IpExt:"));
        let at = rows.next()?.split_whitespace().position(|column| column == name)?;
        rows.next()?.split_whitespace().nth(at)?.parse().ok()
    }
}

/// The number behind a label at the start of a line.
pub(super) fn labelled(text: &str, label: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Reads the files at each scrape.
struct ProcessCollector(Vec<Desc>);

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.0.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let files = Files::read();
        FAMILIES.iter().filter_map(|family| Some(family_of(family, (family.value)(&files)?))).collect()
    }
}

fn family_of(family: &Family, value: f64) -> MetricFamily {
    let mut metric = Metric::default();
    if family.kind == MetricType::COUNTER {
        let mut counter = CounterValue::default();
        counter.set_value(value);
        metric.set_counter(counter);
    } else {
        let mut gauge = GaugeValue::default();
        gauge.set_value(value);
        metric.set_gauge(gauge);
    }
    let mut exposed = MetricFamily::default();
    exposed.set_name(family.name.to_owned());
    exposed.set_help(family.help.to_owned());
    exposed.set_field_type(family.kind);
    exposed.set_metric(vec![metric]);
    exposed
}

pub(super) fn register() {
    let descs = FAMILIES.iter().filter_map(|family| {
        Desc::new(family.name.to_owned(), family.help.to_owned(), Vec::new(), Default::default()).ok()
    });
    register_metric(ProcessCollector(descs.collect()));
}
