//! The directive `erratic { ... }`.

use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::corefile::{Dispenser, GoDuration, ParseError, excerpt, parse_integer_32, quote};
use coredns_plugin::{Setup, SetupError};

use super::handler::Erratic;

const DEFAULT_AMOUNT: u32 = 2;
const DEFAULT_DELAY: Duration = Duration::from_millis(100);

/// How to misbehave: at every so many queries, 0 for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Queries that get no answer.
    pub(super) drop: u32,
    /// Answers with TC set, or zone transfers without an end.
    pub(super) truncate: u32,
    /// Answers that come late.
    pub(super) delay: u32,
    /// How late.
    pub(super) duration: Duration,
    /// Answers of many records.
    pub(super) large: bool,
}

/// Adds the handler.
pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let options = read(&mut setup.tokens).map_err(|error| error.in_plugin(setup.name()))?;
    setup.add_plugin(Arc::new(Erratic::new(options)));
    Ok(())
}

pub(super) fn read(tokens: &mut Dispenser<'_>) -> Result<Options, ParseError> {
    let mut drop = None;
    let mut options = Options { drop: DEFAULT_AMOUNT, truncate: 0, delay: 0, duration: DEFAULT_DELAY, large: false };
    while tokens.next_token().is_some() {
        tokens.end_of_args()?;
        while let Some(option) = tokens.next_block() {
            match option.text() {
                "drop" => drop = Some(read_amount(&read_args::<1>(tokens)?, tokens)?),
                "truncate" => options.truncate = read_amount(&read_args::<1>(tokens)?, tokens)?,
                "delay" => {
                    let args = read_args::<2>(tokens)?;
                    options.delay = read_amount(&args, tokens)?;
                    options.duration = read_duration(&args, tokens)?;
                }
                "large" => options.large = true,
                unknown => {
                    let error = tokens.error(format!("unknown property '{}'", excerpt(unknown)));
                    return Err(error.with_remedy("the properties are drop, truncate, delay and large"));
                }
            }
        }
    }
    // Dropping is the default misbehaviour, and gives way to others.
    let misbehaves = options.truncate > 0 || options.delay > 0;
    options.drop = drop.unwrap_or(if misbehaves { 0 } else { DEFAULT_AMOUNT });
    Ok(options)
}

/// The arguments of a property, `MAX` at most.
fn read_args<'t, const MAX: usize>(tokens: &mut Dispenser<'t>) -> Result<Vec<&'t str>, ParseError> {
    let args = tokens.remaining_args();
    if args.len() > MAX { Err(tokens.arg_error()) } else { Ok(args) }
}

fn read_amount(args: &[&str], tokens: &Dispenser<'_>) -> Result<u32, ParseError> {
    let Some(text) = args.first() else {
        return Ok(DEFAULT_AMOUNT);
    };
    let amount = parse_integer_32(text).map_err(|error| tokens.plain_error(error.to_string()))?;
    u32::try_from(amount).map_err(|_| tokens.plain_error(format!("illegal amount value given {}", quote(text))))
}

/// The second argument; a negative duration is no delay.
fn read_duration(args: &[&str], tokens: &Dispenser<'_>) -> Result<Duration, ParseError> {
    args.get(1).map_or(Ok(DEFAULT_DELAY), |text| {
        let duration = GoDuration::parse(text).map_err(|error| tokens.plain_error(error.to_string()))?;
        Ok(duration.to_std().unwrap_or_default())
    })
}
