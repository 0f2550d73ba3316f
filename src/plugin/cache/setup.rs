//! The directive `cache`.

use std::time::Duration;

use coredns_plugin::corefile::{GoDuration, excerpt, parse_integer};
use coredns_plugin::{Setup, SetupError, Zones};

use super::handler::Cache;

/// Entries of a store unless the directive says otherwise.
const DEFAULT_CAPACITY: i64 = 10_000;
/// The longest time that positive answers are kept, in seconds.
const DEFAULT_SUCCESS_TTL: u32 = 3600;
/// The longest time that denials are kept, in seconds.
const DEFAULT_DENIAL_TTL: u32 = 1800;
/// The shortest time that answers are kept, in seconds.
const DEFAULT_MIN_TTL: u32 = 5;
const DEFAULT_SERVFAIL: Duration = Duration::from_secs(5);
const DEFAULT_STALE: Duration = Duration::from_secs(3600);
const DEFAULT_WINDOW: Duration = Duration::from_secs(60);
const DEFAULT_PERCENT: u32 = 10;
/// The longest time that failures are remembered (RFC 2308 §7, RFC 9520 §3.2).
const FAILURE_MAX: Duration = Duration::from_secs(300);

/// The bounds of one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Entries as configured; shards round it.
    pub capacity: i64,
    /// The longest time that an answer is kept, in seconds.
    pub ttl: u32,
    /// The shortest time, in seconds; `ttl` wins over it.
    pub min_ttl: u32,
}

/// The option `prefetch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// Hits that make a name popular; 0 for no prefetch.
    pub amount: u32,
    /// Hits further apart than this do not add up.
    pub window: Duration,
    /// The last part of an entry's life, in percent, in which it is fetched again.
    pub percent: u32,
}

/// The options `serve_stale` and `serve_stale_policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stale {
    /// How long answers are served beyond their time; zero for not at all.
    pub up_to: Duration,
    /// The source is asked before a stale answer is served.
    pub verify: bool,
    /// How long that is waited for; zero for as long as it takes.
    pub verify_timeout: Duration,
    /// The TTL of stale answers in seconds.
    pub response_ttl: u32,
    /// After a failed refresh of an entry there is none for so long.
    pub recheck: Duration,
    /// A usable positive answer is served although there is a denial.
    pub prefer_positive: bool,
}

/// What a directive says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The zones that names must lie in.
    pub zones: Zones,
    /// Positive answers.
    pub success: Limits,
    /// Denials.
    pub denial: Limits,
    /// How long failures are remembered; zero for not at all.
    pub servfail: Duration,
    /// When popular names are fetched ahead of their end.
    pub prefetch: Prefetch,
    /// Serving beyond the end.
    pub stale: Stale,
    /// TTLs do not count down.
    pub keep_ttl: bool,
    /// The zones whose positive answers are not kept.
    pub disable_success: Zones,
    /// The zones whose denials are not kept.
    pub disable_denial: Zones,
}

pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let config = Config::parse(setup)?;
    setup.add_living(Cache::new(config));
    Ok(())
}

impl Config {
    /// The defaults, for names in `zones`.
    #[must_use]
    pub fn new(zones: Zones) -> Self {
        let limits = |ttl| Limits { capacity: DEFAULT_CAPACITY, ttl, min_ttl: DEFAULT_MIN_TTL };
        Self {
            zones,
            success: limits(DEFAULT_SUCCESS_TTL),
            denial: limits(DEFAULT_DENIAL_TTL),
            servfail: DEFAULT_SERVFAIL,
            prefetch: Prefetch { amount: 0, window: DEFAULT_WINDOW, percent: DEFAULT_PERCENT },
            stale: Stale::default(),
            keep_ttl: false,
            disable_success: Zones::default(),
            disable_denial: Zones::default(),
        }
    }

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
        let ttl = args.first().and_then(|first| parse_integer(first).ok());
        let zones = if ttl.is_some() { args.get(1..).unwrap_or(&[]) } else { &args };
        let mut config = Self::new(Zones::from_args_or(zones, setup.zones()));
        if let Some(ttl) = ttl {
            let ttl = positive_ttl(setup, ttl)?;
            config.success.ttl = ttl;
            config.denial.ttl = ttl;
        }
        let (mut stale, mut policy) = (false, false);
        while let Some(option) = setup.tokens.next_block() {
            match option.text() {
                "success" => limits(setup, &mut config.success)?,
                "denial" => limits(setup, &mut config.denial)?,
                "prefetch" => config.prefetch = prefetch(setup, config.prefetch)?,
                "serve_stale" => {
                    config.stale = serve_stale(setup)?;
                    stale = true;
                }
                "serve_stale_policy" => {
                    stale_policy(setup, policy)?;
                    policy = true;
                }
                "servfail" => config.servfail = servfail(setup)?,
                "disable" => disable(setup, &mut config)?,
                "keepttl" => {
                    if !setup.tokens.remaining_args().is_empty() {
                        return Err(arg_error(setup));
                    }
                    config.keep_ttl = true;
                }
                _ => {
                    let remedy = "cache knows success, denial, prefetch, serve_stale, serve_stale_policy, servfail, \
                                  disable and keepttl";
                    return Err(arg_error(setup).with_remedy(remedy));
                }
            }
        }
        if policy && !stale {
            return Err(plain(setup, "serve_stale_policy requires serve_stale").with_remedy("add serve_stale"));
        }
        config.stale.prefer_positive = policy;
        Ok(config)
    }
}

