//! Bodies of responses.

use http_body_util::BodyExt as _;
use kube::client::Body;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::failure::{Cause, Failure, chain};

/// The longest event of a watch, in octets. The API server itself takes objects of some 1.5 MiB.
pub(super) const LINE_MAX: usize = 8 << 20;
/// The buffer that is kept while a watch is idle, in octets.
const KEPT: usize = 64 << 10;

/// A piece of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A line without its end.
    Line(&'a [u8]),
    /// A line that was too long and has been dropped.
    Dropped,
}

/// The lines of a body, as they come.
pub(super) struct Lines {
    body: Body,
    splitter: Splitter,
}

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self { body, splitter: Splitter::new(LINE_MAX) }
    }

    /// Waits for octets; false at the end of the body. May be given up while it waits.
    pub(super) async fn fill(&mut self) -> Result<bool, Failure> {
        let frame = self.body.frame().with_subscriber(NoSubscriber::new()).await;
        match frame {
            None => Ok(false),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.splitter.push(&data);
                }
                Ok(true)
            }
            Some(Err(error)) => Err(broken(&error)),
        }
    }

    /// The next line that is there in full.
    pub(super) fn next(&mut self) -> Option<Piece<'_>> {
        self.splitter.next()
    }
}

fn broken(error: &kube::Error) -> Failure {
    Failure::new(Cause::Transport, format_args!("the connection broke: {}", chain(error)))
}

/// Reads a whole body of at most `most` octets.
pub(super) async fn collect(mut body: Body, most: usize) -> Result<Vec<u8>, Failure> {
    let mut octets = Vec::new();
    while let Some(frame) = body.frame().with_subscriber(NoSubscriber::new()).await {
        let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() else { continue };
        if octets.len() + data.len() > most {
            return Err(Failure::new(Cause::TooLarge, format_args!("the response is larger than {most} octets")));
        }
        octets.extend_from_slice(&data);
    }
    Ok(octets)
}

/// Octets into lines.
struct Splitter {
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// How far there is no end of a line.
    scanned: usize,
    most: usize,
    /// In the middle of a line that is too long.
    skips: bool,
}

impl Splitter {
    const fn new(most: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, scanned: 0, most, skips: false }
    }

    fn push(&mut self, octets: &[u8]) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
        self.buffer.extend_from_slice(octets);
    }

    fn next(&mut self) -> Option<Piece<'_>> {
        let rest = self.buffer.get(self.scanned..).unwrap_or(&[]);
        let Some(end) = rest.iter().position(|octet| *octet == b'\n') else {
            self.scanned = self.buffer.len();
            if self.scanned - self.start > self.most {
                self.skips = true;
            }
            if self.skips {
                self.start = self.scanned;
            }
            return None;
        };
        let (start, end) = (self.start, self.scanned + end);
        self.start = end + 1;
        self.scanned = self.start;
        if std::mem::take(&mut self.skips) || end - start > self.most {
            return Some(Piece::Dropped);
        }
        let line = self.buffer.get(start..end).unwrap_or(&[]);
        Some(Piece::Line(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_however_they_are_cut() {
        let text = b"one\r\ntwo\n\nfar too long a line\nend\nrest";
        for size in 1..text.len() {
            let mut splitter = Splitter::new(8);
            let mut found = Vec::new();
            for part in text.chunks(size) {
                splitter.push(part);
                while let Some(piece) = splitter.next() {
                    found.push(match piece {
                        Piece::Line(line) => String::from_utf8_lossy(line).into_owned(),
                        Piece::Dropped => "-".to_owned(),
                    });
                }
            }
            assert_eq!(found, ["one", "two", "", "-", "end"], "in parts of {size}");
            assert!(splitter.buffer.len() <= 8 + size, "{size}");
        }
    }
}
