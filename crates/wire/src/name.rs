//! Domain names in wire form.

use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::fold;

/// The largest length of a name in wire form, in octets (RFC 1035 §3.1).
pub const MAX_NAME: usize = 255;
/// The largest length of a label, in octets (RFC 1035 §3.1).
pub const MAX_LABEL: usize = 63;
/// A name has at most this many pointers to follow: each must lead to at least one octet less.
const MAX_POINTERS: usize = 126;
/// What is kept inside the value: enough for a full `ip6.arpa` name (74 octets).
const INLINE: usize = 78;

/// Why octets or text are not a domain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// The octets end inside the name.
    Short,
    /// A label is longer than 63 octets.
    LongLabel,
    /// The whole name is longer than 255 octets.
    LongName,
    /// A label is empty where it may not be.
    EmptyLabel,
    /// A label type other than plain and pointer (RFC 6891 §5 retired the rest).
    LabelType,
    /// A compression pointer that does not go backwards, or too many of them.
    Pointer,
    /// A backslash that is not followed by an octet or by three digits up to 255.
    Escape,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "name ends early",
            Self::LongLabel => "label is longer than 63 octets",
            Self::LongName => "name is longer than 255 octets",
            Self::EmptyLabel => "empty label",
            Self::LabelType => "unknown label type",
            Self::Pointer => "bad compression pointer",
            Self::Escape => "bad escape in name",
        })
    }
}

impl std::error::Error for NameError {}

#[derive(Clone)]
enum Repr {
    Inline { len: u8, octets: [u8; INLINE] },
    Heap(Box<[u8]>),
}

/// A fully qualified domain name in uncompressed wire form, in the case that it was given in.
///
/// Comparing and hashing do not see ASCII case (RFC 4343). Names of up to 78 octets live inside the value.
#[derive(Clone)]
pub struct Name(Repr);

impl Name {
    /// The root, `.`.
    #[must_use]
    pub const fn root() -> Self {
        Self(Repr::Inline { len: 1, octets: [0; INLINE] })
    }

    /// Takes a name that is already in uncompressed wire form, with nothing behind it.
    ///
    /// # Errors
    /// Any [`NameError`] but [`NameError::Escape`]; a pointer is an error here.
    pub fn from_wire(octets: &[u8]) -> Result<Self, NameError> {
        let mut at = 0;
        loop {
            let len = usize::from(*octets.get(at).ok_or(NameError::Short)?);
            if len > MAX_LABEL {
                return Err(NameError::LabelType);
            }
            at += 1 + len;
            if at > MAX_NAME {
                return Err(NameError::LongName);
            }
            if len == 0 {
                break;
            }
        }
        if at != octets.len() {
            return Err(NameError::EmptyLabel);
        }
        Ok(Self::from_checked(octets))
    }

    /// Keeps octets that are known to be a name.
    pub(crate) fn from_checked(octets: &[u8]) -> Self {
        debug_assert!(!octets.is_empty() && octets.len() <= MAX_NAME);
        let mut inline = [0; INLINE];
        match (u8::try_from(octets.len()), inline.get_mut(..octets.len())) {
            (Ok(len), Some(place)) => {
                place.copy_from_slice(octets);
                Self(Repr::Inline { len, octets: inline })
            }
            _ => Self(Repr::Heap(octets.into())),
        }
    }

    /// Puts a name together from labels, most specific first; the root is added.
    ///
    /// # Errors
    /// [`NameError::EmptyLabel`], [`NameError::LongLabel`], [`NameError::LongName`].
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, NameError> {
        Self::root().prepend_all(labels)
    }

