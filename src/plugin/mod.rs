//! The plugins of the server, one directory each.

pub mod kubernetes;
