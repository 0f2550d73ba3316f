//! `-validate`: all that can be said about a configuration without opening anything.

use std::io::Write as _;
use std::process::ExitCode;

use coredns_plugin::corefile::{ParseError, excerpt_path};

use super::instance::Instance;
use super::load::check_text;
use super::process::refuse;
use crate::cli::Options;
use crate::registry::REGISTRY;

/// Checks a configuration without opening anything; prints every error and warning. 0 where it would start.
#[must_use]
pub fn validate(options: &Options) -> ExitCode {
    let text = match options.origin.read() {
        Ok(text) => text,
        Err(error) => return refuse(&error),
    };
    let checked = check_text(&text, &options.dns_port);
    let mut errors = checked.errors;
    let place = |file: &str, line: u32| format!("{}:{line}", excerpt_path(file));
    let warnings = checked.corefile.warnings.iter();
    let mut warnings: Vec<String> = warnings.map(|one| format!("{one} ({})", place(&one.file, one.line))).collect();
    match Instance::build(&checked.corefile, REGISTRY, &options.dns_port) {
        Ok(instance) => warnings.extend(instance.warnings.iter().map(ParseError::explain)),
        Err(more) => errors.extend(more),
    }
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
