//! Durations in Go's notation: `300ms`, `1.5h`, `2m30s`, `0`.

use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::excerpt::cut;
use crate::limits::QUOTED_BYTES_MAX;

const NANOSECOND: u64 = 1;
const MICROSECOND: u64 = 1_000 * NANOSECOND;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Largest magnitude, in nanoseconds; as a positive duration it is one too many.
const MAGNITUDE_MAX: u64 = 1 << 63;

/// A span of time as Go has it: signed nanoseconds, about 292 years either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// A text that is no duration; the texts are Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not of the form `[-+](NUMBER UNIT)+`, or out of range.
    #[error("time: invalid duration {0}")]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {0}")]
    MissingUnit(String),
    /// A unit other than ns, us, ms, s, m and h.
    #[error("time: unknown unit {unit} in duration {duration}")]
    UnknownUnit {
        /// The unit, quoted.
        unit: String,
        /// The whole text, quoted.
        duration: String,
    },
}

impl GoDuration {
    /// Builds it from nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// As a duration of the standard library; `None` if negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }

    /// Reads a duration: a sign or none, then numbers with units, or a bare `0`.
    ///
    /// # Errors
    /// See [`DurationError`].
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid(quote(text));
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let number = Number::parse(rest).ok_or_else(invalid)?;
            let end = number.rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(number.rest.len());
            let (unit, after) = number.rest.split_at(end);
            if unit.is_empty() {
                return Err(DurationError::MissingUnit(quote(text)));
            }
            let scale = unit_nanos(unit)
                .ok_or_else(|| DurationError::UnknownUnit { unit: quote(unit), duration: quote(text) })?;
            let nanos = number.times(scale).ok_or_else(invalid)?;
            total = total.checked_add(nanos).filter(|total| *total <= MAGNITUDE_MAX).ok_or_else(invalid)?;
            rest = after;
        }
        if negative {
            return Ok(Self(0_i64.wrapping_sub_unsigned(total)));
        }
        i64::try_from(total).map(Self).map_err(|_| invalid())
    }
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => NANOSECOND,
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

/// A decimal number at the start of a text.
struct Number<'a> {
    whole: u64,
    /// Digits behind the point, as many as fit.
    fraction: u64,
    /// What `fraction` is to be divided by.
    divisor: f64,
    rest: &'a str,
}

impl<'a> Number<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (digits, rest) = split_digits(text);
        let mut whole: u64 = 0;
        for digit in digits.bytes() {
            let next = whole.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            whole = Some(next).filter(|next| *next <= MAGNITUDE_MAX)?;
        }
        let Some(after_point) = rest.strip_prefix('.') else {
            return (!digits.is_empty()).then_some(Self { whole, fraction: 0, divisor: 1.0, rest });
        };
        let (decimals, rest) = split_digits(after_point);
        if digits.is_empty() && decimals.is_empty() {
            return None;
        }
        let mut fraction: u64 = 0;
        let mut divisor = 1.0;
        for digit in decimals.bytes() {
            // Digits beyond what 63 bits hold are below a nanosecond.
            let next = fraction.checked_mul(10).and_then(|next| next.checked_add(u64::from(digit - b'0')));
            let Some(next) = next.filter(|next| *next < MAGNITUDE_MAX) else {
                break;
            };
            fraction = next;
            divisor *= 10.0;
        }
        Some(Self { whole, fraction, divisor, rest })
    }

    fn times(&self, unit: u64) -> Option<u64> {
        let whole = self.whole.checked_mul(unit)?;
        // The same floating-point steps as Go's, so that the same text is the same number of nanoseconds.
        let fraction = (self.fraction as f64 * (unit as f64 / self.divisor)) as u64;
        whole.checked_add(fraction).filter(|nanos| *nanos <= MAGNITUDE_MAX)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Text in quotes the way durations are quoted: octets that are not printable ASCII as `\xNN`.
fn quote(text: &str) -> String {
    let escape = |out: &mut String, character: char| match character {
        '"' | '\\' => out.extend(['\\', character]),
        ' '..='\u{7f}' => out.push(character),
        _ => {
            let mut octets = [0; 4];
            for octet in character.encode_utf8(&mut octets).bytes() {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\x{octet:02x}");
            }
        }
    };
    format!("\"{}\"", cut(text, QUOTED_BYTES_MAX, escape))
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..MICROSECOND => write!(f, "{nanos}ns"),
            MICROSECOND..MILLISECOND => write!(f, "{}µs", Decimal { value: nanos, unit: MICROSECOND }),
            MILLISECOND..SECOND => write!(f, "{}ms", Decimal { value: nanos, unit: MILLISECOND }),
            _ => {
                let (hours, minutes) = (nanos / HOUR, nanos / MINUTE % 60);
                if hours > 0 {
                    write!(f, "{hours}h{minutes}m")?;
                } else if minutes > 0 {
                    write!(f, "{minutes}m")?;
                }
                write!(f, "{}s", Decimal { value: nanos % MINUTE, unit: SECOND })
            }
        }
    }
}

