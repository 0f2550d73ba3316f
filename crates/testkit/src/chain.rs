//! Chains of plugins without a server around them.

use std::any::Any;
use std::sync::Arc;

use coredns_plugin::{Answer, BoxFuture, Core, Failure, Next, Outcome, Plugin, Query};
use coredns_wire::Rcode;

type Script = Arc<dyn Fn(&Query) -> Answer + Send + Sync>;

/// A plugin, or the whole server, that does what a test says.
#[derive(Clone)]
pub struct Scripted {
    name: &'static str,
    script: Script,
}

impl Scripted {
    /// A plugin called `name` that answers with `script`.
    #[must_use]
    pub fn new(name: &'static str, script: impl Fn(&Query) -> Answer + Send + Sync + 'static) -> Self {
        Self { name, script: Arc::new(script) }
    }
}

impl Plugin for Scripted {
    fn name(&self) -> &'static str {
        self.name
    }

    fn serve<'a>(&'a self, query: &'a Query, _next: Next<'a>) -> Outcome<'a> {
        Outcome::Now((self.script)(query))
    }
}

impl Core for Scripted {
    fn dispatch(&self, query: Query) -> BoxFuture<'_, Answer> {
        let answer = (self.script)(&query);
        Box::pin(async move { answer })
    }

    fn shared(&self) -> Option<Arc<dyn Core>> {
        Some(Arc::new(self.clone()))
    }

    fn panicked(&self, panic: Box<dyn Any + Send>) {
        // The task that the chain ran in ends with it, and says so where it is waited for.
        std::panic::resume_unwind(panic);
    }
}

/// A chain and what the server answers to lookups that its plugins make.
pub struct Harness {
    chain: Arc<[Arc<dyn Plugin>]>,
    core: Scripted,
}

impl Harness {
    /// The plugins in order; lookups through the server are REFUSED until [`Harness::with_core`] says otherwise.
    #[must_use]
    pub fn new(chain: Vec<Arc<dyn Plugin>>) -> Self {
        let core = Scripted::new("server", |_| Answer::Failed(Failure::silent(Rcode::REFUSED)));
        Self { chain: chain.into(), core }
    }

    /// The same with a script for lookups through the server.
    #[must_use]
    pub fn with_core(mut self, script: impl Fn(&Query) -> Answer + Send + Sync + 'static) -> Self {
        self.core = Scripted::new("server", script);
        self
    }

    /// Sends a query through the chain.
    pub async fn ask(&self, query: &Query) -> Answer {
        Next::start(&self.chain, &self.core).serve(query).wait().await
    }

    /// Sends a query through a chain that answers at once.
    ///
    /// # Panics
    /// Where some plugin has to wait.
    #[must_use]
    pub fn ask_now(&self, query: &Query) -> Answer {
        Next::start(&self.chain, &self.core).serve(query).now().unwrap_or_else(|| panic!("the answer is not there yet"))
    }
}
