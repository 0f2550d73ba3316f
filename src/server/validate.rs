//! `-validate`: all that can be said about a configuration without opening anything.

use std::io::Write as _;
use std::process::ExitCode;

use coredns_plugin::corefile::{Checked, ParseError, Source, excerpt_path};

use super::instance::Instance;
use super::load::{Text, check_text};
use super::process::refuse;
use crate::cli::Options;
use crate::registry::REGISTRY;

/// What is wrong with a configuration, and what is odd.
#[derive(Debug, Default)]
pub struct Findings {
    /// Everything that keeps it from being served.
    pub errors: Vec<ParseError>,
    /// Everything else worth a line, with its place.
    pub warnings: Vec<String>,
}

/// Checks a text as far as can be done without opening anything, each directive's setup included.
#[must_use]
pub fn check(source: &Source, dns_port: &str) -> Findings {
    findings(check_text(&Text::Read(source.clone()), dns_port), dns_port)
}

fn findings(checked: Checked, dns_port: &str) -> Findings {
    let Checked { corefile, mut errors } = checked;
    let place = |file: &str, line: u32| format!("{}:{line}", excerpt_path(file));
    let warnings = corefile.warnings.iter();
    let mut warnings: Vec<String> = warnings.map(|one| format!("{one} ({})", place(&one.file, one.line))).collect();
    match Instance::build(&corefile, REGISTRY, dns_port) {
        Ok(instance) => warnings.extend(instance.warnings.iter().map(ParseError::explain)),
        Err(more) => errors.extend(more),
    }
    Findings { errors, warnings }
}

/// Checks a configuration without opening anything; prints every error and warning. 0 where it would start.
#[must_use]
pub fn validate(options: &Options) -> ExitCode {
    let text = match options.origin.read() {
        Ok(text) => text,
        Err(error) => return refuse(&error),
    };
    let Findings { errors, warnings } = findings(check_text(&text, &options.dns_port), &options.dns_port);
    let mut lines = warnings.iter().map(|warning| format!("[WARNING] {warning}\n")).collect::<String>();
    lines.extend(errors.iter().map(|error| format!("[ERROR] {}\n", error.explain())));
    let counts = [count(errors.len(), "error"), count(warnings.len(), "warning")];
    lines.extend([counts.join(", ").as_str(), "\n"]);
    // The exit code tells what a reader who has gone does not see.
    let _ = std::io::stdout().write_all(lines.as_bytes());
    if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
