//! The directive `blocklist`.

use std::sync::Arc;

use coredns_plugin::{Setup, SetupError};

use super::NAME;
use super::handler::{Blocklist, Refusal};
use super::names::Names;

/// Reads `blocklist NAME|FILE... { refuse }`. A word with a slash is a file.
pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let mut names = Names::default();
    let mut refusal = Refusal::NameError;
    let mut seen = false;
    while setup.tokens.next_token().is_some() {
        if seen {
            return Err(setup.tokens.once_error().in_plugin(NAME));
        }
        seen = true;
        for word in setup.tokens.remaining_args() {
            let added = if word.contains('/') { names.add_file(&setup.path(word)) } else { names.add(word) };
            added.map_err(|text| setup.error(text).with_remedy("give domain names, or files with a name a line"))?;
        }
        while let Some(option) = setup.tokens.next_block() {
            match option.text() {
                "refuse" => {
                    setup.tokens.end_of_args().map_err(|error| error.in_plugin(NAME))?;
                    refusal = Refusal::Refused;
                }
                word => return Err(setup.error(format!("unknown property '{word}'")).with_remedy("there is `refuse`")),
            }
        }
    }
    if names.is_empty() {
        setup.warn("the list is empty, so nothing is blocked");
    }
    setup.add_plugin(Arc::new(Blocklist::new(names, refusal)));
    Ok(())
}
