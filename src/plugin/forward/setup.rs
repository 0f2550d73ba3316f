//! The directive `forward`.

use coredns_plugin::corefile::{excerpt, normalize_zones};
use coredns_plugin::{Setup, SetupError};

use super::config::Config;
use super::handler::Forward;
use super::options;
use super::targets::{Source, classify, read_file};
use crate::upstream::Protocol;

/// The most arguments behind FROM.
const TO_MAX: usize = 15;

pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let configs = Config::parse(setup)?;
    let last = configs.len().saturating_sub(1);
    for (at, config) in configs.into_iter().enumerate() {
        let forward = Forward::new(config, at < last).map_err(|text| setup.error(text))?;
        setup.add_living(forward);
    }
    Ok(())
}

impl Config {
    /// Reads all stanzas of a block.
    ///
    /// # Errors
    /// What is wrong with the first that is wrong.
    pub fn parse(setup: &mut Setup<'_, '_>) -> Result<Vec<Self>, SetupError> {
        let mut configs = Vec::new();
        while setup.tokens.next_token().is_some() {
            configs.push(Self::parse_one(setup)?);
        }
        Ok(configs)
    }

    fn parse_one(setup: &mut Setup<'_, '_>) -> Result<Self, SetupError> {
        let Some(from) = setup.tokens.next_arg().map(|token| token.text()) else { return Err(arg_error(setup)) };
        let mut config = Self::new(zone(setup, from)?);
        let to = setup.tokens.remaining_args();
        if to.is_empty() {
            return Err(arg_error(setup));
        }
        for text in &to {
            let source = classify(text, |name| setup.path(name)).map_err(|text| setup.error(text))?;
            config.sources.push(source);
        }
        while let Some(option) = setup.tokens.next_block() {
            options::read(setup, &mut config, option.text())?;
        }
        if !config.max_age.is_zero() && config.max_age < config.expire {
            let (age, expire) = (options::go_text(config.max_age), options::go_text(config.expire));
            return Err(setup.error(format!("max_age ({age}) must not be less than expire ({expire})")));
        }
        if to.len() > TO_MAX {
            return Err(setup.error(format!("more than 15 TOs configured: {}", to.len())));
        }
        config.check_targets(setup)?;
        if config.tls_servername.is_some() && !config.sources.iter().any(is_encrypted) {
            setup.warn("tls_servername has no effect: no upstream is spoken to by TLS; write tls://ADDRESS");
        }
        Ok(config)
    }

    /// Reads the files, and looks at the names of certificates.
    fn check_targets(&self, setup: &Setup<'_, '_>) -> Result<(), SetupError> {
        let mut found = false;
        for source in &self.sources {
            match source {
                Source::File(path) => found |= !read_file(path).map_err(|text| setup.error(text))?.is_empty(),
                Source::Address(target) => {
                    found = true;
                    let name = target.server_name.as_deref().unwrap_or_default();
                    let shown = format!("{}://{}", target.protocol.name(), target.address);
                    self.check_server_name(setup, target.protocol, name, &shown)?;
                }
                Source::Host(host) => {
                    found = true;
                    let shown = format!("{}://{}:{}", host.protocol.name(), host.hostname, host.port);
                    self.check_server_name(setup, host.protocol, &host.server_name, &shown)?;
                }
            }
        }
        if found { Ok(()) } else { Err(setup.error("no valid upstream addresses found")) }
    }

    fn check_server_name(
        &self,
        setup: &Setup<'_, '_>,
        protocol: Protocol,
        name: &str,
        shown: &str,
    ) -> Result<(), SetupError> {
        if protocol == Protocol::Dns || name.is_empty() {
            return Ok(());
        }
        match &self.tls_servername {
            Some(common) => Err(setup.error(format!(
                "both forward ('{common}') and proxy level ('{name}') TLS servernames are set for upstream proxy '{shown}'"
            ))),
            None => options::server_name(setup, name).map(drop),
        }
    }
}

/// Tells whether queries go there by TLS; the servers of a file are plain ones.
const fn is_encrypted(source: &Source) -> bool {
    match source {
        Source::File(_) => false,
        Source::Address(target) => !matches!(target.protocol, Protocol::Dns),
        Source::Host(host) => !matches!(host.protocol, Protocol::Dns),
    }
}

/// The zone of FROM; of a range that is several zones the first.
fn zone(setup: &mut Setup<'_, '_>, from: &str) -> Result<coredns_plugin::wire::Name, SetupError> {
    let zones = normalize_zones([from]);
    let unable = || setup.error(format!("unable to normalize '{}'", excerpt(from)));
    let first = zones.first().ok_or_else(unable)?;
    let name = first.parse().map_err(|_| unable())?;
    if zones.len() > 1 {
        setup.warn(format!("Unsupported CIDR notation: '{from}' expands to multiple zones. Using only '{first}'."));
    }
    Ok(name)
}

pub(super) fn arg_error(setup: &Setup<'_, '_>) -> SetupError {
    setup.tokens.arg_error().in_plugin(setup.name())
}
