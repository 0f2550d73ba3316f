//! Formats with placeholders such as `{name}`: one line of text about a query and its reply.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use coredns_wire::{Header, Opcode, Rcode};

use crate::outcome::Answer;
use crate::query::Query;

/// Stands for a value that there is none of.
const ABSENT: char = '-';

/// A format, read once and rendered for each query.
///
/// Whatever stands in braces and is no placeholder is text, braces included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFormat(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Field),
    /// A label of the metadata.
    Label(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Type,
    Class,
    Name,
    Proto,
    Remote,
    Local,
    Port,
    Size,
    Id,
    Opcode,
    DnssecOk,
    BufferSize,
    Rcode,
    ReplySize,
    Duration,
    ReplyFlags,
}

const FIELDS: [(&str, Field); 16] = [
    ("type", Field::Type),
    ("class", Field::Class),
    ("name", Field::Name),
    ("proto", Field::Proto),
    ("remote", Field::Remote),
    ("local", Field::Local),
    ("port", Field::Port),
    ("size", Field::Size),
    (">id", Field::Id),
    (">opcode", Field::Opcode),
    (">do", Field::DnssecOk),
    (">bufsize", Field::BufferSize),
    ("rcode", Field::Rcode),
    ("rsize", Field::ReplySize),
    ("duration", Field::Duration),
    (">rflags", Field::ReplyFlags),
];

/// What a format can say about a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseFacts {
    /// The code and the bits of the header; `None` where nothing is sent.
    sent: Option<(Rcode, u16)>,
    size: usize,
    duration: Duration,
}

impl ResponseFacts {
    /// The facts about `answer`, which took `duration`.
    ///
    /// A failure counts as the empty reply that the server sends for it.
    #[must_use]
    pub fn new(query: &Query, answer: &Answer, duration: Duration) -> Self {
        let asked = query.header();
        // RD and CD are those of the query, for plain queries (RFC 1035 §4.1.1, RFC 4035 §3.2.2).
        let copied = if asked.opcode() == Opcode::QUERY { asked.bits & (Header::RD | Header::CD) } else { 0 };
        let bits = Header::QR | copied;
        let (sent, size) = match answer {
            Answer::Reply(reply) => {
                let flags = [
                    (reply.authoritative, Header::AA),
                    (reply.truncated || reply.exceeds_limit(query), Header::TC),
                    (reply.recursion_available, Header::RA),
                    (reply.authentic_data, Header::AD),
                ];
                let set = flags.into_iter().filter(|(is_set, _)| *is_set).fold(bits, |bits, (_, mask)| bits | mask);
                (Some((reply.rcode, set)), reply.wire_len(query))
            }
            Answer::Failed(failure) => {
                let size = coredns_wire::uncompressed_len(query.question_section(), [&[], &[], &[]], &[]);
                (Some((failure.rcode, bits)), size)
            }
            Answer::Dropped => (None, 0),
        };
        Self { sent, size, duration }
    }
}

impl LineFormat {
    /// Reads a format.
    #[must_use]
    pub fn new(format: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = format;
        // The nearest brace to the left of a closing one opens the placeholder.
        while let Some(close) = rest.find('}') {
            let (head, after) = rest.split_at(close + 1);
            let placeholder = head.rfind('{').and_then(|open| {
                let inside = head.get(open + 1..close)?;
                Some((open, placeholder(inside)?))
            });
            match placeholder {
                Some((open, part)) => {
                    push_text(&mut parts, head.get(..open).unwrap_or_default());
                    parts.push(part);
                }
                None => push_text(&mut parts, head),
            }
            rest = after;
        }
        push_text(&mut parts, rest);
        Self(parts)
    }

    /// Appends the line about `query` to `line`; without facts about a response those placeholders give `-`.
    pub fn render(&self, line: &mut String, query: &Query, response: Option<&ResponseFacts>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => line.push_str(text),
                Part::Field(field) => render_field(line, *field, query, response),
                Part::Label(label) => match query.metadata().and_then(|store| store.get(label)) {
                    Some(value) => line.push_str(&value),
                    None => line.push(ABSENT),
                },
            }
        }
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(last)) => last.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

fn placeholder(inside: &str) -> Option<Part> {
    if let Some(label) = inside.strip_prefix('/') {
        return Some(Part::Label(label.to_owned()));
    }
    FIELDS.iter().find(|(word, _)| *word == inside).map(|(_, field)| Part::Field(*field))
}

