//! The directive `cancel [TIMEOUT]`.

use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::corefile::{Dispenser, GoDuration, ParseError, quote};
use coredns_plugin::{Setup, SetupError};

use super::handler::Cancel;

/// A millisecond more than the five seconds that clients wait by default.
const DEFAULT: Duration = Duration::from_millis(5001);

/// Adds the handler; the last of several lines counts.
pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let timeout = read(&mut setup.tokens).map_err(|error| error.in_plugin(setup.name()))?;
    setup.add_plugin(Arc::new(Cancel { timeout }));
    Ok(())
}

fn read(tokens: &mut Dispenser<'_>) -> Result<Duration, ParseError> {
    let mut timeout = DEFAULT;
    while tokens.next_token().is_some() {
        let args = tokens.remaining_args();
        if args.len() > 1 || tokens.next_arg().is_some() {
            return Err(tokens.arg_error().with_remedy("write `cancel [TIMEOUT]`"));
        }
        timeout = args.first().map_or(Ok(DEFAULT), |text| read_timeout(text, tokens))?;
    }
    Ok(timeout)
}

fn read_timeout(text: &str, tokens: &Dispenser<'_>) -> Result<Duration, ParseError> {
    let refuse = |what: &str| {
        tokens.plain_error(format!("{what}: {}", quote(text))).with_remedy("write a duration, such as 500ms or 2s")
    };
    let duration = GoDuration::parse(text).map_err(|_| refuse("invalid duration"))?;
    duration.to_std().filter(|timeout| !timeout.is_zero()).ok_or_else(|| refuse("invalid negative duration"))
}
