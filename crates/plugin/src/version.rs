//! The version that this program answers to.

/// The release of CoreDNS that this is compatible with, as `-version`, `chaos` and `coredns_build_info` give it.
pub const VERSION: &str = "1.14.7";
