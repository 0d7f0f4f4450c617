//! That files hold all of a window of several stretches, shown before its pages are read: then it
//! is told of once, and not stretch by stretch.
//!
//! A checkpoint has the exact counters of every ring. Where the blocks between the last one before
//! the window and the first after it hold, lane by lane, as many events as were counted, and their
//! bytes are what was written, nothing between the two is missing, or there twice. (But for what
//! files repeat: each begins its pages anew.) What else a
//! reader says of the window first, it has from the window's ends, which are read: where each ring
//! stood, and the wall clock. Wherever this does not add up nothing is shown, and the pages tell.

use std::collections::{BTreeMap, BTreeSet};

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, REFUSALS, Refusal};
use flightrec_format::decode::{Page, Summary};
use flightrec_format::meta::Meta;
use flightrec_format::part;
use flightrec_format::ring::LaneStream;
use flightrec_format::totals::Totals;
use flightrec_store::{Content, FileReader, Kind, RingMark};

use super::checkpoints::Mark;
use super::decoded::Decoding;
use super::load::{self, Job};
use super::pages::{most_pages, streams};
use super::select;
use crate::observe;
use crate::window::Window;

/// A ring's counters: events recorded, and refused.
type Counters = (Counts, [u64; REFUSALS]);

/// What there is to show it by.
pub(super) struct Proof<'a> {
    /// The files: all whole, in a row.
    pub(super) opened: &'a [&'a FileReader],
    pub(super) meta: &'a Meta,
    /// A checkpoint before the window, and one after it.
    pub(super) before: &'a Mark,
    pub(super) after: &'a Mark,
    /// Where the window begins at the earliest.
    pub(super) earliest: u64,
    /// What lies before `from` and after `until` is read, and told by the pages. The window
    /// begins at `from` at the latest, and does not end before `until`.
    pub(super) sure: Window,
}

