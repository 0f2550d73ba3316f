//! The directive `root PATH`.

use std::fs;
use std::io;
use std::path::PathBuf;

use coredns_plugin::corefile::{Dispenser, ParseError, excerpt_path, os_error_text};
use coredns_plugin::{Setup, SetupError};

/// Sets the block's folder; the last of several lines counts.
pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let path = read_path(&mut setup.tokens).map_err(|error| error.in_plugin(setup.name()))?;
    match fs::metadata(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            setup.warn(format!("Root path does not exist: {}", excerpt_path(path)));
        }
        Err(error) => {
            return Err(setup.error(inaccessible(path, &error)).with_remedy("name a folder that can be read"));
        }
    }
    setup.block.root = PathBuf::from(path);
    Ok(())
}

fn read_path<'t>(tokens: &mut Dispenser<'t>) -> Result<&'t str, ParseError> {
    let mut path = "";
    while tokens.next_token().is_some() {
        // An opening brace is a path like any other here; the line below it then is the error.
        path = tokens.next_arg().ok_or_else(|| tokens.arg_error().with_remedy("write `root PATH`"))?.text();
        tokens.end_of_args()?;
    }
    Ok(path)
}

fn inaccessible(path: &str, error: &io::Error) -> String {
    // A name with a zero octet never reaches the system; this is what the system would say.
    let reason = match error.kind() {
        io::ErrorKind::InvalidInput => "invalid argument".to_owned(),
        _ => os_error_text(error),
    };
    let path = excerpt_path(path);
    format!("unable to access root path '{path}': stat {path}: {reason}")
}
