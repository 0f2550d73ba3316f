//! Tokens into server blocks.
//!
//! ```text
//! file        := ( snippet | import | serverblock )*
//! serverblock := keys NEWLINE? "{" directive* "}"
//!              | keys NEWLINE directive* EOF
//! keys        := key ( (" " | "," [NEWLINE]) key )*
//! snippet     := "(" name ")" "{" tokens "}"
//! import      := "import" PATTERN
//! directive   := name args* [ "{" … "}" ]
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use crate::block::{Corefile, Directive, ServerBlock, Warning};
use crate::environment;
use crate::error::ParseError;
use crate::excerpt::excerpt;
use crate::files;
use crate::lexer::{Source, tokenize, too_many_tokens};
use crate::limits::{ERRORS_MAX, EXPANDED_BYTES_MAX};
use crate::snippet::snippet_name;
use crate::stream::{Origin, TokenStream};
use crate::suggest;
use crate::token::Token;

/// What a parse needs to know besides the text.
#[derive(Clone, Copy)]
pub struct ParseOptions<'a> {
    /// The names that directives may have; `None` accepts any, as the comparison of configurations needs.
    pub directives: Option<&'a [&'a str]>,
    /// The value of an environment variable; [`process_environment`](crate::process_environment) outside tests.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
}

/// What a check found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What could be parsed; unknown directives are left out.
    pub corefile: Corefile,
    /// The errors in the order of the text, at most [`ERRORS_MAX`].
    pub errors: Vec<ParseError>,
}

/// Parses a configuration up to the first error.
///
/// # Errors
/// The first fault of the text, of an imported file or of an environment value.
pub fn parse(source: &Source, options: &ParseOptions<'_>) -> Result<Corefile, ParseError> {
    let mut parser = Parser::new(source, options, Mode::First)?;
    let outcome = parser.run();
    parser.overflow()?;
    outcome?;
    Ok(Corefile { blocks: parser.blocks, warnings: parser.warnings })
}

/// Parses a configuration and collects every error that it can.
///
/// Unknown directives and imports that fail are passed over; an error after which the structure is lost ends it.
pub fn check(source: &Source, options: &ParseOptions<'_>) -> Checked {
    let mut parser = match Parser::new(source, options, Mode::All) {
        Ok(parser) => parser,
        Err(error) => {
            return Checked { corefile: Corefile::default(), errors: vec![error] };
        }
    };
    let outcome = parser.run();
    let outcome = parser.overflow().and(outcome);
    parser.errors.extend(outcome.err());
    parser.errors.truncate(ERRORS_MAX);
    Checked { corefile: Corefile { blocks: parser.blocks, warnings: parser.warnings }, errors: parser.errors }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    First,
    All,
}

/// How the list of keys ended.
#[derive(PartialEq, Eq)]
enum KeysEnd {
    /// At the end of the text: the block has no body.
    Text,
    /// At `{` or the end of a line.
    Body,
}

/// State of one parse.
pub(crate) struct Parser<'a> {
    pub(crate) options: &'a ParseOptions<'a>,
    mode: Mode,
    pub(crate) stream: TokenStream,
    /// The token taken last: where the text ends, errors point at it.
    pub(crate) last: Option<Token>,
    name: Arc<str>,
    blocks: Vec<ServerBlock>,
    errors: Vec<ParseError>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) snippets: HashMap<Arc<str>, Arc<[Token]>>,
    /// Imported files by absolute path, so that one imported in many blocks is read once and is the same in all.
    pub(crate) files: HashMap<Arc<str>, Arc<[Token]>>,
    pub(crate) snippet_expansions: usize,
    pub(crate) file_expansions: usize,
    pub(crate) imported_bytes: u64,
    pub(crate) imported_tokens: usize,
    expanded_bytes: usize,
    /// A word of the server block that a `{` is stuck to: what follows is read as directives but was meant as options.
    glued_brace: Option<Token>,
}

impl<'a> Parser<'a> {
    fn new(source: &Source, options: &'a ParseOptions<'a>, mode: Mode) -> Result<Self, ParseError> {
        let origin = Origin::Main(files::absolute(&source.name).ok().map(Arc::from));
        Ok(Self {
            options,
            mode,
            stream: TokenStream::new(origin, tokenize(source)?),
            last: None,
            name: Arc::clone(&source.name),
            blocks: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            snippets: HashMap::new(),
            files: HashMap::new(),
            snippet_expansions: 0,
            file_expansions: 0,
            imported_bytes: 0,
            imported_tokens: 0,
            expanded_bytes: 0,
            glued_brace: None,
        })
    }