impl Proof<'_> {
    /// Reads the ends of a window. Returns the rings with as many of their pages as tell the
    /// window's beginning and end. `None`: nothing is shown.
    pub(super) fn read(&self, window: Window) -> Option<Vec<LaneStream>> {
        // What this release does not know is told by all pages.
        if self.meta.lanes.has_unknown() || !Lane::RINGS.iter().all(|lane| self.adds_up(*lane)) {
            return None;
        }
        let jobs = select::needed(self.opened, window, &Lane::RINGS);
        let newest = |lane: Lane| {
            let of_lane = jobs.iter().filter(move |job| job.block.header.lane == Some(lane));
            of_lane.max_by_key(|job| job.block.header.last).map(Job::place)
        };
        let newest = Lane::RINGS.map(newest);
        let is_end = |job: &Job<'_>| {
            job.block.header.last >= self.sure.until || newest.contains(&Some(job.place()))
        };
        let is_early = |job: &Job<'_>| job.block.header.first <= self.sure.from;
        let (ends, middle): (Vec<Job<'_>>, Vec<Job<'_>>) =
            jobs.iter().partition(|job| is_end(job) || is_early(job));
        if !load::are_sound(&middle) {
            return None;
        }
        // Some of them are held twice.
        let most = most_pages() / 2;
        let mut pages = Vec::new();
        if !load::pages(&ends, most, Decoding::ALL, |of_block| pages.extend(of_block))?.is_empty() {
            return None;
        }
        let streams = streams(self.meta, self.telling(&pages));
        streams.iter().all(|stream| self.is_known(stream)).then_some(streams)
    }

    /// Whether the blocks between the checkpoints hold all events of a lane that were counted
    /// between them.
    fn adds_up(&self, lane: Lane) -> bool {
        let between = self.before.place..self.after.place;
        let of_lane = load::jobs(self.opened).filter(|job| {
            let header = &job.block.header;
            header.kind == Kind::Pages
                && header.lane == Some(lane)
                && between.contains(&job.place())
        });
        let stored = of_lane.fold(0u64, |sum, job| sum.saturating_add(job.block.header.events));
        let mut files = self.before.place.0..=self.after.place.0;
        let again = files.try_fold(0u64, |sum, file| sum.checked_add(self.again(file, lane)?));
        let Some(stored) = again.and_then(|again| stored.checked_sub(again)) else { return false };
        let known =
            [&self.before.totals, &self.after.totals].into_iter().flat_map(|totals| &totals.cpus);
        let cpus: BTreeSet<u16> =
            known.map(|of_cpu| of_cpu.cpu).chain(self.meta.cpus.iter().copied()).collect();
        let counted = cpus.into_iter().try_fold(0u64, |sum, cpu| {
            let ((then, _), (now, _)) = self.counters(lane, cpu)?;
            now.iter()
                .zip(then)
                .try_fold(sum, |sum, (now, then)| sum.checked_add(now.checked_sub(then)?))
        });
        counted == Some(stored)
    }

    /// Events that a file's blocks of a lane hold between the checkpoints though earlier blocks do
    /// as well: of each page that was open when the file was begun, what was in it until then.
    /// `None`: it is not known.
    fn again(&self, file: usize, lane: Lane) -> Option<u64> {
        let reader = self.opened.get(file)?;
        let checkpoint = |block| match reader.read(block) {
            Ok(Content::Checkpoint(checkpoint)) => Some(checkpoint),
            _ => None,
        };
        let begin = checkpoint(reader.of(Kind::Checkpoint).next()?)?;
        let end = checkpoint(reader.of(Kind::Checkpoint).next_back()?)?.totals();
        let events = |totals: &Totals, cpu: u16| {
            let of_cpu = totals.cpus.iter().find(|of_cpu| of_cpu.cpu == cpu)?;
            of_cpu.events.get(lane as usize).copied()
        };
        let until = if file == self.after.place.0 { &self.after.totals } else { &end };
        // The file's first piece of a ring stands between the checkpoints if nothing happened in
        // the ring before the first, and something before the second.
        let begins_between = |mark: &&RingMark| {
            let is_before = file == self.before.place.0
                && events(&self.before.totals, mark.cpu) != Some(mark.events);
            mark.lane == lane
                && mark.seq != 0
                && !is_before
                && events(until, mark.cpu) != Some(mark.events)
        };
        let marks = begin.rings.iter().filter(begins_between);
        let mut rings: BTreeMap<u16, &RingMark> = marks.map(|mark| (mark.cpu, mark)).collect();
        let mut again = 0u64;
        for block in reader.of(Kind::Pages).filter(|block| block.header.lane == Some(lane)) {
            if rings.is_empty() {
                break;
            }
            observe::decodes(reader, block);
            for (page, _) in reader.pages(block).ok()? {
                let header = page.header();
                if let Some(mark) = rings.remove(&header.cpu)
                    && mark.seq == header.seq
                {
                    again = again.checked_add(mark.events.since(&header.events)?.total())?;
                }
            }
        }
        Some(again)
    }

    /// Whether it is known where a ring stood when the window began: it has a page from before
    /// that, after the first checkpoint; or it stood still from one checkpoint to the other; or
    /// nothing was refused between them, so that nothing is to be told of it but that its events
    /// are there. Nothing may have been refused between them that is a loss.
    fn is_known(&self, stream: &LaneStream) -> bool {
        let Some(((then, refused), (now, refused_now))) =
            self.counters(stream.lane(), stream.cpu())
        else {
            return false;
        };
        let losses = |refused: [u64; REFUSALS]| {
            [Refusal::Busy, Refusal::Throttled].map(|reason| refused.get(reason as usize).copied())
        };
        if losses(refused) != losses(refused_now) {
            return false;
        }
        match stream.pages().iter().rfind(|page| page.header().base_mono <= self.sure.from) {
            Some(page) => {
                let (header, counts) = (page.header(), page.summary().counts);
                header.events.plus(&counts).since(&then).is_some()
            }
            None => then == now || refused == refused_now,
        }
    }

    /// Of the pages, those that the window's report needs: each ring's first, the last that began
    /// before the window, and all that began later.
    fn telling(&self, pages: &[(Page, Summary)]) -> Vec<(Page, Summary)> {
        let mut rings = BTreeMap::<(Lane, u16), Vec<&(Page, Summary)>>::new();
        for page in pages {
            rings.entry((page.0.lane(), page.0.header().cpu)).or_default().push(page);
        }
        let place = |page: &Page| (page.header().seq, part::start(page.header()));
        let mut telling = Vec::new();
        for mut ring in rings.into_values() {
            ring.sort_by_key(|(page, _)| place(page));
            let early = ring.partition_point(|(page, _)| page.header().base_mono <= self.earliest);
            let early = early.saturating_sub(1);
            let first = ring.first().filter(|_| early > 0);
            telling.extend(
                first
                    .into_iter()
                    .chain(ring.get(early..).unwrap_or_default())
                    .map(|page| (*page).clone()),
            );
        }
        telling
    }

    /// A ring's counters at the two checkpoints.
    fn counters(&self, lane: Lane, cpu: u16) -> Option<(Counters, Counters)> {
        let of = |totals: &Totals| {
            let of_cpu = totals.cpus.iter().find(|of_cpu| of_cpu.cpu == cpu)?;
            Some((*of_cpu.events.get(lane as usize)?, *of_cpu.refused.get(lane as usize)?))
        };
        Some((of(&self.before.totals)?, of(&self.after.totals)?))
    }
}
