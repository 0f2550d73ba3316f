//! Patterns in Go's syntax (RE2), as Corefiles hold them.
//!
//! The engine is the `regex` crate: linear time, like Go's. Its syntax is wider and differs in places, so a pattern is
//! translated and what Go refuses is refused: `\d`, `\w`, `\s` and `\b` are ASCII, `[` inside a class is itself,
//! `\Q...\E` and octal escapes exist, a brace that is no count is itself, counts end at 1000. `\C` (one octet of a
//! character) has no counterpart and is refused.

use std::fmt::{self, Write as _};
use std::iter::Peekable;
use std::str::Chars;

use coredns_corefile::excerpt;
use regex::{Regex, RegexBuilder};

/// The longest pattern that a Corefile may hold, in octets.
pub const PATTERN_BYTES_MAX: usize = 10_000;
/// The largest compiled pattern, in octets.
const COMPILED_BYTES_MAX: usize = 10 << 20;
/// How deep groups may be nested.
const NESTING_MAX: u32 = 128;
/// A count with its closing brace is looked for in so many characters.
const COUNT_CHARACTERS_MAX: usize = 16;
/// The largest count of a repetition.
const REPEAT_MAX: u32 = 1000;

/// Why a text is no pattern; worded as Go words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoRegexError {
    what: String,
    at: String,
}

impl GoRegexError {
    fn new(what: &str, at: impl Into<String>) -> Self {
        Self { what: what.to_owned(), at: at.into() }
    }
}

impl fmt::Display for GoRegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.what, excerpt(&self.at))
    }
}

impl std::error::Error for GoRegexError {}

/// Compiles a pattern.
///
/// The caller checks [`PATTERN_BYTES_MAX`] first, since each plugin words that error in its own way; a longer pattern
/// is refused here as well.
///
/// # Errors
/// The pattern is too long, too large once compiled, or not in Go's syntax.
pub fn compile(pattern: &str) -> Result<Regex, GoRegexError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(GoRegexError::new("expression too large", pattern.len().to_string()));
    }
    let translated = Translator::new(pattern).run()?;
    let mut builder = RegexBuilder::new(&translated);
    builder.size_limit(COMPILED_BYTES_MAX).nest_limit(NESTING_MAX);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => GoRegexError::new("expression too large", pattern),
        error => {
            let text = error.to_string();
            let reason = text.lines().next_back().unwrap_or_default().trim_start_matches("error: ");
            GoRegexError::new(reason, pattern)
        }
    })
}

struct Translator<'a> {
    pattern: &'a str,
    input: Peekable<Chars<'a>>,
    out: String,
    depth: usize,
    /// What a repetition would apply to.
    before: Before,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Atom,
    Repetition,
}

impl<'a> Translator<'a> {
    fn new(pattern: &'a str) -> Self {
        let out = String::with_capacity(pattern.len() * 2);
        Self { pattern, input: pattern.chars().peekable(), out, depth: 0, before: Before::Nothing }
    }

    fn run(mut self) -> Result<String, GoRegexError> {
        while let Some(character) = self.input.next() {
            match character {
                '(' => self.open_group()?,
                ')' => {
                    self.depth = self.depth.checked_sub(1).ok_or_else(|| self.error("unexpected )"))?;
                    self.atom(")");
                }
                '|' => {
                    self.out.push('|');
                    self.before = Before::Nothing;
                }
                '*' | '+' | '?' => self.repeat(&character.to_string())?,
                '{' => self.open_brace()?,
                '[' => self.class()?,
                '\\' => self.escape()?,
                '.' | '^' | '$' => self.atom(&character.to_string()),
                _ => self.literal(character),
            }
        }
        if self.depth > 0 {
            return Err(self.error("missing closing )"));
        }
        Ok(self.out)
    }

    fn error(&self, what: &str) -> GoRegexError {
        GoRegexError::new(what, self.pattern)
    }

    fn atom(&mut self, text: &str) {
        self.out.push_str(text);
        self.before = Before::Atom;
    }

    fn literal(&mut self, character: char) {
        push_literal(&mut self.out, character);
        self.before = Before::Atom;
    }

    /// A repetition, with the `?` behind it that makes it lazy.
    fn repeat(&mut self, operator: &str) -> Result<(), GoRegexError> {
        match self.before {
            Before::Nothing => return Err(GoRegexError::new("missing argument to repetition operator", operator)),
            Before::Repetition => return Err(GoRegexError::new("invalid nested repetition operator", operator)),
            Before::Atom => self.out.push_str(operator),
        }
        if self.input.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
        self.before = Before::Repetition;
        Ok(())
    }

