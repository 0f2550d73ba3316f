//! What becomes of a query: an answer, now or later.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use coredns_wire::Rcode;

use crate::lifecycle::{BoxError, BoxFuture};
use crate::reply::Reply;

/// What a chain made of a query.
#[derive(Debug)]
pub enum Answer {
    /// A message to be sent.
    Reply(Reply),
    /// No message: the server sends an empty one with the failure's code.
    Failed(Failure),
    /// Nothing is to be sent.
    Dropped,
}

/// A query that could not be answered.
pub struct Failure {
    /// The code that the client gets.
    pub rcode: Rcode,
    /// Why; logged by the plugin `errors`, and by nobody else.
    pub error: Option<BoxError>,
}

impl Failure {
    /// A failure without anything to log.
    #[must_use]
    pub const fn silent(rcode: Rcode) -> Self {
        Self { rcode, error: None }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => write!(f, "{} ({error})", self.rcode),
            None => write!(f, "{}", self.rcode),
        }
    }
}

impl Answer {
    /// A failure with a reason.
    #[must_use]
    pub fn failed(rcode: Rcode, error: impl Into<BoxError>) -> Self {
        Self::Failed(Failure { rcode, error: Some(error.into()) })
    }

    /// The code that the client gets; `None` where it gets nothing.
    #[must_use]
    pub fn rcode(&self) -> Option<Rcode> {
        match self {
            Self::Reply(reply) => Some(reply.rcode),
            Self::Failed(failure) => Some(failure.rcode),
            Self::Dropped => None,
        }
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

/// An answer that is there, or a future that waits for it.
pub enum Outcome<'a> {
    /// The answer is there: no future, no allocation, no task.
    Now(Answer),
    /// Something must be waited for.
    Later(BoxFuture<'a, Answer>),
}

impl<'a> Outcome<'a> {
    /// A failure with a reason, now.
    #[must_use]
    pub fn failed(rcode: Rcode, error: impl Into<BoxError>) -> Self {
        Self::Now(Answer::failed(rcode, error))
    }

    /// Waits for `future`, which owns what it works on; it is polled once at once, so a future that has nothing to
    /// wait for gives [`Outcome::Now`].
    pub fn of(future: impl Future<Output = Answer> + Send + 'a) -> Self {
        let mut future: Pin<Box<dyn Future<Output = Answer> + Send + 'a>> = Box::pin(future);
        // Whoever awaits the future polls it again with a waker of its own before it waits.
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Self::Now(answer),
            Poll::Pending => Self::Later(future),
        }
    }

    /// Applies `change` to the answer: at once where it is there, else when it comes.
    #[inline]
    #[must_use]
    pub fn map(self, change: impl FnOnce(Answer) -> Answer + Send + 'a) -> Self {
        match self {
            Self::Now(answer) => Self::Now(change(answer)),
            Self::Later(future) => Self::Later(Box::pin(async move { change(future.await) })),
        }
    }

    /// Applies `change` to a reply; failures and drops pass.
    #[inline]
    #[must_use]
    pub fn map_reply(self, change: impl FnOnce(&mut Reply) + Send + 'a) -> Self {
        self.map(|mut answer| {
            if let Answer::Reply(reply) = &mut answer {
                change(reply);
            }
            answer
        })
    }

    /// Goes on from the answer with something that may itself have to wait.
    #[inline]
    #[must_use]
    pub fn then(self, go_on: impl FnOnce(Answer) -> Self + Send + 'a) -> Self {
        match self {
            Self::Now(answer) => go_on(answer),
            Self::Later(future) => Self::Later(Box::pin(async move { go_on(future.await).wait().await })),
        }
    }

    /// Waits for the answer.
    pub async fn wait(self) -> Answer {
        match self {
            Self::Now(answer) => answer,
            Self::Later(future) => future.await,
        }
    }

    /// The answer, where it is there.
    #[must_use]
    pub fn now(self) -> Option<Answer> {
        match self {
            Self::Now(answer) => Some(answer),
            Self::Later(_) => None,
        }
    }
}

impl From<Reply> for Outcome<'_> {
    fn from(reply: Reply) -> Self {
        Self::Now(Answer::Reply(reply))
    }
}

impl fmt::Debug for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(answer) => answer.fmt(f),
            Self::Later(_) => f.write_str("later"),
        }
    }
}
