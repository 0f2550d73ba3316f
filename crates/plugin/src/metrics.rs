//! Counting.
//!
//! Two kinds of metrics live in one registry of the process:
//!
//! - Off the query path: the types of the `prometheus` crate, registered with [`register`].
//! - On the query path: [`Cells`], rows of numbers, one row a worker, summed when somebody scrapes. Adding to a cell
//!   costs a load and a store in memory that no other worker writes: no lock, no label, no shared cache line.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::core::Collector;

pub use prometheus;

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

/// The registry that all metrics of the process are in.
#[must_use]
pub fn registry() -> &'static prometheus::Registry {
    static REGISTRY: OnceLock<prometheus::Registry> = OnceLock::new();
    REGISTRY.get_or_init(prometheus::Registry::new)
}

/// Puts a metric into the registry.
///
/// A name that is there already is left as it is, since tests of one process register again; two plugins that use
/// one name for different things are a programming error, which debug builds report.
pub fn register(collector: impl Collector + 'static) {
    let outcome = registry().register(Box::new(collector));
    debug_assert!(matches!(outcome, Ok(()) | Err(prometheus::Error::AlreadyReg)), "{outcome:?}");
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
        let row = ROW.get();
        let Some(numbers) = self.rows.get(row).map(|slot| slot.get_or_init(|| self.row())) else { return };
        let Some(number) = numbers.get(cell) else { return };
        // Relaxed: a sum over rows is a snapshot at best. Only its worker writes a row but row 0.
        if row == 0 {
            number.fetch_add(amount, Ordering::Relaxed);
        } else {
            number.store(number.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        }
    }

    /// The sum of the number at `cell` over all rows.
    #[must_use]
    pub fn sum(&self, cell: usize) -> u64 {
        let rows = self.rows.iter().filter_map(OnceLock::get);
        rows.filter_map(|row| row.get(cell)).map(|number| number.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }

    /// How many numbers a row has.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    fn row(&self) -> Box<[AtomicU64]> {
        (0..self.width).map(|_| AtomicU64::new(0)).collect()
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
    }
}
