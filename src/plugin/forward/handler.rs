//! Queries.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coredns_plugin::wire::Rcode;
use coredns_plugin::{Answer, BoxError, Next, Outcome, Plugin, Query, Reply, Transport};
use tokio::time::{Instant, sleep};

use super::NAME;
use super::config::Config;
use super::effort::{Choice, Races, Walk, tries};
use super::metrics::MAX_CONCURRENT_REJECTS;
use super::policy::{Policy, Selector};
use super::upstreams::Upstreams;
use crate::upstream::{Asked, AskedError, ExchangeError, Signals, Upstream, Way};

/// No further try begins so long after the first.
const DEADLINE: Duration = Duration::from_secs(5);

/// The plugin in one server block, for one stanza.
pub struct Forward {
    pub(super) config: Arc<Config>,
    pub(super) upstreams: Arc<Upstreams>,
    selector: Selector,
    races: Races,
    under_way: AtomicUsize,
    /// The next plugin is a `forward` too.
    followed: bool,
}

/// Counts a query while it is under way.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What one try, or a race of two, came to.
type Tried = (Arc<Upstream>, Result<Reply, ExchangeError>);

impl Forward {
    /// What the stanza says at work; `followed` where the next plugin is another one.
    ///
    /// # Errors
    /// A file cannot be read; worded for people.
    pub fn new(config: Config, followed: bool) -> Result<Self, String> {
        let config = Arc::new(config);
        let upstreams = Upstreams::new(Arc::clone(&config))?;
        let selector = Selector::new(config.policy);
        Ok(Self { config, upstreams, selector, races: Races::default(), under_way: AtomicUsize::new(0), followed })
    }

    /// What the stanza says.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its upstreams.
    #[must_use]
    pub const fn upstreams(&self) -> &Arc<Upstreams> {
        &self.upstreams
    }

    /// Over what a query goes upstream.
    #[must_use]
    pub fn way(&self, transport: Transport) -> Way {
        if self.config.force_tcp || transport.proto() == "tcp" && !self.config.prefer_udp { Way::Tcp } else { Way::Udp }
    }

