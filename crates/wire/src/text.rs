//! Presentation form of records (RFC 1035 §5.1), for logs, tools and tests.
//!
//! Types without a form of their own here are written and read generically (RFC 3597 §5).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::name::{Name, unescape};
use crate::rdata::{Field, Part, Pointers, Rdata, check_fields, is_well_formed, layout};
use crate::record::{Record, bounded_ttl};
use crate::types::{Class, RrType};

/// Why text is not a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError(String);

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TextError {}

fn error(what: impl Into<String>) -> TextError {
    TextError(what.into())
}

/// The data of a record as text; data that do not match their type are written generically.
#[must_use]
pub fn rdata_to_text(rtype: RrType, data: &[u8]) -> String {
    typed_text(rtype, data).unwrap_or_else(|| generic_text(data))
}

fn generic_text(data: &[u8]) -> String {
    let hex: String = data.iter().map(|octet| format!("{octet:02x}")).collect();
    if hex.is_empty() { r"\# 0".to_owned() } else { format!(r"\# {} {hex}", data.len()) }
}

fn typed_text(rtype: RrType, data: &[u8]) -> Option<String> {
    match rtype {
        RrType::A => return <[u8; 4]>::try_from(data).ok().map(|octets| Ipv4Addr::from(octets).to_string()),
        RrType::AAAA => return <[u8; 16]>::try_from(data).ok().map(|octets| Ipv6Addr::from(octets).to_string()),
        _ => {}
    }
    let fields = layout(rtype);
    if fields.contains(&Field::Rest) {
        return None;
    }
    let mut words = Vec::new();
    let mut kinds = fields.iter();
    check_fields(data, 0, fields, Pointers::Refuse, &mut |part| match (kinds.next(), part) {
        (_, Part::Name(name)) => words.push(name.to_string()),
        (Some(Field::Fixed(20)), Part::Octets(octets)) => {
            words.extend(octets.chunks(4).map(|chunk| number(chunk).to_string()));
        }
        (Some(Field::Fixed(_)), Part::Octets(octets)) => {
            words.extend(octets.chunks(2).map(|chunk| number(chunk).to_string()));
        }
        (_, Part::Octets(octets)) => words.extend(strings(octets)),
    })
    .ok()?;
    Some(words.join(" "))
}

fn number(octets: &[u8]) -> u32 {
    octets.iter().fold(0, |value, octet| value << 8 | u32::from(*octet))
}

/// Character strings in wire form as quoted text.
fn strings(mut octets: &[u8]) -> Vec<String> {
    let mut quoted = Vec::new();
    while let Some((&len, rest)) = octets.split_first() {
        let (string, rest) = rest.split_at(usize::from(len).min(rest.len()));
        let mut text = String::from("\"");
        for &octet in string {
            match octet {
                b'"' | b'\\' => text.extend(['\\', char::from(octet)]),
                b' '..=b'~' => text.push(char::from(octet)),
                _ => text.extend(format!("\\{octet:03}").chars()),
            }
        }
        text.push('"');
        quoted.push(text);
        octets = rest;
    }
    quoted
}

/// Reads one record: `owner TTL class type data`, everything given, names fully qualified.
///
/// # Errors
/// Says which field is missing or wrong.
pub fn parse_record(line: &str) -> Result<Record, TextError> {
    let words = tokens(line)?;
    let [owner, ttl, class, rtype, data @ ..] = &words[..] else {
        return Err(error("a record has an owner, a TTL, a class, a type and data"));
    };
    let text = |token: &Token| String::from_utf8_lossy(&token.octets).into_owned();
    let rtype = RrType::from_text(&text(rtype)).ok_or_else(|| error(format!("unknown type {:?}", text(rtype))))?;
    Ok(Record {
        owner: parse_name(owner)?,
        ttl: bounded_ttl(parsed(Some(ttl), "TTL")?),
        class: Class::from_text(&text(class)).ok_or_else(|| error(format!("unknown class {:?}", text(class))))?,
        rtype,
        rdata: rdata_from_tokens(rtype, data)?,
    })
}

/// Reads the data of a record of type `rtype`; names are taken as fully qualified.
///
/// # Errors
/// Says which field is missing or wrong.
pub fn rdata_from_text(rtype: RrType, text: &str) -> Result<Rdata, TextError> {
    rdata_from_tokens(rtype, &tokens(text)?)
}

/// A word without its quotes; escapes are still in it.
struct Token {
    octets: Vec<u8>,
    quoted: bool,
}

fn tokens(line: &str) -> Result<Vec<Token>, TextError> {
    let mut words = Vec::new();
    let mut input = line.bytes().peekable();
    while let Some(&octet) = input.peek() {
        if octet.is_ascii_whitespace() {
            input.next();
        } else if octet == b'"' {
            input.next();
            words.push(Token { octets: quoted(&mut input)?, quoted: true });
        } else {
            let mut octets = Vec::new();
            while let Some(octet) = input.next_if(|octet| !octet.is_ascii_whitespace()) {
                octets.push(octet);
                if octet == b'\\' {
                    octets.extend(input.next());
                }
            }
            words.push(Token { octets, quoted: false });
        }
    }
    Ok(words)
}

fn quoted(input: &mut impl Iterator<Item = u8>) -> Result<Vec<u8>, TextError> {
    let mut octets = Vec::new();
    while let Some(octet) = input.next() {
        match octet {
            b'"' => return Ok(octets),
            b'\\' => octets.extend(std::iter::once(octet).chain(input.next())),
            _ => octets.push(octet),
        }
    }
    Err(error("quote is not closed"))
}

