//! DNS messages as bytes: names, questions, records, replies.
//!
//! This crate does no I/O and depends on nothing but the standard library. It is what runs for every query, so
//! its budget is tight: reading a plain question costs no allocation and well under 50 ns, writing a reply of a
//! few records costs one copy of their bytes.
//!
//! | type | when |
//! |---|---|
//! | [`Name`] | a domain name that is kept; up to 78 octets inline, longer ones on the heap |
//! | [`Labels`] | walking over the labels of a name in wire form |
//! | [`Request`] | a checked query: header, question, EDNS, as offsets into its bytes |
//! | [`Record`] | a resource record with owner and data in uncompressed wire form |
//! | [`Rdata`] | the data of a record; up to 78 octets inline, longer ones shared |
//! | [`Message`] | any whole message taken apart, for clients, transfers and tests |
//! | [`encode()`] | header, question, records and OPT into bytes within a size limit |
#![forbid(unsafe_code)]
// Lengths come off the wire: a cast that loses bits would make a wrong message instead of an error.
#![warn(clippy::cast_possible_truncation)]

mod edns;
mod encode;
pub mod fold;
mod message;
mod name;
mod rdata;
mod record;
mod request;
mod text;
mod types;

pub use edns::{Edns, EdnsOption, EdnsOptions, MAX_OPTIONS, option_code};
pub use encode::{Encoded, Outgoing, encode, encode_into, uncompressed_len};
pub use message::{Message, MessageError, Question};
pub use name::{Labels, MAX_LABEL, MAX_NAME, Name, NameError, read_name, skip_name};
pub use rdata::{Rdata, RdataError, read_rdata};
pub use record::Record;
pub use request::{HEADER_LEN, Header, Reject, Request, reject_reply};
pub use text::{TextError, parse_record, rdata_from_text, rdata_to_text};
pub use types::{Class, Opcode, Rcode, RrType};
