//! One line of the log.

use std::fmt::Write as _;

/// The longest line with its line break, in octets.
pub(super) const LINE_BYTES_MAX: usize = 4096;
/// Room for a line as most are, in octets.
pub(super) const USUAL_BYTES: usize = 192;
/// Ends a line that was cut.
const CUT: &str = "...";

/// A line as it is written, with its line break.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    /// A warning or an error, of which the same text is not repeated without end.
    pub(super) is_complaint: bool,
}

impl Line {
    /// Takes `text`, whose first `prefix` octets are ours, and makes one line of it.
    pub(super) fn new(mut text: String, prefix: usize, is_complaint: bool) -> Self {
        let is_plain = text.bytes().all(|octet| matches!(octet, b' '..=b'~'));
        if !is_plain || text.len() >= LINE_BYTES_MAX {
            text = escaped(&text, prefix);
        }
        text.push('\n');
        Self { text, is_complaint }
    }
}

/// The text with every octet outside printable ASCII as `\DDD`, cut to the length of a line.
fn escaped(text: &str, prefix: usize) -> String {
    let (ours, message) = text.split_at_checked(prefix).unwrap_or(("", text));
    let mut line = String::with_capacity(text.len().min(LINE_BYTES_MAX));
    line.push_str(ours);
    // A line break at the end is no part of the message.
    for octet in message.trim_end_matches(['\r', '\n']).bytes() {
        if line.len() + 4 + CUT.len() >= LINE_BYTES_MAX {
            line.push_str(CUT);
            break;
        }
        match octet {
            b' '..=b'~' => line.push(char::from(octet)),
            _ => {
                let _ = write!(line, "\\{octet:03}");
            }
        }
    }
    line
}
