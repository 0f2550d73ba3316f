//! One resource: its list, its watch, and the way back to them.
//!
//! ```text
//!            refused                     list read in full
//!  streaming ───────> list page by page ──────────────────> watch from a version <──┐
//!  list ────────────────────────────────────────────────────> │  │  │ ended, broke,  │
//!    ^     end of the initial state                           │  │  └─silent─────────┘
//!    └─────────────────────── the version is unknown ─────────┘  └ told of changes
//! ```
//!
//! A failure is followed by a delay that doubles while failures go on. A watch that worked and ended properly is
//! opened again at once and in silence.

use std::hash::BuildHasher as _;
use std::time::Duration;

use foldhash::HashSet;
use foldhash::quality::RandomState;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, info, warn};

use super::super::object::{Change, ObjectKey};
use super::super::source::{Selection, Sink};
use super::backoff::Backoff;
use super::client::ApiClient;
use super::decode::{Decoder, Event, Item};
use super::failure::{Cause, Failure};
use super::lines::{Lines, Piece, collect};
use super::resource::Target;
use super::standing::Standing;
use super::{Timing, metrics};

/// The changes that are delivered at once.
const BATCH: usize = 500;
/// The largest page of a list, in octets; a larger one is asked for again with half the objects.
const PAGE_MAX: usize = 64 << 20;
/// The pages of one list, against servers that have no end.
const PAGES_MAX: usize = 20_000;
/// The longest delay that a server can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// Failures of one kind that lead to another way: lists by page, or a list in place of a watch.
const PATIENCE: u32 = 2;
/// How long a server that refused streaming lists is not asked for one again.
const STREAMING_REST: Duration = Duration::from_secs(3_600);

/// How a watch ended.
enum End {
    /// The list has been read; the watch comes next.
    Listed,
    /// It ended properly after this time; something came in it or not.
    Closed { lived: Duration, told: bool },
    /// It failed.
    Failed(Failure),
}

/// Keeps the sink up to date with one resource.
pub(super) struct Reflector<'a> {
    target: &'a Target,
    client: &'a ApiClient,
    decoder: Decoder<'a>,
    timing: &'a Timing,
    standing: &'a Standing,
    sink: &'a dyn Sink,
    /// The version that the sink has; `None` where everything has to be read.
    version: Option<Box<str>>,
    backoff: Backoff,
    /// Objects of a page.
    page: usize,
    /// The server did not stream a list then.
    unstreamed: Option<Instant>,
    /// Streaming lists that ended early, and watches that made no sense, one after the other.
    cut_short: u32,
    garbled: u32,
    /// The last time that everything was read, and that the server did not know the version.
    listed: Option<Instant>,
    expired: Option<Instant>,
    hashing: RandomState,
}

impl<'a> Reflector<'a> {
    pub(super) fn new(
        target: &'a Target,
        client: &'a ApiClient,
        selection: &'a Selection,
        timing: &'a Timing,
        standing: &'a Standing,
        sink: &'a dyn Sink,
    ) -> Self {
        Self {
            target,
            client,
            decoder: Decoder { kind: target.kind, selection },
            timing,
            standing,
            sink,
            version: None,
            backoff: Backoff::new(timing.backoff),
            page: timing.page,
            unstreamed: None,
            cut_short: 0,
            garbled: 0,
            listed: None,
            expired: None,
            hashing: RandomState::default(),
        }
    }

    /// Lists and watches for ever; `synced` is called once, when everything has been read.
    pub(super) async fn run(mut self, synced: &(dyn Fn() + Sync)) {
        let mut announced = false;
        let mut announce = || {
            if !std::mem::replace(&mut announced, true) {
                synced();
            }
        };
        loop {
            let end = match self.version.clone() {
                Some(version) => self.watch(Some(version), &mut announce).await,
                None if self.streams() => self.watch(None, &mut announce).await,
                None => self.list(&mut announce).await,
            };
            let delay = self.judge(end, &mut announce);
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
        }
    }

