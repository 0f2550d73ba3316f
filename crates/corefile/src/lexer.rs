//! Bytes into tokens.
//!
//! White space separates; a `"` that opens a token quotes it; `#` comments. Braces are ordinary characters here: they
//! mean something only as a token of their own.

use std::borrow::Cow;
use std::str::Chars;
use std::sync::Arc;

use crate::error::ParseError;
use crate::limits::{FILE_BYTES_MAX, TOKENS_MAX};
use crate::token::Token;

/// A configuration text and the name it goes by in messages.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path as given; relative imports start from its directory.
    pub name: Arc<str>,
    /// The content; need not be valid UTF-8.
    pub text: Vec<u8>,
}

impl Source {
    /// Names a text.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

/// Cuts a text into tokens without looking at their meaning.
///
/// # Errors
/// The text is larger than [`FILE_BYTES_MAX`] or has more than [`TOKENS_MAX`] tokens.
pub fn tokenize(source: &Source) -> Result<Vec<Token>, ParseError> {
    if source.text.len() as u64 > FILE_BYTES_MAX {
        let message = format!("Corefile is larger than {} MiB", FILE_BYTES_MAX / (1024 * 1024));
        return Err(ParseError::parsing(Arc::clone(&source.name), 0, message));
    }
    tokens_of(&source.name, &source.text, false)
}

/// Cuts the text of one file into tokens; `imported` marks them as coming from an import.
pub(crate) fn tokens_of(file: &Arc<str>, text: &[u8], imported: bool) -> Result<Vec<Token>, ParseError> {
    let text = decode(text);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut lexer = Lexer { chars: text.chars(), line: 1, token_end: 0 };
    let mut tokens = Vec::new();
    let mut previous_end = 0;
    while let Some((line, text)) = lexer.next_token() {
        if tokens.len() >= TOKENS_MAX {
            return Err(too_many_tokens(file, line));
        }
        tokens.push(Token::new(text.into(), Arc::clone(file), line, line > previous_end, imported));
        previous_end = lexer.token_end;
    }
    Ok(tokens)
}

/// The error for a configuration of more than [`TOKENS_MAX`] tokens.
pub(crate) fn too_many_tokens(file: &Arc<str>, line: u32) -> ParseError {
    ParseError::parsing(Arc::clone(file), line, format!("configuration has more than {TOKENS_MAX} words"))
        .with_remedy("look for a snippet or file that is imported many times over")
}

/// Text of the bytes, each invalid octet as one U+FFFD.
fn decode(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

struct Lexer<'a> {
    chars: Chars<'a>,
    /// Line of the next character, from 1.
    line: u32,
    /// Line on which the last token ended.
    token_end: u32,
}

impl Lexer<'_> {
    /// The next token and the line where it starts.
    fn next_token(&mut self) -> Option<(u32, String)> {
        let first = self.skip_space_and_comments()?;
        let line = self.line;
        let text = if first == '"' { self.quoted()? } else { self.bare(first) };
        Some((line, text))
    }

    /// Skips to the first character of a token.
    fn skip_space_and_comments(&mut self) -> Option<char> {
        let mut comment = false;
        loop {
            let character = self.chars.next()?;
            if character == '\n' {
                self.line = self.line.saturating_add(1);
                comment = false;
            } else if character == '#' {
                comment = true;
            } else if !comment && !character.is_whitespace() {
                return Some(character);
            }
        }
    }

    /// The rest of a token that is not quoted.
    ///
    /// CR is dropped even inside. A `#` inside cuts the token, but its comment ends at the next white space: what
    /// follows on the line is read. Configurations depend on it, if unknowingly.
    fn bare(&mut self, first: char) -> String {
        let mut text = String::from(first);
        let mut comment = false;
        self.token_end = self.line;
        for character in self.chars.by_ref() {
            if character == '\r' {
                continue;
            }
            if character.is_whitespace() {
                if character == '\n' {
                    self.line = self.line.saturating_add(1);
                }
                break;
            }
            comment = comment || character == '#';
            if !comment {
                text.push(character);
            }
        }
        text
    }

