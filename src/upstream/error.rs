//! Why an exchange failed.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use coredns_plugin::corefile::os_error_text;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Dial,
    Write,
    Read,
}

/// An exchange that gave no reply. The texts are those that CoreDNS logs, such as `read udp 192.0.2.7:40000->192.0.2.1:53: i/o
/// timeout`.
#[derive(Clone, Debug)]
pub struct ExchangeError {
    doing: Doing,
    network: &'static str,
    local: Option<SocketAddr>,
    peer: SocketAddr,
    reason: String,
    /// The peer closed the connection before it replied.
    closed: bool,
}

impl ExchangeError {
    /// Setting up a connection failed.
    pub(super) fn dial(network: &'static str, peer: SocketAddr, reason: impl Into<Reason>) -> Self {
        let reason = reason.into().0;
        // A refusal comes from the system call of that name.
        let reason = if reason == "connection refused" { format!("connect: {reason}") } else { reason };
        Self { doing: Doing::Dial, network, local: None, peer, reason, closed: false }
    }

    /// Sending failed.
    pub(super) fn write(
        network: &'static str,
        local: Option<SocketAddr>,
        peer: SocketAddr,
        reason: impl Into<Reason>,
    ) -> Self {
        Self { doing: Doing::Write, network, local, peer, reason: reason.into().0, closed: false }
    }

    /// Receiving failed.
    pub(super) fn read(
        network: &'static str,
        local: Option<SocketAddr>,
        peer: SocketAddr,
        reason: impl Into<Reason>,
    ) -> Self {
        Self { doing: Doing::Read, network, local, peer, reason: reason.into().0, closed: false }
    }

    /// The same as the end of a connection that somebody else may have used before.
    pub(super) const fn closing(mut self) -> Self {
        self.closed = true;
        self
    }

    /// Tells whether the connection ended before the reply came, so that another connection may do better at once.
    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }
}

/// A reason as text.
pub(super) struct Reason(String);

impl Reason {
    /// Nothing happened in time.
    pub(super) const TIMEOUT: &'static str = "i/o timeout";
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.0
    }
}

impl From<&io::Error> for Reason {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self("EOF".to_owned()),
            io::ErrorKind::TimedOut => Self(Self::TIMEOUT.to_owned()),
            _ => Self(os_error_text(error)),
        }
    }
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, peer, reason, .. } = self;
        let doing = match self.doing {
            Doing::Dial => return write!(f, "dial {network} {peer}: {reason}"),
            Doing::Write => "write",
            Doing::Read => "read",
        };
        match self.local {
            Some(local) => write!(f, "{doing} {network} {local}->{peer}: {reason}"),
            None => write!(f, "{doing} {network} {peer}: {reason}"),
        }
    }
}

impl std::error::Error for ExchangeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_coredns() {
        let peer = SocketAddr::from(([192, 0, 2, 1], 53));
        let local = Some(SocketAddr::from(([192, 0, 2, 7], 40_000)));
        let refused = io::Error::from_raw_os_error(111);
        for (error, text) in [
            (ExchangeError::dial("tcp", peer, &refused), "dial tcp 192.0.2.1:53: connect: connection refused"),
            (ExchangeError::dial("tcp", peer, Reason::TIMEOUT), "dial tcp 192.0.2.1:53: i/o timeout"),
            (
                ExchangeError::read("udp", local, peer, &refused),
                "read udp 192.0.2.7:40000->192.0.2.1:53: connection refused",
            ),
            (ExchangeError::write("udp", local, peer, "x"), "write udp 192.0.2.7:40000->192.0.2.1:53: x"),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
