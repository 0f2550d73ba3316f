//! Answers on their way back, as lines.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use coredns_plugin::wire::Name;
use coredns_plugin::{Answer, LineFormat, Next, Outcome, Plugin, Query, ResponseClass, ResponseFacts, classify, clock};
use tracing::info;

use super::NAME;

/// A line buffer that has grown beyond this, in octets, is given back to the allocator.
const KEPT_LINE_BYTES: usize = 4096;

thread_local! {
    static LINE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A set of classes of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Classes(u8);

impl Classes {
    pub(super) const NONE: Self = Self(0);
    pub(super) const ALL: Self = Self(0b111);

    const fn bit(class: ResponseClass) -> u8 {
        match class {
            ResponseClass::Success => 1,
            ResponseClass::Denial => 2,
            ResponseClass::Error => 4,
        }
    }

    pub(super) const fn insert(&mut self, class: ResponseClass) {
        self.0 |= Self::bit(class);
    }

    const fn contains(self, class: ResponseClass) -> bool {
        self.0 & Self::bit(class) != 0
    }
}

/// What is logged about the names of a zone.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) zone: Name,
    pub(super) format: Arc<LineFormat>,
    pub(super) classes: Classes,
}

/// The plugin of one server block.
#[derive(Debug)]
pub(super) struct Log {
    /// The first one that names the query decides.
    rules: Vec<Rule>,
}

impl Log {
    pub(super) const fn new(rules: Vec<Rule>) -> Self {
        Self { rules }
    }
}

impl Plugin for Log {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        let Some(rule) = self.rules.iter().find(|rule| query.name().is_within(&rule.zone)) else {
            return next.serve(query);
        };
        let start = clock::now();
        next.serve(query).map(move |answer| {
            rule.write(query, &answer, start);
            answer
        })
    }
}

impl Rule {
    fn write(&self, query: &Query, answer: &Answer, start: Instant) {
        let kind = classify(query, answer, clock::unix_seconds());
        if let Some(store) = query.metadata() {
            store.set("log/type", kind.text());
            store.set("log/class", kind.class().text());
        }
        if !self.classes.contains(kind.class()) {
            return;
        }
        let facts = ResponseFacts::new(query, answer, clock::now().saturating_duration_since(start));
        // A label of the metadata that logs something would find the buffer taken; it is given one of its own.
        let mut line = LINE.take();
        line.clear();
        self.format.render(&mut line, query, Some(&facts));
        info!(target: "", message = line.as_str());
        if line.capacity() <= KEPT_LINE_BYTES {
            LINE.set(line);
        }
    }
}