/// A value in a unit that is a power of ten, without trailing zeros.
struct Decimal {
    value: u64,
    unit: u64,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value / self.unit)?;
        let mut fraction = self.value % self.unit;
        if fraction == 0 {
            return Ok(());
        }
        let mut width = self.unit.ilog10() as usize;
        while fraction.is_multiple_of(10) {
            fraction /= 10;
            width -= 1;
        }
        write!(f, ".{fraction:0width$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_and_written() {
        let cases = [
            ("0", 0, "0s"),
            ("+0", 0, "0s"),
            ("-0", 0, "0s"),
            ("0s", 0, "0s"),
            ("5s", 5_000_000_000, "5s"),
            ("2s", 2_000_000_000, "2s"),
            ("300s", 300_000_000_000, "5m0s"),
            ("1.5s", 1_500_000_000, "1.5s"),
            ("100ms", 100_000_000, "100ms"),
            ("1.5h", 5_400_000_000_000, "1h30m0s"),
            ("2m30s", 150_000_000_000, "2m30s"),
            ("30s2m", 150_000_000_000, "2m30s"),
            ("-1.5s", -1_500_000_000, "-1.5s"),
            ("+5s", 5_000_000_000, "5s"),
            (".5s", 500_000_000, "500ms"),
            ("5.s", 5_000_000_000, "5s"),
            ("1.0s", 1_000_000_000, "1s"),
            ("1ns", 1, "1ns"),
            ("1100ns", 1_100, "1.1µs"),
            ("11us", 11_000, "11µs"),
            ("12µs", 12_000, "12µs"),
            ("12μs", 12_000, "12µs"),
            ("2.2ms", 2_200_000, "2.2ms"),
            ("3h30m", 12_600_000_000_000, "3h30m0s"),
            ("39h9m14.425s", 140_954_425_000_000, "39h9m14.425s"),
            ("52763797000ns", 52_763_797_000, "52.763797s"),
            ("0.3333333333333333333h", 1_200_000_000_000, "20m0s"),
            ("0.100000000000000000000h", 360_000_000_000, "6m0s"),
            ("0.9223372036854775807h", 3_320_413_933_267, "55m20.413933267s"),
            ("9007199254740993ns", 9_007_199_254_740_993, "2501h59m59.254740993s"),
            ("9223372036854775807ns", i64::MAX, "2562047h47m16.854775807s"),
            ("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s"),
            ("-2562047h47m16.854775808s", i64::MIN, "-2562047h47m16.854775808s"),
        ];
        for (text, nanos, written) in cases {
            let duration = GoDuration::parse(text).map_err(|error| error.to_string());
            assert_eq!(duration, Ok(GoDuration::from_nanos(nanos)), "{text}");
            assert_eq!(GoDuration::from_nanos(nanos).to_string(), written, "{text}");
        }
    }

    #[test]
    fn refused() {
        let invalid = ["", "-", "+", "s", ".", "-.", ".s", "+.s", "x", "--1s", "foo"];
        let too_large = [
            "9223372036854775808ns",
            "9223372036854775.808us",
            "9223372036854ms775us808ns",
            "3000000h",
            "99999999999999999999s",
        ];
        for text in invalid.into_iter().chain(too_large) {
            let message = GoDuration::parse(text).map_err(|error| error.to_string());
            assert_eq!(message, Err(format!("time: invalid duration \"{text}\"")));
        }
        let cases = [
            ("3", "time: missing unit in duration \"3\""),
            ("1s3", "time: missing unit in duration \"1s3\""),
            ("3.5", "time: missing unit in duration \"3.5\""),
            ("1d", "time: unknown unit \"d\" in duration \"1d\""),
            ("10s foo", "time: unknown unit \"s foo\" in duration \"10s foo\""),
            ("1\"é\n", "time: unknown unit \"\\\"\\xc3\\xa9\\x0a\" in duration \"1\\\"\\xc3\\xa9\\x0a\""),
        ];
        for (text, expected) in cases {
            assert_eq!(GoDuration::parse(text).map_err(|error| error.to_string()), Err(expected.to_owned()));
        }
    }

    #[test]
    fn standard_durations_are_not_negative() {
        assert_eq!(GoDuration::from_nanos(1_500).to_std(), Some(Duration::from_nanos(1_500)));
        assert_eq!(GoDuration::from_nanos(-1).to_std(), None);
    }
}
