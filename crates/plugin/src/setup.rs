//! From a directive of the Corefile to the parts of a server block.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use coredns_corefile::{Dispenser, ParseError, ZoneAddress};

use crate::address::split_host_port;
use crate::chain::Plugin;
use crate::http::HttpEndpoint;
use crate::lifecycle::Lifecycle;
use crate::query::Query;
use crate::zones::Zones;

/// What is wrong with a directive: file, line, text and remedy.
pub type SetupError = ParseError;

/// Declares a plugin; `plugin.cfg` names the module that holds it.
pub struct Descriptor {
    /// The directive's name.
    pub name: &'static str,
    /// Reads the directive of one server block: parses and validates, opens nothing, starts nothing. The same text
    /// gives the same result.
    pub setup: fn(&mut Setup<'_, '_>) -> Result<(), SetupError>,
    /// Registers the plugin's metrics, once for each process, so that they are exposed from the start.
    pub register_metrics: fn(),
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Descriptor").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Time-outs and the like of a listener; `None` leaves the default or what another block says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// For the first query of a connection.
    pub read: Option<Duration>,
    /// For writing one reply.
    pub write: Option<Duration>,
    /// For each later query of a connection.
    pub idle: Option<Duration>,
    /// Queries after which a connection is closed; `Some(None)` is without limit.
    pub max_tcp_queries: Option<Option<u32>>,
}

/// How often the Corefile is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadSettings {
    /// The mean time between two looks.
    pub interval: Duration,
    /// The width of the random deviation, half of it to either side.
    pub jitter: Duration,
}

/// Decides whether a block serves a query.
pub trait Filter: Send + Sync {
    /// Tells whether the block serves `query`; the next block of the zone is tried where it does not.
    fn accepts(&self, query: &Query) -> bool;
}

/// A named condition on a block.
#[derive(Clone)]
pub struct View {
    /// The view's name.
    pub name: Arc<str>,
    /// Which queries belong to it.
    pub filter: Arc<dyn Filter>,
}

/// What the directives of one server block add up to.
#[derive(Default)]
pub struct BlockConfig {
    /// The keys, expanded; every one of them is served by the same plugins.
    pub keys: Vec<ZoneAddress>,
    /// The zones of the keys in their order.
    pub zones: Zones,
    /// The directory that relative file names are joined to (`root`); empty for the working directory.
    pub root: PathBuf,
    /// Addresses to listen on (`bind`); `None` for all, an empty list for none.
    pub listen_hosts: Option<Vec<String>>,
    /// Panics end the process, and debug lines are logged (`debug`).
    pub debug: bool,
    /// Panics are logged with their stack (`errors { stacktrace }`).
    pub stacktrace: bool,
    /// Sockets for each listener (`multisocket`); `None` for one a worker.
    pub sockets: Option<usize>,
    /// Time-outs (`timeouts`).
    pub timeouts: Timeouts,
    /// The watch over the Corefile (`reload`).
    pub reload: Option<ReloadSettings>,
    /// The zones for which metadata are collected (`metadata`); `None` for no collection.
    pub metadata: Option<Zones>,
    /// The condition on the block (`view`).
    pub view: Option<View>,
    /// The links of the chain, in order.
    pub plugins: Vec<Arc<dyn Plugin>>,
    /// What is started and stopped with the instance, in order.
    pub parts: Vec<Arc<dyn Lifecycle>>,
    /// HTTP endpoints.
    pub http: Vec<HttpEndpoint>,
    /// What is legal but surely not meant.
    pub warnings: Vec<SetupError>,
}

impl fmt::Debug for BlockConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plugins: Vec<_> = self.plugins.iter().map(|plugin| plugin.name()).collect();
        f.debug_struct("BlockConfig").field("keys", &self.keys).field("plugins", &plugins).finish_non_exhaustive()
    }
}

/// One directive of one server block on its way to a plugin: its tokens, and the block that it changes.
///
/// A directive that stands several times in a block comes as one run of tokens; see [`Dispenser`] for walking them.
#[derive(Debug)]
pub struct Setup<'a, 't> {
    /// The tokens.
    pub tokens: Dispenser<'t>,
    /// The block so far: what directives before this one, in the order of `plugin.cfg`, have set.
    pub block: &'a mut BlockConfig,
    name: &'static str,
}

impl<'a, 't> Setup<'a, 't> {
    /// The directive `name` with its tokens.
    pub const fn new(name: &'static str, tokens: Dispenser<'t>, block: &'a mut BlockConfig) -> Self {
        Self { tokens, block, name }
    }

    /// The name of the directive.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The zones of the block, for plugins that take them where none are given.
    #[must_use]
    pub const fn zones(&self) -> &Zones {
        &self.block.zones
    }

    /// Adds a link to the chain.
    pub fn add_plugin(&mut self, plugin: Arc<dyn Plugin>) {
        self.block.plugins.push(plugin);
    }

    /// Adds something that starts and stops with the instance.
    pub fn add_part(&mut self, part: Arc<dyn Lifecycle>) {
        self.block.parts.push(part);
    }

    /// Adds a link of the chain that starts and stops with the instance.
    pub fn add_living<P: Plugin + Lifecycle + 'static>(&mut self, plugin: P) {
        let plugin = Arc::new(plugin);
        self.add_part(Arc::clone(&plugin) as _);
        self.add_plugin(plugin);
    }

    /// Reads the rest of the line as the address of an HTTP endpoint, `HOST:PORT`; `None` where there is nothing.
    ///
    /// # Errors
    /// What is wrong with the address, or that there is more than one word.
    pub fn endpoint_address(&mut self) -> Result<Option<&'t str>, SetupError> {
        match self.tokens.remaining_args()[..] {
            [] => Ok(None),
            [given] => {
                split_host_port(given).map_err(|error| {
                    let error = self.tokens.plain_error(error.to_string()).in_plugin(self.name);
                    error.with_remedy("write HOST:PORT, or :PORT for all addresses")
                })?;
                Ok(Some(given))
            }
            _ => Err(self.tokens.arg_error().in_plugin(self.name)),
        }
    }

    /// Adds an HTTP endpoint.
    pub fn add_http(&mut self, endpoint: HttpEndpoint) {
        self.block.http.push(endpoint);
    }

    /// Remarks on something legal that is surely not meant, at the current token: `plugin/NAME: TEXT`, the line that
    /// is logged.
    pub fn warn(&mut self, text: impl Into<String>) {
        let warning = self.tokens.plain_error(text).in_plugin(self.name);
        self.block.warnings.push(warning);
    }

    /// The error `text` at the current token: `plugin/NAME: FILE:LINE - Error during parsing: TEXT`.
    #[must_use]
    pub fn error(&self, text: impl Into<String>) -> SetupError {
        self.tokens.error(text).in_plugin(self.name)
    }

    /// A file name of the Corefile: relative ones are joined to the block's `root`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.block.root.join(name)
    }
}
