//! Answers on their way back, and the life of the timers.

use std::sync::Arc;

use coredns_plugin::{
    Answer, Background, BoxError, BoxFuture, Failure, Lifecycle, Next, Outcome, Plugin, Query, Start,
};

use super::NAME;
use super::consolidate::{Level, Pattern, Patterns};

/// The plugin of one server block.
#[derive(Debug)]
pub(super) struct Errors {
    patterns: Arc<Patterns>,
    /// The task that keeps the timers.
    timers: Background,
}

impl Errors {
    pub(super) fn new(patterns: Vec<Pattern>) -> Self {
        Self { patterns: Arc::new(Patterns::new(patterns)), timers: Background::new() }
    }

    fn report(&self, query: &Query, failure: &Failure) {
        let Some(error) = &failure.error else { return };
        let text = error.to_string();
        let line = || {
            let name = query.name().to_lowercase();
            format!("{} {name} {}: {text}", failure.rcode.0, query.qtype())
        };
        if !self.patterns.take(&text, line) {
            Level::Error.log(&line());
        }
    }
}

impl Plugin for Errors {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        next.serve(query).map(move |answer| {
            if let Answer::Failed(failure) = &answer {
                self.report(query, failure);
            }
            answer
        })
    }
}

impl Lifecycle for Errors {
    fn start<'a>(&'a self, _start: &'a Start) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async {
            if self.patterns.is_empty() {
                return Ok(());
            }
            self.timers.run(Arc::clone(&self.patterns).keep_time());
            self.patterns.start();
            Ok(())
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.timers.stop().await;
            self.patterns.stop();
        })
    }
}
