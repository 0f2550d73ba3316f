//! The known name that an unknown one was probably meant to be.

/// Longest name that is compared; longer ones are no slip of the finger.
const NAME_BYTES_MAX: usize = 32;

/// The known name nearest to `name`, if it is near enough to be meant.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let name = name.to_lowercase();
    let near_enough = (name.chars().count() / 3).max(1);
    known
        .iter()
        .map(|candidate| (distance(&name, candidate), *candidate))
        .filter(|(distance, _)| *distance <= near_enough)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    // Rows of the usual table: the one before the last, the last and the one being filled.
    let mut earlier: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replaced = last[j] + usize::from(a != b);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from[i - 1] == *b && to[j - 1] == *a {
                best = best.min(earlier[j - 1] + 1);
            }
            row.push(best);
        }
        earlier = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let cases =
            [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("ab", "ba", 1), ("é", "e", 1)];
        for (from, to, expected) in cases {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }

    #[test]
    fn suggestions() {
        let known = ["forward", "file", "cache", "log", "loop", "kubernetes", "on"];
        let cases = [
            ("foward", Some("forward")),
            ("Forward", Some("forward")),
            ("cahce", Some("cache")),
            ("kubernets", Some("kubernetes")),
            ("lop", Some("log")),
            ("xyz", None),
            ("proxy", None),
            ("", None),
        ];
        for (name, expected) in cases {
            assert_eq!(nearest(name, &known), expected, "{name}");
        }
        assert_eq!(nearest(&"a".repeat(33), &known), None);
    }
}
