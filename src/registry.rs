//! The plugins of this build and the names that a Corefile may use, made of plugin.cfg at build time.

include!(concat!(env!("OUT_DIR"), "/registry.rs"));

/// The names of the plugins of this build, sorted, one a line; the plugin `on`, which knows no queries, comes last.
#[must_use]
pub fn listing() -> String {
    let mut names: Vec<&str> = REGISTRY.iter().map(|descriptor| descriptor.name).collect();
    names.sort_unstable_by_key(|name| (*name == "on", *name));
    names.join("\n")
}
