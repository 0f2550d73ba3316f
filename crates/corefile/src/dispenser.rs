//! A cursor over the tokens of one directive, with the conventions that plugins read their options by.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::duration::GoDuration;
use crate::error::ParseError;
use crate::excerpt::excerpt;
use crate::token::Token;

/// The text for a plugin that stands more than once in a server block but must not.
pub const ONCE_PER_SERVER_BLOCK: &str = "this plugin can only be used once per Server Block";

/// What is shown in the place of a secret.
const HIDDEN: &str = "***";

/// A cursor over the tokens of one directive.
///
/// It starts before the first token. A plugin reads every appearance of its directive in one loop:
///
/// ```
/// use coredns_corefile::{ParseError, ParseOptions, Source, parse};
///
/// let options = ParseOptions { directives: None, environment: &|_| None };
/// let text = "example.org {\n chaos 1.0 {\n  author \"A. N. Other\"\n }\n}\n";
/// let corefile = parse(&Source::new("Corefile", text), &options)?;
/// let chaos = corefile.blocks[0].directive("chaos").expect("it is there");
///
/// let mut dispenser = chaos.dispenser();
/// let mut authors = Vec::new();
/// while dispenser.next_token().is_some() {
///     let _versions = dispenser.remaining_args();
///     while let Some(option) = dispenser.next_block() {
///         match option.text() {
///             "author" => authors.push(dispenser.arg()?.text()),
///             _ => return Err(dispenser.error("unknown property")),
///         }
///     }
/// }
/// assert_eq!(authors, ["A. N. Other"]);
/// # Ok::<(), ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dispenser<'a> {
    tokens: &'a [Token],
    /// Index of the current token plus one; 0 before the first.
    position: usize,
    in_block: bool,
    hidden: BTreeSet<usize>,
}

impl<'a> Dispenser<'a> {
    /// A cursor before the first token.
    pub fn new(tokens: &'a [Token]) -> Self {
        Self { tokens, position: 0, in_block: false, hidden: BTreeSet::new() }
    }

