//! Test support: queries from text, chains without a server, expected records, log lines, upstreams and an API server of
//! Kubernetes that do what a test says, vectors as named tests.
#![forbid(unsafe_code)]

mod ask;
mod chain;
pub mod kube_api;
mod log;
pub mod process;
mod readme;
mod records;
mod stanza;
mod tls;
mod upstream;
pub mod vectors;

pub use ask::{Ask, query};
pub use chain::{Harness, Scripted};
pub use libtest_mimic;
pub use log::LogCapture;
pub use readme::{readme_examples, set_up_examples};
pub use records::{Section, check_section, same_records};
pub use stanza::{set_up, set_up_block, start_parts, stop_parts};
pub use tls::{HttpSeen, TlsFront, serve_http};
pub use upstream::{Act, MockUpstream, Seen};
