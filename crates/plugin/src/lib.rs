//! The contract between the server and its plugins.
//!
//! A plugin is a link of a chain. It answers a [`Query`], or passes it on with [`Next::serve`], and may change what
//! comes back. It answers now ([`Outcome::Now`]) where its data are in memory, and later ([`Outcome::Later`]) where
//! it must wait for I/O; code that wraps the rest of the chain is written once with [`Outcome::map`].
//!
//! | to | see |
//! |---|---|
//! | declare a plugin | [`Descriptor`], [`Setup`] |
//! | serve queries | [`Plugin`], [`Query`], [`Next`], [`Outcome`], [`Reply`] |
//! | decide which names are meant | [`Zones`], [`Fallthrough`] |
//! | open and close what it needs | [`Lifecycle`] |
//! | count | [`metrics`] |
//! | tell kinds of responses apart | [`classify()`], [`ResponseType`] |
//! | put a query and its reply into words | [`LineFormat`] |
//! | read patterns as CoreDNS reads them | [`go_regex`] |
//! | offer something to other plugins | [`services`] |
#![forbid(unsafe_code)]

mod address;
mod background;
mod chain;
pub mod clock;
pub mod go_regex;
mod hexdump;
mod http;
mod lifecycle;
mod line_format;
mod metadata;
pub mod metrics;
mod outcome;
mod process;
mod query;
mod reply;
mod response;
mod secret;
pub mod services;
mod setup;
mod stamp;
mod version;
mod zones;

pub use address::{AddressError, split_host_port};
pub use background::Background;
pub use chain::{Core, Detached, MAX_LOOKUPS, Next, NoNextPlugin, Plugin};
pub use coredns_corefile as corefile;
pub use coredns_wire as wire;
pub use hexdump::Hexdump;
pub use http::{
    HttpConnection, HttpEndpoint, HttpEvent, HttpHandler, HttpRequest, HttpResponse, HttpSecurity, HttpStream,
};
pub use lifecycle::{BoxError, BoxFuture, Lifecycle, Shared, Start};
pub use line_format::{LineFormat, ResponseFacts};
pub use metadata::Metadata;
pub use outcome::{Answer, Failure, Outcome};
pub use process::{Fatal, WORKERS_MAX, fatal, take_fatal, usable_cpus};
pub use query::{Query, ServerInfo, Transport};
pub use reply::{Reply, ReplyBody, ReplyEdns};
pub use response::{ResponseClass, ResponseType, classify};
pub use secret::exposed_secret;
pub use setup::{BlockConfig, Descriptor, Filter, ReloadSettings, Setup, SetupError, Timeouts, View};
pub use stamp::Stamp;
pub use version::VERSION;
pub use zones::{Fallthrough, Zones};
