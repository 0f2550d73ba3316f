//! placeholder
pub(crate) fn set_debug(_: bool) {}
pub(crate) fn init() {}
pub(crate) fn fatal(_: &str) {}
