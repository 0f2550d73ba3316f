//! Complaints that repeat: ten a second of each text, then how many more there were.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How often one text is written in a period.
pub(super) const REPEATS_MAX: u32 = 10;
/// The period.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// The most texts that are watched at once; further ones are written as often as they come.
const TEXTS_MAX: usize = 1024;

/// The texts of the running periods.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    texts: HashMap<String, Seen, foldhash::fast::RandomState>,
    /// When the first of the periods ends.
    next_end: Option<Instant>,
    /// Whether any text has been held back.
    has_held: bool,
}

#[derive(Debug)]
struct Seen {
    end: Instant,
    count: u32,
}

impl Repeats {
    /// Tells whether the line `text` is to be written.
    pub(super) fn admit(&mut self, text: &str, now: Instant) -> bool {
        if let Some(seen) = self.texts.get_mut(text) {
            seen.count = seen.count.saturating_add(1);
            self.has_held |= seen.count > REPEATS_MAX;
            return seen.count <= REPEATS_MAX;
        }
        if self.texts.len() < TEXTS_MAX {
            let end = now + PERIOD;
            self.texts.insert(text.to_owned(), Seen { end, count: 1 });
            self.next_end = Some(self.next_end.map_or(end, |next| next.min(end)));
        }
        true
    }

    /// When there is something to be said, if no line comes before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next_end.filter(|_| self.has_held)
    }

    /// Ends the periods that are over at `now`, all of them where that is `None`; `say` gets a line for each text that
    /// was held back.
    pub(super) fn expire(&mut self, now: Option<Instant>, mut say: impl FnMut(&str)) {
        if now.is_some_and(|now| self.next_end.is_none_or(|end| end > now)) {
            return;
        }
        self.texts.retain(|text, seen| {
            let is_over = now.is_none_or(|now| seen.end <= now);
            if is_over && seen.count > REPEATS_MAX {
                let more = seen.count - REPEATS_MAX;
                say(&format!("{} ({more} more of these within a second)\n", text.trim_end_matches('\n')));
            }
            !is_over
        });
        self.next_end = self.texts.values().map(|seen| seen.end).min();
        self.has_held = self.texts.values().any(|seen| seen.count > REPEATS_MAX);
    }
}