    async fn forward<'a>(&'a self, query: &'a Query, next: Next<'a>, asked: Asked, _under_way: UnderWay<'a>) -> Answer {
        let list = self.upstreams.load();
        let tries = tries(self.config.max_connect_attempts, list.len());
        let end = Instant::now() + DEADLINE;
        let mut walk = Walk::new(&list, self.selector.order(list.len()));
        let mut error: Option<ExchangeError> = None;
        let (mut failed, mut failed_over) = (0, 0);
        while failed < tries && Instant::now() < end {
            let (upstream, last) = match walk.next(self.config.failfast) {
                Choice::Healthy(upstream) => (upstream, false),
                Choice::LastResort(upstream) => (upstream, true),
                Choice::Nobody => break,
            };
            let may_race = !last && failed + 1 < tries && self.config.policy != Policy::Sequential;
            let beside = may_race.then_some(&mut walk);
            let (upstream, outcome) = self.attempt(query, &asked, &upstream, beside, &mut failed).await;
            match outcome {
                Err(reason) => {
                    self.upstreams.prober.check(&upstream);
                    error = Some(reason);
                    failed += 1;
                    if last {
                        break;
                    }
                }
                Ok(reply) if self.config.failover.contains(&reply.rcode) && failed_over + 1 < list.len() => {
                    failed_over += 1
                }
                Ok(reply) if self.followed && self.goes_on(&reply) => return next.serve(query).wait().await,
                Ok(reply) => return reply.into(),
            }
        }
        let reason = error.map_or_else(|| BoxError::from("no healthy proxies"), BoxError::from);
        Answer::failed(Rcode::SERVFAIL, reason)
    }

    /// Tells whether the next `forward` is to be asked.
    fn goes_on(&self, reply: &Reply) -> bool {
        self.config.next.contains(&reply.rcode)
            || self.config.next_on_nodata && reply.rcode == Rcode::NOERROR && reply.answer.is_empty()
    }

    /// Asks one upstream, and where that is late or refuses another of `walk` as well; the first good answer counts.
    /// `failed` grows by one where both had to be tried and one of them failed.
    async fn attempt(
        &self,
        query: &Query,
        asked: &Asked,
        upstream: &Arc<Upstream>,
        walk: Option<&mut Walk<'_>>,
        failed: &mut usize,
    ) -> Tried {
        self.races.earn();
        let signals = Signals::default();
        let mut first = pin!(self.ask(query, asked, upstream, &signals));
        let Some(walk) = walk else {
            let outcome = first.await;
            return (Arc::clone(upstream), outcome);
        };
        let refused = tokio::select! {
            biased;
            outcome = &mut first => return (Arc::clone(upstream), outcome),
            () = signals.refused.notified() => true,
            () = sleep(upstream.late_after()) => false,
        };
        let other =
            if self.races.spend(refused || upstream.health().is_suspect()) { walk.beside(upstream) } else { None };
        let Some(other) = other else {
            let outcome = first.await;
            return (Arc::clone(upstream), outcome);
        };
        upstream.count_late();
        let other_signals = Signals::default();
        let mut second = pin!(self.ask(query, asked, &other, &other_signals));
        tokio::select! {
            outcome = &mut first => {
                if self.is_good(&outcome) {
                    return (Arc::clone(upstream), outcome);
                }
                self.note(upstream, &outcome, failed);
                let fallback = second.await;
                self.better((other.clone(), fallback), (Arc::clone(upstream), outcome))
            }
            outcome = &mut second => {
                if self.is_good(&outcome) {
                    // It was late enough to be beaten: a probe tells whether it is there at all.
                    self.upstreams.prober.check(upstream);
                    return (other.clone(), outcome);
                }
                self.note(&other, &outcome, failed);
                let fallback = first.await;
                self.better((Arc::clone(upstream), fallback), (other.clone(), outcome))
            }
        }
    }

    /// Takes note of the one of two that did not win.
    fn note(&self, upstream: &Arc<Upstream>, outcome: &Result<Reply, ExchangeError>, failed: &mut usize) {
        if outcome.is_err() {
            self.upstreams.prober.check(upstream);
            *failed += 1;
        }
    }

    /// The outcome that serves the client better; of two replies the later one, for which it was waited.
    fn better(&self, later: Tried, earlier: Tried) -> Tried {
        if later.1.is_err() && earlier.1.is_ok() {
            self.upstreams.prober.check(&later.0);
            return earlier;
        }
        later
    }

    /// Tells whether there is no need to wait for another upstream.
    fn is_good(&self, outcome: &Result<Reply, ExchangeError>) -> bool {
        let refuses =
            |rcode| matches!(rcode, Rcode::SERVFAIL | Rcode::REFUSED) || self.config.failover.contains(&rcode);
        outcome.as_ref().is_ok_and(|reply| !refuses(reply.rcode))
    }

    /// One try.
    async fn ask(
        &self,
        query: &Query,
        asked: &Asked,
        upstream: &Upstream,
        signals: &Signals,
    ) -> Result<Reply, ExchangeError> {
        if let Some(metadata) = query.metadata() {
            metadata.set("forward/upstream", upstream.label());
        }
        let way = self.way(query.transport());
        let reply = upstream.exchange(asked, way, signals).await?;
        // Clients of DoQ and DoH3 cannot ask over TCP instead.
        let must_be_whole = self.config.prefer_udp || query.transport() != Transport::Udp;
        if reply.truncated && way == Way::Udp && must_be_whole {
            return upstream.exchange(asked, Way::Tcp, signals).await;
        }
        Ok(reply)
    }
}

impl Plugin for Forward {
    fn name(&self) -> &'static str {
        NAME
    }

    fn any_class(&self) -> bool {
        true
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        if !self.config.matches(query.name()) {
            return next.serve(query);
        }
        // Relaxed: it is a bound, not a hand-over.
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let under_way = UnderWay(&self.under_way);
        let max = self.config.max_concurrent;
        if max > 0 && before >= max {
            MAX_CONCURRENT_REJECTS.inc();
            return Outcome::failed(Rcode::REFUSED, format!("concurrent queries exceeded maximum {max}"));
        }
        match Asked::new(query) {
            Ok(asked) => Outcome::Later(Box::pin(self.forward(query, next, asked, under_way))),
            Err(error @ AskedError::Opcode(_)) => Outcome::failed(Rcode::NOTIMP, error),
            Err(error @ AskedError::Signed) => Outcome::failed(Rcode::REFUSED, error),
            Err(error @ AskedError::Unwritable) => Outcome::failed(Rcode::FORMERR, error),
        }
    }
}
