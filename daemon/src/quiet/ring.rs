//! One ring on its way into its part of the quiet ring.

use rustc_hash::FxHashMap;

use flightrec_format::abi::page::{Lane, PAGE_SIZE, PageHeader, part_flag};
use flightrec_format::control::Position;
use flightrec_format::decode::{Body, Event, Page};
use flightrec_format::encode::write_header;
use flightrec_format::kept::{self, KeptWriter, LeftOut};
use flightrec_format::live;

use super::census::Census;
use super::processes::Processes;
use crate::drain::pacing::Sight;

/// How much history the quiet ring is to hold before the rings begin, ns. What comes in a burst may
/// take a quarter of it, so that at least a minute is left.
pub(super) const HORIZON_NS: u64 = 90_000_000_000;
/// Rings of fewer pages are too small to be looked after.
pub(super) const LEAST_PAGES: u64 = 8;
/// Pages whose processes are decided upon at once, and how far apart they were opened at most, ns.
const STRETCH: usize = 512;
const STRETCH_NS: u64 = 2_000_000_000;

/// What a ring's kept pages are written to.
pub(super) trait Places {
    /// Puts a page into a place.
    fn keep(&self, place: usize, page: &[u8; PAGE_SIZE]);
    /// Brings a page up to date that was put there before.
    fn keep_more(&self, place: usize, page: &[u8; PAGE_SIZE]);
}

impl Places for live::LiveRings {
    fn keep(&self, place: usize, page: &[u8; PAGE_SIZE]) {
        Self::keep(self, place, page);
    }

    fn keep_more(&self, place: usize, page: &[u8; PAGE_SIZE]) {
        Self::keep_more(self, place, page);
    }
}

/// A part of the quiet ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    /// Its first place.
    pub(super) first: usize,
    /// Its number of places.
    pub(super) places: usize,
}

/// A ring, and how far it is kept.
#[derive(Debug)]
pub(super) struct Ring {
    lane: Lane,
    cpu: u16,
    /// Pages of the ring.
    pages: u64,
    area: Area,
    /// The page that is being written, and its place; whether it was put there yet.
    open: Option<(KeptWriter, usize, bool)>,
    /// Which of its places is next.
    next: usize,
    /// Number of the last page that was dealt with.
    done: u64,
    /// When that ended, ns of `CLOCK_MONOTONIC`; 0: none was yet.
    until: u64,
    /// Bytes that may be written.
    tokens: i64,
}

impl Ring {
    /// Goes on where the daemon before ended, if there was one.
    pub(super) fn new(live: &live::LiveRings, lane: Lane, cpu: u16, area: Area) -> Self {
        let mut ring = Self::fresh(lane, cpu, live.ring_pages(lane, cpu), area);
        let places = area.first..area.first + area.places;
        let pages = live
            .kept(places)
            .filter_map(|(place, bytes)| Some((place, Page::copy_from(&bytes).ok()?)));
        for (place, page) in
            pages.filter(|(_, page)| (page.lane(), page.header().cpu) == (lane, cpu))
        {
            let through = kept::through(&page);
            if through > ring.done {
                (ring.done, ring.next) = (through, (place - area.first + 1) % area.places.max(1));
            }
        }
        ring
    }

    pub(super) fn fresh(lane: Lane, cpu: u16, pages: u64, area: Area) -> Self {
        let tokens = burst(area);
        Self { lane, cpu, pages, area, open: None, next: 0, done: 0, until: 0, tokens }
    }

    /// Number of the last page that was dealt with.
    #[cfg(test)]
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Leaves pages out, as if they had been written over.
    #[cfg(test)]
    pub(super) fn skip(&mut self, to: u64) {
        self.done = self.done.max(to);
    }

    /// How it looks to the pacing: half of the ring may wait, a quarter is left.
    pub(super) fn sight(&self, live: &live::LiveRings) -> Sight {
        let newest = live.newest(self.lane, self.cpu);
        Sight {
            lane: self.lane,
            newest,
            drained: self.done.saturating_add(self.pages / 4),
            pages: self.pages,
        }
    }

    /// Whether pages are to be written over soon.
    pub(super) fn is_due(&self, live: &live::LiveRings) -> bool {
        live.newest(self.lane, self.cpu).saturating_sub(self.done) >= self.pages / 2
    }

    /// Keeps what is to be kept of all pages but the newest quarter of the ring.
    pub(super) fn pass(&mut self, live: &live::LiveRings, processes: &Processes) {
        let last = live.newest(self.lane, self.cpu).saturating_sub(self.pages / 4);
        // All of the page that it names was dealt with.
        let position =
            Position { lane: self.lane as u8, cpu: self.cpu, seq: self.done, used: u32::MAX };
        let mut since = live.after(&position, last);
        let mut stretch = Vec::with_capacity(STRETCH);
        while let Some(bytes) = live.page_since(&mut since) {
            let Ok(page) = Page::new(bytes) else { continue };
            let opened = |page: &Page| page.header().base_mono;
            let is_long = stretch
                .first()
                .is_some_and(|first| opened(&page) > opened(first).saturating_add(STRETCH_NS));
            if is_long || stretch.len() == STRETCH {
                self.take(&stretch, processes, live);
                stretch.clear();
            }
            stretch.push(page);
        }
        self.take(&stretch, processes, live);
        // What is gone already is no reason to look for it again.
        self.done = self.done.max(last);
    }

