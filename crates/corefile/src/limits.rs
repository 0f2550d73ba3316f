//! Bounds on what a configuration may make of itself.
//!
//! Each is far above what a configuration in use needs; each ends in an error with a position, never in a hang.

/// Largest Corefile and largest imported file, in octets.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Octets of all imported files of one parse together; a file imported twice counts once.
pub const IMPORTED_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Tokens that one parse reads, snippets and imports expanded.
pub const TOKENS_MAX: usize = 4_000_000;
/// Uses of snippets in one parse.
pub const SNIPPET_EXPANSIONS_MAX: usize = 10_000;
/// `import` lines naming files in one parse; a pattern counts once, however many files it matches.
pub const FILE_EXPANSIONS_MAX: usize = 100_000;
/// Times that the value of an environment variable is itself searched for references.
pub const ENVIRONMENT_LEVELS_MAX: usize = 10;
/// Octets of one token after its environment references are replaced.
pub const TOKEN_BYTES_MAX: usize = 1024 * 1024;
/// Octets that environment values add to one parse.
pub const EXPANDED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Errors that a check collects before it gives up.
pub const ERRORS_MAX: usize = 100;
/// Octets of foreign text that an error quotes, after escaping.
pub const QUOTED_BYTES_MAX: usize = 64;
/// Octets of a path that an error shows, after escaping: a path is of use only when it is whole.
pub const QUOTED_PATH_BYTES_MAX: usize = 1024;
/// Octets of the message of an error, after escaping: whatever a plugin quotes, an error stays one printable line.
pub const MESSAGE_BYTES_MAX: usize = 2048;