    fn streams(&self) -> bool {
        self.unstreamed.is_none_or(|refused| refused.elapsed() >= STREAMING_REST)
    }

    /// What comes next, and after which delay.
    fn judge(&mut self, end: End, announce: &mut dyn FnMut()) -> Duration {
        let failure = match end {
            End::Listed => return Duration::ZERO,
            End::Closed { lived, told } if told || lived >= self.timing.settle => {
                self.works();
                // Not even a watch that tells things is opened more often than this.
                return self.timing.settle.saturating_sub(lived);
            }
            End::Closed { .. } => Failure::new(Cause::Short, "the API server ended the watch as soon as it began"),
            End::Failed(failure) => failure,
        };
        let streaming = self.version.is_none() && self.streams();
        match failure.cause {
            Cause::Expired => return self.expire(&failure),
            Cause::Refused if streaming => {
                debug!(target: "plugin/kubernetes", "{} are listed page by page: {}", self.target.resource, failure.text);
                self.unstreamed = Some(Instant::now());
                return Duration::ZERO;
            }
            Cause::Short | Cause::Silent | Cause::Malformed if streaming => {
                self.cut_short += 1;
                if self.cut_short >= PATIENCE {
                    self.cut_short = 0;
                    self.unstreamed = Some(Instant::now());
                }
            }
            Cause::Malformed | Cause::Refused if self.version.is_some() => {
                self.garbled += 1;
                if self.garbled >= PATIENCE {
                    // What cannot be read in the watch may be readable in a list; and a list has a version that is
                    // not refused.
                    self.garbled = 0;
                    self.version = None;
                }
            }
            Cause::TooLarge if self.page > 1 => self.page /= 2,
            // Cluster sets need a resource that few clusters have; names of the cluster do not wait for it.
            Cause::Missing if self.target.kind == super::super::object::ObjectKind::ServiceImport => {
                self.standing.failed(&failure, self.timing.missing);
                announce();
                return self.timing.missing;
            }
            _ => {}
        }
        let asked = failure.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        let delay = self.backoff.next(rand::random()).max(asked);
        self.standing.failed(&failure, delay);
        delay
    }

    /// Everything has to be read again: at once, unless that was done only just now.
    fn expire(&mut self, failure: &Failure) -> Duration {
        self.version = None;
        let earlier = self.expired.replace(Instant::now());
        let is_rare = [self.listed, earlier].iter().flatten().all(|time| time.elapsed() >= self.timing.relist);
        if self.listed.is_some() && is_rare {
            let (resource, text) = (self.target.resource, &failure.text);
            info!(target: "plugin/kubernetes", "all {resource} are read again: {text}");
            return Duration::ZERO;
        }
        let delay = self.backoff.next(rand::random()).max(self.timing.settle);
        self.standing.failed(failure, delay);
        delay
    }

    fn works(&mut self) {
        self.backoff.reset();
        self.cut_short = 0;
        self.garbled = 0;
        self.standing.works();
    }

    fn hash(&self, key: &ObjectKey) -> u64 {
        self.hashing.hash_one((&key.namespace, &key.name))
    }

    /// Everything has been read: what was not seen is gone.
    fn complete(&mut self, seen: &HashSet<u64>, version: Box<str>, announce: &mut dyn FnMut()) {
        self.sink.retain(self.target.kind, &|key| seen.contains(&self.hash(key)));
        self.version = Some(version);
        self.listed = Some(Instant::now());
        self.page = self.timing.page;
        metrics::count_list(self.target.resource);
        self.standing.alive();
        announce();
    }