fn arg_error(setup: &Setup<'_, '_>) -> SetupError {
    setup.tokens.arg_error().in_plugin(setup.name())
}

/// An error whose text is the whole text, as CoreDNS words most errors of this plugin.
fn plain(setup: &Setup<'_, '_>, text: impl Into<String>) -> SetupError {
    setup.tokens.plain_error(text).in_plugin(setup.name())
}

fn integer(setup: &Setup<'_, '_>, text: &str) -> Result<i64, SetupError> {
    parse_integer(text).map_err(|error| plain(setup, error.to_string()))
}

fn duration(setup: &Setup<'_, '_>, text: &str) -> Result<GoDuration, SetupError> {
    let remedy = "write a number with its unit: 300ms, 30s, 5m, 1h30m";
    GoDuration::parse(text).map_err(|error| plain(setup, error.to_string()).with_remedy(remedy))
}

/// A TTL in seconds; longer than a TTL field can say is the longest that it can.
fn bounded(seconds: i64) -> Option<u32> {
    u32::try_from(seconds.min(i64::from(i32::MAX))).ok()
}

fn positive_ttl(setup: &Setup<'_, '_>, seconds: i64) -> Result<u32, SetupError> {
    bounded(seconds)
        .filter(|ttl| *ttl > 0)
        .ok_or_else(|| plain(setup, format!("cache TTL can not be zero or negative: {seconds}")))
}

/// `CAPACITY [TTL] [MINTTL]`
fn limits(setup: &mut Setup<'_, '_>, limits: &mut Limits) -> Result<(), SetupError> {
    let args = setup.tokens.remaining_args();
    let Some((capacity, times)) = args.split_first() else { return Err(arg_error(setup)) };
    limits.capacity = integer(setup, capacity)?;
    if let Some(ttl) = times.first() {
        limits.ttl = positive_ttl(setup, integer(setup, ttl)?)?;
    }
    if let Some(min) = times.get(1) {
        let seconds = integer(setup, min)?;
        let negative = || plain(setup, format!("cache min TTL can not be negative: {seconds}"));
        limits.min_ttl = bounded(seconds).ok_or_else(negative)?;
    }
    if times.len() > 2 {
        setup.warn("only capacity, TTL and minimal TTL count");
    }
    Ok(())
}

/// `AMOUNT [DURATION [PERCENT%]]`
fn prefetch(setup: &mut Setup<'_, '_>, before: Prefetch) -> Result<Prefetch, SetupError> {
    let args = setup.tokens.remaining_args();
    let (amount, window, percent) = match args[..] {
        [amount] => (amount, None, None),
        [amount, window] => (amount, Some(window), None),
        [amount, window, percent] => (amount, Some(window), Some(percent)),
        _ => return Err(arg_error(setup)),
    };
    let amount = integer(setup, amount)?;
    if amount < 0 {
        return Err(plain(setup, format!("prefetch amount should be positive: {amount}")));
    }
    let mut prefetch = Prefetch { amount: u32::try_from(amount).unwrap_or(u32::MAX), ..before };
    if let Some(window) = window {
        // No gap is short enough for a negative duration, nor for none.
        prefetch.window = duration(setup, window)?.to_std().unwrap_or_default();
    }
    if let Some(text) = percent {
        let Some(number) = text.strip_suffix('%') else {
            let last = text.chars().next_back().unwrap_or_default();
            let text = format!("last character of percentage should be `%`, but is: '{last}'");
            return Err(plain(setup, text));
        };
        let number = integer(setup, number)?;
        let percent = u32::try_from(number).ok().filter(|number| (10..=90).contains(number));
        let out_of_range = || plain(setup, format!("percentage should fall in range [10, 90]: {number}"));
        prefetch.percent = percent.ok_or_else(out_of_range)?;
    }
    Ok(prefetch)
}