    fn run(&mut self) -> Result<(), ParseError> {
        while self.stream.peek().is_some() {
            self.block()?;
        }
        Ok(())
    }

    /// Ends the parse with the error, or notes it where all are wanted.
    pub(crate) fn report(&mut self, error: ParseError) -> Result<(), ParseError> {
        if self.mode == Mode::First || self.errors.len() >= ERRORS_MAX {
            return Err(error);
        }
        self.errors.push(error);
        Ok(())
    }

    /// A token with its environment references replaced.
    pub(crate) fn expand(&mut self, token: Token) -> Result<Token, ParseError> {
        let expanded = environment::expand(token.text(), self.options.environment)
            .map_err(|error| ParseError::at(&token, format!("{error}: '{}'", excerpt(token.text()))))?;
        let Some(text) = expanded else {
            return Ok(token);
        };
        self.expanded_bytes = self.expanded_bytes.saturating_add(text.len());
        if self.expanded_bytes > EXPANDED_BYTES_MAX {
            let message = format!("values of environment variables add more than {EXPANDED_BYTES_MAX} octets");
            return Err(ParseError::at(&token, message));
        }
        Ok(token.with_text(text))
    }

    /// Takes the next token and remembers it as the last.
    pub(crate) fn take(&mut self) -> Option<Token> {
        let token = self.stream.take()?;
        self.last = Some(token.clone());
        Some(token)
    }

    fn overflow(&self) -> Result<(), ParseError> {
        if !self.stream.is_exhausted() {
            return Ok(());
        }
        let line = self.last.as_ref().map_or(0, Token::line);
        Err(too_many_tokens(self.last.as_ref().map_or(&self.name, Token::file), line))
    }

    /// An error at the token taken last.
    pub(crate) fn error_at_last(&self, message: &str) -> ParseError {
        match &self.last {
            Some(token) => ParseError::at(token, message),
            None => ParseError::parsing(Arc::clone(&self.name), 0, message),
        }
    }

    fn unexpected_end(&self) -> ParseError {
        self.error_at_last("Unexpected EOF")
    }

    /// `expected` stands nowhere; `found` does, or at the end of the text the token taken last.
    pub(crate) fn expected(&self, found: Option<&Token>, expected: &str) -> ParseError {
        match found.or(self.last.as_ref()) {
            Some(token) => ParseError::syntax(token, expected),
            None => self.unexpected_end(),
        }
    }

    /// One server block, snippet or import at the outer level.
    fn block(&mut self) -> Result<(), ParseError> {
        let (keys, end) = self.keys()?;
        let mut block = ServerBlock { keys, directives: Vec::new() };
        if end == KeysEnd::Body {
            if let Some(name) = snippet_name(&block.keys) {
                return self.snippet(name);
            }
            for key in block.keys.iter().filter(|key| is_glued(key)) {
                let message = format!("'{{' is part of the zone '{}': put a blank before it", excerpt(key.text()));
                self.warnings.push(Warning { file: Arc::clone(key.file()), line: key.line(), message });
            }
            self.glued_brace = None;
            self.body(&mut block)?;
        }
        if !block.keys.is_empty() {
            self.blocks.push(block);
        }
        Ok(())
    }

    fn keys(&mut self) -> Result<(Vec<Token>, KeysEnd), ParseError> {
        let mut keys = Vec::new();
        let mut another = false;
        // At the start of the list and behind an import there was no line that could have ended it.
        let mut fresh = true;
        loop {
            let Some(token) = self.stream.peek() else {
                let end = KeysEnd::Text;
                return if another {
                    Err(self.unexpected_end().with_remedy("remove the comma behind the last address"))
                } else {
                    Ok((keys, end))
                };
            };
            let begins_line = token.starts_line();
            if begins_line && !another && !fresh {
                return Ok((keys, KeysEnd::Body));
            }
            let token = token.clone();
            let token = self.expand(token)?;
            if token.text() == "{" {
                if another {
                    let message = "Expected another address but had '{' - check for extra comma";
                    return Err(ParseError::at(&token, message).with_remedy("remove the comma behind the last address"));
                }
                return Ok((keys, KeysEnd::Body));
            }
            if token.text() == "import" && begins_line {
                self.stream.take();
                self.import(&token)?;
                fresh = true;
                continue;
            }
            self.take();
            fresh = false;
            if let Some(text) = token.text().strip_suffix(',') {
                another = true;
                let text = text.to_owned();
                keys.push(token.with_text(text));
            } else if !token.text().is_empty() {
                another = false;
                keys.push(token);
            }
        }
    }

