//! The coredns-rs binary: flags in, process out.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use coredns_rs::{cli, registry, server, version};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "what is asked for on the command line is printed")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = match cli::parse(&arguments) {
        Ok(options) => options,
        Err(refused) => {
            eprint!("{}", refused.message);
            return ExitCode::from(refused.code);
        }
    };
    if options.version {
        print!("{}", version::block());
        return ExitCode::SUCCESS;
    }
    if options.plugins {
        println!("{}\n", registry::listing());
        return ExitCode::SUCCESS;
    }
    if options.validate {
        return server::validate(&options);
    }
    server::run(&options)
}