/// `[DURATION [MODE [TIMES...]]]`
fn serve_stale(setup: &mut Setup<'_, '_>) -> Result<Stale, SetupError> {
    let args = setup.tokens.remaining_args();
    if args.len() > 5 {
        return Err(arg_error(setup));
    }
    let mut stale = Stale { up_to: DEFAULT_STALE, ..Stale::default() };
    let Some((up_to, rest)) = args.split_first() else { return Ok(stale) };
    let negative = || plain(setup, "invalid negative duration for serve_stale");
    stale.up_to = duration(setup, up_to)?.to_std().ok_or_else(negative)?;
    let Some((mode, mut times)) = rest.split_first() else { return Ok(stale) };
    match mode.to_lowercase().as_str() {
        "immediate" if times.len() > 2 => return Err(arg_error(setup)),
        "immediate" => {}
        "verify" => {
            stale.verify = true;
            if let Some((timeout, after)) = times.split_first() {
                stale.verify_timeout = verify_timeout(setup, timeout)?;
                times = after;
            }
        }
        _ => {
            let error = plain(setup, format!("invalid value for serve_stale refresh mode: {}", excerpt(mode)));
            return Err(error.with_remedy("write immediate or verify"));
        }
    }
    if let Some(ttl) = times.first() {
        stale.response_ttl = response_ttl(setup, ttl)?;
    }
    if let Some(recheck) = times.get(1) {
        stale.recheck = failure_recheck(setup, recheck)?;
    }
    Ok(stale)
}

fn verify_timeout(setup: &Setup<'_, '_>, text: &str) -> Result<Duration, SetupError> {
    let invalid = |error| plain(setup, format!("invalid serve_stale verify timeout: {error}"));
    let negative = || plain(setup, "invalid negative timeout for serve_stale verify");
    GoDuration::parse(text).map_err(invalid)?.to_std().ok_or_else(negative)
}

fn response_ttl(setup: &Setup<'_, '_>, text: &str) -> Result<u32, SetupError> {
    let invalid = |error| plain(setup, format!("invalid serve_stale response TTL: {error}"));
    let negative = || plain(setup, "invalid negative response TTL for serve_stale");
    let ttl = GoDuration::parse(text).map_err(invalid)?.to_std().ok_or_else(negative)?;
    if ttl.subsec_nanos() != 0 {
        return Err(plain(setup, "serve_stale response TTL must be a whole number of seconds"));
    }
    u32::try_from(ttl.as_secs()).map_err(|_| plain(setup, "serve_stale response TTL exceeds the DNS TTL range"))
}

fn failure_recheck(setup: &Setup<'_, '_>, text: &str) -> Result<Duration, SetupError> {
    let invalid = |error| plain(setup, format!("invalid serve_stale failure recheck: {error}"));
    let negative = || plain(setup, "invalid negative failure recheck for serve_stale");
    let recheck = GoDuration::parse(text).map_err(invalid)?.to_std().ok_or_else(negative)?;
    if recheck > FAILURE_MAX {
        return Err(plain(setup, "serve_stale failure recheck cannot exceed 5 minutes"));
    }
    Ok(recheck)
}

fn stale_policy(setup: &mut Setup<'_, '_>, again: bool) -> Result<(), SetupError> {
    if again {
        return Err(plain(setup, "serve_stale_policy can only be specified once"));
    }
    let args = setup.tokens.remaining_args();
    let [policy] = args[..] else { return Err(arg_error(setup)) };
    if !policy.eq_ignore_ascii_case("prefer_positive") {
        let error = plain(setup, format!("invalid serve_stale_policy: {}", excerpt(policy)));
        return Err(error.with_remedy("write prefer_positive"));
    }
    Ok(())
}

fn servfail(setup: &mut Setup<'_, '_>) -> Result<Duration, SetupError> {
    let args = setup.tokens.remaining_args();
    let [text] = args[..] else { return Err(arg_error(setup)) };
    let negative = || plain(setup, "invalid negative ttl for servfail");
    let time = duration(setup, text)?.to_std().ok_or_else(negative)?;
    if time > FAILURE_MAX {
        return Err(plain(setup, "caching SERVFAIL responses over 5 minutes is not permitted"));
    }
    Ok(time)
}

fn disable(setup: &mut Setup<'_, '_>, config: &mut Config) -> Result<(), SetupError> {
    let args = setup.tokens.remaining_args();
    let Some((kind, zones)) = args.split_first() else { return Err(arg_error(setup)) };
    let zones = if zones.is_empty() { Zones::from_args(&["."]) } else { Zones::from_args(zones) };
    match *kind {
        "success" => config.disable_success = zones,
        "denial" => config.disable_denial = zones,
        _ => return Err(plain(setup, "cache type for disable must be \"success\" or \"denial\"")),
    }
    Ok(())
}