    /// The directives of a server block, in braces or to the end of the text.
    fn body(&mut self, block: &mut ServerBlock) -> Result<(), ParseError> {
        let open = self.stream.peek().filter(|token| token.text() == "{").cloned();
        if open.is_some() {
            self.take();
        }
        let mut index = HashMap::new();
        while let Some(token) = self.stream.take() {
            if token.text() == "import" {
                self.import(&token)?;
                continue;
            }
            self.last = Some(token.clone());
            if token.text() == "}" {
                return Ok(());
            }
            self.directive(token, block, &mut index)?;
        }
        match open {
            Some(open) => self.unclosed(&open),
            None => Ok(()),
        }
    }

    /// The text ends inside the braces of a server block.
    fn unclosed(&mut self, open: &Token) -> Result<(), ParseError> {
        let place = format!("the '{{' at {}", open.place());
        match &self.last {
            // CoreDNS takes the brace that closed the last directive for the block's own; configurations in use
            // may rest on it.
            Some(last) if last.text() == "}" => {
                let message = format!("missing '}}' at the end of the text for {place}");
                self.warnings.push(Warning { file: Arc::clone(last.file()), line: last.line(), message });
                Ok(())
            }
            _ => Err(self.expected(None, "}").with_remedy(format!("{place} is never closed"))),
        }
    }

    /// One directive with its arguments and block.
    fn directive(
        &mut self,
        name: Token,
        block: &mut ServerBlock,
        index: &mut HashMap<Arc<str>, usize>,
    ) -> Result<(), ParseError> {
        let key = self.expand(name.clone())?;
        let known = self.options.directives.is_none_or(|known| known.contains(&key.text()));
        if !known {
            let known = self.options.directives.unwrap_or_default();
            let error = unknown_directive(&key, known, self.glued_brace.as_ref());
            self.report(error)?;
        }
        let mut tokens = vec![name.at_line_start()];
        let mut nesting = 0_usize;
        while let Some(token) = self.stream.peek() {
            match token.text() {
                "{" => nesting += 1,
                _ if nesting == 0 && token.starts_line() => break,
                "}" if nesting == 0 => {
                    let message = "Unexpected '}' because no matching opening brace";
                    return Err(ParseError::at(token, message).with_remedy("put '}' on a line of its own"));
                }
                "}" => nesting -= 1,
                "import" if token.starts_line() => {
                    let token = token.clone();
                    self.stream.take();
                    self.import(&token)?;
                    continue;
                }
                _ => {}
            }
            if let Some(token) = self.take() {
                tokens.push(self.expand(token)?);
            }
        }
        if nesting > 0 {
            let place = key.place();
            let remedy = format!("the block of '{}' at {place} is never closed", excerpt(key.text()));
            return Err(self.unexpected_end().with_remedy(remedy));
        }
        self.glued_brace = tokens.iter().rfind(|token| is_glued(token)).cloned().or_else(|| self.glued_brace.take());
        if known {
            add_directive(block, index, key.text(), tokens);
        }
        Ok(())
    }
}

fn add_directive(block: &mut ServerBlock, index: &mut HashMap<Arc<str>, usize>, name: &str, tokens: Vec<Token>) {
    if let Some(directive) = index.get(name).and_then(|at| block.directives.get_mut(*at)) {
        directive.tokens.extend(tokens);
        return;
    }
    let name: Arc<str> = name.into();
    index.insert(Arc::clone(&name), block.directives.len());
    block.directives.push(Directive { name, tokens });
}

/// Whether a brace was probably meant to stand on its own.
fn is_glued(token: &Token) -> bool {
    token.text().len() > 1 && token.text().ends_with('{')
}

fn unknown_directive(name: &Token, known: &[&str], glued_brace: Option<&Token>) -> ParseError {
    let text = name.text();
    let error = ParseError::at(name, format!("Unknown directive '{}'", excerpt(text)));
    if let Some(glued) = glued_brace {
        let (text, place) = (excerpt(glued.text()), glued.place());
        return error.with_remedy(format!("put a blank before the '{{' of '{text}' at {place}"));
    }
    if let Some(near) = suggest::nearest(text, known) {
        return error.with_remedy(format!("did you mean '{near}'?"));
    }
    error.with_remedy(match text {
        "proxy" => "CoreDNS dropped this plugin: use forward",
        "{" => "a '{' goes on the line of what it belongs to",
        _ if text.ends_with('{') => "put a blank before '{'",
        _ if text.contains(['.', ':', '/']) => {
            "a plugin's name was expected: is a '}' missing above, or a blank before a '{'?"
        }
        _ => {
            "-plugins lists the plugins of this program; options of a plugin go into its own { }, \
              which needs a blank before the '{'"
        }
    })
}