    /// The rest of a quoted token: only `\"` is an escape, and the end of the text ends it too.
    fn quoted(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut escaped = false;
        let mut closed = false;
        for character in self.chars.by_ref() {
            if !escaped && character == '\\' {
                escaped = true;
                continue;
            }
            if !escaped && character == '"' {
                closed = true;
                break;
            }
            if escaped && character != '"' {
                text.push('\\');
            }
            if character == '\n' {
                self.line = self.line.saturating_add(1);
            }
            text.push(character);
            escaped = false;
        }
        self.token_end = self.line;
        (closed || !text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lex(text: &[u8]) -> Vec<(u32, String)> {
        let tokens = tokenize(&Source::new("Corefile", text)).expect("small text");
        tokens.iter().map(|token| (token.line(), token.text().to_owned())).collect()
    }

    /// A text and its tokens, each with its line.
    type Case<'a> = (&'a [u8], &'a [(u32, &'a str)]);

    fn check(cases: &[Case<'_>]) {
        for (text, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
            assert_eq!(lex(text), expected, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn words_and_lines() {
        check(&[
            (b"", &[]),
            (b"host:123 { directive }", &[(1, "host:123"), (1, "{"), (1, "directive"), (1, "}")]),
            (b"a\n\nb\tc", &[(1, "a"), (3, "b"), (3, "c")]),
            (b"skip those\r\nCR characters", &[(1, "skip"), (1, "those"), (2, "CR"), (2, "characters")]),
            (b"a\rb", &[(1, "ab")]),
            ("a\u{a0}b\u{3000}c\u{85}d".as_bytes(), &[(1, "a"), (1, "b"), (1, "c"), (1, "d")]),
            ("\u{feff}:8080".as_bytes(), &[(1, ":8080")]),
            ("\u{feff}\u{feff}x".as_bytes(), &[(1, "\u{feff}x")]),
            (b"{} foo{ }", &[(1, "{}"), (1, "foo{"), (1, "}")]),
            (b"back\\\nslash", &[(1, "back\\"), (2, "slash")]),
        ]);
    }

    #[test]
    fn quotes() {
        check(&[
            (b"a \"quoted value\" b\nfoobar", &[(1, "a"), (1, "quoted value"), (1, "b"), (2, "foobar")]),
            (br#"A "quoted \"value\" inside" B"#, &[(1, "A"), (1, "quoted \"value\" inside"), (1, "B")]),
            (br#""don't\escape""#, &[(1, "don't\\escape")]),
            (br#""don't\\escape""#, &[(1, "don't\\\\escape")]),
            (br#""C:\php\php-cgi.exe""#, &[(1, "C:\\php\\php-cgi.exe")]),
            (br#"empty "" string"#, &[(1, "empty"), (1, ""), (1, "string")]),
            (b"\"two\nlines\" {\nx", &[(1, "two\nlines"), (2, "{"), (3, "x")]),
            (b"\"keeps\r\nCR\"", &[(1, "keeps\r\nCR")]),
            (br#""a"b"#, &[(1, "a"), (1, "b")]),
            (br#"a"b c"d"#, &[(1, "a\"b"), (1, "c\"d")]),
            (br#""ends in backslash\\" x"#, &[(1, "ends in backslash\\\\"), (1, "x")]),
            (b"\"open to the end", &[(1, "open to the end")]),
            (b"x \"", &[(1, "x")]),
            (b"x \"\\", &[(1, "x")]),
            (b"\"{\"", &[(1, "{")]),
        ]);
    }

    #[test]
    fn comments() {
        check(&[
            (b"# all of it \"quoted\"\nx", &[(2, "x")]),
            (b"a # rest\nb", &[(1, "a"), (2, "b")]),
            (b"foo#bar baz", &[(1, "foo"), (1, "baz")]),
            (b"foo#bar\nbaz", &[(1, "foo"), (2, "baz")]),
            (b"\"a # b\"", &[(1, "a # b")]),
            (b"#\r\n#", &[]),
        ]);
    }

    #[test]
    fn invalid_utf8_is_one_replacement_character_an_octet() {
        check(&[(b"a\xff\xe2\x82b", &[(1, "a\u{fffd}\u{fffd}\u{fffd}b")])]);
    }

    #[test]
    fn first_of_line_counts_line_breaks_inside_quotes() {
        let tokens = tokenize(&Source::new("Corefile", "a \"b\nc\" d\ne f")).expect("small text");
        let starts: Vec<bool> = tokens.iter().map(Token::starts_line).collect();
        assert_eq!(starts, [true, false, false, true, false]);
    }

    #[test]
    fn a_text_above_the_bound_is_an_error() {
        let text = vec![b'\n'; usize::try_from(FILE_BYTES_MAX).expect("fits") + 1];
        let error = tokenize(&Source::new("Corefile", text)).expect_err("too large");
        assert_eq!(error.to_string(), "Corefile:0 - Error during parsing: Corefile is larger than 16 MiB");
    }
}