    /// `{n}`, `{n,}` and `{n,m}` are counts; any other brace stands for itself.
    fn open_brace(&mut self) -> Result<(), GoRegexError> {
        let ahead: String = self.input.clone().take(COUNT_CHARACTERS_MAX).collect();
        let (rest, closed) = ahead.split_once('}').map_or(("", false), |(rest, _)| (rest, true));
        let (low, high) = rest.split_once(',').map_or((rest, None), |(low, high)| (low, Some(high)));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
        if !closed || !digits(low) || !high.is_none_or(|high| high.is_empty() || digits(high)) {
            self.literal('{');
            return Ok(());
        }
        let operator = format!("{{{rest}}}");
        let count = |text: &str| text.parse::<u32>().ok().filter(|count| *count <= REPEAT_MAX);
        let invalid = || GoRegexError::new("invalid repeat count", operator.clone());
        let least = count(low).ok_or_else(invalid)?;
        if let Some(high) = high.filter(|high| !high.is_empty())
            && count(high).ok_or_else(invalid)? < least
        {
            return Err(invalid());
        }
        for _ in 0..=rest.chars().count() {
            self.input.next();
        }
        self.repeat(&operator)
    }

    fn open_group(&mut self) -> Result<(), GoRegexError> {
        self.depth += 1;
        self.before = Before::Nothing;
        if self.input.next_if_eq(&'?').is_none() {
            self.out.push('(');
            return Ok(());
        }
        let head: String = self.input.clone().take_while(|character| !matches!(character, ':' | ')' | '>')).collect();
        for _ in head.chars() {
            self.input.next();
        }
        let end = self.input.next();
        let shown = || GoRegexError::new("invalid or unsupported Perl syntax", format!("(?{head}"));
        if let Some(name) = head.strip_prefix("P<").or_else(|| head.strip_prefix('<')) {
            let valid = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if end != Some('>') || !valid {
                return Err(GoRegexError::new("invalid named capture", format!("(?{head}")));
            }
            // The names of the engine do not begin with a digit, Go's may; it then has no name that can be used.
            let named = name.starts_with(|c: char| !c.is_ascii_digit());
            let _ = if named { write!(self.out, "(?P<{name}>") } else { self.out.write_char('(') };
            return Ok(());
        }
        let flags_valid = head.chars().all(|c| matches!(c, 'i' | 'm' | 's' | 'U' | '-'))
            && head.matches('-').count() <= 1
            && !head.ends_with('-');
        match end {
            Some(':') if flags_valid => {
                let _ = write!(self.out, "(?{head}:");
            }
            Some(')') if flags_valid && !head.is_empty() => {
                let _ = write!(self.out, "(?{head})");
                self.depth -= 1;
            }
            _ => return Err(shown()),
        }
        Ok(())
    }

    fn escape(&mut self) -> Result<(), GoRegexError> {
        let character =
            self.input.next().ok_or_else(|| GoRegexError::new("trailing backslash at end of expression", ""))?;
        match character {
            'Q' => self.quoted(),
            'A' => self.atom(r"\A"),
            'z' => self.atom(r"\z"),
            'b' => self.atom(r"(?-u:\b)"),
            'B' => self.atom(r"(?-u:\B)"),
            'd' | 's' | 'w' | 'D' | 'S' | 'W' => {
                let inside = perl_class(character.to_ascii_lowercase());
                let negation = if character.is_ascii_uppercase() { "^" } else { "" };
                self.atom(&format!("[{negation}{inside}]"));
            }
            'p' | 'P' => {
                let property = self.property(character)?;
                self.atom(&property);
            }
            _ => {
                let literal = self.escaped_literal(character)?;
                self.literal(literal);
            }
        }
        Ok(())
    }

    /// Text up to `\E` or the end, each character standing for itself.
    fn quoted(&mut self) {
        while let Some(character) = self.input.next() {
            if character == '\\' && self.input.next_if_eq(&'E').is_some() {
                return;
            }
            self.literal(character);
        }
    }

