//! `debug`: a panic ends the process instead of one query, and debug lines are logged.
//!
//! No handler: it sets a flag of the block, which the server reads. One block anywhere turns on debug lines for the
//! process. Plugins that show a message in a debug line use [`coredns_plugin::Hexdump`].

#[cfg(test)]
mod tests;

use coredns_plugin::{Descriptor, Setup, SetupError};

/// The plugin `debug`.
pub static DESCRIPTOR: Descriptor = Descriptor { name: "debug", setup, register_metrics: || {} };

fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    while setup.tokens.next_token().is_some() {
        if setup.tokens.next_arg().is_some() {
            return Err(setup.tokens.arg_error().in_plugin(setup.name()).with_remedy("`debug` stands alone"));
        }
    }
    setup.block.debug = true;
    Ok(())
}
