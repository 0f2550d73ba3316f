//! Sorted tables behind one pointer each: read without a lock, replaced one small table at a time.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

/// A row of a table. Rows of one [`order`](Row::order) stand beside each other, in the order of insertion.
pub(super) trait Row: Clone {
    /// What rows are sorted by.
    type Order: Ord + Copy;

    /// The place of the row.
    fn order(&self) -> Self::Order;
}

/// A table that is cut into shards by the top bits of a keyed hash.
///
/// A reader loads one pointer and holds an immutable vector; a writer copies that vector, changes the copy and swaps
/// it in. With as many shards as here the copy is some dozens of rows.
pub(super) struct Shards<R> {
    shards: Box<[ArcSwap<Vec<R>>]>,
    /// How far a hash is shifted to the right to give its shard.
    shift: u32,
}

impl<R: Row> Shards<R> {
    /// A table of 2^`bits` empty shards; `bits` is at least 1.
    pub(super) fn new(bits: u32) -> Self {
        let empty = Arc::new(Vec::new());
        let shards = (0..1_usize << bits).map(|_| ArcSwap::new(Arc::clone(&empty))).collect();
        Self { shards, shift: u64::BITS - bits }
    }

    /// The shard of a hash.
    #[inline]
    pub(super) fn shard_of(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    /// The rows at one place.
    #[inline]
    pub(super) fn rows(&self, hash: u64, order: R::Order) -> Rows<R> {
        // There is a shard for every value of the top bits.
        let Some(shard) = self.shards.get(self.shard_of(hash)) else { return Rows::none() };
        let table = shard.load();
        let start = table.partition_point(|row| row.order() < order);
        let count = table.get(start..).unwrap_or(&[]).iter().take_while(|row| row.order() == order).count();
        Rows { table: Some(table), start, end: start + count }
    }

    /// Replaces a shard by what `edit` makes of it. One writer at a time.
    pub(super) fn edit(&self, shard: usize, edit: impl FnOnce(&mut Vec<R>)) {
        let Some(shard) = self.shards.get(shard) else { return };
        let mut rows = Vec::clone(&shard.load());
        edit(&mut rows);
        rows.shrink_to_fit();
        shard.store(Arc::new(rows));
    }

    /// All rows, shard by shard; a writer may replace shards meanwhile.
    pub(super) fn for_each(&self, mut visit: impl FnMut(&R)) {
        for shard in &self.shards {
            shard.load().iter().for_each(&mut visit);
        }
    }
}

/// Puts a row behind those that have its place already.
pub(super) fn insert<R: Row>(rows: &mut Vec<R>, row: R) {
    let at = rows.partition_point(|held| held.order() <= row.order());
    rows.insert(at, row);
}

/// Some rows of one shard, as they were when they were looked up.
pub(super) struct Rows<R> {
    table: Option<Guard<Arc<Vec<R>>>>,
    start: usize,
    end: usize,
}

impl<R> Rows<R> {
    const fn none() -> Self {
        Self { table: None, start: 0, end: 0 }
    }
}

impl<R> Deref for Rows<R> {
    type Target = [R];

    #[inline]
    fn deref(&self) -> &[R] {
        self.table.as_ref().and_then(|table| table.get(self.start..self.end)).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Pair(u64, char);

    impl Row for Pair {
        type Order = u64;

        fn order(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn rows_of_one_place_keep_their_order_and_readers_their_table() {
        let table = Shards::new(4);
        let shard = table.shard_of(0x5000_0000_0000_0000);
        assert_eq!(shard, 5);
        table.edit(shard, |rows| {
            for pair in [Pair(7, 'a'), Pair(3, 'b'), Pair(7, 'c'), Pair(9, 'd')] {
                insert(rows, pair);
            }
        });
        let before = table.rows(0x5fff_0000_0000_0000, 7);
        assert_eq!(&*before, [Pair(7, 'a'), Pair(7, 'c')]);
        table.edit(shard, |rows| rows.retain(|pair| pair.0 != 7));
        assert_eq!(before.len(), 2);
        assert!(table.rows(0x5fff_0000_0000_0000, 7).is_empty());
        assert!(table.rows(0x6fff_0000_0000_0000, 3).is_empty());
        let mut all = Vec::new();
        table.for_each(|pair| all.push(pair.1));
        assert_eq!(all, ['b', 'd']);
    }
}
