//! Test support: queries from text, chains without a server, expected records, vectors as named tests.
#![forbid(unsafe_code)]

mod ask;
mod chain;
pub mod process;
mod records;
mod stanza;
pub mod vectors;

pub use ask::{Ask, query};
pub use chain::{Harness, Scripted};
pub use libtest_mimic;
pub use records::{Section, check_section, same_records};
pub use stanza::{set_up, set_up_block};
