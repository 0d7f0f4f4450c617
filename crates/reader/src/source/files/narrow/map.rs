//! The blocks of system calls, scheduling and traces, with what their summaries say.

use std::collections::hash_map::Entry;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Page;
use flightrec_format::meta::Meta;
use flightrec_store::Kind;
use flightrec_store::summary::{BlockSummary, Summarizer};
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::decoded::Decoded;
use super::super::load::{self, BlockPlace, Job};
use super::super::pages::most_pages;
use super::{Place, Tail};
use crate::memory;
use crate::window::LEAD_IN_NS;

/// A block, by its place in the [`Map`].
pub(super) type At = usize;

/// A thread, and a moment before which something is to be found, ns of `CLOCK_MONOTONIC`.
pub(super) type Moment = (u32, u64);

/// When an event happened, ns of `CLOCK_MONOTONIC`, and what it is.
pub(super) type Last<T> = (u64, T);

/// By number of a [`Moment`]: the last before it.
pub(super) type ByNumber<T> = FxHashMap<usize, Last<T>>;

/// Where a block's pages are.
enum Pages<'a> {
    /// In a file.
    File(Job<'a>),
    /// In the rings after the files: not in a block, but as if they were one.
    Rings(Vec<&'a Page>),
}

/// A block.
pub(super) struct Known<'a> {
    pages: Pages<'a>,
    pub(super) lane: Lane,
    /// Time of its earliest and its latest, ns of `CLOCK_MONOTONIC`.
    pub(super) first: u64,
    pub(super) last: u64,
    /// What is in it; `None`: that is not known.
    entry: Option<BlockSummary>,
}

impl<'a> Known<'a> {
    /// Where it stands in a file, if it does.
    pub(super) fn job(&self) -> Option<Job<'a>> {
        match self.pages {
            Pages::File(job) => Some(job),
            Pages::Rings(_) => None,
        }
    }

    /// The order of blocks that begin at one moment.
    fn place(&self) -> BlockPlace {
        self.job().map_or((usize::MAX, self.lane as u64), |job| job.place())
    }

    /// What is in it. A block of which that is not known may hold anything.
    pub(super) fn may(&self, has: impl FnOnce(&BlockSummary) -> bool) -> bool {
        self.entry.as_ref().is_none_or(has)
    }

    /// What is in it, if that is known.
    pub(super) fn entry(&self) -> Option<&BlockSummary> {
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
    decoded: Decoded,
    /// By block: when the last of it and of those before it ends.
    ended: Vec<u64>,
}

impl<'a> Map<'a> {
    /// `None`: there is too much to know.
    pub(super) fn new(place: &Place<'a>) -> Option<Self> {
        let mut all = Vec::new();
        let mut held = 0usize;
        for job in load::jobs(place.opened) {
            let header = &job.block.header;
            let Some(lane @ (Lane::Syscall | Lane::Sched | Lane::Kernel)) = header.lane else {
                continue;
            };
            if header.kind != Kind::Pages {
                continue;
            }
            let entry = job.reader.summary(job.block);
            held = held.saturating_add(size_of::<Known<'_>>());
            held = held.saturating_add(entry.as_ref().map_or(0, BlockSummary::bytes));
            if held as u64 > memory::limit() / 8 {
                return None;
            }
            let (pages, first, last) = (Pages::File(job), header.first, header.last);
            all.push(Known { pages, lane, first, last, entry });
        }
        all.extend(place.rings.into_iter().flat_map(|rings| of_rings(rings, place.meta)));
        all.sort_by_key(|block| (block.first, block.place()));
        let mut end = 0;
        let until = |block: &Known<'_>| {
            end = block.last.max(end);
            end
        };
        let ended = all.iter().map(until).collect();
        Some(Self { all, decoded: Decoded::default(), ended })
    }

