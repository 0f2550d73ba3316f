//! The directive `log`.

use std::sync::Arc;

use coredns_plugin::corefile::excerpt;
use coredns_plugin::wire::Name;
use coredns_plugin::{LineFormat, ResponseClass, Setup, SetupError};

use super::handler::{Classes, Log, Rule};

/// The format `{common}`, which is the default.
const COMMON: &str = concat!(
    "{remote}:{port} - {>id} \"{type} {class} {name} {proto} {size} {>do} {>bufsize}\" ",
    "{rcode} {>rflags} {rsize} {duration}"
);
/// What the format `{combined}` adds to `{common}`.
const COMBINED_SUFFIX: &str = " \"{>opcode}\"";

pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let mut rules = Vec::new();
    while setup.tokens.next_token().is_some() {
        parse_one(setup, &mut rules)?;
    }
    setup.add_plugin(Arc::new(Log::new(rules)));
    Ok(())
}

fn parse_one(setup: &mut Setup<'_, '_>, rules: &mut Vec<Rule>) -> Result<(), SetupError> {
    let args = setup.tokens.remaining_args();
    let (names, format) = match &args[..] {
        [] => (&["."][..], COMMON),
        [names @ .., last] if !names.is_empty() && last.contains('{') => (names, *last),
        names => (names, COMMON),
    };
    let combined = format!("{COMMON}{COMBINED_SUFFIX}");
    let format = Arc::new(LineFormat::new(&format.replace("{common}", COMMON).replace("{combined}", &combined)));
    let mut zones = Vec::new();
    for name in names {
        if name.contains('{') {
            setup.warn(format!(
                "'{}' is taken for a domain name: a format stands behind one, as in log . FORMAT",
                excerpt(name)
            ));
        }
        match name.parse::<Name>() {
            Ok(zone) => zones.push(zone),
            Err(error) => setup.warn(format!("'{}' is no domain name and matches none: {error}", excerpt(name))),
        }
    }
    let mut classes = Classes::NONE;
    while let Some(option) = setup.tokens.next_block() {
        match option.text() {
            "class" => add_classes(setup, &mut classes)?,
            word => {
                let error = setup.error(format!("unknown property '{}'", excerpt(word)));
                return Err(error.with_remedy("the only option is class"));
            }
        }
    }
    let classes = if classes == Classes::NONE { Classes::ALL } else { classes };
    rules.extend(zones.into_iter().map(|zone| Rule { zone, format: Arc::clone(&format), classes }));
    Ok(())
}

fn add_classes(setup: &mut Setup<'_, '_>, classes: &mut Classes) -> Result<(), SetupError> {
    let words = setup.tokens.remaining_args();
    if words.is_empty() {
        return Err(setup.tokens.arg_error().in_plugin(setup.name()));
    }
    for word in words {
        match word {
            "all" => *classes = Classes::ALL,
            "success" => classes.insert(ResponseClass::Success),
            "denial" => classes.insert(ResponseClass::Denial),
            "error" => classes.insert(ResponseClass::Error),
            _ => {
                let error = setup.error(format!("invalid Class: {}", excerpt(word)));
                return Err(error.with_remedy("the classes are all, success, denial and error"));
            }
        }
    }
    Ok(())
}