    /// `\pL`, `\p{Greek}`, `\p{^Greek}` behind their first two characters.
    fn property(&mut self, letter: char) -> Result<String, GoRegexError> {
        let invalid = |name: &str| GoRegexError::new("invalid character class range", format!("\\{letter}{name}"));
        let first = self.input.next().ok_or_else(|| invalid(""))?;
        if first != '{' {
            return Ok(format!("\\{letter}{first}"));
        }
        let mut name = String::new();
        loop {
            match self.input.next() {
                Some('}') => break,
                Some(character) => name.push(character),
                None => return Err(invalid(&format!("{{{name}"))),
            }
        }
        Ok(match name.strip_prefix('^') {
            Some(name) => format!("\\{}{{{name}}}", if letter == 'p' { 'P' } else { 'p' }),
            None => format!("\\{letter}{{{name}}}"),
        })
    }

    /// The character that an escape such as `\n`, `\x41`, `\101` or `\.` stands for.
    fn escaped_literal(&mut self, character: char) -> Result<char, GoRegexError> {
        let invalid = || GoRegexError::new("invalid escape sequence", format!("\\{character}"));
        match character {
            'a' => Ok('\x07'),
            'f' => Ok('\x0c'),
            't' => Ok('\t'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            'v' => Ok('\x0b'),
            'x' => self.hexadecimal().ok_or_else(invalid),
            '0'..='7' => {
                let is_octal = |character: &char| matches!(character, '0'..='7');
                // One digit but 0 would be a back reference, which RE2 has not.
                if character != '0' && !self.input.peek().is_some_and(is_octal) {
                    return Err(invalid());
                }
                let mut value = character.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let Some(digit) = self.input.next_if(is_octal) else { break };
                    value = value * 8 + digit.to_digit(8).unwrap_or_default();
                }
                char::from_u32(value).ok_or_else(invalid)
            }
            _ if character.is_ascii_punctuation() => Ok(character),
            _ => Err(invalid()),
        }
    }

    fn hexadecimal(&mut self) -> Option<char> {
        if self.input.next_if_eq(&'{').is_none() {
            let high = self.input.next()?.to_digit(16)?;
            return char::from_u32(high * 16 + self.input.next()?.to_digit(16)?);
        }
        let mut value: u32 = 0;
        let mut digits = 0;
        loop {
            match self.input.next()? {
                '}' if digits > 0 => return char::from_u32(value),
                character => value = value.checked_mul(16)?.checked_add(character.to_digit(16)?)?,
            }
            digits += 1;
        }
    }

    /// A class behind its `[`.
    fn class(&mut self) -> Result<(), GoRegexError> {
        let unclosed = self.error("missing closing ]");
        self.out.push('[');
        if self.input.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let character = self.input.next().ok_or_else(|| unclosed.clone())?;
            match character {
                ']' if !first => break,
                '[' if self.input.peek() == Some(&':') && self.named_class()? => {}
                '\\' if self.input.peek().is_some_and(|next| "dswDSWpP".contains(*next)) => {
                    let letter = self.input.next().unwrap_or_default();
                    let part = match letter {
                        'p' | 'P' => self.property(letter)?,
                        'd' | 's' | 'w' => perl_class(letter).to_owned(),
                        _ => format!("[^{}]", perl_class(letter.to_ascii_lowercase())),
                    };
                    self.out.push_str(&part);
                }
                _ => self.class_range(character, &unclosed)?,
            }
            first = false;
        }
        self.atom("]");
        Ok(())
    }

    fn class_character(&mut self, character: char, unclosed: &GoRegexError) -> Result<char, GoRegexError> {
        if character != '\\' {
            return Ok(character);
        }
        let escaped = self.input.next().ok_or_else(|| unclosed.clone())?;
        self.escaped_literal(escaped)
    }

    fn class_range(&mut self, character: char, unclosed: &GoRegexError) -> Result<(), GoRegexError> {
        let low = self.class_character(character, unclosed)?;
        push_literal(&mut self.out, low);
        let mut ahead = self.input.clone();
        if ahead.next() != Some('-') || ahead.next().is_none_or(|next| next == ']') {
            return Ok(());
        }
        self.input.next();
        let next = self.input.next().ok_or_else(|| unclosed.clone())?;
        let high = self.class_character(next, unclosed)?;
        if high < low {
            return Err(GoRegexError::new("invalid character class range", format!("{low}-{high}")));
        }
        self.out.push('-');
        push_literal(&mut self.out, high);
        Ok(())
    }

    /// `[:name:]` behind its `[`; `false` where it is not closed and so stands for its characters.
    fn named_class(&mut self) -> Result<bool, GoRegexError> {
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
            "word", "xdigit",
        ];
        let rest: String = self.input.clone().collect();
        let Some((inside, _)) = rest.strip_prefix(':').and_then(|rest| rest.split_once(":]")) else {
            push_literal(&mut self.out, '[');
            return Ok(true);
        };
        let class = format!("[:{inside}:]");
        if !NAMES.contains(&inside.strip_prefix('^').unwrap_or(inside)) {
            return Err(GoRegexError::new("invalid character class range", class));
        }
        self.out.push_str(&class);
        for _ in 0..inside.chars().count() + 3 {
            self.input.next();
        }
        Ok(true)
    }
}

