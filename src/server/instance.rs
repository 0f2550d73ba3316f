//! A configuration made ready to serve: blocks set up, listeners planned. Nothing is opened here.

use std::collections::HashMap;
use std::sync::Arc;

use coredns_plugin::corefile::{
    Corefile, Listening, ParseError, Scheme, ServerBlock, ZoneAddress, block_addresses, find_conflicts,
};
use coredns_plugin::{BlockConfig, Descriptor, Lifecycle, Plugin, Setup, Zones};
use coredns_wire::Name;

use super::endpoint::Limits;
use super::remarks::remarks;
use super::sockets::Place;

/// A server block, set up.
pub(crate) struct Block {
    /// What its directives add up to.
    pub(crate) config: BlockConfig,
    /// The links of its chain.
    pub(crate) chain: Arc<[Arc<dyn Plugin>]>,
}

/// A listener to be opened, or to be kept.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    /// Where it listens.
    pub(crate) place: Place,
    /// Zones and the places of their blocks, in the order of the Corefile.
    pub(crate) zones: Vec<(Name, usize)>,
    /// Time-outs and bounds.
    pub(crate) limits: Limits,
    /// Sockets, where the first of its blocks says how many.
    pub(crate) sockets: Option<usize>,
    /// Panics end the process.
    pub(crate) debug: bool,
    /// Panics are logged with their stack.
    pub(crate) stacktrace: bool,
}

/// What starts and stops with an instance, with the place of its block.
pub(crate) type Part = (usize, Arc<dyn Lifecycle>);

/// A configuration, set up.
pub(crate) struct Instance {
    /// The blocks in the order of the Corefile.
    pub(crate) blocks: Vec<Block>,
    /// The listeners in the order of the Corefile.
    pub(crate) listeners: Vec<Listener>,
    /// What starts and stops with the instance, each with the place of its block, in the order of the start: that of
    /// plugin.cfg, and of the blocks for one plugin.
    pub(crate) parts: Vec<Part>,
    /// What is legal and surely not meant.
    pub(crate) warnings: Vec<ParseError>,
}