    /// Keeps what is to be kept of some pages, which are closed, in order.
    pub(super) fn take(&mut self, stretch: &[Page], processes: &Processes, places: &impl Places) {
        let (Some(first), Some(last)) = (stretch.first(), stretch.last()) else { return };
        let (from, until) = (first.header().base_mono, last.summary().last.saturating_add(1));
        let mut census = Census::default();
        // The processes of each page's threads: an id may be another's in the next one.
        let mut present: Vec<FxHashMap<u32, u32>> = Vec::with_capacity(stretch.len());
        for page in stretch {
            let (opened, last) = (page.header().base_mono, page.summary().last);
            let mut of_page: FxHashMap<u32, u32> = FxHashMap::default();
            kept::tally(page, |tid, events| {
                let sum = of_page.entry(tid).or_default();
                *sum = sum.saturating_add(events);
            });
            // Of each thread's events their process is what is asked from here on.
            for (tid, entry) in &mut of_page {
                let process = processes.of(*tid, opened, last, until);
                census.count(process, *entry);
                *entry = process;
            }
            present.push(of_page);
        }
        let used: usize = stretch.iter().map(|page| page.header().used_bytes()).sum();
        let kept = census.kept(self.room(until) / (used as u64 / census.events().max(1)).max(1));
        let left_out = census.left_out(&kept, from, until);
        if let Some((writer, ..)) = &mut self.open {
            writer.leave_out(&left_out);
        }
        let mut events = Vec::new();
        for (page, present) in stretch.iter().zip(&present) {
            if left_out.is_empty() && self.open.is_none() {
                self.put_whole(page, places);
                continue;
            }
            events.clear();
            // The task lane's marks, and recorder events, are nobody's.
            if self.lane == Lane::Task || present.values().any(|process| kept.contains(process)) {
                let is_wanted =
                    |tid: u32| present.get(&tid).is_some_and(|process| kept.contains(process));
                events.extend(page.events().filter(|event| is_kept(event, is_wanted)));
            }
            self.put(page, &events, &left_out, places);
        }
        self.flush(places);
        self.until = until;
    }

    /// For how many bytes of records there is room, with the time up to `until`: for what that time
    /// brings at least by half, so that nobody who does little is left out when a burst has
    /// been taken.
    fn room(&mut self, until: u64) -> u64 {
        /// A record takes more where others are left out between, and a page has a longer header.
        const PERCENT: u64 = 140;
        let half = burst(self.area) / 2;
        let since = if self.until == 0 { until } else { self.until };
        let earned = self.rate(until.saturating_sub(since));
        self.tokens = self.tokens.saturating_add(earned).min(2 * half);
        let bytes = (earned + self.tokens - half).max(earned / 2).max(0) as u64;
        bytes.saturating_mul(100) / PERCENT
    }

    /// Bytes that may be written in some ns.
    fn rate(&self, ns: u64) -> i64 {
        let bytes =
            self.area.places as u128 * PAGE_SIZE as u128 * u128::from(ns) / u128::from(HORIZON_NS);
        i64::try_from(bytes).unwrap_or(i64::MAX).min(2 * burst(self.area))
    }

    /// Puts what is kept of a page after what is there.
    fn put(&mut self, page: &Page, events: &[Event], left_out: &[LeftOut], places: &impl Places) {
        self.done = page.header().seq;
        if let Some((writer, ..)) = &mut self.open
            && writer.append(page, events)
        {
            return;
        }
        self.flush(places);
        self.open = None;
        if !left_out.is_empty() {
            let mut writer = KeptWriter::new(page);
            writer.leave_out(left_out);
            if writer.append(page, events) {
                let place = self.place();
                self.open = Some((writer, place, false));
                return;
            }
        }
        self.put_whole(page, places);
    }

    /// Keeps all of a page, as it is.
    fn put_whole(&mut self, page: &Page, places: &impl Places) {
        self.done = page.header().seq;
        let header = page.header();
        let mut bytes = *page.bytes();
        if let Some(head) = bytes.first_chunk_mut() {
            let flags = header.flags | part_flag::KEPT;
            *head = write_header(&PageHeader { flags, ..*header });
        }
        let place = self.place();
        places.keep(place, &bytes);
    }

    /// The next place, in place of what is there.
    fn place(&mut self) -> usize {
        let place = self.area.first + self.next;
        self.next = (self.next + 1) % self.area.places.max(1);
        self.tokens = self.tokens.saturating_sub(PAGE_SIZE as i64);
        place
    }

    /// Brings the open page into its place.
    fn flush(&mut self, places: &impl Places) {
        let Some((writer, place, is_there)) = &mut self.open else { return };
        let Some(page) = writer.page() else { return };
        if *is_there {
            places.keep_more(*place, &page);
        } else {
            places.keep(*place, &page);
            *is_there = true;
        }
    }
}

/// Bytes that may be written at once.
fn burst(area: Area) -> i64 {
    (area.places * PAGE_SIZE / 4) as i64
}

/// Whether an event is kept, where some threads are.
fn is_kept(event: &Event, mut is_kept: impl FnMut(u32) -> bool) -> bool {
    let mut kept = matches!(event.body, Body::Mark(_) | Body::Act(..));
    kept::threads(event.tid, &event.body, |tid| kept = kept || is_kept(tid));
    kept
}
