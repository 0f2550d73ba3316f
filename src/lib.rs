//! A drop-in replacement for CoreDNS: the server and its plugins. ARCHITECTURE.md says what lies where.
#![deny(unsafe_code)]

pub mod cli;
pub mod plugin;
pub mod registry;
pub mod server;
pub mod upstream;
pub mod version;

// The pure parts of the build script, compiled here so that their tests run with those of the library.
#[cfg(test)]
#[path = "../build/registry.rs"]
mod build_registry;
#[cfg(test)]
#[path = "../build/version.rs"]
mod build_version;
