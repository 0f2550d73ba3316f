//! `whoami`: tells clients their address, port and transport.
//!
//! Budget for a query: two records into a pooled reply; no allocation for names of up to 73 octets.

mod handler;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use coredns_plugin::{Descriptor, Setup, SetupError};

/// The plugin `whoami`.
pub static DESCRIPTOR: Descriptor = Descriptor { name: "whoami", setup, register_metrics: || {} };

fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    while setup.tokens.next_token().is_some() {
        if setup.tokens.next_arg().is_some() {
            return Err(setup.tokens.arg_error().in_plugin(setup.name()).with_remedy("`whoami` stands alone"));
        }
    }
    setup.add_plugin(Arc::new(handler::Whoami));
    Ok(())
}
