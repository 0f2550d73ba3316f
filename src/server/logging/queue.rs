//! The lines between those who log and the one who writes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use coredns_plugin::clock;

use super::line::Line;

/// The most lines that wait.
pub(super) const QUEUE_LINES_MAX: usize = 16_384;
/// The most octets of lines that wait.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// How long the first line of a quiet time waits for others, so that a busy server does not wake the writer for each.
const GATHER: Duration = Duration::from_millis(1);

/// A bounded queue with many ends to put in and one to take out.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Locked for a push, a swap of two buffers, or a look.
    state: Mutex<State>,
    /// Wakes the writer.
    filled: Condvar,
    /// Wakes those who wait for the writer.
    written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<Line>,
    bytes: usize,
    /// Lines that found no room since the writer last came.
    dropped: u64,
    /// The writer sleeps and must be woken.
    is_idle: bool,
    /// The writer has lines that it took out in hand.
    is_writing: bool,
    /// Somebody waits for the writer, so that it does not gather.
    is_urgent: bool,
    is_ended: bool,
}

/// What the writer takes out at once.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) lines: Vec<Line>,
    pub(super) dropped: u64,
    pub(super) is_last: bool,
}

impl State {
    fn has_work(&self) -> bool {
        !self.lines.is_empty() || self.dropped > 0
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a line in, or counts it as dropped; never waits for the writer.
    pub(super) fn push(&self, line: Line) {
        let mut state = self.lock();
        if state.lines.len() >= QUEUE_LINES_MAX || state.bytes + line.text.len() > QUEUE_BYTES_MAX {
            state.dropped += 1;
            drop(state);
            super::DROPPED.inc();
            return;
        }
        state.bytes += line.text.len();
        state.lines.push(line);
        let wake = std::mem::take(&mut state.is_idle);
        drop(state);
        if wake {
            self.filled.notify_one();
        }
    }

    /// Waits for lines, or until `deadline`, and takes all there are into `batch`, whose lines have been written.
    pub(super) fn take(&self, batch: &mut Batch, deadline: Option<Instant>) {
        batch.lines.clear();
        let mut state = self.lock();
        if state.is_writing {
            state.is_writing = false;
            self.written.notify_all();
        }
        let mut is_first_wait = true;
        while !state.has_work() && !state.is_ended {
            let now = clock::now();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            state.is_idle = true;
            state = match left {
                Some(left) => self.filled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.filled.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            state.is_idle = false;
            if std::mem::take(&mut is_first_wait) && state.has_work() && !state.is_urgent && !state.is_ended {
                let gathered = self.filled.wait_timeout(state, GATHER);
                state = gathered.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        std::mem::swap(&mut batch.lines, &mut state.lines);
        batch.dropped = std::mem::take(&mut state.dropped);
        batch.is_last = state.is_ended;
        state.bytes = 0;
        state.is_writing = !batch.lines.is_empty() || batch.dropped > 0 || batch.is_last;
    }

    /// Says that the last batch is written.
    pub(super) fn finish(&self) {
        self.lock().is_writing = false;
        self.written.notify_all();
    }

    /// Waits until all that was put in is written; `false` where that took too long.
    pub(super) fn flush(&self, at_most: Duration) -> bool {
        self.wait_for_writer(self.lock(), at_most)
    }

    /// Ends the writer once all is written, and waits for that; `false` where it took too long.
    pub(super) fn end(&self, at_most: Duration) -> bool {
        let mut state = self.lock();
        // Not written until the writer has seen the end and finished.
        state.is_writing |= !state.is_ended;
        state.is_ended = true;
        self.wait_for_writer(state, at_most)
    }

    fn wait_for_writer(&self, mut state: MutexGuard<'_, State>, at_most: Duration) -> bool {
        state.is_urgent = true;
        state.is_idle = false;
        self.filled.notify_one();
        let is_busy = |state: &mut State| state.has_work() || state.is_writing;
        let waited = self.written.wait_timeout_while(state, at_most, is_busy);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_urgent = false;
        !is_busy(&mut state)
    }
}
