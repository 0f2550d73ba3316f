//! Any input ends in a result: no panic, no endless loop, and the two ways to parse agree.

use std::fs;

use coredns_corefile::{
    Checked, Corefile, Dispenser, GoDuration, ParseOptions, Source, Token, block_addresses, check, fingerprint_input,
    is_domain_name, origins, parse, tokenize, zone_addresses,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Words that matter to the parser, so that random sequences of them reach its every corner.
const WORDS: &[&str] = &[
    "{",
    "}",
    "{ ",
    " }",
    "\n",
    " ",
    "\r\n",
    "import",
    "\nimport ",
    " a\n",
    "a",
    "b",
    "(a)",
    "(b)",
    "\n(a) {\n",
    "\n}\n",
    ",",
    "\"",
    "\\",
    "#",
    "{$A}",
    "{$B}",
    "{%A%}",
    "{$",
    "{%",
    "x",
    ".",
    ":53",
    "10.0.0.0/15",
    "tls://",
    "f1",
    "f2",
    "f*",
    "*",
    "?",
    "[",
    "\u{feff}",
    "é",
    "whoami",
    "log",
];

fn soup() -> impl Strategy<Value = String> {
    vec(prop::sample::select(WORDS), 0..40).prop_map(|words| words.concat())
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

fn exercise(corefile: &Corefile) {
    for block in &corefile.blocks {
        assert!(!block.keys.is_empty());
        let _ = block_addresses(block, "53");
        for directive in &block.directives {
            assert!(directive.tokens.first().is_some_and(Token::starts_line));
            read(&directive.tokens);
        }
    }
    assert!(!fingerprint_input(corefile).is_empty());
}

fn parses_or_fails(source: &Source, options: &ParseOptions<'_>) {
    let Checked { corefile, errors } = check(source, options);
    exercise(&corefile);
    match parse(source, options) {
        Ok(parsed) => {
            assert_eq!(errors, []);
            assert_eq!(fingerprint_input(&parsed), fingerprint_input(&corefile));
        }
        Err(error) => {
            assert_eq!(Some(&error), errors.first());
            assert!(!error.explain().chars().any(char::is_control), "errors are one printable line");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(text in vec(any::<u8>(), 0..300)) {
        let options = ParseOptions { directives: None, environment: &|_| None };
        parses_or_fails(&Source::new("/nowhere/Corefile", text), &options);
    }

    #[test]
    fn any_words(text in soup(), a in soup(), b in soup()) {
        let environment = |name: &str| match name {
            "A" => Some(a.clone()),
            "B" => Some(b.clone()),
            _ => None,
        };
        for directives in [None, Some(["whoami", "log", "a"].as_slice())] {
            let options = ParseOptions { directives, environment: &environment };
            parses_or_fails(&Source::new("/nowhere/Corefile", text.as_str()), &options);
        }
    }

    #[test]
    fn lines_are_those_of_the_text(text in "[a-c\"# \n\r]{0,60}") {
        let tokens = tokenize(&Source::new("Corefile", text.as_str())).expect("small text");
        let lines = text.matches('\n').count() + 1;
        let mut last = 1;
        for token in tokens {
            let line = token.line() as usize;
            prop_assert!(line >= last && line <= lines);
            last = line;
        }
    }

    #[test]
    fn any_key(key in "(tls://)?([a-z0-9.:/\\\\*-]{0,20}|\\PC{0,20})(:[0-9]{0,6})?") {
        if let Ok(addresses) = zone_addresses(&key, "53") {
            for address in addresses {
                prop_assert!(is_domain_name(&address.zone), "{}", address.zone);
                prop_assert!(address.zone.ends_with('.'));
            }
        }
        origins([key.as_str()], []);
    }

    #[test]
    fn any_duration_text(text in "\\PC{0,20}|[-+]?[0-9.]{0,12}(ns|us|ms|s|m|h)?[0-9.]{0,22}(s|h)?") {
        if let Ok(duration) = GoDuration::parse(&text) {
            prop_assert_eq!(GoDuration::parse(&duration.to_string()), Ok(duration));
        }
    }

    #[test]
    fn durations_are_read_as_written(nanos in any::<i64>()) {
        let duration = GoDuration::from_nanos(nanos);
        prop_assert_eq!(GoDuration::parse(&duration.to_string()), Ok(duration));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_words_in_files(text in soup(), first in soup(), second in soup()) {
        let directory = tempfile::tempdir().expect("temporary directory");
        fs::write(directory.path().join("f1"), first).expect("writable");
        fs::write(directory.path().join("f2"), second).expect("writable");
        let name = directory.path().join("Corefile").to_str().expect("plain name").to_owned();
        let options = ParseOptions { directives: None, environment: &|_| None };
        parses_or_fails(&Source::new(name, format!("import f*\n{text}")), &options);
    }
}
