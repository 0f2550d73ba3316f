//! Corefile text into server blocks with positions.
//!
//! The way of a configuration: bytes ([`Source`]) are cut into [`Token`]s, imports and snippets are spliced in and
//! environment references replaced ([`parse`]), the keys of each [`ServerBlock`] become listening addresses
//! ([`block_addresses`]), and each directive's tokens are read by its plugin through a [`Dispenser`].
//! [`find_conflicts`] says which addresses cannot be served together; [`fingerprint_input`] gives the bytes by which
//! a changed configuration is recognised.
//!
//! Invariants: every token knows its file and line, also through imports; nothing here recurses over input, so
//! depth of nesting costs no stack; everything that input can make large has a named bound ([`limits`]); the only
//! I/O is reading imported files.
#![forbid(unsafe_code)]

mod block;
mod conflicts;
mod defaults;
mod dispenser;
mod domain;
mod duration;
mod environment;
mod error;
mod excerpt;
mod files;
mod glob;
mod hash;
mod import;
mod integer;
mod keys;
mod lexer;
pub mod limits;
mod parse;
mod reverse;
mod snippet;
mod stream;
mod suggest;
mod token;

pub use block::{Corefile, Directive, ServerBlock, Warning};
pub use conflicts::{Conflict, Listening, find_conflicts};
pub use defaults::default_corefile;
pub use dispenser::{Dispenser, ONCE_PER_SERVER_BLOCK};
pub use domain::{fully_qualified, is_domain_name};
pub use duration::{DurationError, GoDuration};
pub use environment::process_environment;
pub use error::{ErrorKind, ParseError};
pub use excerpt::{excerpt, excerpt_path, quote};
pub use files::{os_error_text, read_regular_file};
pub use hash::fingerprint_input;
pub use integer::{IntegerError, parse_integer, parse_integer_32};
pub use keys::{
    KeyError, Scheme, ZoneAddress, block_addresses, normalize_zones, origins, split_scheme, zone_addresses,
};
pub use lexer::{Source, tokenize};
pub use parse::{Checked, ParseOptions, check, parse};
pub use token::Token;
