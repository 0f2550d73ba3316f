//! The parsed configuration.

use std::fmt;
use std::sync::Arc;

use crate::dispenser::Dispenser;
use crate::token::Token;

/// A parsed configuration: its server blocks in the order of the text.
#[derive(Clone, Debug, Default)]
pub struct Corefile {
    /// The blocks that have keys; none means that the built-in default applies.
    pub blocks: Vec<ServerBlock>,
    /// What was odd but not wrong.
    pub warnings: Vec<Warning>,
}

/// One server block: what it serves and the directives that say how.
#[derive(Clone, Debug)]
pub struct ServerBlock {
    /// The keys as written, environment references replaced and the comma dropped.
    pub keys: Vec<Token>,
    /// The directives in order of first appearance, one for each name.
    pub directives: Vec<Directive>,
}

impl ServerBlock {
    /// The directive of that name.
    pub fn directive(&self, name: &str) -> Option<&Directive> {
        self.directives.iter().find(|directive| &*directive.name == name)
    }
}

/// All that one block says under one directive name.
#[derive(Clone, Debug)]
pub struct Directive {
    /// The name that the plugin is found by.
    pub name: Arc<str>,
    /// The tokens of every appearance, one after the other, each beginning with the name.
    pub tokens: Vec<Token>,
}

impl Directive {
    /// A cursor before the first token.
    pub fn dispenser(&self) -> Dispenser<'_> {
        Dispenser::new(&self.tokens)
    }
}

/// Something that an operator should know although the configuration is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file as operators are shown it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The text.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
