//! ASCII case folding of names in wire form, eight octets at a time.
//!
//! Only `A`–`Z` fold (RFC 4343). Length octets of labels are at most 63, below `A`, so a whole wire name can be
//! folded without looking at label boundaries.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Folds the eight octets of `word` to lower case.
#[inline]
const fn lower_word(word: u64) -> u64 {
    // For each octet below 0x80: bit 7 of (octet + 0x3f) says "at least A", bit 7 of (octet + 0x25) says "above Z".
    let low = word & !HIGH;
    let from_a = low + (0x3f * ONES);
    let above_z = low + (0x25 * ONES);
    let upper = (from_a & !above_z) & !word & HIGH;
    word | (upper >> 2)
}

#[inline]
fn word(chunk: &[u8]) -> u64 {
    let mut bytes = [0u8; 8];
    bytes[..chunk.len()].copy_from_slice(chunk);
    u64::from_le_bytes(bytes)
}

/// Tells whether two wire names, or parts of them, are equal without regard to ASCII case.
#[inline]
#[must_use]
pub fn eq(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let (mut left, mut right) = (a.chunks_exact(8), b.chunks_exact(8));
    for (x, y) in left.by_ref().zip(right.by_ref()) {
        if lower_word(word(x)) != lower_word(word(y)) {
            return false;
        }
    }
    lower_word(word(left.remainder())) == lower_word(word(right.remainder()))
}

/// Copies `from` into `to` in lower case; copies as much as fits into the shorter of the two.
#[inline]
pub fn lower_into(from: &[u8], to: &mut [u8]) {
    for (out, octet) in to.iter_mut().zip(from) {
        *out = octet.to_ascii_lowercase();
    }
}

/// A keyed hash of a wire name that does not see ASCII case.
///
/// `seed` must be secret and random for each process where the hashed names come from clients, so that nobody
/// can aim collisions. Equal under [`eq`] means equal hash.
#[inline]
#[must_use]
pub fn hash(seed: u64, octets: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = seed ^ (octets.len() as u64).wrapping_mul(MULTIPLIER);
    let mut chunks = octets.chunks_exact(8);
    for chunk in chunks.by_ref() {
        state = mix(state ^ lower_word(word(chunk)), MULTIPLIER ^ seed.rotate_left(32));
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        state = mix(state ^ lower_word(word(rest)), MULTIPLIER ^ seed.rotate_left(32));
    }
    mix(state, MULTIPLIER)
}

/// Feeds a wire name to `state` without its ASCII case, eight octets at a time, the last ones padded with zeros.
///
/// What is fed is equal exactly for names that are equal under [`eq`]: a wire name tells where it ends.
#[inline]
pub fn feed(octets: &[u8], state: &mut impl std::hash::Hasher) {
    let mut chunks = octets.chunks_exact(8);
    for chunk in chunks.by_ref() {
        state.write_u64(lower_word(word(chunk)));
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        state.write_u64(lower_word(word(rest)));
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves are taken apart")]
const fn mix(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_octet_folds_as_ascii_does() {
        for octet in 0..=u8::MAX {
            let folded = lower_word(u64::from_le_bytes([octet; 8])).to_le_bytes();
            assert_eq!(folded, [octet.to_ascii_lowercase(); 8], "octet {octet:#x}");
        }
    }

    #[test]
    fn neighbours_do_not_disturb_each_other() {
        let mixed = *b"A\xffZ[@z\x00M";
        assert_eq!(lower_word(u64::from_le_bytes(mixed)).to_le_bytes(), *b"a\xffz[@z\x00m");
    }

    #[test]
    fn equality_and_hash_agree() {
        let (a, b) = (b"\x03WwW\x07eXample\x03org\x00", b"\x03www\x07example\x03ORG\x00");
        assert!(eq(a, b));
        assert_eq!(hash(7, a), hash(7, b));
        assert_ne!(hash(7, a), hash(8, a));
        assert_ne!(hash(7, b"\x03www\x00"), hash(7, b"\x03wwx\x00"));
        assert!(!eq(b"abc", b"abcd"));
    }
}
