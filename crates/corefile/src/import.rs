//! `import`: a snippet or files in the place of the line.

use std::path::Path;
use std::sync::Arc;

use crate::block::Warning;
use crate::error::ParseError;
use crate::excerpt::excerpt_path;
use crate::files;
use crate::glob;
use crate::lexer::tokens_of;
use crate::limits::{FILE_BYTES_MAX, FILE_EXPANSIONS_MAX, IMPORTED_BYTES_MAX, SNIPPET_EXPANSIONS_MAX, TOKENS_MAX};
use crate::parse::Parser;
use crate::stream::Origin;
use crate::token::Token;

/// A file to splice in.
struct Import {
    path: Arc<str>,
    tokens: Arc<[Token]>,
}

/// The error that ends snippets importing one another, at `token`.
pub(crate) fn snippet_depth(token: &Token) -> ParseError {
    ParseError::at(token, format!("maximum snippet import depth ({SNIPPET_EXPANSIONS_MAX}) exceeded"))
        .with_remedy("a snippet must not import itself, nor through another")
}

/// The error that ends files importing one another, at `token`; the number is what CoreDNS prints, not its bound.
fn file_depth(token: &Token) -> ParseError {
    ParseError::at(token, "maximum file import depth (10000) exceeded")
        .with_remedy("a file must not import itself, nor through another or a pattern that matches it")
}

