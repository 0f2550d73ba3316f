//! The directive `ready`.

use std::sync::Arc;

use coredns_plugin::corefile::excerpt;
use coredns_plugin::{HttpEndpoint, Setup, SetupError};

use super::endpoint::{Ready, report};
use super::readiness::Monitor;
use super::{NAME, PATH};

const DEFAULT_ADDRESS: &str = ":8181";

pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let mut seen = None;
    while setup.tokens.next_token().is_some() {
        if seen.is_some() {
            return Err(setup.tokens.once_error().in_plugin(setup.name()));
        }
        seen = Some(parse_one(setup)?);
    }
    let (address, monitor) = seen.unwrap_or_else(|| (DEFAULT_ADDRESS.to_owned(), Monitor::default()));
    let ready = Arc::new(Ready::new(monitor));
    setup.add_http(HttpEndpoint {
        plugin: NAME,
        address,
        path: PATH,
        handler: Arc::clone(&ready) as _,
        required: false,
        security: None,
        report,
    });
    setup.add_part(ready);
    Ok(())
}

fn parse_one(setup: &mut Setup<'_, '_>) -> Result<(String, Monitor), SetupError> {
    let address = setup.endpoint_address()?.unwrap_or(DEFAULT_ADDRESS);
    let mut monitor = Monitor::default();
    while let Some(option) = setup.tokens.next_block() {
        match option.text() {
            "monitor" => monitor = parse_monitor(setup)?,
            word => {
                let error = setup.error(format!("unknown property '{}'", excerpt(word)));
                return Err(error.with_remedy("the only option is monitor until-ready|continuously"));
            }
        }
    }
    Ok((address.to_owned(), monitor))
}

fn parse_monitor(setup: &mut Setup<'_, '_>) -> Result<Monitor, SetupError> {
    match setup.tokens.remaining_args()[..] {
        ["until-ready"] => Ok(Monitor::UntilReady),
        ["continuously"] => Ok(Monitor::Continuously),
        [other] => {
            let error = setup.error(format!("monitor type '{}' not supported", excerpt(other)));
            Err(error.with_remedy("write until-ready or continuously"))
        }
        _ => Err(setup.tokens.arg_error().in_plugin(setup.name())),
    }
}
