//! Rust text without its comments and literals, so that a rule about code does not trip over words in them.

/// The text with every comment, string and character literal blanked out; line breaks stay, so that lines keep their numbers.
pub(crate) fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = literal_length(rest, code.chars().next_back());
        if length == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (literal, after) = rest.split_at(length);
        code.push(' ');
        code.extend(literal.chars().filter(|&character| character == '\n'));
        rest = after;
    }
    code
}

/// Bytes of the comment or literal that the text starts with; 0 when it starts with code. `before` is the character of
/// code in front, which tells the `r` of a raw string from the end of a word.
fn literal_length(text: &str, before: Option<char>) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment_length(text);
    }
    let in_word = before.is_some_and(|character| character.is_alphanumeric() || character == '_');
    if !in_word && let Some(length) = raw_string_length(text) {
        return length;
    }
    match text.as_bytes().first() {
        Some(b'"') => quoted_length(text, '"'),
        // A lifetime or a label has no closing quote right behind its first character.
        Some(b'\'') => {
            let mut characters = text.chars().skip(1);
            let escaped = characters.next() == Some('\\');
            if escaped || characters.next() == Some('\'') { quoted_length(text, '\'') } else { 0 }
        }
        _ => 0,
    }
}

/// Length of a block comment, which may hold others.
fn block_comment_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut position = 0;
    while position < text.len() {
        let rest = &text.as_bytes()[position..];
        if rest.starts_with(b"/*") {
            depth += 1;
            position += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            position += 2;
            if depth == 0 {
                return position;
            }
        } else {
            position += 1;
        }
    }
    text.len()
}

/// Length of a raw string (`r"…"`, `br#"…"#`, `cr"…"`), if the text starts with one.
fn raw_string_length(text: &str) -> Option<usize> {
    let body = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let unhashed = body.trim_start_matches('#');
    let hashes = body.len() - unhashed.len();
    let content = unhashed.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - content.len();
    let length = content.find(&end).map_or(content.len(), |found| found + end.len());
    Some(start + length)
}

/// Length of a literal between two quotes, with escapes.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (position, character) in text.char_indices().skip(1) {
        if !escaped && character == quote {
            return position + quote.len_utf8();
        }
        escaped = !escaped && character == '\\';
    }
    text.len()
}

#[test]
fn comments_and_literals_are_not_code() {
    for (text, expected) in [
        ("a // todo!\nb", "a  \nb"),
        ("a /* x /* y\n */ z */ b", "a  \n b"),
        (r#"a("to\"do", b)"#, "a( , b)"),
        ("a(r#\"x\" y\"#, br\"\\\", b)", "a( ,  , b)"),
        ("for\"x\"", "for "),
        ("a('\"', '\\'', 'x', b'y')", "a( ,  ,  , b )"),
        ("&'static str, 'outer: loop", "&'static str, 'outer: loop"),
        ("r#loop::X", "r#loop::X"),
        ("\"open", " "),
    ] {
        assert_eq!(code_only(text), expected, "{text}");
    }
}
