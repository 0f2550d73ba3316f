//! What is wrong with a configuration, where, and how to mend it.

use std::fmt;
use std::sync::Arc;

use crate::excerpt::{cut, escape, excerpt, excerpt_path};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::token::Token;

/// How an error words its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// `FILE:LINE - Error during parsing: MESSAGE`
    Parsing,
    /// `FILE:LINE - Syntax error: MESSAGE`
    Syntax,
    /// `MESSAGE`: a text that CoreDNS prints without its position; the position is known all the same.
    Plain,
}

/// A fault in a configuration.
///
/// `Display` is CoreDNS's text, which operators match on; [`explain`](Self::explain) adds what CoreDNS does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    kind: ErrorKind,
    plugin: Option<String>,
    file: Arc<str>,
    line: u32,
    message: String,
    remedy: Option<String>,
}

impl ParseError {
    /// An error at a place; line 0 where there is no token to point at.
    pub fn parsing(file: Arc<str>, line: u32, message: impl Into<String>) -> Self {
        let message = cut(&message.into(), MESSAGE_BYTES_MAX, escape);
        Self { kind: ErrorKind::Parsing, plugin: None, file, line, message, remedy: None }
    }

    /// An error at a token.
    pub fn at(token: &Token, message: impl Into<String>) -> Self {
        Self::parsing(Arc::clone(token.file()), token.line(), message)
    }

    /// An error at a token whose text does not show the place.
    pub fn plain(token: &Token, message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Plain, ..Self::at(token, message) }
    }

    /// A token that stands where another was expected.
    pub fn syntax(token: &Token, expected: &str) -> Self {
        let message = format!("Unexpected token '{}', expecting '{expected}'", excerpt(token.text()));
        Self { kind: ErrorKind::Syntax, ..Self::at(token, message) }
    }

    /// A directive that is known but that this program was built without.
    pub fn no_action(token: &Token) -> Self {
        let name = excerpt(token.text());
        Self::plain(token, format!("no action found for directive '{name}' with server type 'dns' (missing a plugin?)"))
            .with_remedy("-plugins lists the plugins of this program")
    }

    /// The same error with advice.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The same error as one of a plugin's setup: shown behind `plugin/NAME: `, the first name given stays.
    #[must_use]
    pub fn in_plugin(mut self, name: &str) -> Self {
        self.plugin.get_or_insert_with(|| name.to_owned());
        self
    }

    /// How the position is worded.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The file as operators are shown it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, from 1; 0 where there was no token to point at.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The text behind position and plugin.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How to mend it, where that can be told.
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }

    /// The plugin whose setup refused its directive.
    pub fn plugin(&self) -> Option<&str> {
        self.plugin.as_deref()
    }

    /// The whole of it: CoreDNS's text, the position where that text lacks it, and `; REMEDY`.
    pub fn explain(&self) -> String {
        let mut text = self.to_string();
        if self.kind == ErrorKind::Plain && !self.file.is_empty() {
            text = format!("{text} ({}:{})", excerpt_path(&self.file), self.line);
        }
        match &self.remedy {
            Some(remedy) => format!("{text}; {remedy}"),
            None => text,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(plugin) = &self.plugin {
            write!(f, "plugin/{plugin}: ")?;
        }
        // A file found by a pattern may have any name.
        let place = format!("{}:{}", excerpt_path(&self.file), self.line);
        match self.kind {
            ErrorKind::Parsing => write!(f, "{place} - Error during parsing: {}", self.message),
            ErrorKind::Syntax => write!(f, "{place} - Syntax error: {}", self.message),
            ErrorKind::Plain => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for ParseError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        Token::new(text.into(), "Corefile".into(), 3, true, false)
    }

    #[test]
    fn texts() {
        let cases = [
            (ParseError::at(&token("x"), "no"), "Corefile:3 - Error during parsing: no", None),
            (
                ParseError::syntax(&token("x"), "}"),
                "Corefile:3 - Syntax error: Unexpected token 'x', expecting '}'",
                None,
            ),
            (ParseError::plain(&token("x"), "no"), "no", Some("no (Corefile:3)")),
            (
                ParseError::at(&token("x"), "no").in_plugin("cache").in_plugin("other").with_remedy("say yes"),
                "plugin/cache: Corefile:3 - Error during parsing: no",
                Some("plugin/cache: Corefile:3 - Error during parsing: no; say yes"),
            ),
            (
                ParseError::no_action(&token("x")),
                "no action found for directive 'x' with server type 'dns' (missing a plugin?)",
                Some(
                    "no action found for directive 'x' with server type 'dns' (missing a plugin?) (Corefile:3); \
                     -plugins lists the plugins of this program",
                ),
            ),
        ];
        for (error, display, explained) in cases {
            assert_eq!(error.to_string(), display);
            assert_eq!(error.explain(), explained.unwrap_or(display));
        }
    }
}
