//! Octets as text for debug lines.

use std::fmt;

/// Octets on a line.
const LINE: usize = 16;

/// A message as lines of hexadecimal octets, to be put behind the text of a debug line.
///
/// Each line begins with `debug: ` and the offset; the last has the length and no octets. The text begins with a line
/// break, and `text2pcap` reads it once the prefix is cut off. No octets give no text.
///
/// ```
/// use coredns_plugin::Hexdump;
///
/// assert_eq!(Hexdump(b"\x2a\x00").to_string(), "\ndebug: 000000 2a 00\ndebug: 000002");
/// ```
#[derive(Clone, Copy)]
pub struct Hexdump<'a>(pub &'a [u8]);

impl fmt::Display for Hexdump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        for (number, line) in self.0.chunks(LINE).enumerate() {
            write!(f, "\ndebug: {:06x}", number * LINE)?;
            for octet in line {
                write!(f, " {octet:02x}")?;
            }
        }
        write!(f, "\ndebug: {:06x}", self.0.len())
    }
}

impl fmt::Debug for Hexdump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_as_lines() {
        let query = b"\x00\x0a\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x07example\x05local\x00\x00\x01\x00\x01\
                      \x00\x00\x29\x10\x00\x00\x00\x80\x00\x00\x00";
        let expected = "\n\
            debug: 000000 00 0a 01 00 00 01 00 00 00 00 00 01 07 65 78 61\n\
            debug: 000010 6d 70 6c 65 05 6c 6f 63 61 6c 00 00 01 00 01 00\n\
            debug: 000020 00 29 10 00 00 00 80 00 00 00\n\
            debug: 00002a";
        assert_eq!(Hexdump(query).to_string(), expected);
        assert_eq!(Hexdump(&[]).to_string(), "");
        assert_eq!(Hexdump(&[7; 16]).to_string().lines().count(), 3);
    }
}