fn render_field(line: &mut String, field: Field, query: &Query, response: Option<&ResponseFacts>) {
    // Writing into a String cannot fail.
    let _ = match field {
        Field::Type => write!(line, "{}", query.qtype()),
        Field::Class => write!(line, "{}", query.qclass()),
        Field::Name => {
            let start = line.len();
            let written = write!(line, "{}", query.name());
            if let Some(name) = line.get_mut(start..) {
                name.make_ascii_lowercase();
            }
            written
        }
        Field::Proto => line.write_str(query.transport().proto()),
        Field::Remote => render_address(line, query.client()),
        Field::Local => render_address(line, query.local()),
        Field::Port => write!(line, "{}", query.client().port()),
        Field::Size => write!(line, "{}", request_len(query)),
        Field::Id => write!(line, "{}", query.header().id),
        Field::Opcode => write!(line, "{}", query.header().opcode().0),
        Field::DnssecOk => write!(line, "{}", query.dnssec_ok()),
        Field::BufferSize => write!(line, "{}", query.reply_limit()),
        Field::Rcode | Field::ReplySize | Field::Duration | Field::ReplyFlags => match response {
            Some(response) => render_response(line, field, response),
            None => line.write_char(ABSENT),
        },
    };
}

fn render_response(line: &mut String, field: Field, response: &ResponseFacts) -> std::fmt::Result {
    match (field, response.sent) {
        (Field::ReplySize, _) => write!(line, "{}", response.size),
        // The shortest decimal that means the same number, without exponent: what Display of f64 gives.
        (Field::Duration, _) => write!(line, "{}s", response.duration.as_secs_f64()),
        (_, None) => line.write_char(ABSENT),
        (Field::Rcode, Some((rcode, _))) => match rcode.mnemonic() {
            Some(text) => line.write_str(text),
            None => write!(line, "{}", rcode.0),
        },
        (_, Some((_, bits))) => {
            render_flags(line, bits);
            Ok(())
        }
    }
}

fn render_flags(line: &mut String, bits: u16) {
    const FLAGS: [(u16, &str); 8] = [
        (Header::QR, "qr"),
        (Header::AA, "aa"),
        (Header::TC, "tc"),
        (Header::RD, "rd"),
        (Header::RA, "ra"),
        (Header::Z, "z"),
        (Header::AD, "ad"),
        (Header::CD, "cd"),
    ];
    let mut separator = "";
    for (_, word) in FLAGS.iter().filter(|(mask, _)| bits & mask != 0) {
        line.push_str(separator);
        line.push_str(word);
        separator = ",";
    }
}

fn render_address(line: &mut String, address: SocketAddr) -> std::fmt::Result {
    match address.ip().to_canonical() {
        std::net::IpAddr::V4(v4) => write!(line, "{v4}"),
        std::net::IpAddr::V6(v6) => write!(line, "[{v6}]"),
    }
}

/// The length of the request, its question as plugins above may have changed it.
fn request_len(query: &Query) -> usize {
    let asked = query.name().len() + 4;
    (query.message().len() + asked).saturating_sub(query.question_section().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    #[test]
    fn placeholders_are_found_between_the_nearest_braces() {
        let table: &[(&str, &[Part])] = &[
            ("", &[]),
            ("plain", &[text("plain")]),
            ("{remote}", &[Part::Field(Field::Remote)]),
            ("{{remote}}", &[text("{"), Part::Field(Field::Remote), text("}")]),
            ("{ A {remote} A }", &[text("{ A "), Part::Field(Field::Remote), text(" A }")]),
            ("{REMOTE} {host}", &[text("{REMOTE} {host}")]),
            ("}{", &[text("}{")]),
            ("{>id}{>do", &[Part::Field(Field::Id), text("{>do")]),
            ("{/a/b}-{type}", &[Part::Label("a/b".into()), text("-"), Part::Field(Field::Type)]),
            ("{name {name}", &[text("{name "), Part::Field(Field::Name)]),
        ];
        for (format, parts) in table {
            assert_eq!(LineFormat::new(format).0, *parts, "{format}");
        }
    }

    #[test]
    fn flags_come_in_the_order_of_the_header() {
        for (bits, expected) in
            [(0, ""), (u16::MAX, "qr,aa,tc,rd,ra,z,ad,cd"), (Header::QR | Header::RD | Header::AD, "qr,rd,ad")]
        {
            let mut line = String::new();
            render_flags(&mut line, bits);
            assert_eq!(line, expected);
        }
    }
}
