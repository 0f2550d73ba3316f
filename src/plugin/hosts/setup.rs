//! The directive `hosts`.

use std::path::PathBuf;
use std::time::Duration;

use coredns_plugin::corefile::{GoDuration, excerpt};
use coredns_plugin::{Fallthrough, Setup, SetupError, Zones};

use super::handler::Hosts;
use super::table::parse_address;

/// Where the file is unless the directive says otherwise.
const DEFAULT_PATH: &str = "/etc/hosts";
/// In seconds.
const DEFAULT_TTL: u32 = 3600;
const DEFAULT_RELOAD: Duration = Duration::from_secs(5);

/// What a directive says.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file.
    pub path: PathBuf,
    /// The zones that names must lie in.
    pub zones: Zones,
    /// Lines of the Corefile in the form of lines of a hosts file.
    pub inline: Vec<String>,
    /// The TTL of all answers in seconds, 1 to 65535.
    pub ttl: u32,
    /// Whether addresses lead to names.
    pub reverse: bool,
    /// How often the file is looked at; zero for once.
    pub reload: Duration,
    /// For which names the next plugin is asked where there is no entry.
    pub fallthrough: Fallthrough,
    /// For names in the zones of `fallthrough`: types other than A, AAAA and PTR are the next plugin's.
    pub fallthrough_unsupported: bool,
}

pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let config = Config::parse(setup)?;
    setup.add_living(Hosts::new(config));
    Ok(())
}

impl Config {
    /// Reads the directive.
    ///
    /// # Errors
    /// It stands twice in the block, or an option is wrong.
    pub fn parse(setup: &mut Setup<'_, '_>) -> Result<Self, SetupError> {
        let mut config = None;
        while setup.tokens.next_token().is_some() {
            if config.is_some() {
                return Err(setup.tokens.once_error().in_plugin(setup.name()));
            }
            config = Some(Self::parse_one(setup)?);
        }
        config.ok_or_else(|| setup.tokens.end_error().in_plugin(setup.name()))
    }

    fn parse_one(setup: &mut Setup<'_, '_>) -> Result<Self, SetupError> {
        let args = setup.tokens.remaining_args();
        let (path, zones) = args.split_first().map_or((DEFAULT_PATH, &[][..]), |(path, zones)| (*path, zones));
        let mut config = Self {
            path: setup.path(path),
            zones: Zones::from_args_or(zones, setup.zones()),
            inline: Vec::new(),
            ttl: DEFAULT_TTL,
            reverse: true,
            reload: DEFAULT_RELOAD,
            fallthrough: Fallthrough::NEVER,
            fallthrough_unsupported: false,
        };
        let mut has_fallthrough = false;
        while let Some(option) = setup.tokens.next_block() {
            match option.text() {
                "fallthrough" => {
                    config.fallthrough = Fallthrough::from_args(&setup.tokens.remaining_args());
                    has_fallthrough = true;
                }
                "fallthrough_unsupported" => {
                    setup.tokens.end_of_args().map_err(|error| error.in_plugin(setup.name()))?;
                    config.fallthrough_unsupported = true;
                }
                "no_reverse" => config.reverse = false,
                "ttl" => config.ttl = ttl(setup)?,
                "reload" => config.reload = reload(setup)?,
                word if has_fallthrough => {
                    return Err(setup
                        .error(format!("unknown property '{}'", excerpt(word)))
                        .with_remedy("inline entries stand before fallthrough"));
                }
                word => config.inline.push(inline(setup, word)),
            }
        }
        if config.fallthrough_unsupported && !has_fallthrough {
            return Err(setup.error("fallthrough_unsupported requires fallthrough"));
        }
        Ok(config)
    }
}

fn ttl(setup: &mut Setup<'_, '_>) -> Result<u32, SetupError> {
    let args = setup.tokens.remaining_args();
    let Some((text, further)) = args.split_first() else {
        return Err(setup.error("ttl needs a time in second"));
    };
    let number: i64 = text.parse().map_err(|_| setup.error("ttl needs a number of second"))?;
    let ttl = u16::try_from(number).ok().filter(|ttl| *ttl > 0);
    let ttl = ttl.ok_or_else(|| setup.error("ttl provided is invalid").with_remedy("give 1 to 65535 seconds"))?;
    if !further.is_empty() {
        setup.warn("only the first argument of ttl counts");
    }
    Ok(ttl.into())
}

fn reload(setup: &mut Setup<'_, '_>) -> Result<Duration, SetupError> {
    let args = setup.tokens.remaining_args();
    let [text] = args[..] else {
        return Err(setup.error("reload needs a duration (zero seconds to disable)"));
    };
    let invalid =
        || setup.error(format!("invalid duration for reload '{}'", excerpt(text))).with_remedy("write 5s, 1m or 0");
    let duration = GoDuration::parse(text).map_err(|_| invalid())?;
    duration.to_std().ok_or_else(|| setup.error(format!("invalid negative duration for reload '{}'", excerpt(text))))
}

/// The rest of a line that begins with `word`, as a line of a hosts file.
fn inline(setup: &mut Setup<'_, '_>, word: &str) -> String {
    let mut words = vec![word];
    words.extend(setup.tokens.remaining_args());
    if parse_address(word).is_none() {
        setup.warn(format!("'{}' is neither an option of hosts nor an address: the line has no effect", excerpt(word)));
    } else if words.len() == 1 {
        setup.warn(format!("the entry of {} has no name: the line has no effect", excerpt(word)));
    }
    words.join(" ")
}