impl Instance {
    /// Sets a configuration up.
    ///
    /// # Errors
    /// All errors that were found: those of setups, of keys, and of blocks that get in each other's way. A caller
    /// that stops at the first gets the one that CoreDNS would report.
    pub(crate) fn build(
        corefile: &Corefile,
        registry: &[&Descriptor],
        dns_port: &str,
    ) -> Result<Self, Vec<ParseError>> {
        let mut errors = Vec::new();
        let mut configs = Vec::new();
        let mut parts: Vec<Part> = Vec::new();
        for block in &corefile.blocks {
            match block_addresses(block, dns_port) {
                Ok(keys) => configs.push(config(keys)),
                Err(error) => {
                    errors.push(error);
                    configs.push(BlockConfig::default());
                }
            }
        }
        for descriptor in registry {
            for (at, (block, config)) in corefile.blocks.iter().zip(&mut configs).enumerate() {
                let Some(directive) = block.directive(descriptor.name) else { continue };
                let before = config.parts.len();
                let mut setup = Setup::new(descriptor.name, directive.dispenser(), config);
                if let Err(error) = (descriptor.setup)(&mut setup) {
                    errors.push(error);
                }
                parts.extend(config.parts.iter().skip(before).map(|part| (at, Arc::clone(part))));
            }
        }
        errors.extend(corefile.blocks.iter().flat_map(|block| missing(block, registry)));
        let mut listeners = Vec::new();
        match plan(&corefile.blocks, &configs) {
            Ok(planned) => listeners = planned,
            Err(conflicts) => errors.extend(conflicts),
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut warnings = remarks(&corefile.blocks, &configs, &listeners);
        let blocks = configs.into_iter().map(|mut config| {
            warnings.append(&mut config.warnings);
            Block { chain: config.plugins.clone().into(), config }
        });
        Ok(Self { blocks: blocks.collect(), listeners, parts, warnings })
    }
}

fn config(keys: Vec<ZoneAddress>) -> BlockConfig {
    let zones = Zones::new(keys.iter().filter_map(|key| key.zone.parse().ok()).collect());
    BlockConfig { keys, zones, ..BlockConfig::default() }
}

/// Directives that this build knows by name but does not have.
fn missing(block: &ServerBlock, registry: &[&Descriptor]) -> Vec<ParseError> {
    let absent = block.directives.iter().filter(|one| !registry.iter().any(|descriptor| *descriptor.name == *one.name));
    absent
        .filter_map(|directive| directive.tokens.first())
        .map(|token| {
            ParseError::no_action(token)
                .with_remedy(format!("take the directive {:?} out, or build with its line in plugin.cfg", token.text()))
        })
        .collect()
}

/// One key on one listen host.
struct Binding {
    block: usize,
    zone: String,
    place: Place,
}

/// Groups the keys of all blocks by where they listen.
fn plan(blocks: &[ServerBlock], configs: &[BlockConfig]) -> Result<Vec<Listener>, Vec<ParseError>> {
    let mut errors = Vec::new();
    let mut bindings = Vec::new();
    let mut listenings = Vec::new();
    for (index, (block, config)) in blocks.iter().zip(configs).enumerate() {
        for key in &config.keys {
            let everywhere = [String::new()];
            for host in config.listen_hosts.as_deref().unwrap_or(&everywhere) {
                match bind(block, index, key, host) {
                    Ok(Some(binding)) => {
                        let listening = Listening { address: key.clone(), host: host.clone() };
                        listenings.push((listening, config.view.is_some()));
                        bindings.push(binding);
                    }
                    Ok(None) => {}
                    Err(error) => errors.push(error),
                }
            }
        }
    }
    for conflict in find_conflicts(listenings) {
        let token = bindings.get(conflict.index).and_then(|binding| blocks.get(binding.block)?.keys.first());
        if let Some(token) = token {
            errors.push(ParseError::plain(token, conflict.to_string()).with_remedy(conflict.remedy()));
        }
    }
    if errors.is_empty() { Ok(group(bindings, configs)) } else { Err(errors) }
}

fn bind(block: &ServerBlock, index: usize, key: &ZoneAddress, host: &str) -> Result<Option<Binding>, ParseError> {
    let token = block.keys.first();
    let error = |text: String, remedy: &str| match token {
        Some(token) => ParseError::plain(token, text).with_remedy(remedy),
        None => ParseError::parsing("".into(), 0, text),
    };
    match key.scheme {
        Scheme::Dns => {}
        Scheme::Unix => return Ok(None),
        other => {
            let text = format!("cannot serve {key}: {}:// is not in this build", other.name());
            return Err(error(text, "serve the zone by dns://"));
        }
    }
    let Some(port) = key.port_number() else {
        let text = format!("address {}: invalid port", key.port);
        return Err(error(text, "use a port between 0 and 65535"));
    };
    Ok(Some(Binding { block: index, zone: key.zone.clone(), place: Place { host: host.to_owned(), port } }))
}

fn group(bindings: Vec<Binding>, configs: &[BlockConfig]) -> Vec<Listener> {
    let mut listeners: Vec<Listener> = Vec::new();
    let mut places: HashMap<Place, usize> = HashMap::new();
    for binding in bindings {
        let Some(config) = configs.get(binding.block) else { continue };
        let Ok(zone) = binding.zone.parse::<Name>() else { continue };
        let at = *places.entry(binding.place.clone()).or_insert_with(|| {
            listeners.push(Listener {
                place: binding.place,
                zones: Vec::new(),
                limits: Limits::default(),
                sockets: config.sockets,
                debug: false,
                stacktrace: false,
            });
            listeners.len() - 1
        });
        let listener = &mut listeners[at];
        listener.zones.push((zone, binding.block));
        // In a group, the last block that sets a value wins; one block with `debug` is enough.
        listener.limits.apply(&config.timeouts);
        listener.debug |= config.debug;
        listener.stacktrace = config.stacktrace;
    }
    listeners
}
