//! A word of a Corefile and where it stands.

use std::fmt;
use std::sync::Arc;

use crate::excerpt::excerpt_path;

/// A word of a Corefile with the file and line where it starts.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: Arc<str>,
    file: Arc<str>,
    line: u32,
    starts_line: bool,
    imported: bool,
}

impl Token {
    /// Builds a token; `line` counts from 1.
    pub(crate) fn new(text: Arc<str>, file: Arc<str>, line: u32, starts_line: bool, imported: bool) -> Self {
        Self { text, file, line, starts_line, imported }
    }

    /// The text without quotes, environment references replaced.
    ///
    /// The first token of a directive keeps its references: only the name it is looked up by has them replaced.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The file as operators are shown it: the name the main file was opened by, the absolute path of an import.
    pub fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// The line where the token starts, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// `FILE:LINE`, made safe to show.
    pub fn place(&self) -> String {
        format!("{}:{}", excerpt_path(&self.file), self.line)
    }

    /// Whether the token is the first of its line; text spliced in by an import starts and ends a line.
    pub fn starts_line(&self) -> bool {
        self.starts_line
    }

    /// Whether the token comes from an imported file.
    pub fn is_imported(&self) -> bool {
        self.imported
    }

    /// The same token with other text.
    pub(crate) fn with_text(self, text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), ..self }
    }

    /// The same token as the first of a line.
    pub(crate) fn at_line_start(self) -> Self {
        Self { starts_line: true, ..self }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{:?}", self.file, self.line, self.text)
    }
}
