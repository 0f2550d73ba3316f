//! Integers as arguments, with the errors that CoreDNS words for them.

use std::num::IntErrorKind;

use crate::excerpt::quote;

/// A text that is no integer, or one out of range; the texts are Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.{function}: parsing {text}: {reason}")]
pub struct IntegerError {
    function: &'static str,
    text: String,
    reason: &'static str,
}

/// Reads a decimal integer of 64 bits with a sign or none.
///
/// # Errors
/// `strconv.Atoi: parsing "X": invalid syntax`, or `value out of range`.
pub fn parse_integer(text: &str) -> Result<i64, IntegerError> {
    text.parse().map_err(|error: std::num::ParseIntError| refuse("Atoi", text, error.kind()))
}

/// Reads a decimal integer of 32 bits with a sign or none.
///
/// # Errors
/// `strconv.ParseInt: parsing "X": invalid syntax`, or `value out of range`.
pub fn parse_integer_32(text: &str) -> Result<i32, IntegerError> {
    text.parse().map_err(|error: std::num::ParseIntError| refuse("ParseInt", text, error.kind()))
}

fn refuse(function: &'static str, text: &str, kind: &IntErrorKind) -> IntegerError {
    let reason = match kind {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    IntegerError { function, text: quote(text), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read() {
        for (text, number) in [("0", 0), ("-1", -1), ("+2", 2), ("007", 7), ("2147483647", 2_147_483_647)] {
            assert_eq!(parse_integer(text), Ok(i64::from(number)), "{text}");
            assert_eq!(parse_integer_32(text), Ok(number), "{text}");
        }
        assert_eq!(parse_integer("9223372036854775807"), Ok(i64::MAX));
    }

    #[test]
    fn refused() {
        for (text, reason) in [
            ("", "invalid syntax"),
            ("-", "invalid syntax"),
            ("1.5", "invalid syntax"),
            ("1_000", "invalid syntax"),
            ("0x1", "invalid syntax"),
            ("9223372036854775808", "value out of range"),
            ("-9223372036854775809", "value out of range"),
        ] {
            let message = parse_integer(text).map_err(|error| error.to_string());
            assert_eq!(message, Err(format!("strconv.Atoi: parsing \"{text}\": {reason}")));
        }
        let message = parse_integer_32("2147483648").map_err(|error| error.to_string());
        assert_eq!(message, Err("strconv.ParseInt: parsing \"2147483648\": value out of range".to_owned()));
    }
}
