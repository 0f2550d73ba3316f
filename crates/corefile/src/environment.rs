//! References to environment variables: `{$NAME}` and `{%NAME%}`.

use crate::limits::{ENVIRONMENT_LEVELS_MAX, TOKEN_BYTES_MAX};

/// Looks a variable up in the environment of the process; a value that is not UTF-8 has U+FFFD for what is not.
pub fn process_environment(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Why a token's references cannot be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpandError {
    #[error("environment variables refer to one another more than {ENVIRONMENT_LEVELS_MAX} levels deep")]
    TooDeep,
    #[error("value of an environment variable makes a word longer than {TOKEN_BYTES_MAX} octets")]
    TooLong,
}

/// Replaces all references; `None` where the text has none.
///
/// All `{%…%}` are replaced before all `{$…}`. A value is searched again, up to [`ENVIRONMENT_LEVELS_MAX`] levels.
pub(crate) fn expand(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, ExpandError> {
    let percent = expand_form(text, "{%", "%}", environment)?;
    let dollar = expand_form(percent.as_deref().unwrap_or(text), "{$", "}", environment)?;
    Ok(dollar.or(percent))
}

fn expand_form(
    text: &str,
    open: &str,
    close: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, ExpandError> {
    let mut expanded: Option<String> = None;
    for _ in 0..ENVIRONMENT_LEVELS_MAX {
        match replace(expanded.as_deref().unwrap_or(text), open, close, environment)? {
            Some(next) => expanded = Some(next),
            None => return Ok(expanded),
        }
    }
    match replace(expanded.as_deref().unwrap_or(text), open, close, environment)? {
        Some(_) => Err(ExpandError::TooDeep),
        None => Ok(expanded),
    }
}

/// Replaces the references of one form once, values not searched.
fn replace(
    text: &str,
    open: &str,
    close: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, ExpandError> {
    let mut out = String::new();
    let mut rest = text;
    let mut replaced = false;
    while let Some((before, after)) = rest.split_once(open) {
        // An empty name ends the search, and so does `{%}`, whose one `%` is both opening and closing.
        if after.starts_with(close) || (open.ends_with('%') && after.starts_with('}')) {
            break;
        }
        let Some((name, tail)) = after.split_once(close) else {
            break;
        };
        let value = environment(name).unwrap_or_default();
        if out.len().saturating_add(before.len()).saturating_add(value.len()) > TOKEN_BYTES_MAX {
            return Err(ExpandError::TooLong);
        }
        out.push_str(before);
        out.push_str(&value);
        rest = tail;
        replaced = true;
    }
    out.push_str(rest);
    Ok(replaced.then_some(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(name: &str) -> Option<String> {
        let value = match name {
            "PORT" => "8080",
            "ADDRESS" => "servername.com",
            "FOOBAR" => "foobar",
            "OUTER" => "<{$INNER}>",
            "INNER" => "inner",
            "LOOP" => "x{$LOOP}",
            "LOOP_PERCENT" => "{%LOOP_PERCENT%}",
            "L1" => "{$L2}",
            "L2" => "{$L3}",
            "L3" => "{$L4}",
            "L4" => "{$L5}",
            "L5" => "{$L6}",
            "L6" => "{$L7}",
            "L7" => "{$L8}",
            "L8" => "{$L9}",
            "L9" => "{$L10}",
            "L10" => "bottom",
            "LONG" => return Some("x".repeat(TOKEN_BYTES_MAX)),
            "TWO WORDS" => "a b",
            _ => return None,
        };
        Some(value.to_owned())
    }

    #[test]
    fn replaced() {
        let cases = [
            ("plain", None),
            ("{$ADDRESS}", Some("servername.com")),
            ("{%ADDRESS%}", Some("servername.com")),
            ("{$ADDRESS}:{%PORT%}", Some("servername.com:8080")),
            ("{%ADDRESS%}:{$PORT}", Some("servername.com:8080")),
            (":{$PORT}:{$PORT}", Some(":8080:8080")),
            ("{$NOT_THERE}", Some("")),
            ("x{$NOT_THERE}y", Some("xy")),
            ("{$PORT$}", Some("")),
            ("{{ .Name }} {$FOOBAR}", Some("{{ .Name }} foobar")),
            ("{$TWO WORDS}", Some("a b")),
            ("{$OUTER}", Some("<inner>")),
            ("{%OUTER%}", Some("<inner>")),
            ("{$L1}", Some("bottom")),
            ("{%ADDRESS}", None),
            ("{$ADDRESS", None),
            ("{$}", None),
            ("{%}", None),
            ("{%%}", None),
            ("{$}{$PORT}", None),
            ("{%} {%PORT%}", None),
            ("{$PORT}{$}{$PORT}", Some("8080{$}{$PORT}")),
            ("{$$}", Some("")),
        ];
        for (text, expected) in cases {
            assert_eq!(expand(text, &variables), Ok(expected.map(str::to_owned)), "{text}");
        }
    }

    #[test]
    fn bounded() {
        assert_eq!(expand("{$LOOP}", &variables), Err(ExpandError::TooDeep));
        assert_eq!(expand("{%LOOP_PERCENT%}", &variables), Err(ExpandError::TooDeep));
        assert_eq!(expand("{$LONG}{$PORT}", &variables), Err(ExpandError::TooLong));
        let doubling = |_: &str| Some("{$A}{$A}".repeat(64));
        assert_eq!(expand("{$A}", &doubling), Err(ExpandError::TooLong));
    }

    #[test]
    fn process_environment_takes_any_name() {
        for name in ["", "=", "a\0b", "SURELY_NOT_SET_ANYWHERE"] {
            assert_eq!(process_environment(name), None);
        }
        assert!(process_environment("PATH").is_some());
    }
}