    /// Reads everything, page by page.
    async fn list(&mut self, announce: &mut (dyn FnMut() + Send)) -> End {
        let mut seen = HashSet::default();
        let mut next: Box<str> = Box::default();
        for _ in 0..PAGES_MAX {
            let place = Some(&*next).filter(|next| !next.is_empty());
            let target = self.target.list(self.page, place);
            let read = async {
                let response = self.client.get(&target).await?;
                collect(response.into_body(), PAGE_MAX).await
            };
            let octets = match timeout(self.timing.list, read).await {
                Ok(Ok(octets)) => octets,
                Ok(Err(failure)) => return End::Failed(failure),
                Err(_) => {
                    return End::Failed(Failure::new(Cause::Silent, "the API server did not finish a list in time"));
                }
            };
            self.standing.alive();
            let mut changes = Vec::new();
            let mut take = |Item { key, change }| {
                if !matches!(change, Some(Change::Delete(_))) {
                    seen.insert(self.hash(&key));
                    changes.extend(change);
                }
            };
            let end = match self.decoder.page(&octets, &mut take) {
                Ok(end) => end,
                Err(failure) => return End::Failed(failure),
            };
            drop(octets);
            self.sink.apply(changes);
            if end.next.is_empty() {
                if end.version.is_empty() {
                    return End::Failed(Failure::new(Cause::Malformed, "a list has no resource version"));
                }
                self.complete(&seen, end.version, announce);
                return End::Listed;
            }
            if end.next == next {
                return End::Failed(Failure::new(Cause::Malformed, "a list goes on where it began"));
            }
            next = end.next;
            tokio::task::yield_now().await;
        }
        End::Failed(Failure::new(Cause::TooLarge, "a list has no end"))
    }

    /// Watches from a version, or from the whole state if there is none.
    async fn watch(&mut self, version: Option<Box<str>>, announce: &mut (dyn FnMut() + Send)) -> End {
        let (least, most) = self.timing.watch_seconds;
        let seconds = rand::random_range(least..=most.max(least));
        let target = match &version {
            Some(version) => self.target.watch(seconds, version),
            None => self.target.stream(seconds),
        };
        let response = match self.client.get(&target).await {
            Ok(response) => response,
            Err(failure) => return End::Failed(failure),
        };
        self.standing.alive();
        let mut watch = Watch {
            lines: Lines::new(response.into_body()),
            opened: Instant::now(),
            end: Instant::now() + Duration::from_secs(seconds.into()) + self.timing.grace,
            seen: version.is_none().then(HashSet::default),
            changes: Vec::new(),
            told: false,
            bookmarked: false,
            settled: false,
        };
        let end = self.follow(&mut watch, announce).await;
        // What was read is true, whatever came after it.
        self.deliver(&mut watch);
        end
    }

    async fn follow(&mut self, watch: &mut Watch, announce: &mut (dyn FnMut() + Send)) -> End {
        loop {
            while let Some(piece) = watch.lines.next() {
                let event = match piece {
                    Piece::Line([]) => continue,
                    Piece::Line(line) => self.decoder.event(line),
                    Piece::Dropped => {
                        let resource = self.target.resource;
                        warn!(target: "plugin/kubernetes", "an event about {resource} is too large and passed over");
                        continue;
                    }
                };
                let taken = event.and_then(|event| self.take(event, watch, announce));
                if let Err(failure) = taken {
                    return End::Failed(failure);
                }
                if watch.changes.len() >= BATCH {
                    self.deliver(watch);
                }
            }
            if watch.seen.is_none() {
                self.deliver(watch);
            }
            match self.wait(watch).await {
                Ok(true) => self.standing.alive(),
                Ok(false) if watch.seen.is_some() => {
                    return End::Failed(Failure::new(Cause::Short, "the API server ended a list before its end"));
                }
                Ok(false) => return End::Closed { lived: watch.opened.elapsed(), told: watch.told },
                // Servers that are restarted end their watches so; the next attempt tells whether there is more to it.
                Err(failure) if failure.cause == Cause::Transport && (watch.told || watch.settled) => {
                    debug!(target: "plugin/kubernetes", "the watch of {}: {}", self.target.resource, failure.text);
                    return End::Closed { lived: watch.opened.elapsed(), told: true };
                }
                Err(failure) if failure.cause == Cause::Transport && watch.seen.is_some() => {
                    return End::Failed(Failure { cause: Cause::Short, ..failure });
                }
                Err(failure) => return End::Failed(failure),
            }
        }
    }