impl Parser<'_> {
    /// Splices in what an `import`, just taken from the stream, names.
    ///
    /// Afterwards the last token is again the one before the import: errors at the end of the text point there.
    pub(crate) fn import(&mut self, keyword: &Token) -> Result<(), ParseError> {
        let last = self.last.clone();
        if let Err(error) = self.splice_import(keyword) {
            self.report(error)?;
            self.stream.skip_line();
        }
        self.stream.begin_line();
        self.last = last;
        Ok(())
    }

    fn splice_import(&mut self, keyword: &Token) -> Result<(), ParseError> {
        let argument = self.stream.take_on_line().ok_or_else(|| {
            ParseError::at(keyword, "Wrong argument count or unexpected line ending after 'import'")
                .with_remedy("name a snippet, a file or a pattern on the same line")
        })?;
        let argument = self.expand(argument)?;
        if argument.text().is_empty() {
            return Err(ParseError::at(&argument, "Import requires a non-empty filepath")
                .with_remedy("an environment variable that is not set gives an empty name"));
        }
        if let Some(extra) = self.stream.take_on_line() {
            let message = "Import takes only one argument (glob pattern or file)";
            return Err(ParseError::at(&extra, message).with_remedy("write one import a line"));
        }
        match self.snippets.get_key_value(argument.text()) {
            Some((name, tokens)) => {
                let (name, tokens) = (Arc::clone(name), Arc::clone(tokens));
                self.splice_snippet(&argument, name, tokens)
            }
            None => self.splice_files(&argument),
        }
    }

    fn splice_snippet(&mut self, argument: &Token, name: Arc<str>, tokens: Arc<[Token]>) -> Result<(), ParseError> {
        let origin = Origin::Snippet(name);
        if self.snippet_expansions >= SNIPPET_EXPANSIONS_MAX || self.stream.is_expanding(&origin) {
            return Err(snippet_depth(argument));
        }
        self.snippet_expansions += 1;
        self.stream.splice(origin, tokens);
        Ok(())
    }

    fn splice_files(&mut self, argument: &Token) -> Result<(), ParseError> {
        if self.file_expansions >= FILE_EXPANSIONS_MAX {
            return Err(file_depth(argument));
        }
        let imports = self.read_imports(argument)?;
        if !imports.is_empty() {
            self.file_expansions += 1;
        }
        for import in imports.into_iter().rev() {
            self.stream.splice(Origin::File(import.path), import.tokens);
        }
        Ok(())
    }

    fn read_imports(&mut self, argument: &Token) -> Result<Vec<Import>, ParseError> {
        let pattern = joined(argument)?;
        let asked = excerpt_path(argument.text());
        let has_set = pattern.contains('[') && pattern.contains(']');
        if has_set || pattern.matches('*').count() > 1 || pattern.matches('?').count() > 1 {
            let shown = excerpt_path(&pattern);
            let message = format!("Glob pattern may only contain one wildcard (*), but has others: {shown}");
            return Err(ParseError::at(argument, message)
                .with_remedy("the directory counts too: use at most one *, at most one ? and no [ ]"));
        }
        let matches = glob::matches(&pattern).map_err(|error| {
            ParseError::at(argument, format!("Failed to use import pattern {asked}: {error}"))
                .with_remedy("write \\[ for a [ in a name, \\\\ for a \\")
        })?;
        if matches.is_empty() {
            return self.nothing_found(argument, &pattern);
        }
        let mut imports = Vec::with_capacity(matches.len());
        for path in matches {
            imports.push(self.read_import(argument, &path)?);
        }
        Ok(imports)
    }

    /// No file: as it may be for a pattern, an error for a name.
    fn nothing_found(&mut self, argument: &Token, pattern: &str) -> Result<Vec<Import>, ParseError> {
        let asked = excerpt_path(argument.text());
        if !pattern.contains(['*', '?', '[', ']']) {
            let shown = excerpt_path(pattern);
            return Err(ParseError::at(argument, format!("File to import not found: {asked}"))
                .with_remedy(format!("no snippet of that name comes before this line and there is no file {shown}")));
        }
        self.warnings.push(Warning {
            file: Arc::clone(argument.file()),
            line: argument.line(),
            message: format!("No files matching import glob pattern: {asked}"),
        });
        Ok(Vec::new())
    }

    fn read_import(&mut self, argument: &Token, found: &Path) -> Result<Import, ParseError> {
        let found = found.to_string_lossy();
        let shown = excerpt_path(&found);
        let path: Arc<str> = files::clean(&found).into();
        if self.stream.is_expanding(&Origin::File(Arc::clone(&path))) {
            return Err(file_depth(argument));
        }
        if let Some(tokens) = self.files.get(&path) {
            return Ok(Import { path, tokens: Arc::clone(tokens) });
        }
        let could_not = |reason: String| ParseError::at(argument, format!("Could not import {shown}: {reason}"));
        let text = files::read_regular_file(Path::new(&*path), FILE_BYTES_MAX).map_err(|error| {
            let reason = files::os_error_text(&error);
            let error = match error.raw_os_error() {
                Some(_) => could_not(format!("open {shown}: {reason}")),
                None => could_not(reason),
            };
            error.with_remedy("import reads regular files up to 16 MiB; DIRECTORY/*.conf names those of a directory")
        })?;
        self.imported_bytes = self.imported_bytes.saturating_add(text.len() as u64);
        if self.imported_bytes > IMPORTED_BYTES_MAX {
            return Err(could_not(format!("imported files together are larger than {IMPORTED_BYTES_MAX} octets")));
        }
        let tokens: Arc<[Token]> = tokens_of(&path, &text, true)?.into();
        self.imported_tokens = self.imported_tokens.saturating_add(tokens.len());
        if self.imported_tokens > TOKENS_MAX {
            return Err(could_not(format!("imported files together have more than {TOKENS_MAX} words")));
        }
        self.files.insert(Arc::clone(&path), Arc::clone(&tokens));
        Ok(Import { path, tokens })
    }
}

/// The pattern that an argument stands for: a relative one starts from the directory of the file that it stands in.
fn joined(argument: &Token) -> Result<String, ParseError> {
    let pattern = argument.text();
    if pattern.starts_with('/') {
        return Ok(pattern.to_owned());
    }
    let file = files::absolute(argument.file()).map_err(|error| {
        let (shown, reason) = (excerpt_path(argument.file()), files::os_error_text(&error));
        ParseError::at(argument, format!("Failed to get absolute path of file: {shown}: {reason}"))
    })?;
    Ok(files::clean(&format!("{}/{pattern}", files::directory(&file))))
}
