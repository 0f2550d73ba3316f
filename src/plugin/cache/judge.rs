//! What kind a reply is, whether it answers its question, and how long it lasts. No state, no clock.

use coredns_plugin::wire::{Class, EdnsOptions, Name, Rcode, Record, RrType, option_code};
use coredns_plugin::{Answer, Query, Reply, ReplyBody, ResponseType, classify};

use super::setup::{Config, Limits};

/// What a reply without records, a referral or an error lasts, in seconds, before the bounds of its store.
const DEFAULT_TTL: u32 = 5;
/// Aliases that are followed; no resolver follows more.
const MAX_ALIASES: usize = 32;

/// Which store an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Positive answers and referrals.
    Success,
    /// Denials and failures.
    Denial,
}

/// What is known about a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    /// How long it lasts in seconds.
    pub(super) ttl: u32,
    /// It is NOERROR and holds the data asked for.
    pub(super) answers: bool,
    /// It is whole, and speaks about what was asked: it may take the place of an older one.
    pub(super) whole: bool,
    /// No record of its answer section has to do with the question.
    pub(super) foreign: bool,
    /// It holds for some clients only (RFC 7871 §7.3.1).
    pub(super) scoped: bool,
    /// Where it may be kept; `None` for nowhere. Zones that are left out are not looked at.
    pub(super) side: Option<Side>,
}

impl Verdict {
    /// Judges a reply that came back; `now` in seconds since 1970, for signatures.
    pub(super) fn of(query: &Query, answer: &Answer, now: u32, config: &Config) -> Option<Self> {
        let Answer::Reply(reply) = answer else { return None };
        let answers = reply.rcode == Rcode::NOERROR
            && answers_question(query.name(), query.qtype(), query.qclass(), &reply.answer);
        let kind = amended(classify(query, answer, now), reply, answers);
        let foreign = !reply.answer.is_empty() && !reply.answer.iter().any(|record| is_about(query, record));
        let known = !matches!(kind, ResponseType::OtherError | ResponseType::Meta | ResponseType::Update);
        let whole = known && !reply.truncated && !foreign;
        let scoped = is_scoped(reply);
        let ttl = lasting(kind, reply, config);
        let side = side_of(kind, reply, answers).filter(|_| !reply.truncated && !scoped && ttl > 0);
        Some(Self { ttl, answers, whole, foreign, scoped, side })
    }
}

/// The kind of a reply as this plugin sees it: aliases that lead nowhere, with an SOA, are NODATA.
///
/// `now` in seconds since 1970, for signatures.
#[must_use]
pub fn kind_of(query: &Query, answer: &Answer, now: u32) -> ResponseType {
    let kind = classify(query, answer, now);
    match answer {
        Answer::Reply(reply) => {
            let answers = answers_question(query.name(), query.qtype(), query.qclass(), &reply.answer);
            amended(kind, reply, answers)
        }
        _ => kind,
    }
}

fn amended(kind: ResponseType, reply: &Reply, answers: bool) -> ResponseType {
    let dangling = kind == ResponseType::NoError && !reply.answer.is_empty() && !answers;
    if dangling && has_soa(reply) { ResponseType::NoData } else { kind }
}

fn has_soa(reply: &ReplyBody) -> bool {
    reply.authority.iter().any(|record| record.rtype == RrType::SOA)
}

fn side_of(kind: ResponseType, reply: &Reply, answers: bool) -> Option<Side> {
    match kind {
        // Aliases that lead nowhere, and no SOA: nothing that could be said again.
        ResponseType::NoError if !reply.answer.is_empty() && !answers => None,
        ResponseType::NoError | ResponseType::Delegation => Some(Side::Success),
        ResponseType::NxDomain if !has_soa(reply) => None,
        ResponseType::NxDomain | ResponseType::NoData | ResponseType::ServerError => Some(Side::Denial),
        ResponseType::Meta | ResponseType::Update | ResponseType::OtherError => None,
    }
}

