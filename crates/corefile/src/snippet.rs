//! Snippets: `(NAME) { … }`, text to be imported by name.

use crate::environment;
use crate::error::ParseError;
use crate::excerpt::excerpt;
use crate::import::snippet_depth;
use crate::parse::Parser;
use crate::token::Token;

/// The name of the snippet that a list of keys declares: one key in parentheses, nothing else.
pub(crate) fn snippet_name(keys: &[Token]) -> Option<String> {
    let [key] = keys else { return None };
    Some(key.text().strip_prefix('(')?.strip_suffix(')')?.to_owned())
}

impl Parser<'_> {
    /// The body of a snippet, kept as it is until it is used.
    pub(crate) fn snippet(&mut self, name: String) -> Result<(), ParseError> {
        if self.snippets.contains_key(name.as_str()) {
            let message = format!("redeclaration of previously declared snippet {}", excerpt(&name));
            let error = match self.stream.peek() {
                Some(token) => ParseError::at(token, message),
                None => self.error_at_last(&message),
            };
            self.report(error.with_remedy("give it another name or remove one of the two"))?;
        }
        let tokens = self.snippet_tokens()?;
        if let Some(token) = self_import(&tokens, &name, self.options.environment) {
            let error = snippet_depth(token);
            self.report(error)?;
            return Ok(());
        }
        self.snippets.entry(name.into()).or_insert_with(|| tokens.into());
        Ok(())
    }

    fn snippet_tokens(&mut self) -> Result<Vec<Token>, ParseError> {
        let open = self.stream.peek().cloned();
        if open.as_ref().is_none_or(|token| token.text() != "{") {
            return Err(self.expected(open.as_ref(), "{").with_remedy("the body of a snippet is in braces"));
        }
        self.take();
        let mut tokens = Vec::new();
        let mut nesting = 1_usize;
        while let Some(token) = self.take() {
            match token.text() {
                "{" => nesting += 1,
                "}" if nesting == 1 => return Ok(tokens),
                "}" => nesting -= 1,
                _ => {}
            }
            tokens.push(token);
        }
        Err(self.expected(None, "}").with_remedy("close the snippet with a '}' on a line of its own"))
    }
}

/// The `import` by which the body of a snippet imports the snippet itself.
fn self_import<'t>(body: &'t [Token], name: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<&'t Token> {
    let pairs = body.iter().zip(body.iter().skip(1));
    let mut imports = pairs.enumerate().filter(|(index, (keyword, argument))| {
        let begins_line = *index == 0 || keyword.starts_line();
        keyword.text() == "import" && begins_line && !argument.starts_line()
    });
    imports
        .find(|(_, (_, argument))| match environment::expand(argument.text(), env) {
            Ok(Some(expanded)) => expanded == name,
            Ok(None) => argument.text() == name,
            Err(_) => false,
        })
        .map(|(_, (keyword, _))| keyword)
}