    /// The name `labels... self`, most specific label first.
    ///
    /// # Errors
    /// [`NameError::EmptyLabel`], [`NameError::LongLabel`], [`NameError::LongName`].
    pub fn prepend_all<'a>(&self, labels: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, NameError> {
        let mut octets = [0u8; MAX_NAME];
        let mut at = 0;
        for label in labels {
            at = push_label(&mut octets, at, label)?;
        }
        let tail = self.as_wire();
        octets.get_mut(at..at + tail.len()).ok_or(NameError::LongName)?.copy_from_slice(tail);
        Ok(Self::from_checked(&octets[..at + tail.len()]))
    }

    /// The octets in wire form, ending in the root's zero octet.
    #[inline]
    #[must_use]
    pub fn as_wire(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, octets } => octets.get(..usize::from(*len)).unwrap_or(&[0]),
            Repr::Heap(octets) => octets,
        }
    }

    /// The length in wire form, in octets: 1 for the root, 255 at most.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no name is empty: the root has one octet")]
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Inline { len, .. } => usize::from(*len),
            Repr::Heap(octets) => octets.len(),
        }
    }

    /// Tells whether this is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.len() == 1
    }

    /// The labels, most specific first, without the root.
    #[inline]
    #[must_use]
    pub fn labels(&self) -> Labels<'_> {
        Labels::new(self.as_wire())
    }

    /// How many labels there are, not counting the root.
    #[must_use]
    pub fn label_count(&self) -> usize {
        self.labels().count()
    }

    /// The name without its first label; the root has no parent.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.suffix(1)
    }

    /// The name without its first `skip` labels; `None` where there are fewer.
    #[must_use]
    pub fn suffix(&self, skip: usize) -> Option<Self> {
        let wire = self.as_wire();
        let mut at = 0;
        for _ in 0..skip {
            let len = usize::from(*wire.get(at)?);
            if len == 0 {
                return None;
            }
            at += len + 1;
        }
        wire.get(at..).filter(|rest| !rest.is_empty()).map(Self::from_checked)
    }

    /// Where `zone` begins inside this name, in octets, if this name equals `zone` or lies below it.
    #[inline]
    #[must_use]
    pub fn offset_of(&self, zone: &Self) -> Option<usize> {
        let (wire, tail) = (self.as_wire(), zone.as_wire());
        let start = wire.len().checked_sub(tail.len())?;
        if !fold::eq(&wire[start..], tail) {
            return None;
        }
        // The octets match; the match must also begin at a label.
        let mut at = 0;
        while at < start {
            at += usize::from(wire[at]) + 1;
        }
        (at == start).then_some(start)
    }

    /// Tells whether this name equals `zone` or lies below it, without regard to case.
    #[inline]
    #[must_use]
    pub fn is_within(&self, zone: &Self) -> bool {
        self.offset_of(zone).is_some()
    }

    /// Tells whether two names are equal to the letter, case included.
    #[must_use]
    pub fn eq_exact(&self, other: &Self) -> bool {
        self.as_wire() == other.as_wire()
    }

    /// The same name in lower case.
    #[must_use]
    pub fn to_lowercase(&self) -> Self {
        let mut copy = self.clone();
        match &mut copy.0 {
            Repr::Inline { octets, .. } => octets.make_ascii_lowercase(),
            Repr::Heap(octets) => octets.make_ascii_lowercase(),
        }
        copy
    }
}

fn push_label(octets: &mut [u8; MAX_NAME], at: usize, label: &[u8]) -> Result<usize, NameError> {
    if label.is_empty() {
        return Err(NameError::EmptyLabel);
    }
    let len = u8::try_from(label.len()).map_err(|_| NameError::LongLabel)?;
    if label.len() > MAX_LABEL {
        return Err(NameError::LongLabel);
    }
    let room = octets.get_mut(at..at + 1 + label.len()).ok_or(NameError::LongName)?;
    room[0] = len;
    room[1..].copy_from_slice(label);
    Ok(at + 1 + label.len())
}

impl PartialEq for Name {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        fold::eq(self.as_wire(), other.as_wire())
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The octets, not a digest of them: only the hasher knows a key, and names come from clients.
        fold::feed(self.as_wire(), state);
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::root()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Presentation form with the closing dot; octets outside `!`…`~` and the special characters
/// `" ; ( ) @ $ . \` inside labels are escaped (RFC 1035 §5.1, RFC 4343 §2.1).
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_char('.');
        }
        for label in self.labels() {
            for &octet in label {
                write_octet(f, octet)?;
            }
            f.write_char('.')?;
        }
        Ok(())
    }
}

fn write_octet(f: &mut fmt::Formatter<'_>, octet: u8) -> fmt::Result {
    match octet {
        b'"' | b';' | b'(' | b')' | b'@' | b'$' | b'.' | b'\\' => write!(f, "\\{}", char::from(octet)),
        b'!'..=b'~' => f.write_char(char::from(octet)),
        _ => write!(f, "\\{octet:03}"),
    }
}

