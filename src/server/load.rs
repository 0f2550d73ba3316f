//! Where the Corefile comes from.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

use coredns_plugin::corefile::{
    Checked, Corefile, ParseError, ParseOptions, Source, check, default_corefile, excerpt_path, os_error_text, parse,
    process_environment,
};

use crate::registry::DIRECTIVES;

/// The longest Corefile, in octets; imports have bounds of their own.
const COREFILE_MAX: u64 = 16 << 20;

/// Where the Corefile comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No `-conf`: the file `Corefile` of the working directory, or the built-in one where there is none.
    Default,
    /// `-conf FILE`.
    File(PathBuf),
    /// `-conf stdin`. It can be read once.
    Stdin,
}

/// A text that was read, or none.
pub(crate) enum Text {
    /// There is one.
    Read(Source),
    /// There is none, and the built-in one is meant.
    BuiltIn,
}

impl Origin {
    /// Reads the text.
    ///
    /// # Errors
    /// What the system says, as one line.
    pub(crate) fn read(&self) -> Result<Text, String> {
        match self {
            Self::Default => match read_file("Corefile".as_ref()) {
                Ok(text) => Ok(Text::Read(Source::new("Corefile", text))),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Text::BuiltIn),
                Err(error) => Err(format!("loading Caddyfile via default: open Corefile: {}", os_error_text(&error))),
            },
            Self::File(path) => {
                let name = path.display().to_string();
                let text = read_file(path).map_err(|error| {
                    format!("loading Caddyfile via flag: open {}: {}", excerpt_path(&name), os_error_text(&error))
                })?;
                Ok(Text::Read(Source::new(name, text)))
            }
            Self::Stdin => read_stdin(),
        }
    }
}

fn read_file(path: &std::path::Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // One octet more than allowed tells a file that is too long. Pipes are welcome here: `-conf <(generate)`.
    std::fs::File::open(path)?.take(COREFILE_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > COREFILE_MAX {
        return Err(std::io::Error::other("file is longer than 16 MiB"));
    }
    Ok(text)
}

fn read_stdin() -> Result<Text, String> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Ok(Text::BuiltIn);
    }
    let mut text = Vec::new();
    let read = stdin.lock().take(COREFILE_MAX + 1).read_to_end(&mut text);
    read.map_err(|error| format!("loading Caddyfile via flag: read /dev/stdin: {}", os_error_text(&error)))?;
    Ok(Text::Read(Source::new("/dev/stdin", text)))
}

/// The Corefile that is built in.
pub(crate) fn built_in(dns_port: &str) -> Source {
    Source::new("Corefile", default_corefile(dns_port))
}

fn options(directives: Option<&'static [&'static str]>) -> ParseOptions<'static> {
    ParseOptions { directives, environment: &process_environment }
}

/// Parses a text for serving; a text without blocks means the built-in one.
///
/// # Errors
/// The first error.
pub(crate) fn parse_text(text: &Text, dns_port: &str) -> Result<Corefile, ParseError> {
    let mut warnings = Vec::new();
    if let Text::Read(source) = text {
        let corefile = parse(source, &options(Some(DIRECTIVES)))?;
        if !corefile.blocks.is_empty() {
            return Ok(corefile);
        }
        // They say why there are no blocks, such as a pattern that matches nothing.
        warnings = corefile.warnings;
    }
    let built_in = parse(&built_in(dns_port), &options(Some(DIRECTIVES)))?;
    warnings.extend(built_in.warnings);
    Ok(Corefile { warnings, ..built_in })
}

/// Parses a text and goes on behind errors.
pub(crate) fn check_text(text: &Text, dns_port: &str) -> Checked {
    let checked = match text {
        Text::Read(source) => Some(check(source, &options(Some(DIRECTIVES)))),
        Text::BuiltIn => None,
    };
    let warnings = match checked {
        Some(checked) if !checked.corefile.blocks.is_empty() || !checked.errors.is_empty() => return checked,
        Some(checked) => checked.corefile.warnings,
        None => Vec::new(),
    };
    let mut built_in = check(&built_in(dns_port), &options(Some(DIRECTIVES)));
    built_in.corefile.warnings.splice(0..0, warnings);
    built_in
}

/// Parses a text for comparing it with the running configuration: unknown directives do not matter.
///
/// # Errors
/// The first error.
pub(crate) fn parse_for_comparison(source: &Source) -> Result<Corefile, ParseError> {
    parse(source, &options(None))
}
