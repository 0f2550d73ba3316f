//! See the crate description.

pub mod plugin;
