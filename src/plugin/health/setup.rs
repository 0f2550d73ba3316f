//! The directive `health`.

use std::sync::Arc;
use std::time::Duration;

use coredns_plugin::corefile::{GoDuration, excerpt};
use coredns_plugin::{HttpEndpoint, Setup, SetupError};

use super::endpoint::{Health, report};
use super::{NAME, PATH};

const DEFAULT_ADDRESS: &str = ":8080";

pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let mut address = DEFAULT_ADDRESS.to_owned();
    let mut lameduck = Duration::ZERO;
    while setup.tokens.next_token().is_some() {
        if let Some(given) = setup.endpoint_address()? {
            given.clone_into(&mut address);
        }
        while let Some(option) = setup.tokens.next_block() {
            match option.text() {
                "lameduck" => lameduck = parse_lameduck(setup)?,
                word => {
                    let error = setup.error(format!("unknown property '{}'", excerpt(word)));
                    return Err(error.with_remedy("the only option is lameduck DURATION"));
                }
            }
        }
    }
    let health = Arc::new(Health::new(address.clone(), lameduck));
    setup.add_http(HttpEndpoint {
        plugin: NAME,
        address,
        path: PATH,
        handler: Arc::clone(&health) as _,
        required: true,
        security: None,
        report,
    });
    setup.add_part(health);
    Ok(())
}

/// A negative duration is no pause at all.
fn parse_lameduck(setup: &mut Setup<'_, '_>) -> Result<Duration, SetupError> {
    let [text] = setup.tokens.remaining_args()[..] else {
        return Err(setup.tokens.arg_error().in_plugin(setup.name()));
    };
    match GoDuration::parse(text) {
        Ok(duration) => Ok(duration.to_std().unwrap_or_default()),
        Err(error) => {
            let text = format!("unable to parse lameduck duration value: '{}' : {error}", excerpt(text));
            let error = setup.tokens.plain_error(text).in_plugin(setup.name());
            Err(error.with_remedy("write a number with its unit: 5s, 500ms"))
        }
    }
}
