//! The directive `bufsize [SIZE]`.

use std::ops::RangeInclusive;
use std::sync::Arc;

use coredns_plugin::{Setup, SetupError};

use super::handler::BufferSize;

/// What fits into unfragmented packets nearly everywhere (DNS Flag Day 2020).
const DEFAULT: u16 = 1232;
const RANGE: RangeInclusive<u16> = 512..=4096;

/// Adds the handler; the first of several lines counts.
pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    setup.tokens.next_token();
    let octets = match setup.tokens.remaining_args()[..] {
        [] => Some(DEFAULT),
        [size] => size.parse().ok().filter(|size| RANGE.contains(size)),
        _ => None,
    };
    let Some(octets) = octets else {
        let error = setup.tokens.arg_error().in_plugin(setup.name());
        return Err(error.with_remedy("write `bufsize [SIZE]`, a size from 512 to 4096 octets"));
    };
    if setup.tokens.next_token().is_some() {
        setup.warn(format!("only the first line counts, {octets} octets; what follows it has no effect"));
    }
    setup.add_plugin(Arc::new(BufferSize { octets }));
    Ok(())
}
