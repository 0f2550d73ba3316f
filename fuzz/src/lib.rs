//! What the fuzz targets run: plain functions over octets that panic where something is wrong.
//!
//! They live apart from the fuzzer so that ordinary tests replay the corpora through the very same functions, by
//! including these files.
#![forbid(unsafe_code)]

#[cfg(feature = "server")]
pub mod corefile;
pub mod reference;
pub mod replay;
#[cfg(feature = "server")]
pub mod server;
pub mod wire;
