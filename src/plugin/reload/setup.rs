//! The directive `reload [INTERVAL] [JITTER]`.

use std::time::Duration;

use coredns_plugin::corefile::{Dispenser, GoDuration, ParseError};
use coredns_plugin::{ReloadSettings, Setup, SetupError};

const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);
const DEFAULT_JITTER: Duration = Duration::from_secs(15);
const MIN_INTERVAL: Duration = Duration::from_secs(2);
const MIN_JITTER: Duration = Duration::from_secs(1);

/// Sets the watch; the last of several lines counts.
pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let settings = read(&mut setup.tokens).map_err(|error| error.in_plugin(setup.name()))?;
    setup.block.reload = Some(settings);
    Ok(())
}

fn read(tokens: &mut Dispenser<'_>) -> Result<ReloadSettings, ParseError> {
    let mut settings = ReloadSettings { interval: DEFAULT_INTERVAL, jitter: DEFAULT_JITTER };
    while tokens.next_token().is_some() {
        let args = tokens.remaining_args();
        if args.len() > 2 || tokens.next_arg().is_some() {
            return Err(tokens.arg_error().with_remedy("write `reload [INTERVAL] [JITTER]`"));
        }
        settings = read_args(&args, tokens)?;
    }
    Ok(settings)
}

fn read_args(args: &[&str], tokens: &Dispenser<'_>) -> Result<ReloadSettings, ParseError> {
    let duration = |index: usize, default| match args.get(index) {
        // A negative duration is below every minimum, as none is.
        Some(text) => GoDuration::parse(text)
            .map(GoDuration::to_std)
            .map_err(|error| tokens.plain_error(error.to_string()).with_remedy("write a duration, such as 10s or 2m")),
        None => Ok(Some(default)),
    };
    let interval = duration(0, DEFAULT_INTERVAL)?
        .filter(|interval| *interval >= MIN_INTERVAL)
        .ok_or_else(|| tokens.plain_error("interval value must be greater or equal to 2s"))?;
    let jitter = duration(1, DEFAULT_JITTER)?
        .filter(|jitter| jitter.is_zero() || *jitter >= MIN_JITTER)
        .ok_or_else(|| tokens.plain_error("jitter value must be 0 or greater or equal to 1s"))?;
    Ok(ReloadSettings { interval, jitter: jitter.min(interval / 2) })
}
