//! Label selectors as the API server reads them: `app=dns,tier in (front,back),!legacy`.

use std::fmt;

use coredns_plugin::corefile::excerpt;

use super::object::Labels;

/// A list of requirements that an object's labels must all meet. Without a requirement it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Box<[Requirement]>);

/// Why a selector is refused, in the words of the API machinery.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Box<str>,
    test: Test,
}

/// What is asked of a label. Values are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Box<[Box<str>]>),
    NotIn(Box<[Box<str>]>),
    Above(i64),
    Below(i64),
}

impl Selector {
    /// Parses a selector; empty text gives the selector that matches everything.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Parser { tokens: lex(text), at: 0 }.selector().map_err(SelectorError)
    }

    /// Whether the labels meet every requirement. An absent label meets `!=` and `notin`.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            let listed = |values: &[Box<str>]| value.is_some_and(|value| values.iter().any(|held| **held == *value));
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match &requirement.test {
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::In(values) => listed(values),
                Test::NotIn(values) => !listed(values),
                Test::Above(bound) => number().is_some_and(|number| number > *bound),
                Test::Below(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }

    /// Whether it matches everything for want of requirements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The text that the API server takes in `labelSelector`.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Requirement { key, test }) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::Exists => f.write_str(key)?,
                Test::Absent => write!(f, "!{key}")?,
                Test::In(values) if values.len() == 1 => write!(f, "{key}={}", values.concat())?,
                Test::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Test::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", values.concat())?,
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Test::Above(bound) => write!(f, "{key}>{bound}")?,
                Test::Below(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, or one of the words `in` and `notin`.
    Word(&'a str),
    Open,
    Close,
    Comma,
    Not,
    Equals(&'a str),
    NotEquals,
    Greater,
    Less,
    End,
}

impl Token<'_> {
    fn text(&self) -> &str {
        match self {
            Self::Word(text) | Self::Equals(text) => text,
            Self::Open => "(",
            Self::Close => ")",
            Self::Comma => ",",
            Self::Not => "!",
            Self::NotEquals => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::End => "",
        }
    }
}

fn lex(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        // NUL ends the text, as the end of the string does in the API machinery.
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let symbols = [
            ("==", Token::Equals("==")),
            ("!=", Token::NotEquals),
            ("=", Token::Equals("=")),
            ("!", Token::Not),
            ("(", Token::Open),
            (")", Token::Close),
            (",", Token::Comma),
            (">", Token::Greater),
            ("<", Token::Less),
        ];
        if let Some((symbol, token)) = symbols.into_iter().find(|(symbol, _)| rest.starts_with(symbol)) {
            tokens.push(token);
            rest = rest.strip_prefix(symbol).unwrap_or_default();
            continue;
        }
        let end = rest.find([' ', '\t', '\r', '\n', '=', '!', '(', ')', ',', '>', '<', '\0']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            return tokens;
        }
        tokens.push(Token::Word(word));
        rest = after;
    }
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<Selector, String> {
        let mut requirements: Vec<Requirement> = Vec::new();
        match self.peek() {
            Token::End => return Ok(Selector::default()),
            Token::Word(_) | Token::Not => {}
            other => {
                return Err(format!("found '{}', expected: !, identifier, or 'end of string'", excerpt(other.text())));
            }
        }
        loop {
            requirements.push(self.requirement().map_err(|error| format!("unable to parse requirement: {error}"))?);
            match self.next() {
                Token::End => {
                    // Like the API machinery, so that the text does not depend on how it was written.
                    requirements.sort_by(|a, b| a.key.cmp(&b.key));
                    return Ok(Selector(requirements.into()));
                }
                Token::Comma => {
                    if !matches!(self.peek(), Token::Word(_) | Token::Not) {
                        return Err(format!("found '{}', expected: identifier after ','", excerpt(self.peek().text())));
                    }
                }
                other => {
                    return Err(format!("found '{}', expected: ',' or 'end of string'", excerpt(other.text())));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == Token::Not;
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", excerpt(other.text()))),
        };
        check_key(key)?;
        if negated || matches!(self.peek(), Token::End | Token::Comma) {
            return Ok(Requirement { key: key.into(), test: if negated { Test::Absent } else { Test::Exists } });
        }
        let test = match self.next() {
            Token::Word("in") => Test::In(self.values(key)?),
            Token::Word("notin") => Test::NotIn(self.values(key)?),
            Token::Equals(_) => Test::In([self.value(key)?].into()),
            Token::NotEquals => Test::NotIn([self.value(key)?].into()),
            Token::Greater => Test::Above(self.integer(key)?),
            Token::Less => Test::Below(self.integer(key)?),
            other => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", excerpt(other.text())));
            }
        };
        Ok(Requirement { key: key.into(), test })
    }

    /// The single value after an operator; nothing stands for the empty value.
    fn value(&mut self, key: &str) -> Result<Box<str>, String> {
        let value = match self.peek() {
            Token::End | Token::Comma => "",
            Token::Word(value) => {
                self.next();
                value
            }
            other => return Err(format!("found '{}', expected: identifier", excerpt(other.text()))),
        };
        check_value(key, 0, value)?;
        Ok(value.into())
    }

    fn integer(&mut self, key: &str) -> Result<i64, String> {
        let value = self.value(key)?;
        value.parse().map_err(|_| {
            let value = excerpt(&value);
            format!("values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer")
        })
    }

    /// The values in parentheses; a gap between commas is the empty value.
    fn values(&mut self, key: &str) -> Result<Box<[Box<str>]>, String> {
        match self.next() {
            Token::Open => {}
            other => return Err(format!("found '{}' expected: '('", excerpt(other.text()))),
        }
        if self.peek() == Token::Close {
            return Err("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".to_owned());
        }
        let mut values: Vec<Box<str>> = Vec::new();
        loop {
            match self.peek() {
                Token::Word(value) => {
                    self.next();
                    values.push(value.into());
                }
                Token::Comma | Token::Close => values.push("".into()),
                other => {
                    return Err(format!("found '{}', expected: ',', ')' or identifier", excerpt(other.text())));
                }
            }
            match self.next() {
                Token::Comma => {}
                Token::Close => break,
                other => return Err(format!("found '{}', expected: ',' or ')'", excerpt(other.text()))),
            }
        }
        values.sort();
        values.dedup();
        for (at, value) in values.iter().enumerate() {
            check_value(key, at, value)?;
        }
        Ok(values.into())
    }
}

/// Checks a label's key: an optional DNS prefix of at most 253 octets and `/`, then a name of at most 63.
fn check_key(key: &str) -> Result<(), String> {
    let invalid = |why: &str| Err(format!("<nil>: Invalid value: \"{}\": {why}", excerpt(key)));
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if name.contains('/') {
        return invalid(
            "a valid label key must consist of alphanumeric characters, '-', '_' or '.', with an optional DNS \
             subdomain prefix and '/' (e.g. 'example.com/MyName')",
        );
    }
    if let Some(prefix) = prefix {
        let part =
            |part: &str| is_word(part, |octet| octet == b'-') && !part.bytes().any(|octet| octet.is_ascii_uppercase());
        if prefix.is_empty() {
            return invalid("prefix part must be non-empty");
        }
        if prefix.len() > 253 {
            return invalid("prefix part must be no more than 253 bytes");
        }
        if !prefix.split('.').all(part) {
            return invalid(
                "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
                 or '.', and must start and end with an alphanumeric character (e.g. 'example.com')",
            );
        }
    }
    match name {
        "" => invalid("name part must be non-empty"),
        name if name.len() > 63 => invalid("name part must be no more than 63 bytes"),
        name if !is_label_word(name) => invalid(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc')",
        ),
        _ => Ok(()),
    }
}

fn check_value(key: &str, at: usize, value: &str) -> Result<(), String> {
    let why = if value.len() > 63 {
        "must be no more than 63 bytes"
    } else if !value.is_empty() && !is_label_word(value) {
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
         and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345')"
    } else {
        return Ok(());
    };
    Err(format!("values[{at}][{}]: Invalid value: \"{}\": {why}", excerpt(key), excerpt(value)))
}

fn is_label_word(text: &str) -> bool {
    is_word(text, |octet| matches!(octet, b'-' | b'_' | b'.'))
}

/// Whether the text consists of letters, digits and the given octets, these only inside.
fn is_word(text: &str, inner: impl Fn(u8) -> bool) -> bool {
    let edge = |octet: Option<u8>| octet.is_some_and(|octet| octet.is_ascii_alphanumeric());
    edge(text.bytes().next())
        && edge(text.bytes().next_back())
        && text.bytes().all(|octet| octet.is_ascii_alphanumeric() || inner(octet))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_the_api_server_does() {
        let labels: Labels =
            [("app", "dns"), ("tier", "front"), ("n", "7"), ("empty", ""), ("in", "x")].into_iter().collect();
        let cases = [
            ("", true),
            ("app=dns", true),
            ("app==dns", true),
            ("app = dns , tier != back", true),
            ("app=web", false),
            ("other!=x", true),
            ("app!=dns", false),
            ("app", true),
            ("other", false),
            ("!other", true),
            ("! app", false),
            ("tier in (front, back)", true),
            ("tier in (back)", false),
            ("tier notin (back)", true),
            ("other notin (back)", true),
            ("tier notin (front)", false),
            ("empty=", true),
            ("empty=,app", true),
            ("empty in (,x)", true),
            ("app in (x,)", false),
            ("in=x", true),
            ("in in (x)", true),
            ("n>6", true),
            ("n>7", false),
            ("n<8", true),
            ("app<8", false),
            ("example.com/part=x", false),
            ("app=dns,tier=back", false),
        ];
        for (text, expected) in cases {
            let selector = Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(selector.matches(&labels), expected, "{text}");
            assert_eq!(Selector::parse(&selector.to_string()), Ok(selector), "{text}: round trip");
        }
    }

    #[test]
    fn refuses_in_the_words_of_the_api_machinery() {
        let cases = [
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a=(", "unable to parse requirement: found '(', expected: identifier"),
            (
                "a in ()",
                "unable to parse requirement: values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            ),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(Selector::parse(text).map_err(|error| error.to_string()), Err(expected.to_owned()), "{text}");
        }
        let starts = [
            ("-a", "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of"),
            ("/a", "unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be non-empty"),
            ("a=b:c", "unable to parse requirement: values[0][a]: Invalid value: \"b:c\": a valid label must be"),
        ];
        for (text, expected) in starts {
            let error = Selector::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
