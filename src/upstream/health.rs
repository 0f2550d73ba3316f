//! Whether upstreams are well: probes, sent only after an exchange has failed.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coredns_plugin::wire::{Name, RrType};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::message::Asked;
use super::proxy::Upstream;

/// How upstreams are probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The pause between two probes.
    pub interval: Duration,
    /// RD of a probe.
    pub recursion: bool,
    /// The name whose NS records a probe asks for.
    pub domain: Name,
    /// An upstream is down after more failed probes in a row than this; with 0 there are none.
    pub max_fails: u32,
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self { interval: Duration::from_millis(500), recursion: true, domain: Name::root(), max_fails: 2 }
    }
}

impl HealthCheck {
    /// The question of a probe.
    pub(super) fn asked(&self) -> Asked {
        Asked::own(&self.domain, RrType::NS, self.recursion)
    }
}

/// How an upstream is.
#[derive(Debug, Default)]
pub struct Health {
    fails: AtomicU32,
    probing: AtomicBool,
}

impl Health {
    /// With so many failed probes in a row.
    #[must_use]
    pub const fn with_fails(fails: u32) -> Self {
        Self { fails: AtomicU32::new(fails), probing: AtomicBool::new(false) }
    }

    /// Failed probes in a row.
    #[must_use]
    pub fn fails(&self) -> u32 {
        self.fails.load(Ordering::Relaxed)
    }

    /// Tells whether it counts as down.
    #[must_use]
    pub fn is_down(&self, max_fails: u32) -> bool {
        max_fails != 0 && self.fails() > max_fails
    }

    /// Tells whether it is being probed: something went wrong, and nothing has gone well since.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.probing.load(Ordering::Relaxed)
    }

    /// Takes note of a probe; the number stays at its highest.
    pub fn probed(&self, well: bool) {
        let fails = if well { 0 } else { self.fails().saturating_add(1) };
        // Relaxed, without a loop: one probe runs at a time.
        self.fails.store(fails, Ordering::Relaxed);
    }
}

/// Runs the probes of one instance, on the control plane's runtime.
#[derive(Debug, Default)]
pub struct Prober {
    /// Protects the runtime and the running probes; `None` before the start and after the end.
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    runtime: Handle,
    tasks: Vec<JoinHandle<()>>,
}

impl Prober {
    /// From now on probes run on the calling runtime.
    pub fn start(&self) {
        let running = Running { runtime: Handle::current(), tasks: Vec::new() };
        self.lock().get_or_insert(running);
    }

    /// Runs something beside the probes, until it ends or the prober does.
    pub fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(running) = &mut *self.lock() {
            running.tasks.retain(|task| !task.is_finished());
            let task = running.runtime.spawn(task);
            running.tasks.push(task);
        }
    }

    /// Probes `upstream` until it is well, unless that is being done already.
    pub fn check(&self, upstream: &Arc<Upstream>) {
        if upstream.check().max_fails == 0 || upstream.health().probing.swap(true, Ordering::Relaxed) {
            return;
        }
        let probing = Probing(Arc::clone(upstream));
        self.run(async move { probing.run().await });
    }

    /// Ends all probes.
    pub fn stop(&self) {
        for task in self.lock().take().map(|running| running.tasks).unwrap_or_default() {
            task.abort();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks an upstream as being probed for as long as it lives.
struct Probing(Arc<Upstream>);

impl Probing {
    async fn run(self) {
        let upstream = &self.0;
        while !upstream.is_stopped() {
            let well = upstream.probe().await.is_ok();
            upstream.health().probed(well);
            if well {
                return;
            }
            upstream.count_health_failure();
            sleep(upstream.check().interval).await;
        }
    }
}

impl Drop for Probing {
    fn drop(&mut self) {
        self.0.health().probing.store(false, Ordering::Relaxed);
    }
}
