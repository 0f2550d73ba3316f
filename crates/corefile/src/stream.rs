//! The tokens of a configuration with imports spliced in as they are met.
//!
//! A stack of token runs: the main file at the bottom, above it the snippets and files that are being expanded. The
//! stack at an `import` is therefore the chain of texts that it stands in, and a text met again there never ends.

use std::sync::Arc;

use crate::limits::TOKENS_MAX;
use crate::token::Token;

/// What a run of tokens was spliced in from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The text given to the parser; its absolute path where it has one.
    Main(Option<Arc<str>>),
    /// A snippet, by name.
    Snippet(Arc<str>),
    /// An imported file, by absolute path.
    File(Arc<str>),
}

#[derive(Debug)]
struct Run {
    origin: Origin,
    tokens: Arc<[Token]>,
    next: usize,
}

/// A source of tokens that text can be spliced into at the point of reading.
#[derive(Debug)]
pub(crate) struct TokenStream {
    runs: Vec<Run>,
    ahead: Option<Token>,
    /// The next token comes from another run than the last.
    at_seam: bool,
    read: usize,
}

impl TokenStream {
    /// Starts with the tokens of the main file.
    pub(crate) fn new(origin: Origin, tokens: Vec<Token>) -> Self {
        let main = Run { origin, tokens: tokens.into(), next: 0 };
        Self { runs: vec![main], ahead: None, at_seam: true, read: 0 }
    }

    /// The next token, left where it is.
    pub(crate) fn peek(&mut self) -> Option<&Token> {
        if self.ahead.is_none() {
            self.ahead = self.advance();
        }
        self.ahead.as_ref()
    }

    /// Takes the next token.
    pub(crate) fn take(&mut self) -> Option<Token> {
        match self.ahead.take() {
            Some(token) => Some(token),
            None => self.advance(),
        }
    }

    /// Takes the next token if it stands on the line of the one taken last.
    ///
    /// Unlike `peek` it leaves the stack as it is, so that `is_expanding` still tells of the token taken last.
    pub(crate) fn take_on_line(&mut self) -> Option<Token> {
        debug_assert!(self.ahead.is_none(), "looks at the run, not at a token taken from it");
        let run = self.runs.last_mut()?;
        let token = run.tokens.get(run.next).filter(|token| !token.starts_line())?.clone();
        run.next += 1;
        Some(token)
    }

    /// Drops the rest of the line of the token taken last.
    pub(crate) fn skip_line(&mut self) {
        while self.take_on_line().is_some() {}
    }

    /// Puts a text in front of what is left; its end is the end of a line.
    pub(crate) fn splice(&mut self, origin: Origin, tokens: Arc<[Token]>) {
        debug_assert!(self.ahead.is_none(), "text is spliced in at the point of reading");
        self.runs.push(Run { origin, tokens, next: 0 });
        self.at_seam = true;
    }

    /// Says that what follows begins a line, where an import that was just taken left nothing.
    pub(crate) fn begin_line(&mut self) {
        self.at_seam = true;
    }

    /// Whether the token taken last stands, at whatever depth, in the text of that origin.
    pub(crate) fn is_expanding(&self, origin: &Origin) -> bool {
        // A run that nothing was taken from is a file that waits for its turn in the same import.
        self.runs.iter().filter(|run| run.next > 0).any(|run| match (&run.origin, origin) {
            (Origin::Main(Some(path)), Origin::File(file)) => path == file,
            (of_run, origin) => of_run == origin,
        })
    }

    /// Whether reading stopped because there were more than [`TOKENS_MAX`] tokens.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.read >= TOKENS_MAX
    }

    fn advance(&mut self) -> Option<Token> {
        if self.is_exhausted() {
            return None;
        }
        loop {
            let run = self.runs.last_mut()?;
            if let Some(token) = run.tokens.get(run.next) {
                run.next += 1;
                self.read += 1;
                let token = token.clone();
                return Some(if std::mem::take(&mut self.at_seam) { token.at_line_start() } else { token });
            }
            if self.runs.len() == 1 {
                return None;
            }
            self.runs.pop();
            self.at_seam = true;
        }
    }
}