    /// Gives away what was decoded of blocks.
    pub(super) fn into_decoded(self) -> Decoded {
        self.decoded
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
    /// its last event before that moment, if those do that begin last (they may name it later
    /// alone).
    pub(super) fn before(&self, lane: Lane, tid: u32, time: u64) -> Vec<At> {
        let has =
            |block: &Known<'_>| block.first < time && block.may(|entry| entry.has_thread(tid));
        let begun = self.all.partition_point(|block| block.first < time);
        let (mut found, mut begin) = (Vec::<(At, u64, u64)>::new(), u64::MAX);
        for (at, block) in self.all.iter().enumerate().take(begun).rev() {
            // Nothing before it overlaps with what is found.
            if !found.is_empty() && self.ended.get(at).is_some_and(|end| *end < begin) {
                break;
            }
            if block.lane == lane && has(block) {
                begin = begin.min(block.first);
                found.push((at, block.first, block.last));
            }
        }
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

    /// Of threads, each with a moment: the last event of it before that, by number, if there is
    /// any, in blocks of a lane; and all blocks that were looked at. `look` tells of some of them,
    /// in their order, what the last event in a block's pages is, and its time. `None`: some can't
    /// be read.
    pub(super) fn last<T: Send>(
        &self,
        lane: Lane,
        asked: &[Moment],
        look: impl Fn(&[&Page], &[Moment]) -> Vec<Option<Last<T>>> + Sync,
    ) -> Option<(ByNumber<T>, FxHashSet<At>)> {
        let (mut last, mut seen) = (ByNumber::default(), FxHashSet::default());
        // What is still to be found: in blocks that begin before a moment.
        let mut open: Vec<(usize, u64)> =
            asked.iter().enumerate().map(|(number, (_, time))| (number, *time)).collect();
        while !open.is_empty() {
            let mut wanted = FxHashMap::<At, Vec<usize>>::default();
            open.retain_mut(|(number, time)| {
                let Some((tid, _)) = asked.get(*number) else { return false };
                let blocks = self.before(lane, *tid, *time);
                for at in &blocks {
                    wanted.entry(*at).or_default().push(*number);
                }
                let firsts = blocks.iter().filter_map(|at| self.get(*at)).map(|block| block.first);
                *time = firsts.min().unwrap_or(0);
                !blocks.is_empty()
            });
            let mut blocks: Vec<At> = wanted.keys().copied().collect();
            blocks.sort_unstable();
            let found = self.scan(&blocks, |at, pages| {
                let numbers = wanted.get(&at).map(Vec::as_slice).unwrap_or_default();
                let moments: Vec<Moment> =
                    numbers.iter().filter_map(|number| asked.get(*number).copied()).collect();
                let of_pages = numbers.iter().copied().zip(look(pages, &moments));
                of_pages.filter_map(|(number, last)| Some((number, last?))).collect::<Vec<_>>()
            })?;
            for (number, event) in found.into_iter().flatten() {
                match last.entry(number) {
                    Entry::Vacant(entry) => drop(entry.insert(event)),
                    Entry::Occupied(mut entry) if entry.get().0 <= event.0 => {
                        entry.insert(event);
                    }
                    Entry::Occupied(_) => {}
                }
            }
            seen.extend(blocks);
            open.retain(|(number, _)| !last.contains_key(number));
        }
        Some((last, seen))
    }

    /// Decodes blocks and looks at each one's pages, on all CPUs: what is seen in each, in their
    /// order. `None`: some can't be read.
    pub(super) fn scan<T: Send>(
        &self,
        blocks: &[At],
        look: impl Fn(At, &[&Page]) -> T + Sync,
    ) -> Option<Vec<T>> {
        let known: Vec<(At, Job<'_>)> =
            blocks.iter().filter_map(|at| Some((*at, self.get(*at)?.job()?))).collect();
        let jobs: Vec<Job<'_>> = known.iter().map(|(_, job)| *job).collect();
        let seen = load::each(&jobs, most_pages() / 2, &self.decoded, |number, pages| {
            let pages: Vec<&Page> = pages.iter().map(|(page, _)| page).collect();
            look(known.get(number).map_or(0, |(at, _)| *at), &pages)
        })?;
        let mut seen = seen.into_iter();
        let each = |at: &At| match &self.get(*at)?.pages {
            Pages::File(_) => seen.next(),
            Pages::Rings(pages) => Some(look(*at, pages)),
        };
        Some(blocks.iter().filter_map(each).collect())
    }
}

/// What the rings hold of each lane, with what a summary would say of it.
fn of_rings<'a>(rings: Tail<'a>, meta: &Meta) -> impl Iterator<Item = Known<'a>> {
    let mut summaries = Summarizer::new(Some(meta));
    [Lane::Syscall, Lane::Sched, Lane::Kernel].into_iter().filter_map(move |lane| {
        let of_lane = rings.recording.streams.iter().filter(|stream| stream.lane() == lane);
        let with_sums = of_lane.flat_map(|stream| stream.pages().iter().zip(stream.summaries()));
        let own: Vec<_> = with_sums.filter(|(_, summary)| summary.last >= rings.from).collect();
        let last = own.iter().map(|(_, summary)| summary.last).max()?;
        let pages: Vec<&Page> = own.into_iter().map(|(page, _)| page).collect();
        let entry = summaries.of(pages.iter().copied(), usize::MAX);
        Some(Known { pages: Pages::Rings(pages), lane, first: rings.from, last, entry })
    })
}