/// Reads presentation form; a missing closing dot is supplied.
impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text == "." {
            return Ok(Self::root());
        }
        let mut octets = [0u8; MAX_NAME];
        let mut at = 0;
        let mut label = Vec::with_capacity(MAX_LABEL);
        let mut input = text.bytes();
        while let Some(octet) = input.next() {
            match octet {
                b'.' => {
                    at = push_label(&mut octets, at, &label)?;
                    label.clear();
                }
                b'\\' => label.push(unescape(&mut input)?),
                _ => label.push(octet),
            }
        }
        if !label.is_empty() {
            at = push_label(&mut octets, at, &label)?;
        }
        // The root's octet needs a place as well.
        if at == 0 {
            return Err(NameError::EmptyLabel);
        }
        if at >= MAX_NAME {
            return Err(NameError::LongName);
        }
        Ok(Self::from_checked(&octets[..=at]))
    }
}

/// Reads what follows a backslash: three digits or any one octet (RFC 1035 §5.1).
pub(crate) fn unescape(input: &mut impl Iterator<Item = u8>) -> Result<u8, NameError> {
    let first = input.next().ok_or(NameError::Escape)?;
    if !first.is_ascii_digit() {
        return Ok(first);
    }
    let mut value = u16::from(first - b'0');
    for _ in 0..2 {
        let digit = input.next().filter(u8::is_ascii_digit).ok_or(NameError::Escape)?;
        value = value * 10 + u16::from(digit - b'0');
    }
    u8::try_from(value).map_err(|_| NameError::Escape)
}

/// The labels of an uncompressed wire name, most specific first, without the root.
#[derive(Clone, Debug)]
pub struct Labels<'a>(&'a [u8]);

impl<'a> Labels<'a> {
    /// Walks over `wire`; stops at the root, at the end, or at what is no plain label.
    #[must_use]
    pub const fn new(wire: &'a [u8]) -> Self {
        Self(wire)
    }

    /// The octets that have not been walked over yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (&len, rest) = self.0.split_first()?;
        if len == 0 || usize::from(len) > MAX_LABEL {
            return None;
        }
        let (label, rest) = rest.split_at_checked(usize::from(len))?;
        self.0 = rest;
        Some(label)
    }
}

/// Reads the name at `start` of `message`, following compression pointers; returns it and the offset behind it.
///
/// # Errors
/// Pointers must go strictly backwards, at most 126 of them; the name must fit in 255 octets.
pub fn read_name(message: &[u8], start: usize) -> Result<(Name, usize), NameError> {
    let mut octets = [0u8; MAX_NAME];
    let mut filled = 0;
    let mut at = start;
    let mut end = None;
    // A pointer must lead to before the place where the current run of labels began.
    let mut floor = start;
    for _ in 0..=MAX_POINTERS {
        match read_run(message, at, &mut octets, &mut filled)? {
            Run::End(behind) => return Ok((Name::from_checked(&octets[..filled]), end.unwrap_or(behind))),
            Run::Pointer { target, behind } => {
                if target >= floor {
                    return Err(NameError::Pointer);
                }
                end.get_or_insert(behind);
                floor = target;
                at = target;
            }
        }
    }
    Err(NameError::Pointer)
}

enum Run {
    End(usize),
    Pointer { target: usize, behind: usize },
}

fn read_run(message: &[u8], mut at: usize, octets: &mut [u8; MAX_NAME], filled: &mut usize) -> Result<Run, NameError> {
    loop {
        let len = *message.get(at).ok_or(NameError::Short)?;
        match len & 0xc0 {
            0x00 => {
                let label = message.get(at..at + 1 + usize::from(len)).ok_or(NameError::Short)?;
                octets.get_mut(*filled..*filled + label.len()).ok_or(NameError::LongName)?.copy_from_slice(label);
                *filled += label.len();
                at += label.len();
                if len == 0 {
                    return Ok(Run::End(at));
                }
            }
            0xc0 => {
                let low = *message.get(at + 1).ok_or(NameError::Short)?;
                let target = usize::from(u16::from_be_bytes([len & 0x3f, low]));
                return Ok(Run::Pointer { target, behind: at + 2 });
            }
            _ => return Err(NameError::LabelType),
        }
    }
}

