//! The plugins, one module each; [`crate::registry`] lists them in the order of the chain.
//!
//! A module is declared here by hand, since `cargo fmt` and editors follow only what stands in the source, and below
//! `#[cfg(plugin = "NAME")]`, which holds when plugin.cfg lists the module: a plugin whose line is removed is not
//! compiled. The build fails, naming line and remedy, when plugin.cfg lists a module that is not declared here so.

#[cfg(plugin = "bind")]
pub mod bind;
#[cfg(plugin = "bufsize")]
pub mod bufsize;
#[cfg(plugin = "cache")]
pub mod cache;
#[cfg(plugin = "cancel")]
pub mod cancel;
#[cfg(plugin = "debug")]
pub mod debug;
#[cfg(plugin = "erratic")]
pub mod erratic;
#[cfg(plugin = "errors")]
pub mod errors;
#[cfg(plugin = "forward")]
pub mod forward;
#[cfg(plugin = "health")]
pub mod health;
#[cfg(plugin = "hosts")]
pub mod hosts;
#[cfg(plugin = "kubernetes")]
pub mod kubernetes;
#[cfg(plugin = "loadbalance")]
pub mod loadbalance;
#[cfg(plugin = "log")]
pub mod log;
#[cfg(plugin = "loop")]
pub mod r#loop;
#[cfg(plugin = "metadata")]
pub mod metadata;
#[cfg(plugin = "metrics")]
pub mod metrics;
#[cfg(plugin = "multisocket")]
pub mod multisocket;
#[cfg(plugin = "ready")]
pub mod ready;
#[cfg(plugin = "reload")]
pub mod reload;
#[cfg(plugin = "root")]
pub mod root;
#[cfg(plugin = "timeouts")]
pub mod timeouts;
#[cfg(plugin = "whoami")]
pub mod whoami;