/// Tells whether the answer section of a NOERROR reply holds what was asked for, aliases followed, in any order.
///
/// An owner with two different targets, a circle of aliases and one of more than 32 do not count as an answer.
#[must_use]
pub fn answers_question(name: &Name, qtype: RrType, qclass: Class, answer: &[Record]) -> bool {
    let of = |owner: &Name, record: &Record| record.class == qclass && record.owner == *owner;
    if qtype == RrType::ANY {
        return answer.iter().any(|record| of(name, record));
    }
    if qtype == RrType::CNAME {
        return matches!(only_target(name, qclass, answer), Ok(Some(_)));
    }
    let mut at = name.clone();
    let mut seen: Vec<Name> = Vec::new();
    while let Ok(target) = only_target(&at, qclass, answer) {
        let Some(target) = target else {
            return answer.iter().any(|record| record.rtype == qtype && of(&at, record));
        };
        if target == at || seen.contains(&target) || seen.len() >= MAX_ALIASES {
            return false;
        }
        seen.push(std::mem::replace(&mut at, target));
    }
    false
}

/// More than one target.
struct Ambiguous;

/// The target of the alias at `owner`, where there is one.
fn only_target(owner: &Name, class: Class, answer: &[Record]) -> Result<Option<Name>, Ambiguous> {
    let mut only = None;
    let aliases = answer.iter().filter(|record| record.rtype == RrType::CNAME && record.class == class);
    for target in aliases.filter(|record| record.owner == *owner).filter_map(Record::target) {
        match &only {
            Some(other) if *other != target => return Err(Ambiguous),
            _ => only = Some(target),
        }
    }
    Ok(only)
}

/// Tells whether a record of the answer section can belong to an answer to the question.
fn is_about(query: &Query, record: &Record) -> bool {
    let (name, qtype) = (query.name(), query.qtype());
    let may_stand = |rtype: RrType| rtype == qtype || rtype == RrType::CNAME || qtype == RrType::ANY;
    record.class == query.qclass()
        && (record.owner == *name && may_stand(record.rtype)
            || record.rtype == RrType::DNAME && name.is_within(&record.owner))
}

/// Tells whether the reply is for some client subnets only. Data that cannot be read count as such.
fn is_scoped(reply: &ReplyBody) -> bool {
    let Some(edns) = &reply.edns else { return false };
    EdnsOptions::new(&edns.options)
        .filter(|option| option.code == option_code::CLIENT_SUBNET)
        .any(|option| option.data.get(3) != Some(&0))
}

/// `ttl` within the bounds, of which the upper wins; all in seconds.
#[must_use]
pub fn clamp(ttl: u32, min: u32, max: u32) -> u32 {
    ttl.max(min).min(max)
}

/// The smallest TTL of all records but OPT, at most `max`, in seconds; 5 where no record counts.
#[must_use]
pub fn message_ttl<'a>(kind: ResponseType, records: impl Iterator<Item = &'a Record>, max: u32) -> u32 {
    let by_records = matches!(kind, ResponseType::NoError | ResponseType::NxDomain | ResponseType::NoData);
    if !by_records {
        return DEFAULT_TTL;
    }
    // With the top bit set a TTL is 0 (RFC 2181 §8).
    let ttl = |record: &Record| if record.ttl >> 31 == 0 { record.ttl } else { 0 };
    let smallest = records.filter(|record| record.rtype != RrType::OPT).map(ttl).min();
    smallest.map_or(DEFAULT_TTL, |ttl| ttl.min(max))
}

fn lasting(kind: ResponseType, reply: &ReplyBody, config: &Config) -> u32 {
    let within = |limits: Limits| {
        let records = reply.answer.iter().chain(&reply.authority).chain(&reply.additional);
        clamp(message_ttl(kind, records, limits.ttl), limits.min_ttl, limits.ttl)
    };
    match kind {
        ResponseType::NxDomain | ResponseType::NoData => within(config.denial),
        ResponseType::ServerError => failure_ttl(config),
        _ => within(config.success),
    }
}

/// How long a failure is remembered in seconds: a part of one counts as one (RFC 9520 §3.2).
pub(super) fn failure_ttl(config: &Config) -> u32 {
    let part = u64::from(config.servfail.subsec_nanos() > 0);
    u32::try_from(config.servfail.as_secs().saturating_add(part)).unwrap_or(u32::MAX)
}
