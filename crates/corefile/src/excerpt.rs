//! Foreign text made safe to show: escaped and cut.

use std::fmt::Write as _;

use crate::limits::{QUOTED_BYTES_MAX, QUOTED_PATH_BYTES_MAX};

/// Text as an error may quote it: what does not print is escaped, and at most [`QUOTED_BYTES_MAX`] octets are shown.
///
/// Printing text that is short enough stays as it is, so that operators find the exact words in messages.
pub fn excerpt(text: &str) -> String {
    cut(text, QUOTED_BYTES_MAX, escape)
}

/// A path as an error may show it: escaped, and at most [`QUOTED_PATH_BYTES_MAX`] octets.
pub fn excerpt_path(text: &str) -> String {
    cut(text, QUOTED_PATH_BYTES_MAX, escape)
}

/// Text in double quotes with Go's escapes, at most [`QUOTED_BYTES_MAX`] octets between them.
pub fn quote(text: &str) -> String {
    format!("\"{}\"", cut(text, QUOTED_BYTES_MAX, escape_quoted))
}

/// Appends each character's escaped form until `limit` octets would be passed; `...` says that text is missing.
pub(crate) fn cut(text: &str, limit: usize, escape: fn(&mut String, char)) -> String {
    let mut out = String::new();
    for character in text.chars() {
        let before = out.len();
        escape(&mut out, character);
        if out.len() > limit {
            out.truncate(before);
            out.push_str("...");
            break;
        }
    }
    out
}

/// Appends a character, escaped unless it prints.
pub(crate) fn escape(out: &mut String, character: char) {
    if matches!(character, '\'' | '"' | '\\') {
        out.push(character);
    } else {
        out.extend(character.escape_debug());
    }
}

fn escape_quoted(out: &mut String, character: char) {
    match character {
        '\'' => out.push(character),
        '"' | '\\' | '\n' | '\r' | '\t' => out.extend(character.escape_default()),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{b}' => out.push_str("\\v"),
        '\u{c}' => out.push_str("\\f"),
        // A character prints unless its debug form is an escape of the code point.
        _ if character.escape_debug().len() == 1 => out.push(character),
        _ => {
            let code = u32::from(character);
            // Writing to a String cannot fail.
            let _ = match code {
                0..=0x7f => write!(out, "\\x{code:02x}"),
                0x80..=0xffff => write!(out, "\\u{code:04x}"),
                _ => write!(out, "\\U{code:08x}"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts() {
        let cases: &[(&str, &str)] = &[
            ("", ""),
            ("forward", "forward"),
            ("it's \"x\" \\.", "it's \"x\" \\."),
            ("пример", "пример"),
            ("a\nb\u{1b}[31m\0", "a\\nb\\u{1b}[31m\\0"),
            ("\u{202e}x", "\\u{202e}x"),
        ];
        for (text, expected) in cases {
            assert_eq!(excerpt(text), *expected);
        }
    }

    #[test]
    fn excerpts_are_cut() {
        assert_eq!(excerpt(&"a".repeat(64)), "a".repeat(64));
        assert_eq!(excerpt(&"a".repeat(65)), format!("{}...", "a".repeat(64)));
        assert_eq!(excerpt(&"é".repeat(100)), format!("{}...", "é".repeat(32)));
        assert_eq!(excerpt_path(&"a".repeat(1000)), "a".repeat(1000));
        assert_eq!(quote(&"\n".repeat(100)), format!("\"{}...\"", "\\n".repeat(32)));
    }

    #[test]
    fn quotes_like_go() {
        let cases: &[(&str, &str)] = &[
            ("x", r#""x""#),
            ("it's", r#""it's""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\n\t\r\u{7}\u{8}\u{b}\u{c}\0\u{7f}", r#""\n\t\r\a\b\v\f\x00\x7f""#),
            ("é\u{fffd}", "\"é\u{fffd}\""),
            ("\u{200b}\u{e0001}", r#""\u200b\U000e0001""#),
        ];
        for (text, expected) in cases {
            assert_eq!(quote(text), *expected);
        }
    }
}
