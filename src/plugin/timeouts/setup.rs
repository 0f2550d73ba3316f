//! The directive `timeouts { ... }`.

use std::time::Duration;

use coredns_plugin::corefile::{Dispenser, GoDuration, ParseError, excerpt, parse_integer};
use coredns_plugin::{Setup, SetupError, Timeouts};

const MIN: Duration = Duration::from_secs(1);
const MAX: Duration = Duration::from_secs(24 * 60 * 60);

const OPTIONS: &str = "the options are read, write, idle and maxtcpqueries";

/// Sets the block's time-outs.
pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let mut timeouts = setup.block.timeouts;
    read(&mut setup.tokens, &mut timeouts).map_err(|error| error.in_plugin(setup.name()))?;
    setup.block.timeouts = timeouts;
    Ok(())
}

fn read(tokens: &mut Dispenser<'_>, timeouts: &mut Timeouts) -> Result<(), ParseError> {
    while tokens.next_token().is_some() {
        if !tokens.remaining_args().is_empty() {
            return Err(tokens
                .arg_error()
                .with_remedy("options stand in a block: `timeouts { read 5s }`, a line each"));
        }
        let mut is_empty = true;
        while let Some(option) = tokens.next_block() {
            read_option(option.text(), tokens, timeouts)?;
            is_empty = false;
        }
        if is_empty {
            return Err(tokens.error("timeouts block with no timeouts specified").with_remedy(OPTIONS));
        }
    }
    Ok(())
}

fn read_option(option: &str, tokens: &mut Dispenser<'_>, timeouts: &mut Timeouts) -> Result<(), ParseError> {
    let args = tokens.remaining_args();
    let [value] = args[..] else {
        return Err(tokens.arg_error().with_remedy(format!("`{}` takes one value", excerpt(option))));
    };
    if option == "maxtcpqueries" {
        timeouts.max_tcp_queries = Some(read_limit(value, tokens)?);
        return Ok(());
    }
    // The value is looked at before the name, so a bad value of an unknown option is reported as a bad value.
    let timeout = Some(read_duration(value, tokens)?);
    match option {
        "read" => timeouts.read = timeout,
        "write" => timeouts.write = timeout,
        "idle" => timeouts.idle = timeout,
        _ => return Err(tokens.error(format!("unknown option: '{}'", excerpt(option))).with_remedy(OPTIONS)),
    }
    Ok(())
}

/// A duration, or a number of seconds.
fn read_duration(value: &str, tokens: &Dispenser<'_>) -> Result<Duration, ParseError> {
    let remedy = "write a duration from 1s to 24h, such as 30s or 2m";
    let text = if parse_integer(value).is_ok() { format!("{value}s") } else { value.to_owned() };
    let duration = GoDuration::parse(&text)
        .map_err(|_| tokens.error(format!("failed to parse duration '{}'", excerpt(&text))).with_remedy(remedy))?;
    duration.to_std().filter(|timeout| (MIN..=MAX).contains(timeout)).ok_or_else(|| {
        let message = format!("timeout provided '{duration}' needs to be between 1 second and 24 hours");
        tokens.error(message).with_remedy(remedy)
    })
}

/// A number of queries; `None` is without limit.
fn read_limit(value: &str, tokens: &Dispenser<'_>) -> Result<Option<u32>, ParseError> {
    let number = parse_integer(value)
        .map_err(|error| tokens.error(format!("invalid value for maxtcpqueries '{}': {error}", excerpt(value))))?;
    match number {
        -1 => Ok(None),
        // No connection lives for four thousand million queries.
        1.. => Ok(Some(u32::try_from(number).unwrap_or(u32::MAX))),
        _ => {
            Err(tokens
                .error(format!("maxtcpqueries provided '{number}' needs to be -1 (unlimited) or a positive integer")))
        }
    }
}
