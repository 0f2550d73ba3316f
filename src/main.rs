//! The coredns-rs binary: flags in, process out.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::ExitCode;

use coredns_rs::{cli, registry, server, version};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = match cli::parse(&arguments) {
        Ok(options) => options,
        Err(refused) => {
            // The exit code tells what a reader who has gone does not see; the same holds below.
            let _ = std::io::stderr().write_all(refused.message.as_bytes());
            return ExitCode::from(refused.code);
        }
    };
    let asked = match (options.version, options.plugins) {
        (true, _) => version::block(),
        (false, true) => format!("{}\n\n", registry::listing()),
        (false, false) if options.validate => return server::validate(&options),
        (false, false) => return server::run(&options),
    };
    let _ = std::io::stdout().write_all(asked.as_bytes());
    ExitCode::SUCCESS
}
