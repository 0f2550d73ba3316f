//! Expected records as text against records.

use coredns_wire::{Record, RrType, parse_record};

/// Which section, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Answer.
    Answer,
    /// Authority.
    Authority,
    /// Additional; OPT is left out of comparisons.
    Additional,
}

/// Compares records with lines `OWNER TTL CLASS TYPE RDATA`.
///
/// `*` as TTL is any TTL; `$SERIAL` in an SOA is any serial. Owner and target names compare with regard to case if
/// `exact`; the order counts if `ordered`.
///
/// # Errors
/// A text that shows both sides.
pub fn same_records<S: AsRef<str>>(
    actual: &[Record],
    expected: &[S],
    ordered: bool,
    exact: bool,
) -> Result<(), String> {
    let actual: Vec<&Record> = actual.iter().filter(|record| record.rtype != RrType::OPT).collect();
    let expected: Vec<&str> = expected.iter().map(AsRef::as_ref).collect();
    let mut left = actual.clone();
    for (index, line) in expected.iter().enumerate() {
        let found = if ordered {
            actual.get(index).is_some_and(|record| matches_line(record, line, exact)).then_some(0)
        } else {
            left.iter().position(|record| matches_line(record, line, exact))
        };
        match found {
            Some(at) => drop(left.remove(at)),
            None => return Err(difference(line, &actual, &expected)),
        }
    }
    if left.is_empty() { Ok(()) } else { Err(difference("nothing more", &actual, &expected)) }
}

/// [`same_records`] as a test assertion, with the section's name in the message.
///
/// # Errors
/// A text that shows both sides.
pub fn check_section<S: AsRef<str>>(section: Section, actual: &[Record], expected: &[S]) -> Result<(), String> {
    same_records(actual, expected, false, false).map_err(|text| format!("{section:?}: {text}"))
}

fn difference(missing: &str, actual: &[&Record], expected: &[&str]) -> String {
    let shown: Vec<String> = actual.iter().map(ToString::to_string).collect();
    format!("expected {missing}\n  got:  {}\n  want: {}", shown.join("\n        "), expected.join("\n        "))
}

fn matches_line(record: &Record, line: &str, exact: bool) -> bool {
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    if words.get(1).is_some_and(|ttl| ttl == "*") {
        words[1] = record.ttl.to_string();
    }
    if let Some(serial) = words.iter_mut().find(|word| *word == "$SERIAL") {
        let text = record.to_string();
        *serial = text.split(' ').nth(6).unwrap_or("0").to_owned();
    }
    let rewritten = words.join(" ");
    // Quoted strings keep their blanks, so the line itself is read where nothing was replaced.
    let source = if rewritten.split(' ').eq(line.split_whitespace()) { line } else { &rewritten };
    let wanted = parse_record(source).unwrap_or_else(|error| panic!("{line:?}: {error}"));
    if exact {
        record.to_string() == wanted.to_string()
    } else {
        record.to_string().eq_ignore_ascii_case(&wanted.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_orders() {
        let lines = ["a. 5 IN A 192.0.2.1", "a. 5 IN A 192.0.2.2"];
        let records: Vec<Record> = lines.iter().map(|line| parse_record(line).expect("valid")).collect();
        let swapped = [lines[1], lines[0]];
        assert!(same_records(&records, &swapped, false, true).is_ok());
        assert!(same_records(&records, &swapped, true, true).is_err());
        assert!(same_records(&records, &lines[..1], false, true).is_err());
        assert!(same_records(&records[..1], &lines, false, true).is_err());
        assert!(same_records(&records, &["A. * IN A 192.0.2.1", "a. * IN A 192.0.2.2"], true, false).is_ok());
        assert!(same_records(&records, &["A. 5 IN A 192.0.2.1", lines[1]], true, true).is_err());
    }

    #[test]
    fn any_serial() {
        let soa = parse_record("a. 5 IN SOA ns.a. h.a. 77 1 2 3 4").expect("valid");
        assert!(same_records(&[soa], &["a. 5 IN SOA ns.a. h.a. $SERIAL 1 2 3 4"], true, true).is_ok());
    }
}
