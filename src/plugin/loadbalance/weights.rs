//! Weights of addresses, and the file that they stand in.

use std::collections::HashMap;
use std::net::IpAddr;

use coredns_plugin::corefile::quote;
use coredns_plugin::wire::Name;

/// The weight of an address that the file does not name.
const DEFAULT_WEIGHT: u8 = 1;

/// The weights of the addresses of domain names.
///
/// Names compare without regard to case, as everywhere in DNS (RFC 4343).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights(HashMap<Name, Vec<(IpAddr, u8)>, foldhash::fast::RandomState>);

/// What is wrong with a line of a weight file; the file's name is not part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeightError {
    /// A line of one word that is an address, or no name.
    #[error("wrong domain name:{} in weight file {file}. (Maybe a missing weight value?)", quote(word))]
    Domain {
        /// The word.
        word: String,
        /// The file.
        file: String,
    },
    /// An address and its weight before any domain name.
    #[error("missing domain name in weight file {file}")]
    NoDomain {
        /// The file.
        file: String,
    },
    /// The first of two words is no address.
    #[error("wrong IP address:{} in weight file {file}", quote(word))]
    Address {
        /// The word.
        word: String,
        /// The file.
        file: String,
    },
    /// The second of two words is not a number from 1 to 255.
    #[error("wrong weight value:{} in weight file {file}", quote(word))]
    Weight {
        /// The word.
        word: String,
        /// The file.
        file: String,
    },
    /// A line of three words or more.
    #[error("could not parse weight line:{} in weight file {file}", quote(line))]
    Line {
        /// The line.
        line: String,
        /// The file.
        file: String,
    },
}

impl Weights {
    /// Reads the text of a weight file; `file` is its name for errors.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(text: &str, file: &str) -> Result<Self, WeightError> {
        let owned = || file.to_owned();
        let mut weights = Self::default();
        let mut domain: Option<Name> = None;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match (&words[..], &domain) {
                ([word], _) => {
                    let name = if word.parse::<IpAddr>().is_ok() { None } else { word.parse::<Name>().ok() };
                    let name = name.ok_or_else(|| WeightError::Domain { word: (*word).into(), file: owned() })?;
                    weights.0.entry(name.clone()).or_default();
                    domain = Some(name);
                }
                ([_, _], None) => return Err(WeightError::NoDomain { file: owned() }),
                ([address, weight], Some(domain)) => {
                    let parsed = address.parse::<IpAddr>().ok();
                    let address =
                        parsed.ok_or_else(|| WeightError::Address { word: (*address).into(), file: owned() })?;
                    let parsed = weight.parse::<u8>().ok().filter(|weight| *weight > 0);
                    let weight = parsed.ok_or_else(|| WeightError::Weight { word: (*weight).into(), file: owned() })?;
                    weights.0.entry(domain.clone()).or_default().push((address.to_canonical(), weight));
                }
                _ => return Err(WeightError::Line { line: line.into(), file: owned() }),
            }
        }
        Ok(weights)
    }

    /// The weight of an address of `owner`: the first that the file gives it, else 1.
    #[must_use]
    pub fn of(&self, owner: &Name, address: IpAddr) -> u8 {
        let address = address.to_canonical();
        let listed = self.0.get(owner).and_then(|list| list.iter().find(|(listed, _)| *listed == address));
        listed.map_or(DEFAULT_WEIGHT, |(_, weight)| *weight)
    }

    /// The domain names with their addresses and weights, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &[(IpAddr, u8)])> {
        self.0.iter().map(|(name, list)| (name, list.as_slice()))
    }
}
