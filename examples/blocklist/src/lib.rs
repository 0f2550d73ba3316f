//! A plugin in a crate of its own, as a third party writes it; docs/writing-a-plugin.md walks through it.
#![forbid(unsafe_code)]

pub mod plugin;
