//! The kubernetes plugin: names of a cluster's Services, endpoints and Pods.

pub mod manifests;
pub mod object;
pub mod selector;
pub mod source;
