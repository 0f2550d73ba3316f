//! The bytes by which two configurations are compared.

use std::fmt::Write as _;

use crate::block::{Corefile, ServerBlock};
use crate::token::Token;

/// The parse result as JSON in the form that CoreDNS hashes, so that the hash an operator sees is the same.
///
/// It has every key and every token with file and line: a line moved is a change, a comment at the end of a line is
/// not. Tokens of the main file have an empty file name. No blocks give `null`.
pub fn fingerprint_input(corefile: &Corefile) -> Vec<u8> {
    if corefile.blocks.is_empty() {
        return b"null".to_vec();
    }
    let mut out = String::new();
    write_list(&mut out, '[', ']', &corefile.blocks, write_block);
    out.into_bytes()
}

fn write_block(out: &mut String, block: &ServerBlock) {
    out.push_str("{\"Keys\":");
    write_list(out, '[', ']', &block.keys, |out, key| write_string(out, key.text()));
    out.push_str(",\"Tokens\":");
    let mut directives: Vec<_> = block.directives.iter().collect();
    directives.sort_by(|a, b| a.name.cmp(&b.name));
    write_list(out, '{', '}', directives, |out, directive| {
        write_string(out, &directive.name);
        out.push(':');
        write_list(out, '[', ']', &directive.tokens, write_token);
    });
    out.push('}');
}

fn write_token(out: &mut String, token: &Token) {
    out.push_str("{\"File\":");
    write_string(out, if token.is_imported() { token.file() } else { "" });
    // Writing to a String cannot fail.
    let _ = write!(out, ",\"Line\":{},\"Text\":", token.line());
    write_string(out, token.text());
    out.push('}');
}

fn write_list<T>(
    out: &mut String,
    open: char,
    close: char,
    items: impl IntoIterator<Item = T>,
    write_item: impl Fn(&mut String, T),
) {
    out.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_item(out, item);
    }
    out.push(close);
}

/// A JSON string with the escapes of Go's encoder.
fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ParseOptions, Source, parse};

    fn input(text: &str) -> String {
        let environment = |name: &str| (name == "ZONE").then(|| "example.org".to_owned());
        let options = ParseOptions { directives: None, environment: &environment };
        let corefile = parse(&Source::new("Corefile", text), &options).expect("valid");
        String::from_utf8(fingerprint_input(&corefile)).expect("text")
    }

    #[test]
    fn json_as_go_writes_it() {
        assert_eq!(input(""), "null");
        assert_eq!(input("# nothing\n(snippet) {\n x\n}\n"), "null");
        assert_eq!(input("a, b"), r#"[{"Keys":["a","b"],"Tokens":{}}]"#);
        assert_eq!(
            input(". {\n whoami\n log . \"<{$ZONE}>&\\u\u{7f}\u{1}\"\n log\n}\n{$ZONE} {\n}\n"),
            concat!(
                r#"[{"Keys":["."],"Tokens":{"log":[{"File":"","Line":3,"Text":"log"},"#,
                r#"{"File":"","Line":3,"Text":"."},"#,
                r#"{"File":"","Line":3,"Text":"\u003cexample.org\u003e\u0026\\u"#,
                "\u{7f}",
                r#"\u0001"},{"File":"","Line":4,"Text":"log"}],"#,
                r#""whoami":[{"File":"","Line":2,"Text":"whoami"}]}},"#,
                r#"{"Keys":["example.org"],"Tokens":{}}]"#
            )
        );
        assert_eq!(input("\"a\nb\u{2028}\t\u{8}\u{c}\r\""), r#"[{"Keys":["a\nb\u2028\t\b\f\r"],"Tokens":{}}]"#);
    }

    #[test]
    fn what_changes_it() {
        let base = input(". {\n whoami\n}\n");
        assert_eq!(input(".   {\n\twhoami # comment\n}\n# end\n"), base);
        assert_ne!(input("# moved\n. {\n whoami\n}\n"), base);
        assert_ne!(input(". {\n whoami x\n}\n"), base);
    }
}
