//! The thread that writes.

use std::io::Write;

use coredns_plugin::clock;

use super::queue::{Batch, Queue};
use super::repeats::Repeats;

/// What is written at once, in octets, unless there is less.
const WRITE_BYTES: usize = 64 << 10;

/// Writes what comes until the queue ends. A line that cannot be written is gone: there is nobody to tell.
pub(super) fn run(queue: &Queue, mut out: impl Write) {
    let mut batch = Batch::default();
    let mut repeats = Repeats::default();
    let mut buffer = Vec::with_capacity(WRITE_BYTES);
    loop {
        queue.take(&mut batch, repeats.deadline());
        let now = clock::now();
        repeats.expire(Some(now), |line| buffer.extend_from_slice(line.as_bytes()));
        for line in &batch.lines {
            if line.is_complaint && !repeats.admit(&line.text, now) {
                continue;
            }
            buffer.extend_from_slice(line.text.as_bytes());
            if buffer.len() >= WRITE_BYTES {
                write(&mut out, &mut buffer);
            }
        }
        if batch.dropped > 0 {
            let line = format!("[WARNING] {} lines were not logged: the log is not read fast enough\n", batch.dropped);
            buffer.extend_from_slice(line.as_bytes());
        }
        if batch.is_last {
            repeats.expire(None, |line| buffer.extend_from_slice(line.as_bytes()));
        }
        write(&mut out, &mut buffer);
        if batch.is_last {
            queue.finish();
            return;
        }
    }
}

fn write(out: &mut impl Write, buffer: &mut Vec<u8>) {
    if !buffer.is_empty() {
        let _ = out.write_all(buffer).and_then(|()| out.flush());
        buffer.clear();
    }
}
