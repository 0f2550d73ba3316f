//! Record data in uncompressed wire form.

use std::sync::Arc;

use crate::edns::EdnsOptions;
use crate::message::MessageError;
use crate::name::{Name, NameError, read_name};
use crate::types::RrType;

/// What is kept inside the value: addresses, most targets, the SOA of most zones.
const INLINE: usize = 78;

/// Why octets are not the data of a record.
pub type RdataError = MessageError;

#[derive(Clone)]
enum Repr {
    Inline { len: u8, octets: [u8; INLINE] },
    Shared(Arc<[u8]>),
}

/// The data of a record, names inside uncompressed and in the case that they were given in.
///
/// Up to 78 octets live inside the value, so that answers on many cores do not meet at one reference count;
/// longer data are shared. At most 65,535 octets.
#[derive(Clone)]
pub struct Rdata(Repr);

impl Rdata {
    /// Keeps `octets`; what is beyond 65,535 octets does not fit into a record and is refused.
    ///
    /// # Errors
    /// [`MessageError::LongRdata`].
    pub fn new(octets: &[u8]) -> Result<Self, RdataError> {
        if octets.len() > usize::from(u16::MAX) {
            return Err(MessageError::LongRdata);
        }
        Ok(Self::from_bounded(octets))
    }

    #[inline]
    pub(crate) fn from_bounded(octets: &[u8]) -> Self {
        let mut inline = [0; INLINE];
        match (u8::try_from(octets.len()), inline.get_mut(..octets.len())) {
            (Ok(len), Some(place)) => {
                place.copy_from_slice(octets);
                Self(Repr::Inline { len, octets: inline })
            }
            _ => Self(Repr::Shared(octets.into())),
        }
    }

    /// The octets.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, octets } => octets.get(..usize::from(*len)).unwrap_or(&[]),
            Repr::Shared(octets) => octets,
        }
    }

    /// The length in octets.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Tells whether there are no octets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl PartialEq for Rdata {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Rdata {}

impl std::fmt::Debug for Rdata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for octet in self.as_bytes() {
            write!(f, "{octet:02x}")?;
        }
        Ok(())
    }
}

/// One part of the data of a record type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// A name that older servers compress (RFC 3597 §4: the types of RFC 1035 only).
    Compressible,
    /// A name that is never compressed on output, but understood when it is.
    Name,
    /// So many octets.
    Fixed(usize),
    /// A character string: a length octet and so many octets.
    Text,
    /// Character strings to the end. Senders owe one at least (RFC 1035 §3.3.14); none is understood as well.
    Texts,
    /// Anything to the end.
    Rest,
}

/// The layout of the data of `rtype`; types without names inside are `Rest` where nothing else is to be checked.
pub(crate) const fn layout(rtype: RrType) -> &'static [Field] {
    use Field::{Compressible, Fixed, Name, Rest, Text, Texts};
    match rtype {
        RrType::A => &[Fixed(4)],
        RrType::AAAA => &[Fixed(16)],
        RrType::NS | RrType::MD | RrType::MF | RrType::CNAME | RrType::MB | RrType::MG | RrType::MR | RrType::PTR => {
            &[Compressible]
        }
        RrType::SOA => &[Compressible, Compressible, Fixed(20)],
        RrType::MINFO => &[Compressible, Compressible],
        RrType::MX => &[Fixed(2), Compressible],
        RrType::HINFO => &[Text, Text],
        RrType::TXT | RrType::SPF | RrType::AVC | RrType::NINFO => &[Texts],
        RrType::RP | RrType::TALINK => &[Name, Name],
        RrType::AFSDB | RrType::RT | RrType::KX | RrType::LP => &[Fixed(2), Name],
        RrType::SIG | RrType::RRSIG => &[Fixed(18), Name, Rest],
        RrType::PX => &[Fixed(2), Name, Name],
        RrType::NXT | RrType::NSEC => &[Name, Rest],
        RrType::SRV => &[Fixed(6), Name],
        RrType::NAPTR => &[Fixed(4), Text, Text, Text, Name],
        RrType::DNAME => &[Name],
        RrType::SVCB | RrType::HTTPS => &[Fixed(2), Name, Rest],
        RrType::TKEY | RrType::TSIG => &[Name, Rest],
        _ => &[Rest],
    }
}

/// Reads the data of a record of type `rtype` that fill `start..end` of `message`; compressed names are expanded.
///
/// # Errors
/// [`MessageError::Rdata`] where a part reaches past `end` or octets are left over, [`MessageError::Name`],
/// [`MessageError::Option`] in an OPT record, [`MessageError::LongRdata`] where the expanded form does not fit.
pub fn read_rdata(message: &[u8], rtype: RrType, start: usize, end: usize) -> Result<Rdata, RdataError> {
    let fields = layout(rtype);
    if !has_names(fields) {
        check_rdata(message, rtype, start, end)?;
        return Rdata::new(message.get(start..end).ok_or(MessageError::Short)?);
    }
    let raw = message.get(start..end).ok_or(MessageError::Short)?;
    let mut expanded = Vec::with_capacity(raw.len() + 32);
    let bounded = message.get(..end).ok_or(MessageError::Short)?;
    check_fields(bounded, start, fields, Pointers::Follow, &mut |part| match part {
        Part::Octets(octets) => expanded.extend_from_slice(octets),
        Part::Name(name) => expanded.extend_from_slice(name.as_wire()),
    })?;
    Rdata::new(&expanded)
}

