//! Numbers that the query path adds to: a row a worker, summed when somebody scrapes.
//!
//! Adding to a cell costs a load and a store in memory that no other worker writes: no lock, no label, no shared cache
//! line.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest number of workers that have a row of their own; further ones share row 0.
const ROWS: usize = 65;

thread_local! {
    /// The row of this thread; 0 is shared by all threads that are no workers.
    static ROW: Cell<usize> = const { Cell::new(0) };
}

/// Gives the calling thread the row of worker `index` (from 0). No two living threads may have the same index.
pub fn enter_worker(index: usize) {
    ROW.set(if index + 1 < ROWS { index + 1 } else { 0 });
}

/// A row of numbers a worker; numbers only grow.
#[derive(Debug)]
pub struct Cells {
    width: usize,
    rows: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl Cells {
    /// Rows of `width` numbers; a row takes its memory when its worker first counts.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self { width, rows: (0..ROWS).map(|_| OnceLock::new()).collect() }
    }

    /// Adds `amount` to the number at `cell`; a cell beyond the width is ignored.
    #[inline]
    pub fn add(&self, cell: usize, amount: u64) {
        self.row().add(cell, amount);
    }

    /// The row of the calling thread, for adding to several numbers at once.
    #[inline]
    #[must_use]
    pub fn row(&self) -> Row<'_> {
        let row = ROW.get();
        let numbers = self.rows.get(row).map_or(&[][..], |slot| slot.get_or_init(|| self.fresh()));
        Row { numbers, shared: row == 0 }
    }

    /// The sum of the number at `cell` over all rows.
    #[must_use]
    pub fn sum(&self, cell: usize) -> u64 {
        let rows = self.rows.iter().filter_map(OnceLock::get);
        rows.filter_map(|row| row.get(cell)).map(|number| number.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }

    /// Adds the sum of every number over all rows to `totals`, cell by cell.
    pub fn add_sums(&self, totals: &mut [u64]) {
        for row in self.rows.iter().filter_map(OnceLock::get) {
            for (total, number) in totals.iter_mut().zip(row) {
                *total = total.wrapping_add(number.load(Ordering::Relaxed));
            }
        }
    }

    /// How many numbers a row has.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    fn fresh(&self) -> Box<[AtomicU64]> {
        (0..self.width).map(|_| AtomicU64::new(0)).collect()
    }
}

/// The numbers of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    numbers: &'a [AtomicU64],
    shared: bool,
}

impl Row<'_> {
    /// Adds `amount` to the number at `cell`; a cell beyond the width is ignored.
    #[inline]
    pub fn add(self, cell: usize, amount: u64) {
        let Some(number) = self.numbers.get(cell) else { return };
        // Relaxed: a sum over rows is a snapshot at best. Only its worker writes a row but row 0.
        if self.shared {
            number.fetch_add(amount, Ordering::Relaxed);
        } else {
            number.store(number.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_add_up() {
        let cells = Cells::new(3);
        std::thread::scope(|scope| {
            for worker in 0..70 {
                let cells = &cells;
                scope.spawn(move || {
                    enter_worker(worker);
                    for _ in 0..100 {
                        cells.add(1, 2);
                    }
                });
            }
        });
        cells.add(1, 1);
        cells.add(9, 1);
        assert_eq!((cells.sum(0), cells.sum(1), cells.sum(9)), (0, 70 * 200 + 1, 0));
        let mut totals = [1; 2];
        cells.add_sums(&mut totals);
        assert_eq!(totals, [1, 70 * 200 + 2]);
    }
}
