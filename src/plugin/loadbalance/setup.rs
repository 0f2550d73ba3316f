//! The directive `loadbalance`.

use std::path::PathBuf;
use std::time::Duration;

use coredns_plugin::corefile::{GoDuration, excerpt};
use coredns_plugin::{Setup, SetupError};
use ipnet::IpNet;

use super::handler::LoadBalance;

const DEFAULT_RELOAD: Duration = Duration::from_secs(30);

/// How addresses are ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// By chance.
    RoundRobin,
    /// One in front, by chance and weight.
    Weighted {
        /// The weight file.
        file: PathBuf,
        /// How often it is looked at; zero for once.
        reload: Duration,
    },
}

/// What the directives of a block add up to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The last policy given.
    pub policy: Policy,
    /// Ranges whose addresses come first, in order; from all directives together.
    pub prefer: Vec<IpNet>,
}

pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let config = Config::parse(setup)?;
    setup.add_living(LoadBalance::new(config));
    Ok(())
}

impl Config {
    /// Reads the directives of a block.
    ///
    /// # Errors
    /// An unknown policy, or an option that is wrong or of the other policy.
    pub fn parse(setup: &mut Setup<'_, '_>) -> Result<Self, SetupError> {
        let mut config = Self { policy: Policy::RoundRobin, prefer: Vec::new() };
        while setup.tokens.next_token().is_some() {
            let args = setup.tokens.remaining_args();
            config.policy = match args[..] {
                [] | ["round_robin"] => {
                    round_robin_options(setup, &mut config.prefer)?;
                    Policy::RoundRobin
                }
                ["round_robin", ..] => return Err(setup.error("unknown property for round_robin")),
                ["weighted"] => return Err(setup.error("missing weight file argument")),
                ["weighted", file] => Policy::Weighted { file: setup.path(file), reload: weighted_options(setup)? },
                ["weighted", ..] => return Err(setup.error("unexpected argument(s)")),
                [policy, ..] => {
                    let error = setup.tokens.plain_error(format!("unknown policy: {}", excerpt(policy)));
                    return Err(error.in_plugin(setup.name()).with_remedy("write round_robin or weighted FILE"));
                }
            };
        }
        Ok(config)
    }
}

fn round_robin_options(setup: &mut Setup<'_, '_>, prefer: &mut Vec<IpNet>) -> Result<(), SetupError> {
    while let Some(option) = setup.tokens.next_block() {
        match option.text() {
            "prefer" => {
                let ranges = setup.tokens.remaining_args();
                if ranges.is_empty() {
                    setup.warn("prefer without ranges has no effect");
                }
                for text in ranges {
                    let shown = excerpt(text);
                    let invalid = || setup.error(format!("invalid CIDR \"{shown}\": invalid CIDR address: {shown}"));
                    prefer.push(text.parse::<IpNet>().map_err(|_| invalid().with_remedy("write 192.0.2.0/24"))?);
                }
            }
            word => return Err(unknown_property(setup, word, "round_robin knows prefer")),
        }
    }
    Ok(())
}

fn weighted_options(setup: &mut Setup<'_, '_>) -> Result<Duration, SetupError> {
    let mut reload = DEFAULT_RELOAD;
    while let Some(option) = setup.tokens.next_block() {
        match option.text() {
            "reload" => {
                let args = setup.tokens.remaining_args();
                let text = match args[..] {
                    [text] => text,
                    [] => return Err(setup.error("reload duration value is missing")),
                    _ => return Err(setup.error("unexpected argument")),
                };
                let duration = GoDuration::parse(text).ok().and_then(GoDuration::to_std);
                let invalid = || setup.error(format!("invalid reload duration '{}'", excerpt(text)));
                reload = duration.ok_or_else(|| invalid().with_remedy("write 30s, 5m or 0s"))?;
            }
            word => return Err(unknown_property(setup, word, "weighted knows reload")),
        }
    }
    Ok(reload)
}

fn unknown_property(setup: &Setup<'_, '_>, word: &str, remedy: &str) -> SetupError {
    setup.error(format!("unknown property '{}'", excerpt(word))).with_remedy(remedy)
}
