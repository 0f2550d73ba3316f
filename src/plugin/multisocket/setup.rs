//! The directive `multisocket [NUM_SOCKETS]`.

use coredns_plugin::corefile::{Dispenser, ParseError, parse_integer};
use coredns_plugin::{Setup, SetupError, WORKERS_MAX, usable_cpus};

/// Sets the block's number of sockets.
pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let sockets = read_sockets(&mut setup.tokens).map_err(|error| error.in_plugin(setup.name()))?;
    setup.block.sockets = Some(sockets);
    Ok(())
}

fn read_sockets(tokens: &mut Dispenser<'_>) -> Result<usize, ParseError> {
    tokens.next_token();
    let args = tokens.remaining_args();
    if args.len() > 1 || tokens.next_token().is_some() {
        return Err(tokens.arg_error().with_remedy("write `multisocket [NUM_SOCKETS]`, once in a server block"));
    }
    let Some(text) = args.first() else {
        return Ok(usable_cpus());
    };
    let number = parse_integer(text).map_err(|error| refuse(tokens, format!("invalid num sockets: {error}")))?;
    match usize::try_from(number) {
        Ok(sockets @ 1..=WORKERS_MAX) => Ok(sockets),
        Ok(1..) => Err(refuse(tokens, format!("num sockets exceeds maximum ({WORKERS_MAX}): {number}"))),
        _ => Err(refuse(tokens, format!("num sockets can not be zero or negative: {number}"))),
    }
}

fn refuse(tokens: &Dispenser<'_>, message: String) -> ParseError {
    tokens.plain_error(message).with_remedy(format!("write a number from 1 to {WORKERS_MAX}"))
}
