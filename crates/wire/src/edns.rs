//! EDNS(0) (RFC 6891): the OPT record and its options.

use crate::message::MessageError;

/// Options beyond this many in one OPT record are not looked at.
pub const MAX_OPTIONS: usize = 100;

/// Option codes (IANA registry "DNS EDNS0 Option Codes").
pub mod option_code {
    /// Name server identifier (RFC 5001).
    pub const NSID: u16 = 3;
    /// Client subnet (RFC 7871).
    pub const CLIENT_SUBNET: u16 = 8;
    /// Zone expiry (RFC 7314).
    pub const EXPIRE: u16 = 9;
    /// Cookie (RFC 7873).
    pub const COOKIE: u16 = 10;
    /// TCP keep-alive (RFC 7828).
    pub const TCP_KEEPALIVE: u16 = 11;
    /// Padding (RFC 7830).
    pub const PADDING: u16 = 12;
    /// Extended DNS error (RFC 8914).
    pub const EXTENDED_ERROR: u16 = 15;
}

/// The fixed part of an OPT record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Edns {
    /// The sender's UDP payload size in octets, as sent (values below 512 mean 512).
    pub udp_size: u16,
    /// Bits 4–11 of the response code.
    pub extended_rcode: u8,
    /// The version; this server knows 0.
    pub version: u8,
    /// The flags; the highest bit is DO.
    pub flags: u16,
}

impl Edns {
    /// The bit "DNSSEC OK" in [`Edns::flags`] (RFC 3225).
    pub const DO: u16 = 0x8000;

    /// Tells whether DO is set.
    #[must_use]
    pub const fn dnssec_ok(self) -> bool {
        self.flags & Self::DO != 0
    }
}

/// One option: its code and its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdnsOption<'a> {
    /// The option code; see [`option_code`].
    pub code: u16,
    /// The data, without code and length.
    pub data: &'a [u8],
}

/// The options of an OPT record whose data were checked; at most [`MAX_OPTIONS`] of them.
#[derive(Clone, Debug)]
pub struct EdnsOptions<'a> {
    rest: &'a [u8],
    seen: usize,
}

impl<'a> EdnsOptions<'a> {
    /// Walks over the data of an OPT record.
    #[must_use]
    pub const fn new(rdata: &'a [u8]) -> Self {
        Self { rest: rdata, seen: 0 }
    }

    /// Checks that the lengths of all options fit into `rdata`.
    ///
    /// # Errors
    /// [`MessageError::Option`] where an option reaches past the end.
    pub fn check(rdata: &[u8]) -> Result<(), MessageError> {
        let mut rest = rdata;
        while !rest.is_empty() {
            let (_, behind) = split_option(rest).ok_or(MessageError::Option)?;
            rest = behind;
        }
        Ok(())
    }
}

fn split_option(octets: &[u8]) -> Option<(EdnsOption<'_>, &[u8])> {
    let (&[c0, c1, l0, l1], rest) = octets.split_first_chunk::<4>()?;
    let (data, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([l0, l1])))?;
    Some((EdnsOption { code: u16::from_be_bytes([c0, c1]), data }, rest))
}

impl<'a> Iterator for EdnsOptions<'a> {
    type Item = EdnsOption<'a>;

    fn next(&mut self) -> Option<EdnsOption<'a>> {
        if self.seen >= MAX_OPTIONS {
            return None;
        }
        let (option, rest) = split_option(self.rest)?;
        self.rest = rest;
        self.seen += 1;
        Some(option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_walked_in_order_and_bounded() {
        let rdata = [0, 3, 0, 0, 0, 10, 0, 2, 7, 8];
        let options: Vec<_> = EdnsOptions::new(&rdata).collect();
        assert_eq!(options, [EdnsOption { code: 3, data: &[] }, EdnsOption { code: 10, data: &[7, 8] }]);
        let many = [0u8; 4 * 300];
        assert_eq!(EdnsOptions::new(&many).count(), MAX_OPTIONS);
    }

    #[test]
    fn an_option_past_the_end_is_an_error() {
        assert_eq!(EdnsOptions::check(&[0, 3, 0, 1]), Err(MessageError::Option));
        assert_eq!(EdnsOptions::check(&[0, 3, 0]), Err(MessageError::Option));
        assert_eq!(EdnsOptions::check(&[0, 3, 0, 1, 9]), Ok(()));
    }
}
