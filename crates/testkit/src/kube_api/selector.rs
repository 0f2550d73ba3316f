//! Label and field selectors, as far as they are well formed.

use serde_json::Value;

/// Why a selector is refused.
pub(super) type Refusal = String;

/// Whether the labels of an object meet a selector.
pub(super) fn labels_match(object: &Value, selector: &str) -> Result<bool, Refusal> {
    let labels = &object["metadata"]["labels"];
    for term in terms(selector) {
        if !label_matches(labels, term.trim())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Splits at commas outside of parentheses.
fn terms(selector: &str) -> Vec<&str> {
    let (mut terms, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, octet) in selector.bytes().enumerate() {
        match octet {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => {
                terms.push(&selector[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&selector[start..]);
    terms.retain(|term| !term.trim().is_empty());
    terms
}

fn label_matches(labels: &Value, term: &str) -> Result<bool, Refusal> {
    let of = |key: &str| labels[key.trim()].as_str();
    if let Some((rest, list)) = term.strip_suffix(')').and_then(|term| term.split_once('(')) {
        let (key, operator) = rest.trim().rsplit_once(' ').ok_or_else(|| refuse(term))?;
        let listed = of(key).is_some_and(|value| list.split(',').any(|item| item.trim() == value));
        return match operator {
            "in" => Ok(listed),
            "notin" => Ok(!listed),
            _ => Err(refuse(term)),
        };
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(of(key) != Some(value.trim()));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(of(key) == Some(value.trim()));
    }
    for (sign, above) in [('>', true), ('<', false)] {
        if let Some((key, bound)) = term.split_once(sign) {
            let bound: i64 = bound.trim().parse().map_err(|_| refuse(term))?;
            let value = of(key).and_then(|value| value.parse::<i64>().ok());
            return Ok(value.is_some_and(|value| if above { value > bound } else { value < bound }));
        }
    }
    match term.strip_prefix('!') {
        Some(key) => Ok(of(key).is_none()),
        None if term.contains(char::is_whitespace) => Err(refuse(term)),
        None => Ok(of(term).is_some()),
    }
}

fn refuse(term: &str) -> Refusal {
    format!("unable to parse requirement: {term}")
}

/// Whether the fields of an object meet a selector.
pub(super) fn fields_match(object: &Value, selector: &str) -> Result<bool, Refusal> {
    for term in selector.split(',').filter(|term| !term.is_empty()) {
        let (path, value, equal) = match term.split_once("!=") {
            Some((path, value)) => (path, value, false),
            None => {
                let split = term.split_once("==").or_else(|| term.split_once('='));
                let (path, value) = split.ok_or_else(|| format!("invalid selector: '{term}'"))?;
                (path, value, true)
            }
        };
        let known =
            ["metadata.name", "metadata.namespace", "status.phase", "status.podIP", "spec.nodeName", "spec.type"];
        if !known.contains(&path) {
            return Err(format!("field label not supported: {path}"));
        }
        let held = path.split('.').fold(object, |object, field| &object[field]).as_str().unwrap_or_default();
        if (held == value) != equal {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors() {
        let object = serde_json::json!({
            "metadata": {"name": "x", "labels": {"app": "dns", "n": "7"}},
            "status": {"phase": "Running"},
        });
        for (selector, expected) in [
            ("", true),
            ("app=dns,n==7", true),
            ("app!=dns", false),
            ("other!=x,!other,app", true),
            ("app in (web,dns),n>6", true),
            ("app notin (web, dns)", false),
            ("n<7", false),
        ] {
            assert_eq!(labels_match(&object, selector), Ok(expected), "{selector}");
        }
        assert_eq!(fields_match(&object, "status.phase!=Succeeded,status.phase!=Failed"), Ok(true));
        assert_eq!(fields_match(&object, "status.phase!=Running"), Ok(false));
        assert!(fields_match(&object, "spec.colour=x").is_err());
        assert!(labels_match(&object, "a b").is_err());
    }
}
