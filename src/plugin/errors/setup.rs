//! The directive `errors`.

use coredns_plugin::corefile::{GoDuration, excerpt};
use coredns_plugin::go_regex::{self, PATTERN_BYTES_MAX};
use coredns_plugin::{Setup, SetupError};

use super::consolidate::{Level, Pattern};
use super::handler::Errors;

const SHOW_FIRST: &str = "show_first";

pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let mut patterns = None;
    while setup.tokens.next_token().is_some() {
        if patterns.is_some() {
            return Err(setup.tokens.once_error().in_plugin(setup.name()));
        }
        patterns = Some(parse_one(setup)?);
    }
    setup.add_living(Errors::new(patterns.unwrap_or_default()));
    Ok(())
}

fn parse_one(setup: &mut Setup<'_, '_>) -> Result<Vec<Pattern>, SetupError> {
    match setup.tokens.remaining_args()[..] {
        [] | ["stdout"] => {}
        [file] => {
            let error = setup.error(format!("invalid log file: {}", excerpt(file)));
            return Err(error.with_remedy("the log goes to standard output: leave the argument out, or write stdout"));
        }
        _ => return Err(setup.tokens.arg_error().in_plugin(setup.name())),
    }
    let mut patterns = Vec::new();
    while let Some(option) = setup.tokens.next_block() {
        match option.text() {
            "stacktrace" => setup.block.stacktrace = true,
            "consolidate" => patterns.push(consolidate(setup)?),
            word => {
                let error =
                    setup.tokens.syntax_error(&format!("Unknown field {}", excerpt(word))).in_plugin(setup.name());
                return Err(error.with_remedy("the options are stacktrace and consolidate"));
            }
        }
    }
    Ok(patterns)
}

fn consolidate(setup: &mut Setup<'_, '_>) -> Result<Pattern, SetupError> {
    let args = setup.tokens.remaining_args();
    let [period, source, options @ ..] = &args[..] else {
        return Err(setup.tokens.arg_error().in_plugin(setup.name()));
    };
    if options.len() > 2 {
        return Err(setup.tokens.arg_error().in_plugin(setup.name()));
    }
    let period = GoDuration::parse(period)
        .map_err(|error| setup.error(error.to_string()).with_remedy("write a number with its unit: 30s, 5m, 1h30m"))?;
    if source.len() > PATTERN_BYTES_MAX {
        return Err(setup.error(format!("regex pattern too long: {} > {PATTERN_BYTES_MAX}", source.len())));
    }
    let regex = go_regex::compile(source).map_err(|error| setup.error(error.to_string()))?;
    let (level, show_first) = options_of(setup, options)?;
    Ok(Pattern::new(period, regex, (*source).to_owned(), level, show_first))
}

fn options_of(setup: &Setup<'_, '_>, options: &[&str]) -> Result<(Level, bool), SetupError> {
    let (mut level, mut show_first) = (None, false);
    for &word in options {
        match Level::from_word(word) {
            Some(_) if level.is_some() => return Err(setup.error("multiple log levels specified in consolidate")),
            Some(_) if show_first => {
                return Err(setup.error("log level must come before show_first in consolidate"));
            }
            Some(given) => level = Some(given),
            None if word == SHOW_FIRST => show_first = true,
            None => {
                let error = setup.error(format!("unknown option in consolidate: {}", excerpt(word)));
                return Err(error.with_remedy("the options are warning, error, info or debug, and then show_first"));
            }
        }
    }
    Ok((level.unwrap_or(Level::Error), show_first))
}
