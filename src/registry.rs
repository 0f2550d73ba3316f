//! The plugins of this build and the names that a Corefile may use, made of plugin.cfg at build time.

include!(concat!(env!("OUT_DIR"), "/registry.rs"));
