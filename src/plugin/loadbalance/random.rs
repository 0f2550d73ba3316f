//! Random numbers for the order of records: fast, one generator a thread, no secret.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<u64> = Cell::new(rand::random());
}

/// The next number of the thread's generator (SplitMix64).
fn next() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A number below `bound`; 0 where that is 0.
pub(super) fn below(bound: u32) -> u32 {
    // The high half of a product is even enough: the error is below 2^-32 for each value.
    ((u64::from(next() as u32) * u64::from(bound)) >> 32) as u32
}

/// Puts the elements into a random order, every order as likely as any other (Fisher and Yates).
pub(super) fn shuffle<T>(elements: &mut [T]) {
    for last in (1..elements.len()).rev() {
        let bound = u32::try_from(last + 1).unwrap_or(u32::MAX);
        elements.swap(last, below(bound) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_comes_about_as_often() {
        let mut counts = std::collections::HashMap::new();
        for _ in 0..24_000 {
            let mut elements = [0, 1, 2, 3];
            shuffle(&mut elements);
            *counts.entry(elements).or_insert(0) += 1;
        }
        // 1000 each on average; the standard deviation is 31.
        assert_eq!(counts.len(), 24);
        assert!(counts.values().all(|count| (700..1300).contains(count)), "{counts:?}");
    }

    #[test]
    fn numbers_stay_below_the_bound() {
        assert!((0..1000).all(|_| below(3) < 3));
        assert_eq!((below(1), below(0)), (0, 0));
    }
}
