//! Domain names in presentation format (RFC 1035 §5.1), as text.

/// Octets of a name on the wire, the root's length octet included (RFC 1035 §2.3.4).
const NAME_OCTETS_MAX: usize = 255;
/// Octets of one label (RFC 1035 §2.3.4).
const LABEL_OCTETS_MAX: usize = 63;

/// Whether a text is a domain name, with or without the final dot.
///
/// Labels have 1 to 63 octets, the name at most 255 on the wire; `\DDD` and `\X` are one octet. Any other character
/// stands for its UTF-8 octets.
pub fn is_domain_name(text: &str) -> bool {
    if text == "." {
        return true;
    }
    let bytes = text.as_bytes();
    let mut label = 0_usize;
    let mut total = 1_usize;
    let mut at = 0_usize;
    while let Some(byte) = bytes.get(at) {
        if *byte == b'.' {
            if label == 0 || label > LABEL_OCTETS_MAX {
                return false;
            }
            total += 1 + label;
            label = 0;
            at += 1;
            continue;
        }
        label += 1;
        if *byte != b'\\' {
            at += 1;
            continue;
        }
        let Some(length) = escape_length(bytes.get(at + 1..).unwrap_or_default()) else {
            return false;
        };
        at += 1 + length;
    }
    let last = if label > 0 { 1 + label } else { 0 };
    !text.is_empty() && label <= LABEL_OCTETS_MAX && total + last <= NAME_OCTETS_MAX
}

/// Octets of text that an escape takes behind its `\`: three digits up to 255, or any one octet.
fn escape_length(rest: &[u8]) -> Option<usize> {
    let first = rest.first()?;
    if !first.is_ascii_digit() {
        return Some(1);
    }
    let digits = rest.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let value = digits.iter().fold(0_u32, |value, digit| value * 10 + u32::from(digit - b'0'));
    (value <= 255).then_some(3)
}

/// The name with a final dot; one that is escaped is part of the last label.
pub fn fully_qualified(name: &str) -> String {
    if is_fully_qualified(name) { name.to_owned() } else { format!("{name}.") }
}

fn is_fully_qualified(name: &str) -> bool {
    let Some(before) = name.strip_suffix('.') else {
        return false;
    };
    let backslashes = before.bytes().rev().take_while(|byte| *byte == b'\\').count();
    backslashes.is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let label = "a".repeat(63);
        let longest = [label.as_str(); 3].join(".") + "." + &"b".repeat(61);
        let too_long = [label.as_str(); 3].join(".") + "." + &"b".repeat(62);
        let cases = [
            (".", true),
            ("a", true),
            ("a.", true),
            ("example.org", true),
            ("*._tcp.example.org.", true),
            ("a b", true),
            ("example.org,example.com", true),
            ("пример", true),
            ("\\046.", true),
            ("a\\.b", true),
            ("a\\.", true),
            ("\\255", true),
            ("\\\\.", true),
            ("", false),
            ("..", false),
            (".a", false),
            ("a..b", false),
            ("a..", false),
            ("a\\", false),
            ("\\256", false),
            ("\\12", false),
            ("\\1x2", false),
            (&label, true),
            (&format!("{label}a"), false),
            (&format!("{label}a."), false),
            (&longest, true),
            (&format!("{longest}."), true),
            (&too_long, false),
        ];
        for (name, expected) in cases {
            assert_eq!(is_domain_name(name), expected, "{name}");
        }
    }

    #[test]
    fn qualified() {
        let cases = [("", "."), (".", "."), ("a", "a."), ("a.", "a."), ("a\\.", "a\\.."), ("a\\\\.", "a\\\\.")];
        for (name, expected) in cases {
            assert_eq!(fully_qualified(name), expected, "{name}");
        }
    }
}
