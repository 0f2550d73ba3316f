//! What plugins offer each other, looked up once at setup.

use std::fmt;
use std::net::IpAddr;

use coredns_wire::{Name, Record};

/// Why a zone is not transferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferError {
    /// The plugin does not serve the zone; the next one is asked.
    NotAuthoritative,
    /// It serves the zone and cannot give it.
    Failed(String),
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAuthoritative => f.write_str("not authoritative for zone"),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for TransferError {}

/// A source of whole zones (RFC 5936, RFC 1995).
pub trait Transfer: Send + Sync {
    /// The records of `zone`, beginning and ending with its SOA; just the SOA where `serial` is not 0 and the zone
    /// has not changed since.
    ///
    /// # Errors
    /// [`TransferError::NotAuthoritative`] where another plugin is to be asked.
    fn transfer(&self, zone: &Name, serial: u32)
    -> Result<Box<dyn Iterator<Item = Record> + Send + '_>, TransferError>;
}

/// A source of search paths.
pub trait AutoPath: Send + Sync {
    /// The search path of the client at `client` for a query of `name`; empty where there is none. The last element
    /// is `None`, the name as it is.
    fn search_path(&self, client: IpAddr, name: &Name) -> Vec<Option<Name>>;
}
