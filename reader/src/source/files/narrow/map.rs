//! The blocks of system calls, scheduling and traces, with what the indexes say of each.

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Page;
use flightrec_store::Kind;
use flightrec_store::search::BlockEntry;

use super::super::load::{self, Job};
use super::super::pages::most_pages;
use super::{Place, indexes};
use crate::memory;
use crate::window::LEAD_IN_NS;

/// Most blocks that are held decoded at a time.
const TOGETHER: usize = 32;

/// A block, by its place in the [`Map`].
pub(super) type At = usize;

/// A block.
pub(super) struct Known<'a> {
    pub(super) job: Job<'a>,
    pub(super) lane: Lane,
    /// Time of its earliest and its latest, ns of `CLOCK_MONOTONIC`.
    pub(super) first: u64,
    pub(super) last: u64,
    /// What is in it; `None`: that is not known.
    entry: Option<BlockEntry>,
}

impl Known<'_> {
    /// What is in it. A block of which that is not known may hold anything.
    pub(super) fn may(&self, has: impl FnOnce(&BlockEntry) -> bool) -> bool {
        self.entry.as_ref().is_none_or(has)
    }

    /// What is in it, if that is known.
    pub(super) fn entry(&self) -> Option<&BlockEntry> {
        self.entry.as_ref()
    }

    /// Whether it may hold something between two moments.
    pub(super) fn touches(&self, from: u64, until: u64) -> bool {
        self.first <= until && self.last >= from
    }
}

/// All blocks, by the time of their earliest.
pub(super) struct Map<'a> {
    all: Vec<Known<'a>>,
}

impl<'a> Map<'a> {
    /// `None`: nothing is known of any, or there is too much to know.
    pub(super) fn new(place: &Place<'a>) -> Option<Self> {
        let indexes = indexes(place.opened);
        if indexes.iter().all(Option::is_none) {
            return None;
        }
        let mut all = Vec::new();
        let mut held = 0usize;
        for job in load::jobs(place.opened) {
            let header = &job.block.header;
            let Some(lane @ (Lane::Syscall | Lane::Sched | Lane::Trace)) = header.lane else {
                continue;
            };
            if header.kind != Kind::Pages {
                continue;
            }
            let index = indexes.get(job.file).and_then(Option::as_ref);
            let entry = index.and_then(|index| index.of(job.block)).cloned();
            held = held.saturating_add(size_of::<Known<'_>>());
            held = held.saturating_add(entry.as_ref().map_or(0, |entry| 4 * entry.threads.len()));
            if held as u64 > memory::limit() / 8 {
                return None;
            }
            all.push(Known { job, lane, first: header.first, last: header.last, entry });
        }
        all.sort_by_key(|block| (block.first, block.job.place()));
        Some(Self { all })
    }

    pub(super) fn get(&self, at: At) -> Option<&Known<'a>> {
        self.all.get(at)
    }

    /// The blocks of a lane.
    pub(super) fn of(&self, lane: Lane) -> impl DoubleEndedIterator<Item = (At, &Known<'a>)> {
        self.all().filter(move |(_, block)| block.lane == lane)
    }

    /// All blocks.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = (At, &Known<'a>)> {
        self.all.iter().enumerate()
    }

    /// Those of a lane of which not all is read in any case.
    pub(super) fn open(&self, lane: Lane, from: u64) -> impl Iterator<Item = (At, &Known<'a>)> {
        let begin = from.saturating_sub(LEAD_IN_NS);
        self.of(lane).filter(move |(_, block)| block.last >= begin)
    }

    /// Of the blocks of a lane that begin before a moment and may name a thread: those that have
    /// its last event before that moment.
    pub(super) fn before(&self, lane: Lane, tid: u32, time: u64) -> Vec<At> {
        let has =
            |block: &Known<'_>| block.first < time && block.may(|entry| entry.has_thread(tid));
        let found: Vec<(At, u64, u64)> = self
            .of(lane)
            .filter(|(_, block)| has(block))
            .map(|(at, block)| (at, block.first, block.last))
            .collect();
        // Blocks of a lane overlap: another one may have a later event than the one that ends last.
        let mut least = found.iter().map(|(_, _, last)| *last).max().unwrap_or(0);
        loop {
            let of_last = found.iter().filter(|(_, _, last)| *last >= least);
            let begin = of_last.map(|(_, first, _)| *first).min().unwrap_or(0);
            if begin >= least {
                break;
            }
            least = begin;
        }
        found.into_iter().filter(|(_, _, last)| *last >= least).map(|(at, ..)| at).collect()
    }

    /// Decodes blocks, and hands each one's pages over. `None`: some can't be read.
    pub(super) fn decode(&self, blocks: &[At], mut take: impl FnMut(At, &[&Page])) -> Option<()> {
        for some in blocks.chunks(TOGETHER) {
            let jobs: Vec<Job<'_>> =
                some.iter().filter_map(|at| Some(self.get(*at)?.job)).collect();
            let mut next = some.iter();
            let damaged = load::pages(&jobs, most_pages() / 2, |pages| {
                let pages: Vec<&Page> = pages.iter().map(|(page, _)| page).collect();
                if let Some(at) = next.next() {
                    take(*at, &pages);
                }
            })?;
            if !damaged.is_empty() {
                return None;
            }
        }
        Some(())
    }
}
