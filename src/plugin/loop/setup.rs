//! The directive `loop`.

use coredns_plugin::corefile::{Dispenser, ParseError, Scheme};
use coredns_plugin::wire::Name;
use coredns_plugin::{BlockConfig, Setup, SetupError};

use super::handler::LoopDetector;

/// Adds the detector, as a link of the chain and as what starts with the instance.
pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    read(&mut setup.tokens).map_err(|error| error.in_plugin(setup.name()))?;
    let detector = LoopDetector::new(first_zone(setup.block));
    setup.add_living(detector);
    Ok(())
}

fn read(tokens: &mut Dispenser<'_>) -> Result<(), ParseError> {
    tokens.next_token();
    if tokens.next_arg().is_some() {
        return Err(tokens.arg_error().with_remedy("`loop` stands alone"));
    }
    if tokens.next_token().is_some() {
        return Err(tokens.once_error());
    }
    Ok(())
}

/// The zone of the block's first key; the root where that names none.
pub(super) fn first_zone(block: &BlockConfig) -> Name {
    let is_socket = block.keys.first().is_some_and(|key| key.scheme == Scheme::Unix);
    let zone = block.zones.as_slice().first().filter(|_| !is_socket);
    zone.cloned().unwrap_or_default()
}
