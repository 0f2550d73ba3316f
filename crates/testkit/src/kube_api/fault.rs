//! What goes wrong, and for which requests.

use std::time::Duration;

use super::request::{Call, Verb};

/// The body of an error.
#[derive(Clone, Debug)]
pub enum ErrorBody {
    /// A `Status` object with this reason and message.
    Status(&'static str, &'static str),
    /// Any text, as proxies send it.
    Text(&'static str),
}

/// Something that goes wrong with a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// An error.
    Status {
        /// The HTTP status.
        code: u16,
        /// The header `Retry-After`.
        retry_after: Option<&'static str>,
        /// The body.
        body: ErrorBody,
    },
    /// The connection is closed without an answer.
    Close,
    /// There is no answer, and the connection stays open.
    BlackHole,
    /// 200 with an empty body.
    Empty,
    /// A watch is silent after so many events; not even bookmarks come, and it stays open.
    Silence {
        /// The events before.
        after: usize,
    },
    /// The connection is closed after so many octets of the body.
    Cut {
        /// The octets before.
        after: usize,
    },
    /// A watch ends properly after this time.
    End(Duration),
    /// 200 with these octets as the body, and a proper end.
    Body(String),
    /// 200 with these octets as the body, and then nothing, while the connection stays open.
    Hang(String),
    /// The body comes one octet at a time.
    Drip,
}

/// Which requests a fault befalls.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    verb: Option<Verb>,
    resource: Option<&'static str>,
    continued: bool,
    resumed: bool,
    left: Option<usize>,
}

impl Rule {
    /// All requests.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Lists.
    #[must_use]
    pub fn list() -> Self {
        Self { verb: Some(Verb::List), ..Self::default() }
    }

    /// Watches, also those that begin with the whole state.
    #[must_use]
    pub fn watch() -> Self {
        Self { verb: Some(Verb::Watch), ..Self::default() }
    }

    /// Of these only those for a resource, such as `services`.
    #[must_use]
    pub fn of(self, resource: &'static str) -> Self {
        Self { resource: Some(resource), ..self }
    }

    /// Of these only later pages of a list.
    #[must_use]
    pub fn continued(self) -> Self {
        Self { continued: true, ..self }
    }

    /// Of these only watches that go on from a version.
    #[must_use]
    pub fn resumed(self) -> Self {
        Self { resumed: true, ..self }
    }

    /// Only so many requests.
    #[must_use]
    pub fn times(self, count: usize) -> Self {
        Self { left: Some(count), ..self }
    }

    /// Whether the rule is for a request; counts it if so.
    pub(super) fn takes(&mut self, call: &Call) -> bool {
        let fits = self.verb.is_none_or(|verb| verb == call.verb)
            && self.resource.is_none_or(|resource| resource == call.resource)
            && (!self.continued || call.parameter("continue").is_some())
            && (!self.resumed || call.parameter("resourceVersion").is_some())
            && self.left != Some(0);
        if fits && let Some(left) = &mut self.left {
            *left -= 1;
        }
        fits
    }
}
