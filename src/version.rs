//! Which version this is.

/// The version of CoreDNS whose behaviour this is; tools that look for a version find it.
pub const COMPATIBLE: &str = "1.14.7";

/// The version block that is printed at the start and by `-version`.
#[must_use]
pub fn block() -> String {
    let (os, arch) = (env!("COREDNS_TARGET_OS"), env!("COREDNS_TARGET_ARCH"));
    let (rustc, commit) = (env!("COREDNS_RUSTC_VERSION"), env!("COREDNS_GIT_COMMIT"));
    format!("CoreDNS-{COMPATIBLE}\n{os}/{arch}, rustc{rustc}, {commit}\n")
}
