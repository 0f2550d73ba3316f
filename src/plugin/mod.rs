//! The plugins, one module each; [`crate::registry`] lists them in the order of the chain.
//!
//! A module is declared here by hand, since `cargo fmt` and editors follow only what stands in the source, and below
//! `#[cfg(plugin = "NAME")]`, which holds when plugin.cfg lists the module: a plugin whose line is removed is not
//! compiled. The build fails, naming line and remedy, when plugin.cfg lists a module that is not declared here so.

#[cfg(plugin = "errors")]
pub mod errors;
#[cfg(plugin = "hosts")]
pub mod hosts;
#[cfg(plugin = "kubernetes")]
pub mod kubernetes;
#[cfg(plugin = "loadbalance")]
pub mod loadbalance;
#[cfg(plugin = "log")]
pub mod log;
