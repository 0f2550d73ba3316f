//! Orders of the records of a section: aliases first, then all else, addresses, mail exchangers.

use std::net::IpAddr;
use std::ops::Range;

use coredns_plugin::wire::{Record, RrType};
use ipnet::IpNet;
use smallvec::SmallVec;

use super::random;
use super::weights::Weights;

/// Addresses of one section that are weighed without memory from the heap.
const INLINE_ADDRESSES: usize = 32;

const RANK_ADDRESS: u8 = 2;
const RANK_MX: u8 = 3;

/// The place of a kind of record in a section.
const fn rank(record: &Record) -> u8 {
    match record.rtype {
        RrType::CNAME => 0,
        RrType::A | RrType::AAAA => RANK_ADDRESS,
        RrType::MX => RANK_MX,
        _ => 1,
    }
}

/// Sorts the kinds, each in the order that it had; returns where the addresses are.
fn group(records: &mut [Record], rank: impl Fn(&Record) -> u8) -> Range<usize> {
    if !records.is_sorted_by_key(&rank) {
        records.sort_by_key(&rank);
    }
    let start = records.partition_point(|record| rank(record) < RANK_ADDRESS);
    let len = records.iter().skip(start).take_while(|record| rank(record) == RANK_ADDRESS).count();
    start..start + len
}

/// Aliases in their order, all else in its order, addresses shuffled, mail exchangers shuffled.
pub fn round_robin(records: &mut [Record]) {
    if records.len() < 2 {
        return;
    }
    let addresses = group(records, rank);
    let (head, mail) = records.split_at_mut(addresses.end);
    random::shuffle(head.get_mut(addresses.start..).unwrap_or_default());
    random::shuffle(mail);
}

/// The kinds in order, one address, drawn by weight, in front of the others.
pub fn weighted_top(records: &mut [Record], weights: &Weights) {
    if !records.iter().any(|record| rank(record) == RANK_ADDRESS) {
        return;
    }
    let range = group(records, rank);
    let addresses = records.get_mut(range).unwrap_or_default();
    let top = draw(addresses, weights, random::below);
    if top < addresses.len() {
        addresses.swap(0, top);
    }
}

/// Draws one of the address records by weight; `random` gives a number below the sum of the weights.
///
/// The heaviest stand first; the first whose sum with all before it exceeds the number is drawn. Returns its index.
pub fn draw(addresses: &[Record], weights: &Weights, random: impl FnOnce(u32) -> u32) -> usize {
    let mut candidates: SmallVec<[(u8, usize); INLINE_ADDRESSES]> = (0..)
        .zip(addresses)
        .filter_map(|(index, record)| Some((weights.of(&record.owner, record.ip()?), index)))
        .collect();
    candidates.sort_unstable_by_key(|(weight, index)| (u8::MAX - weight, *index));
    let sum = candidates.iter().map(|(weight, _)| u32::from(*weight)).sum();
    let drawn = random(sum);
    let mut running = 0;
    let winner = candidates.iter().find(|(weight, _)| {
        running += u32::from(*weight);
        running > drawn
    });
    winner.map_or(0, |(_, index)| *index)
}

/// Aliases, addresses, mail exchangers, all else; the addresses of the first range first, those of the second next,
/// those of none last, each in the order that they had.
pub fn prefer(records: &mut [Record], ranges: &[IpNet]) {
    if records.len() < 2 {
        return;
    }
    // Here what is none of the three stands last.
    let rank = |record: &Record| match rank(record) {
        1 => RANK_MX + 1,
        rank => rank,
    };
    let range = group(records, rank);
    let addresses = records.get_mut(range).unwrap_or_default();
    let place = |record: &Record| preference(record.ip(), ranges);
    if !addresses.is_sorted_by_key(place) {
        addresses.sort_by_key(place);
    }
}

fn preference(address: Option<IpAddr>, ranges: &[IpNet]) -> usize {
    let Some(address) = address.map(|address| address.to_canonical()) else { return ranges.len() };
    ranges.iter().position(|range| range.contains(&address)).unwrap_or(ranges.len())
}