    /// Goes to the next token, on whatever line.
    pub fn next_token(&mut self) -> Option<&'a Token> {
        let token = self.tokens.get(self.position)?;
        self.position += 1;
        Some(token)
    }

    /// Goes to the next token if it stands on the line of the current one. A brace counts as any other.
    pub fn next_arg(&mut self) -> Option<&'a Token> {
        let token = self.following().filter(|token| !token.starts_line() || self.position == 0)?;
        self.position += 1;
        Some(token)
    }

    /// Goes to the next token if it begins a line.
    pub fn next_line(&mut self) -> Option<&'a Token> {
        let token = self.following().filter(|token| token.starts_line())?;
        self.position += 1;
        Some(token)
    }

    /// Goes to the next token of the directive's block; `None` at its end, or if there is no block.
    ///
    /// The block opens with a `{` on the line of the current token; one that is closed at once is no block. Only one
    /// level is known: a brace inside is a token like any other. Tokens that the caller takes in between are not
    /// given again.
    pub fn next_block(&mut self) -> Option<&'a Token> {
        if self.in_block {
            let token = self.next_token().filter(|token| token.text() != "}");
            self.in_block = token.is_some();
            return token;
        }
        self.following().filter(|token| token.text() == "{" && !token.starts_line())?;
        self.position += 1;
        let token = self.next_token().filter(|token| token.text() != "}");
        self.in_block = token.is_some();
        token
    }

    /// Takes the tokens left on the line up to a `{`. A `}` is an argument.
    pub fn remaining_args(&mut self) -> Vec<&'a str> {
        let mut args = Vec::new();
        while let Some(token) = self.following().filter(|token| !token.starts_line() && token.text() != "{") {
            self.position += 1;
            args.push(token.text());
        }
        args
    }

    /// Takes the next argument of the line.
    ///
    /// # Errors
    /// There is none, or a `{` stands in its place.
    pub fn arg(&mut self) -> Result<&'a Token, ParseError> {
        match self.next_arg() {
            Some(token) if token.text() != "{" => Ok(token),
            _ => Err(self.arg_error()),
        }
    }

    /// Requires that the line has no further argument; a `{` may follow.
    ///
    /// # Errors
    /// The argument that is too many.
    pub fn end_of_args(&mut self) -> Result<(), ParseError> {
        if self.following().is_none_or(|token| token.starts_line() || token.text() == "{") {
            return Ok(());
        }
        self.position += 1;
        Err(self.arg_error())
    }

    /// Takes the next argument as a duration in Go's notation.
    ///
    /// # Errors
    /// There is none, or it is no duration; that error is Go's text with the position.
    pub fn duration_arg(&mut self) -> Result<GoDuration, ParseError> {
        let text = self.arg()?.text();
        GoDuration::parse(text).map_err(|error| {
            self.error(error.to_string()).with_remedy("write a number with its unit: 300ms, 30s, 5m, 1h30m")
        })
    }

    /// The current token; `None` before the first.
    pub fn token(&self) -> Option<&'a Token> {
        self.tokens.get(self.position.checked_sub(1)?)
    }

    /// The text of the current token; empty before the first.
    pub fn val(&self) -> &'a str {
        self.token().map_or("", Token::text)
    }

    /// The file of the current token.
    pub fn file(&self) -> Arc<str> {
        self.token().or_else(|| self.tokens.first()).map_or_else(|| "".into(), |token| Arc::clone(token.file()))
    }

    /// The line of the current token; 0 where there is none.
    pub fn line(&self) -> u32 {
        self.token().or_else(|| self.tokens.first()).map_or(0, Token::line)
    }

    /// Marks the current token as a secret: errors of this cursor show `***` in its place.
    pub fn hide(&mut self) {
        self.hidden.insert(self.position);
    }

    /// The error for too few or too many arguments at the current token.
    pub fn arg_error(&self) -> ParseError {
        if self.val() == "{" {
            return self.error("Unexpected token '{', expecting argument");
        }
        let shown = self.shown();
        self.error(format!("Wrong argument count or unexpected line ending after '{shown}'"))
    }

    /// An error at the current token.
    pub fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError::parsing(self.file(), self.line(), message)
    }

    /// The error for a token that stands where `expected` was wanted.
    pub fn syntax_error(&self, expected: &str) -> ParseError {
        match self.token() {
            Some(token) if !self.hidden.contains(&self.position) => ParseError::syntax(token, expected),
            Some(token) => ParseError::syntax(&token.clone().with_text(HIDDEN), expected),
            None => self.end_error(),
        }
    }

    /// The error for a directive that ends too early.
    pub fn end_error(&self) -> ParseError {
        self.error("Unexpected EOF")
    }

    /// An error whose text does not show the position, as many plugins word theirs.
    pub fn plain_error(&self, message: impl Into<String>) -> ParseError {
        match self.token().or_else(|| self.tokens.first()) {
            Some(token) => ParseError::plain(token, message),
            None => self.error(message),
        }
    }

    /// The error for a directive that may stand only once in a server block.
    pub fn once_error(&self) -> ParseError {
        self.plain_error(ONCE_PER_SERVER_BLOCK).with_remedy("remove one of the two or join them")
    }

    /// The current token as errors may show it.
    pub fn shown(&self) -> String {
        if self.hidden.contains(&self.position) { HIDDEN.to_owned() } else { excerpt(self.val()) }
    }

    fn following(&self) -> Option<&'a Token> {
        self.tokens.get(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, tokenize};

    fn tokens(text: &str) -> Vec<Token> {
        tokenize(&Source::new("Corefile", text)).expect("small text")
    }

    fn text(token: Option<&Token>) -> Option<&str> {
        token.map(Token::text)
    }

    #[test]
    fn moves() {
        let tokens = tokens("dir1 arg1\ndir2 arg2 arg3\ndir3");
        let mut dispenser = Dispenser::new(&tokens);
        assert_eq!((dispenser.val(), dispenser.line()), ("", 1));
        assert_eq!(text(dispenser.next_token()), Some("dir1"));
        assert_eq!(text(dispenser.next_line()), None);
        assert_eq!(text(dispenser.next_arg()), Some("arg1"));
        assert_eq!(text(dispenser.next_arg()), None);
        assert_eq!(dispenser.val(), "arg1");
        assert_eq!(text(dispenser.next_line()), Some("dir2"));
        assert_eq!(dispenser.line(), 2);
        assert_eq!(dispenser.remaining_args(), ["arg2", "arg3"]);
        assert_eq!(dispenser.val(), "arg3");
        assert_eq!(text(dispenser.next_token()), Some("dir3"));
        assert_eq!(dispenser.remaining_args(), Vec::<&str>::new());
        assert_eq!(text(dispenser.next_token()), None);
        assert_eq!((dispenser.val(), dispenser.line()), ("dir3", 3));
    }

    /// Reads as a plugin does: for each appearance its arguments and the lines of its block.
    fn read(source: &str) -> Vec<(Vec<String>, Vec<Vec<String>>)> {
        let tokens = tokens(source);
        let mut dispenser = Dispenser::new(&tokens);
        let mut all = Vec::new();
        let owned = |args: Vec<&str>| args.into_iter().map(str::to_owned).collect::<Vec<_>>();
        while dispenser.next_token().is_some() {
            let args = owned(dispenser.remaining_args());
            let mut lines = Vec::new();
            while let Some(option) = dispenser.next_block() {
                let mut line = vec![option.text().to_owned()];
                line.extend(owned(dispenser.remaining_args()));
                lines.push(line);
            }
            all.push((args, lines));
        }
        all
    }

    #[test]
    fn blocks() {
        type Appearance<'a> = (&'a [&'a str], &'a [&'a [&'a str]]);
        let cases: &[(&str, &[Appearance<'_>])] = &[
            ("x", &[(&[], &[])]),
            ("x a b", &[(&["a", "b"], &[])]),
            ("x a {\n o p\n q\n}", &[(&["a"], &[&["o", "p"], &["q"]])]),
            ("x { }", &[(&[], &[])]),
            ("x {\n}\nx b", &[(&[], &[]), (&["b"], &[])]),
            ("x {\n o\n}\nx b {\n p\n}", &[(&[], &[&["o"]]), (&["b"], &[&["p"]])]),
            ("x { opt on }", &[(&[], &[&["opt", "on", "}"]])]),
            ("x {\n o {\n", &[(&[], &[&["o"], &["{"]])]),
            ("x \"two\nlines\" b", &[(&["two\nlines", "b"], &[])]),
        ];
        for (source, expected) in cases {
            let read = read(source);
            let read: Vec<(Vec<&str>, Vec<Vec<&str>>)> = read
                .iter()
                .map(|(args, lines)| {
                    let lines = lines.iter().map(|line| line.iter().map(String::as_str).collect()).collect();
                    (args.iter().map(String::as_str).collect(), lines)
                })
                .collect();
            let expected: Vec<(Vec<&str>, Vec<Vec<&str>>)> = expected
                .iter()
                .map(|(args, lines)| (args.to_vec(), lines.iter().map(|line| line.to_vec()).collect()))
                .collect();
            assert_eq!(read, expected, "{source}");
        }
    }

    #[test]
    fn a_brace_on_the_next_line_opens_no_block() {
        let tokens = tokens("x\n{\n o\n}");
        let mut dispenser = Dispenser::new(&tokens);
        assert!(dispenser.next_token().is_some());
        assert_eq!(dispenser.next_block(), None);
        assert_eq!(dispenser.val(), "x");
    }

    #[test]
    fn errors() {
        let tokens = tokens("x a {\n secret\n}");
        let mut dispenser = Dispenser::new(&tokens);
        assert_eq!(dispenser.arg().map(Token::text), Ok("x"));
        assert_eq!(
            dispenser.duration_arg().map_err(|error| error.to_string()),
            Err("Corefile:1 - Error during parsing: time: invalid duration \"a\"".to_owned())
        );
        assert_eq!(dispenser.end_of_args(), Ok(()));
        assert_eq!(
            dispenser.arg().map_err(|error| error.to_string()),
            Err("Corefile:1 - Error during parsing: Unexpected token '{', expecting argument".to_owned())
        );
        assert_eq!(text(dispenser.next_token()), Some("secret"));
        let prefix = "Corefile:2 - Error during parsing: ";
        assert_eq!(
            dispenser.arg_error().in_plugin("x").to_string(),
            format!("plugin/x: {prefix}Wrong argument count or unexpected line ending after 'secret'")
        );
        assert_eq!(dispenser.end_error().to_string(), format!("{prefix}Unexpected EOF"));
        assert_eq!(
            dispenser.syntax_error("{").to_string(),
            "Corefile:2 - Syntax error: Unexpected token 'secret', expecting '{'"
        );
        dispenser.hide();
        assert_eq!(
            dispenser.arg_error().to_string(),
            format!("{prefix}Wrong argument count or unexpected line ending after '***'")
        );
        assert_eq!(
            dispenser.syntax_error("{").to_string(),
            "Corefile:2 - Syntax error: Unexpected token '***', expecting '{'"
        );
        let once = dispenser.once_error().in_plugin("x");
        assert_eq!(once.to_string(), "plugin/x: this plugin can only be used once per Server Block");
        assert_eq!((once.file(), once.line()), ("Corefile", 2));
    }

    #[test]
    fn too_many_arguments() {
        let tokens = tokens("x a b");
        let mut dispenser = Dispenser::new(&tokens);
        assert!(dispenser.next_token().is_some() && dispenser.arg().is_ok());
        assert_eq!(
            dispenser.end_of_args().map_err(|error| error.to_string()),
            Err("Corefile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'b'"
                .to_owned())
        );
    }

    #[test]
    fn without_tokens() {
        let mut dispenser = Dispenser::new(&[]);
        assert_eq!(dispenser.next_token(), None);
        assert_eq!(dispenser.next_block(), None);
        assert_eq!(dispenser.error("x").to_string(), ":0 - Error during parsing: x");
        assert_eq!(dispenser.plain_error("x").to_string(), ":0 - Error during parsing: x");
    }
}
