//! The target for Corefile text.

use std::fs;
use std::path::PathBuf;

use coredns_corefile::{
    Checked, Corefile, Dispenser, Listening, ParseOptions, Source, Token, block_addresses, check, find_conflicts,
    fingerprint_input, parse,
};

/// Names of directives, for the parse that knows them.
const DIRECTIVES: &[&str] = &["log", "errors", "forward", "whoami"];
/// Longest text of an error: a path, a quotation and the words around them.
const ERROR_LEN_MAX: usize = 4096;

/// A Corefile that can import itself: parsing and checking agree, keys expand to zones, conflicts are found, every
/// directive can be read, and what is wrong is said in one printable line.
pub fn corefile(data: &[u8]) {
    let folder = folder();
    let name = folder.join("Corefile");
    fs::write(&name, data).expect("the folder is ours");
    let source = Source::new(name.to_string_lossy(), data);
    for directives in [None, Some(DIRECTIVES)] {
        let options = ParseOptions { directives, environment: &environment };
        let Checked { corefile, errors } = check(&source, &options);
        exercise(&corefile);
        for error in &errors {
            let text = error.explain();
            assert!(text.len() <= ERROR_LEN_MAX, "{} octets of error", text.len());
            assert!(!text.chars().any(char::is_control), "{text:?}");
        }
        match parse(&source, &options) {
            Ok(parsed) => {
                assert_eq!(errors, []);
                assert_eq!(fingerprint_input(&parsed), fingerprint_input(&corefile));
            }
            Err(error) => assert_eq!(Some(&error), errors.first()),
        }
    }
}

/// A folder of this process for the file that is read again.
fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("coredns-fuzz-corefile-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for temporary files");
    folder
}

/// Variables with references, with structure, with an endless loop, and one that multiplies.
fn environment(name: &str) -> Option<String> {
    let value = match name {
        "A" => "a{$B}",
        "B" => "b {\n}",
        "LOOP" => "x{$LOOP}",
        "TWICE" => "{$TWICE}{$TWICE}",
        _ => return None,
    };
    Some(value.to_owned())
}

fn exercise(corefile: &Corefile) {
    let mut listenings = Vec::new();
    for block in &corefile.blocks {
        assert!(!block.keys.is_empty(), "a block has keys");
        if let Ok(addresses) = block_addresses(block, "53") {
            assert!(addresses.iter().all(|address| address.zone.ends_with('.')), "zones are absolute");
            listenings.extend(addresses.into_iter().map(|address| (Listening { address, host: String::new() }, false)));
        }
        for directive in &block.directives {
            read(&directive.tokens);
        }
    }
    let count = listenings.len();
    let conflicts = find_conflicts(listenings);
    assert!(conflicts.iter().all(|conflict| conflict.index < count), "a conflict is one of a listening");
    assert!(!fingerprint_input(corefile).is_empty());
}

/// Reads a directive as a plugin would; the number of steps is bounded by the tokens.
fn read(tokens: &[Token]) {
    let mut dispenser = Dispenser::new(tokens);
    let mut steps = 0;
    while dispenser.next_token().is_some() {
        dispenser.remaining_args();
        while dispenser.next_block().is_some() {
            let _ = (dispenser.arg_error(), dispenser.remaining_args(), dispenser.next_line());
            steps += 1;
        }
        let _ = (dispenser.syntax_error("}"), dispenser.end_of_args());
        steps += 1;
    }
    assert!(steps <= tokens.len(), "every step takes a token");
}