/// Checks what [`read_rdata`] checks, and keeps nothing.
///
/// # Errors
/// As [`read_rdata`].
pub(crate) fn check_rdata(message: &[u8], rtype: RrType, start: usize, end: usize) -> Result<(), RdataError> {
    let raw = message.get(start..end).ok_or(MessageError::Short)?;
    if rtype == RrType::OPT {
        return EdnsOptions::check(raw);
    }
    let bounded = message.get(..end).ok_or(MessageError::Short)?;
    let mut len = 0;
    check_fields(bounded, start, layout(rtype), Pointers::Follow, &mut |part| {
        len += match part {
            Part::Octets(octets) => octets.len(),
            Part::Name(name) => name.len(),
        };
    })?;
    if len > usize::from(u16::MAX) { Err(MessageError::LongRdata) } else { Ok(()) }
}

/// Tells whether `data` on their own, names uncompressed, have the form of `rtype`.
pub(crate) fn is_well_formed(rtype: RrType, data: &[u8]) -> bool {
    match rtype {
        RrType::OPT => EdnsOptions::check(data).is_ok(),
        _ => check_fields(data, 0, layout(rtype), Pointers::Refuse, &mut |_| {}).is_ok(),
    }
}

/// Tells whether a name is among `fields`.
pub(crate) fn has_names(fields: &[Field]) -> bool {
    fields.iter().any(|field| matches!(field, Field::Name | Field::Compressible))
}

pub(crate) enum Part<'a> {
    Octets(&'a [u8]),
    Name(Name),
}

/// Whether a name may end in a compression pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pointers {
    /// In a message: names may point backwards out of the record.
    Follow,
    /// In data on their own: a pointer would lead somewhere else than in the message that it was meant for.
    Refuse,
}

/// Walks over the parts of record data from `start` to the end of `bounded` and hands each to `take`.
///
/// `bounded` must end where the data end, so that no name runs past them.
pub(crate) fn check_fields(
    bounded: &[u8],
    start: usize,
    fields: &[Field],
    pointers: Pointers,
    take: &mut dyn FnMut(Part<'_>),
) -> Result<(), MessageError> {
    let end = bounded.len();
    let mut at = start;
    for field in fields {
        let behind = match field {
            Field::Name | Field::Compressible => {
                let (name, behind) = read_name(bounded, at).map_err(MessageError::Name)?;
                if pointers == Pointers::Refuse && behind - at != name.len() {
                    return Err(MessageError::Name(NameError::Pointer));
                }
                take(Part::Name(name));
                at = behind;
                continue;
            }
            Field::Fixed(count) => at + count,
            Field::Text => at + 1 + usize::from(*bounded.get(at).ok_or(MessageError::Rdata)?),
            Field::Texts => texts_end(bounded, at)?,
            Field::Rest => end,
        };
        take(Part::Octets(bounded.get(at..behind).ok_or(MessageError::Rdata)?));
        at = behind;
    }
    if at == end { Ok(()) } else { Err(MessageError::Rdata) }
}

fn texts_end(bounded: &[u8], start: usize) -> Result<usize, MessageError> {
    let mut at = start;
    while let Some(&len) = bounded.get(at) {
        at += 1 + usize::from(len);
    }
    if at == bounded.len() { Ok(at) } else { Err(MessageError::Rdata) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_inside_must_end_inside() {
        // An SRV record whose target runs one octet past the data.
        let message = b"\x00\x00\x00\x00\x00\x50\x01a\x00";
        assert!(read_rdata(message, RrType::SRV, 0, 9).is_ok());
        assert!(read_rdata(message, RrType::SRV, 0, 8).is_err());
        assert_eq!(read_rdata(b"\x00\x00\x00\x00\x00\x50\x00\x00", RrType::SRV, 0, 8), Err(MessageError::Rdata));
    }

    #[test]
    fn compressed_targets_are_expanded() {
        let message = b"\x07example\x00\x00\x0a\x02mx\xc0\x00";
        let rdata = read_rdata(message, RrType::MX, 9, 16).expect("valid");
        assert_eq!(rdata.as_bytes(), b"\x00\x0a\x02mx\x07example\x00");
    }

    #[test]
    fn fixed_lengths_are_exact() {
        assert_eq!(read_rdata(&[1, 2, 3], RrType::A, 0, 3), Err(MessageError::Rdata));
        assert_eq!(read_rdata(&[1, 2, 3, 4, 5], RrType::A, 0, 5), Err(MessageError::Rdata));
        assert_eq!(read_rdata(b"\x05abc", RrType::TXT, 0, 4), Err(MessageError::Rdata));
        assert!(read_rdata(b"\x03abc\x00", RrType::TXT, 0, 5).is_ok());
    }
}