fn parse_name(token: &Token) -> Result<Name, TextError> {
    let text = String::from_utf8_lossy(&token.octets);
    text.parse().map_err(|reason| error(format!("bad name {text:?}: {reason}")))
}

fn rdata_from_tokens(rtype: RrType, words: &[Token]) -> Result<Rdata, TextError> {
    let data = match words {
        [mark, len, hex @ ..] if !mark.quoted && mark.octets == br"\#" => generic_data(len, hex)?,
        _ => typed_data(rtype, words)?,
    };
    // RFC 3597 §5: the generic form of a known type must still be data of that type.
    if !is_well_formed(rtype, &data) {
        return Err(error(format!("data do not have the form of type {rtype}")));
    }
    Rdata::new(&data).map_err(|reason| error(reason.to_string()))
}

fn generic_data(len: &Token, hex: &[Token]) -> Result<Vec<u8>, TextError> {
    let digits: Vec<u8> = hex.iter().flat_map(|word| word.octets.iter().copied()).collect();
    let mut data = Vec::with_capacity(digits.len() / 2);
    for pair in digits.chunks(2) {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2 && !pair.starts_with('+'));
        let octet = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        data.push(octet.ok_or_else(|| error("bad hexadecimal digits"))?);
    }
    let wanted = std::str::from_utf8(&len.octets).ok().and_then(|len| len.parse::<usize>().ok());
    if wanted == Some(data.len()) { Ok(data) } else { Err(error("length does not match the data")) }
}

fn typed_data(rtype: RrType, words: &[Token]) -> Result<Vec<u8>, TextError> {
    let mut words = words.iter();
    let mut data = Vec::new();
    for field in layout(rtype) {
        match (rtype, field) {
            (RrType::A, _) => data.extend(parsed::<Ipv4Addr>(words.next(), "IPv4 address")?.octets()),
            (RrType::AAAA, _) => data.extend(parsed::<Ipv6Addr>(words.next(), "IPv6 address")?.octets()),
            (_, Field::Name | Field::Compressible) => {
                data.extend(parse_name(words.next().ok_or_else(|| error("missing name"))?)?.as_wire());
            }
            (_, Field::Fixed(20)) => {
                for _ in 0..5 {
                    data.extend(parsed::<u32>(words.next(), "number")?.to_be_bytes());
                }
            }
            (_, Field::Fixed(octets)) => {
                for _ in 0..octets / 2 {
                    data.extend(parsed::<u16>(words.next(), "number")?.to_be_bytes());
                }
            }
            (_, Field::Text) => push_string(&mut data, words.next().ok_or_else(|| error("missing string"))?)?,
            (_, Field::Texts) => {
                for word in words.by_ref() {
                    push_string(&mut data, word)?;
                }
            }
            (_, Field::Rest) => {
                return Err(error(format!("data of type {rtype} are read in the form of RFC 3597 only")));
            }
        }
    }
    if words.next().is_some() { Err(error("more fields than the type has")) } else { Ok(data) }
}

fn parsed<T: std::str::FromStr>(word: Option<&Token>, what: &str) -> Result<T, TextError> {
    let text = word.and_then(|word| std::str::from_utf8(&word.octets).ok());
    let text = text.ok_or_else(|| error(format!("missing {what}")))?;
    let value = if text.starts_with('+') { None } else { text.parse().ok() };
    value.ok_or_else(|| error(format!("bad {what} {text:?}")))
}

fn push_string(data: &mut Vec<u8>, word: &Token) -> Result<(), TextError> {
    let mut octets = Vec::new();
    let mut input = word.octets.iter().copied();
    while let Some(octet) = input.next() {
        let escaped = octet == b'\\';
        octets.push(if escaped { unescape(&mut input).map_err(|_| error("bad escape in string"))? } else { octet });
    }
    let len = u8::try_from(octets.len()).map_err(|_| error("string is longer than 255 octets"))?;
    data.push(len);
    data.extend(octets);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_print_as_they_are_read() {
        let lines = [
            "example.org. 30 IN A 192.0.2.1",
            "example.org. 30 IN AAAA 2001:db8::1",
            "example.org. 30 IN CNAME www.example.org.",
            "_http._tcp.example.org. 5 IN SRV 0 100 80 a.example.org.",
            "example.org. 5 IN SOA ns.dns.example.org. hostmaster.example.org. 3 7200 1800 86400 5",
            r#"example.org. 5 CH TXT "a b" "c\"d\\\010""#,
            r#"example.org. 5 IN NAPTR 1 2 "s" "" "" ."#,
            r"example.org. 5 IN TYPE65280 \# 3 0a0b0c",
            r"example.org. 5 IN NULL \# 0",
        ];
        for line in lines {
            assert_eq!(parse_record(line).map(|record| record.to_string()), Ok(line.to_owned()));
        }
    }

    #[test]
    fn bad_records_say_what_is_wrong() {
        let table = [
            ("example.org. 30 IN A", "missing IPv4 address"),
            ("example.org. 30 IN A 1.2.3", "bad IPv4 address \"1.2.3\""),
            ("example.org. x IN A 1.2.3.4", "bad TTL \"x\""),
            ("example.org. 30 IN A 1.2.3.4 5", "more fields than the type has"),
            ("example.org. 30 IN NOPE 1", "unknown type \"NOPE\""),
            (r"example.org. 30 IN A \# 3 0102", "length does not match the data"),
        ];
        for (line, reason) in table {
            assert_eq!(parse_record(line).unwrap_err().to_string(), reason, "{line}");
        }
    }
}
