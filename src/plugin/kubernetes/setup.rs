//! From the directive to the parts of the block.

use std::sync::Arc;

use coredns_plugin::{Setup, SetupError};

use super::Kubernetes;
use super::autopath::host_search;
use super::options::{Options, PodMode};

/// Where the host's own search list stands.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Reads the directive; contacts nothing.
pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let options = Options::parse(setup)?;
    // Only clients that are known Pods get a search path.
    let search = if options.pods == PodMode::Verified { host_search(RESOLV_CONF.as_ref()) } else { Vec::new() };
    let plugin = Arc::new(Kubernetes::new(options, search));
    setup.add_plugin(plugin.clone());
    setup.add_part(plugin);
    Ok(())
}