/// The offset behind the name at `start`; where a pointer leads to is not looked at.
///
/// # Errors
/// [`NameError::Short`], [`NameError::LabelType`] and [`NameError::LongName`] as [`read_name`] has them, as far as the
/// octets in place show them.
pub fn skip_name(message: &[u8], start: usize) -> Result<usize, NameError> {
    let mut at = start;
    loop {
        let len = *message.get(at).ok_or(NameError::Short)?;
        match len & 0xc0 {
            0x00 => at += 1 + usize::from(len),
            0xc0 if message.len() > at + 1 => return Ok(at + 2),
            0xc0 => return Err(NameError::Short),
            _ => return Err(NameError::LabelType),
        }
        if at - start > MAX_NAME {
            return Err(NameError::LongName);
        }
        if len == 0 {
            return Ok(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a valid name")
    }

    #[test]
    fn text_to_wire_and_back() {
        let table: &[(&str, &[u8], &str)] = &[
            (".", b"\x00", "."),
            ("org", b"\x03org\x00", "org."),
            ("www.Example.org.", b"\x03www\x07Example\x03org\x00", "www.Example.org."),
            (r"a\.b.c", b"\x03a.b\x01c\x00", r"a\.b.c."),
            (r"Home\032Media._smb", b"\x0aHome Media\x04_smb\x00", r"Home\032Media._smb."),
            (r"\000\255", b"\x02\x00\xff\x00", r"\000\255."),
        ];
        for (text, wire, shown) in table {
            assert_eq!(name(text).as_wire(), *wire, "{text}");
            assert_eq!(name(text).to_string(), *shown, "{text}");
        }
    }

    #[test]
    fn bad_text_is_refused() {
        let long_label = "a".repeat(64);
        let long_name = vec!["a".repeat(63); 4].join(".");
        let table = [
            ("", NameError::EmptyLabel),
            ("a..b", NameError::EmptyLabel),
            (".a", NameError::EmptyLabel),
            (r"a\", NameError::Escape),
            (r"a\25", NameError::Escape),
            (r"a\256", NameError::Escape),
            (&long_label, NameError::LongLabel),
            (&long_name, NameError::LongName),
        ];
        for (text, error) in table {
            assert_eq!(text.parse::<Name>().unwrap_err(), error, "{text:?}");
        }
    }

    #[test]
    fn the_longest_name_fits_and_one_octet_more_does_not() {
        let longest = [&"a".repeat(63)[..], &"b".repeat(63), &"c".repeat(63), &"d".repeat(61)].join(".");
        assert_eq!(name(&longest).len(), MAX_NAME);
        assert_eq!(format!("{longest}d").parse::<Name>().unwrap_err(), NameError::LongName);
        assert_eq!(name(&longest).prepend_all([&b"x"[..]]).unwrap_err(), NameError::LongName);
    }

    #[test]
    fn below_a_zone_means_at_a_label() {
        assert!(name("a.Example.org").is_within(&name("eXample.ORG")));
        assert!(name("example.org").is_within(&name("example.org")));
        assert!(name("example.org").is_within(&Name::root()));
        assert!(!name("badexample.org").is_within(&name("example.org")));
        assert!(!name("org").is_within(&name("example.org")));
        // The octets of the zone stand at the end of the name, but inside a label.
        let tricky = Name::from_wire(b"\x0cxx\x07example\x01o\x02rg\x00").expect("valid");
        assert!(!tricky.is_within(&Name::from_wire(b"\x07example\x01o\x02rg\x00").expect("valid")));
    }

    #[test]
    fn pointers_go_backwards_only() {
        let message = b"\x03org\x00\x07example\xc0\x00\x03www\xc0\x05";
        assert_eq!(read_name(message, 15).map(|(n, end)| (n.to_string(), end)), Ok(("www.example.org.".into(), 21)));
        assert_eq!(read_name(b"\xc0\x00", 0).unwrap_err(), NameError::Pointer);
        assert_eq!(read_name(b"\x01a\xc0\x00", 0).unwrap_err(), NameError::Pointer);
        // The name at 5 points to 0, whose labels end in a pointer forwards to 5.
        assert_eq!(read_name(b"\x01a\xc0\x05\x00\x01b\xc0\x00", 5).unwrap_err(), NameError::Pointer);
        assert_eq!(read_name(b"\x40a", 0).unwrap_err(), NameError::LabelType);
        assert_eq!(read_name(b"\x80a", 0).unwrap_err(), NameError::LabelType);
        assert_eq!(read_name(b"\x05a", 0).unwrap_err(), NameError::Short);
    }

    #[test]
    fn suffixes_and_parents() {
        let www = name("www.example.org");
        assert_eq!(www.parent(), Some(name("example.org")));
        assert_eq!(www.suffix(3), Some(Name::root()));
        assert_eq!(www.suffix(4), None);
        assert_eq!(Name::root().parent(), None);
        assert_eq!(www.label_count(), 3);
        assert_eq!(www.offset_of(&name("org")), Some(12));
    }
}
