//! Directives of a Corefile set up without a server.

use coredns_plugin::corefile::{ParseOptions, Source, block_addresses, parse};
use coredns_plugin::{BlockConfig, BoxError, Descriptor, Setup, SetupError, Start, Zones};

/// Sets up the directives of `stanza`, the inside of a server block for `.`; `plugins` in the order of the chain.
///
/// # Errors
/// What parsing or a setup says.
pub fn set_up(plugins: &[&Descriptor], stanza: &str) -> Result<BlockConfig, SetupError> {
    set_up_block(plugins, &format!(".\n{{\n{stanza}\n}}\n"))
}

/// Sets up the first server block of `text`; `plugins` in the order of the chain.
///
/// # Errors
/// What parsing or a setup says.
///
/// # Panics
/// Where there is no server block.
pub fn set_up_block(plugins: &[&Descriptor], text: &str) -> Result<BlockConfig, SetupError> {
    let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name).collect();
    let options = ParseOptions { directives: Some(&names), environment: &|_| None };
    let corefile = parse(&Source::new("Testfile", text), &options)?;
    let block = corefile.blocks.first().unwrap_or_else(|| panic!("no server block in {text:?}"));
    let keys = block_addresses(block, "53")?;
    let zones = Zones::new(keys.iter().filter_map(|key| key.zone.parse().ok()).collect());
    let mut config = BlockConfig { keys, zones, ..BlockConfig::default() };
    for plugin in plugins {
        if let Some(directive) = block.directive(plugin.name) {
            (plugin.setup)(&mut Setup::new(plugin.name, directive.dispenser(), &mut config))?;
        }
    }
    Ok(config)
}

/// Starts the parts of a block that was set up, in their order, as the first instance and without listeners.
///
/// # Errors
/// What the first part says that cannot start; those before it have started.
pub async fn start_parts(config: &BlockConfig) -> Result<(), BoxError> {
    let start = Start {
        servers: Vec::new(),
        zones: config.zones.clone(),
        view: String::new(),
        plugins: config.plugins.clone().into(),
        first: true,
        shared: std::sync::Arc::default(),
    };
    for part in &config.parts {
        part.start(&start).await?;
    }
    Ok(())
}

/// Stops the parts of a block.
pub async fn stop_parts(config: &BlockConfig) {
    for part in &config.parts {
        part.stop().await;
    }
}
