//! The log as a whole, written into memory.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use coredns_plugin::clock;
use tracing_subscriber::layer::SubscriberExt as _;

use super::line::{LINE_BYTES_MAX, Line};
use super::queue::QUEUE_LINES_MAX;
use super::repeats::{PERIOD, REPEATS_MAX, Repeats};
use super::{DEBUG, DROPPED, Guard, start};

/// Memory that the log is written into; where there is a gate, each write waits until it is opened.
#[derive(Clone, Default)]
struct Memory {
    octets: Arc<Mutex<Vec<u8>>>,
    /// Is told of each write.
    written: Option<SyncSender<()>>,
    gate: Option<Arc<Mutex<Receiver<()>>>>,
}

impl Memory {
    fn gated() -> (Self, SyncSender<()>) {
        let (open, gate) = sync_channel(64);
        (Self { gate: Some(Arc::new(Mutex::new(gate))), ..Self::default() }, open)
    }

    fn text(&self) -> String {
        String::from_utf8(self.octets.lock().unwrap_or_else(PoisonError::into_inner).clone()).expect("ASCII")
    }
}

impl io::Write for Memory {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if let Some(gate) = &self.gate {
            // An error means that the other side is gone, and the gate open for good.
            let _ = gate.lock().unwrap_or_else(PoisonError::into_inner).recv();
        }
        self.octets.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(octets);
        if let Some(written) = &self.written {
            let _ = written.try_send(());
        }
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs `events` with a log into memory; the guard is dropped, and so everything written, at the end.
fn logged(events: impl FnOnce(&Guard)) -> String {
    let memory = Memory::default();
    let (layer, guard) = start(memory.clone());
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || events(&guard));
    drop(guard);
    memory.text()
}

#[test]
fn lines_have_level_and_plugin() {
    let text = logged(|_| {
        tracing::info!(target: "plugin/reload", "Running configuration {} = {}", "SHA512", 7);
        tracing::info!(target: "", message = "[::1]:50759 - 29008");
        tracing::info!(target: "server", "SIGTERM: Shutting down servers then terminating");
        tracing::warn!(target: "plugin/hosts", "File does not exist: {}", "/x");
        tracing::error!(target: "plugin/errors", "2 example.org. A: test");
        tracing::warn!(target: "hyper::proto", code = 5, "odd");
        tracing::info!(target: "hyper::proto", "not shown");
        tracing::info_span!(target: "plugin/x", "span").in_scope(|| {});
    });
    assert_eq!(
        text,
        "[INFO] plugin/reload: Running configuration SHA512 = 7\n\
         [INFO] [::1]:50759 - 29008\n\
         [INFO] SIGTERM: Shutting down servers then terminating\n\
         [WARNING] plugin/hosts: File does not exist: /x\n\
         [ERROR] plugin/errors: 2 example.org. A: test\n\
         [WARNING] odd code=5\n"
    );
}

#[test]
fn debug_lines_come_and_go_with_the_switch() {
    let text = logged(|_| {
        for is_on in [false, true, false] {
            super::set_debug(is_on);
            tracing::debug!(target: "plugin/x", "{is_on}");
            tracing::debug!(target: "hyper", "{is_on}");
        }
    });
    assert!(!DEBUG.load(Ordering::Relaxed));
    assert_eq!(text, "[DEBUG] plugin/x: true\n");
}

#[test]
fn one_event_is_one_line_of_printable_ascii() {
    let every_octet: String = (0..=255_u8).map(char::from).collect();
    for message in ["a\nb", "\u{1b}[2J\r", "caf\u{e9}", "\u{85}\u{2028}", &every_octet, &"\n".repeat(5000)] {
        let line = Line::new(format!("[INFO] {message}"), 7, false).text;
        let (end, body) = line.as_bytes().split_last().expect("a line break at least");
        assert!(*end == b'\n' && body.iter().all(|octet| (b' '..=b'~').contains(octet)), "{line:?}");
        assert!(line.len() <= LINE_BYTES_MAX);
    }
    assert_eq!(Line::new("[INFO] a\nb\u{e9}".into(), 7, false).text, "[INFO] a\\010b\\195\\169\n");
    assert_eq!(Line::new("[INFO] a\n".into(), 7, false).text, "[INFO] a\n");
    let long = Line::new("x".repeat(LINE_BYTES_MAX * 2), 0, false).text;
    assert!(long.len() <= LINE_BYTES_MAX && long.ends_with("x...\n"));
    assert_eq!(Line::new("x".repeat(LINE_BYTES_MAX - 1), 0, false).text.len(), LINE_BYTES_MAX);
}