    /// Waits for octets; false at the end of the watch.
    async fn wait(&mut self, watch: &mut Watch) -> Result<bool, Failure> {
        let mut deadline = watch.end;
        if watch.seen.is_some() {
            deadline = Instant::now() + self.timing.list;
        } else if watch.bookmarked {
            deadline = deadline.min(Instant::now() + self.timing.quiet);
        }
        if watch.seen.is_none() && !watch.settled {
            let settled = (watch.opened + self.timing.settle).min(deadline);
            if let Ok(filled) = timeout_at(settled, watch.lines.fill()).await {
                return filled;
            }
            watch.settled = true;
            self.works();
        }
        let begun = Instant::now();
        timeout_at(deadline, watch.lines.fill()).await.unwrap_or_else(|_| {
            let seconds = begun.elapsed().as_secs();
            Err(Failure::new(Cause::Silent, format_args!("the API server was silent for {seconds} s")))
        })
    }

    fn deliver(&self, watch: &mut Watch) {
        if !watch.changes.is_empty() {
            self.sink.apply(std::mem::take(&mut watch.changes));
        }
    }

    /// Takes an event in.
    fn take(&mut self, event: Event, watch: &mut Watch, announce: &mut dyn FnMut()) -> Result<(), Failure> {
        match event {
            Event::Other => Ok(()),
            Event::Failed(failure) => Err(failure),
            Event::Bookmark { version, ends_list } => {
                if version.is_empty() {
                    return Err(Failure::new(Cause::Expired, "a bookmark has no resource version"));
                }
                watch.bookmarked = true;
                match watch.seen.take() {
                    Some(seen) if ends_list => {
                        self.deliver(watch);
                        self.complete(&seen, version, announce);
                    }
                    Some(seen) => watch.seen = Some(seen),
                    None => self.advance(version)?,
                }
                if watch.seen.is_none() {
                    watch.told = true;
                    self.works();
                }
                Ok(())
            }
            Event::Object(Item { key, change }, version) => {
                let gone = matches!(change, Some(Change::Delete(_)));
                if let Some(seen) = &mut watch.seen {
                    let hash = self.hashing.hash_one((&key.namespace, &key.name));
                    if gone {
                        seen.remove(&hash)
                    } else {
                        seen.insert(hash)
                    };
                    watch.changes.extend(change);
                    return Ok(());
                }
                watch.changes.extend(change);
                if version.is_empty() {
                    return Err(Failure::new(Cause::Expired, "an object has no resource version"));
                }
                self.advance(version)?;
                if !watch.told {
                    watch.told = true;
                    self.works();
                }
                Ok(())
            }
        }
    }

    /// Goes on to a version. One before that of the sink means that the server was restored from a backup.
    fn advance(&mut self, version: Box<str>) -> Result<(), Failure> {
        let number = |text: &str| text.parse::<u64>().ok();
        let held = self.version.as_deref().and_then(number);
        if let (Some(held), Some(new)) = (held, number(&version))
            && new < held
        {
            let text = format_args!("its resource version went back from {held} to {new}");
            return Err(Failure::new(Cause::Expired, text));
        }
        self.version = Some(version);
        Ok(())
    }
}

/// A watch that is open.
struct Watch {
    lines: Lines,
    opened: Instant,
    /// When the server must have ended it.
    end: Instant,
    /// The objects of the initial state so far, while it is being told.
    seen: Option<HashSet<u64>>,
    changes: Vec<Change>,
    /// Something came that was not part of the initial state.
    told: bool,
    bookmarked: bool,
    /// It has been open for a while.
    settled: bool,
}