/// What `\d`, `\s` and `\w` mean in Go, as the inside of a class.
const fn perl_class(letter: char) -> &'static str {
    match letter {
        'd' => "0-9",
        's' => r"\t\n\x0c\r\x20",
        _ => "0-9A-Za-z_",
    }
}

fn push_literal(out: &mut String, character: char) {
    if character.is_ascii() && !character.is_ascii_alphanumeric() {
        let _ = write!(out, "\\x{:02x}", u32::from(character));
    } else {
        out.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_go_does() {
        let table: &[(&str, &[&str], &[&str])] = &[
            ("", &["", "x"], &[]),
            (r"^\d+$", &["12"], &["\u{661}", "1x"]),
            (r"^\w$", &["a", "_"], &["\u{e9}"]),
            (r"^\W$", &["\u{e9}", "-"], &["a"]),
            (r"^\S+$", &["\u{a0}"], &[" "]),
            (r"^[[a]+$", &["[a["], &["b"]),
            (r"^[]a]+$", &["]a"], &["b"]),
            (r"^[^]a]$", &["b"], &["]"]),
            (r"^[a&&b~~-]+$", &["a&b~-"], &["c"]),
            (r"^[\d.-]+$", &["1.-"], &["x"]),
            (r"^[\D]$", &["x"], &["1"]),
            (r"^[[:alpha:]_]+$", &["a_"], &["1"]),
            (r"^[[:^digit:]]$", &["a"], &["1"]),
            (r"^\Qa.b*\E+$", &["a.b**"], &["axb"]),
            (r"^\x41\x{42}\103$", &["ABC"], &[]),
            (r"^a{2,3}$", &["aa", "aaa"], &["a", "aaaa"]),
            (r"^a{,2}{x$", &["a{,2}{x"], &["aa"]),
            (r"^(?i)AbC$", &["abc"], &[]),
            (r"^(?P<x>a)(?<y>b)(?:c)$", &["abc"], &[]),
            (r"^\p{Greek}\P{Greek}\p{^Greek}\pN$", &["\u{3b1}aa1"], &[]),
            (r"\bfoo\b", &["a foo b"], &["afoo", "foo_"]),
            (r"a#b c", &["a#b c"], &[]),
            (r".*\.in-addr\.arpa\.$", &["1.in-addr.arpa."], &["1xin-addr.arpa."]),
            (r"a|", &["b"], &[]),
            ("^a$", &["a"], &["a\n"]),
        ];
        for (pattern, matching, others) in table {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            for text in *matching {
                assert!(regex.is_match(text), "{pattern} {text:?}");
            }
            for text in *others {
                assert!(!regex.is_match(text), "{pattern} {text:?}");
            }
        }
    }

    #[test]
    fn refuses_what_go_refuses() {
        for (pattern, error) in [
            ("())", "unexpected ): `())`"),
            ("(a", "missing closing ): `(a`"),
            ("*", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `*`"),
            ("(|*)", "missing argument to repetition operator: `*`"),
            ("[a", "missing closing ]: `[a`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (r"a\", "trailing backslash at end of expression: ``"),
            (r"\C", r"invalid escape sequence: `\C`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            (r"\<a\y", r"invalid escape sequence: `\y`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=a`"),
            ("(?P<a b>c)", "invalid named capture: `(?P<a b`"),
        ] {
            let found = compile(pattern).map(|regex| regex.to_string()).map_err(|error| error.to_string());
            assert_eq!(found, Err(format!("error parsing regexp: {error}")), "{pattern}");
        }
    }

    #[test]
    fn large_patterns_are_refused() {
        assert!(compile(&"a".repeat(PATTERN_BYTES_MAX)).is_ok());
        assert!(compile(&"a".repeat(PATTERN_BYTES_MAX + 1)).is_err());
        assert!(compile(r"((\pL{100}){100}){100}").is_err());
        assert!(compile(&"(".repeat(5000)).is_err());
        assert!(compile(&format!("{}{}", "(".repeat(4000), ")".repeat(4000))).is_err());
    }
}