#[test]
fn repeated_complaints_are_counted() {
    let text = logged(|_| {
        for _ in 0..500 {
            tracing::warn!(target: "plugin/x", "same");
            tracing::info!(target: "plugin/x", "information");
        }
        tracing::warn!(target: "plugin/x", "other");
    });
    let count = |wanted: &str| text.lines().filter(|line| *line == wanted).count();
    let most = REPEATS_MAX as usize;
    // Everything lies within one period or, on a machine that sleeps in between, few.
    let same = count("[WARNING] plugin/x: same");
    assert!((most..200).contains(&same), "{same}");
    assert_eq!((count("[INFO] plugin/x: information"), count("[WARNING] plugin/x: other")), (500, 1));
    let more = text.lines().filter_map(|line| line.strip_prefix("[WARNING] plugin/x: same (")?.split(' ').next());
    assert_eq!(same + more.map(|number| number.parse::<usize>().expect("a number")).sum::<usize>(), 500);
}

#[test]
fn what_was_held_back_is_told_although_nothing_follows() {
    let (written, writes) = sync_channel(64);
    let memory = Memory { written: Some(written), ..Memory::default() };
    let (layer, guard) = start(memory.clone());
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        // So many that one period has more than it may, however slowly they come.
        for _ in 0..1000 {
            tracing::error!(target: "plugin/x", "same");
        }
    });
    let report = " more of these within a second)\n";
    while !memory.text().ends_with(report) {
        writes.recv_timeout(PERIOD * 10).expect("a report after the period");
    }
    drop(guard);
    assert!(memory.text().ends_with(report));
}

#[test]
fn a_text_is_heard_again_in_the_next_period() {
    let mut repeats = Repeats::default();
    let begin = clock::now();
    let admitted = (0..30).filter(|_| repeats.admit("a\n", begin)).count();
    assert_eq!((admitted, repeats.deadline()), (REPEATS_MAX as usize, Some(begin + PERIOD)));
    let mut said = Vec::new();
    repeats.expire(Some(begin + PERIOD / 2), |line| said.push(line.to_owned()));
    assert!(said.is_empty());
    repeats.expire(Some(begin + PERIOD), |line| said.push(line.to_owned()));
    assert_eq!(said, ["a (20 more of these within a second)\n"]);
    assert!(repeats.admit("a\n", begin + PERIOD) && repeats.deadline().is_none());
}

#[test]
fn a_full_queue_drops_and_says_how_many() {
    let (memory, gate) = Memory::gated();
    let (layer, guard) = start(memory.clone());
    let before = DROPPED.get();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        // The writer takes the first ones at most and waits at the gate; the rest fills the queue.
        for number in 0..QUEUE_LINES_MAX * 3 {
            tracing::info!(target: "", "{number}");
        }
    });
    let dropped = DROPPED.get() - before;
    assert!(dropped >= QUEUE_LINES_MAX as u64 - 1, "{dropped}");
    drop(gate);
    drop(guard);
    let text = memory.text();
    let report = " lines were not logged: the log is not read fast enough";
    let reported = text.lines().filter_map(|line| line.strip_prefix("[WARNING] ")?.strip_suffix(report));
    assert_eq!(reported.map(|number| number.parse::<u64>().expect("a number")).sum::<u64>(), dropped);
    let written = text.lines().filter(|line| line.starts_with("[INFO] ")).count();
    assert_eq!(written as u64 + dropped, QUEUE_LINES_MAX as u64 * 3);
}

#[test]
fn a_flush_waits_for_what_was_logged_before() {
    let memory = Memory::default();
    let (layer, guard) = start(memory.clone());
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        for number in 0..100 {
            tracing::info!(target: "", "{number}");
            assert!(guard.queue.flush(super::FLUSH_MAX));
            assert!(memory.text().ends_with(&format!("[INFO] {number}\n")));
        }
    });
}

#[test]
fn a_log_that_nobody_reads_does_not_keep_the_process() {
    let (memory, gate) = Memory::gated();
    let (layer, guard) = start(memory);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || tracing::info!(target: "", "x"));
    assert!(!guard.queue.flush(std::time::Duration::from_millis(20)));
    assert!(!guard.queue.end(std::time::Duration::from_millis(20)));
    drop(gate);
}
