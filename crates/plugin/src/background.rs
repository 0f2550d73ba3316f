//! The one long-lived task of a part: started with it, ended with it.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::task::JoinHandle;

/// A place for a task of the control runtime. Dropping it ends the task.
#[derive(Debug, Default)]
pub struct Background {
    /// Protects the handle; held for a swap only.
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Background {
    /// A place without a task.
    #[must_use]
    pub const fn new() -> Self {
        Self { task: Mutex::new(None) }
    }

    /// Runs `task` on the current runtime; one that ran before is ended.
    pub fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        end(self.swap(Some(tokio::spawn(task))));
    }

    /// Ends the task without waiting for its end.
    pub fn abort(&self) {
        end(self.swap(None));
    }

    /// Ends the task and waits for its end.
    pub async fn stop(&self) {
        if let Some(task) = self.swap(None) {
            task.abort();
            // An aborted task is an error here, and its end is what is wanted.
            let _ = task.await;
        }
    }

    /// Takes the task out, still running; `None` where there is none.
    pub fn take(&self) -> Option<JoinHandle<()>> {
        self.swap(None)
    }

    /// Tells whether a task was started and not ended since.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn swap(&self, task: Option<JoinHandle<()>>) -> Option<JoinHandle<()>> {
        std::mem::replace(&mut *self.task.lock().unwrap_or_else(PoisonError::into_inner), task)
    }
}

fn end(task: Option<JoinHandle<()>>) {
    if let Some(task) = task {
        task.abort();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.abort();
    }
}
