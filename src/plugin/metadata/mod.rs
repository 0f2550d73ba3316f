//! `metadata`: labels about queries, for logs, views and rewrites.
//!
//! The collecting is the server's: before a block's views are looked at it makes a store for the query and asks every
//! plugin of the block that provides labels, where the name lies in the zones that this directive sets. In the chain the
//! plugin only passes queries on; it is there to be seen among the enabled ones.

mod handler;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use coredns_plugin::{Descriptor, Setup, SetupError, Zones};

/// The plugin `metadata`.
pub static DESCRIPTOR: Descriptor = Descriptor { name: "metadata", setup, register_metrics: || {} };

fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    setup.tokens.next_token();
    let args = setup.tokens.remaining_args();
    if setup.tokens.next_block().is_some() || setup.tokens.next_token().is_some() {
        let error = setup.tokens.arg_error().in_plugin(setup.name());
        return Err(error.with_remedy("write `metadata [ZONES...]`, once in a server block"));
    }
    setup.block.metadata = Some(Zones::from_args_or(&args, setup.zones()));
    setup.add_plugin(Arc::new(handler::Collector));
    Ok(())
}
