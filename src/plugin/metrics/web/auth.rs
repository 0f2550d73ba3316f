//! Users and passwords: basic authentication (RFC 7617) against bcrypt hashes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};

/// Outcomes that are remembered: a hash takes tens of milliseconds, and a scraper comes with the same each time.
const REMEMBERED_MAX: usize = 100;
/// The longest `Authorization` header that is looked at, in octets.
const HEADER_MAX: usize = 4096;
/// Stands for the hash of an unknown user, so that it takes the same time to refuse one.
const NOBODY: &str = "$2b$10$abcdefghijklmnopqrstuu...............................";

/// A digest of user, hash and password.
type Fingerprint = [u8; 32];

/// Who may come in.
#[derive(Debug, Default)]
pub(super) struct Users {
    /// Protects what is remembered; held for one look-up.
    remembered: Mutex<VecDeque<(Fingerprint, bool)>>,
    /// One hash at a time, so that guessing takes one processor at most.
    hashing: tokio::sync::Mutex<()>,
}

impl Users {
    /// Tells whether the header `Authorization` names a user with the right password; without users, whatever it is.
    pub(super) async fn admit(&self, users: Option<&BTreeMap<String, String>>, header: Option<&str>) -> bool {
        let Some(users) = users else { return true };
        let Some((user, password)) = header.and_then(credentials) else { return false };
        let known = users.get(&user);
        let hash = known.map_or(NOBODY, String::as_str);
        let fingerprint = fingerprint(&user, hash, &password);
        if let Some(outcome) = self.recall(&fingerprint) {
            return outcome;
        }
        let _turn = self.hashing.lock().await;
        if let Some(outcome) = self.recall(&fingerprint) {
            return outcome;
        }
        let hash = hash.to_owned();
        let verified = tokio::task::spawn_blocking(move || bcrypt::verify(password, &hash).unwrap_or(false)).await;
        let outcome = verified.unwrap_or(false) && known.is_some();
        self.remember(fingerprint, outcome);
        outcome
    }

    fn recall(&self, fingerprint: &Fingerprint) -> Option<bool> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.iter().find(|(known, _)| known == fingerprint).map(|(_, outcome)| *outcome)
    }

    fn remember(&self, fingerprint: Fingerprint, outcome: bool) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.pop_front();
        }
        remembered.push_back((fingerprint, outcome));
    }
}

fn fingerprint(user: &str, hash: &str, password: &[u8]) -> Fingerprint {
    let mut context = Context::new(&SHA256);
    for part in [user.as_bytes(), hash.as_bytes(), password] {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut fingerprint = Fingerprint::default();
    fingerprint.copy_from_slice(context.finish().as_ref());
    fingerprint
}

/// User and password of a header.
fn credentials(header: &str) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") || encoded.len() > HEADER_MAX {
        return None;
    }
    let decoded = decode_base64(encoded.trim())?;
    let at = decoded.iter().position(|octet| *octet == b':')?;
    let (user, password) = decoded.split_at(at);
    Some((String::from_utf8(user.to_vec()).ok()?, password.get(1..)?.to_vec()))
}

/// Decodes base64 (RFC 4648 §4), padded or not.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 2 || digits.len() % 4 == 1 {
        return None;
    }
    let mut octets = Vec::with_capacity(digits.len());
    let (mut bits, mut count) = (0_u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            octets.push((bits >> count) as u8);
        }
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_rfc_4648_section_10_has_it() {
        for (text, octets) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(decode_base64(text).as_deref(), Some(octets.as_bytes()), "{text}");
        }
        for bad in ["Z", "Zg===", "Z!==", "Zm9vY"] {
            assert_eq!(decode_base64(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn only_the_right_password_comes_in() {
        let hash = bcrypt::hash("secret", 4).expect("a cost that bcrypt has");
        let users = BTreeMap::from([("scraper".to_owned(), hash)]);
        let guard = Users::default();
        for _ in 0..2 {
            for (header, admitted) in [
                (Some("Basic c2NyYXBlcjpzZWNyZXQ="), true),
                (Some("basic c2NyYXBlcjpzZWNyZXQ="), true),
                (Some("Basic c2NyYXBlcjp3cm9uZw=="), false),
                (Some("Basic bm9ib2R5OnNlY3JldA=="), false),
                (Some("Bearer c2NyYXBlcjpzZWNyZXQ="), false),
                (Some("Basic"), false),
                (None, false),
            ] {
                assert_eq!(guard.admit(Some(&users), header).await, admitted, "{header:?}");
            }
        }
        assert!(guard.admit(None, None).await);
        assert!(NOBODY.parse::<bcrypt::HashParts>().is_ok());
    }
}
