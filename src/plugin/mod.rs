//! The plugins, one directory each; `plugin.cfg` says which of them are built in and in which order they stand.

