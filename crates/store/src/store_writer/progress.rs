//! How far each ring is in the files.

use std::collections::BTreeMap;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Page, Summary};
use flightrec_format::part::{self, PROVISIONAL_NS};
use flightrec_format::totals::{Position, Totals};

use crate::checkpoint::{Checkpoint, RingMark};

/// What the files hold, in memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    time: u64,
    rings: BTreeMap<(Lane, u16), RingMark>,
}

impl Progress {
    pub(super) fn of(checkpoint: &Checkpoint) -> Self {
        let rings = checkpoint.rings.iter().map(|ring| ((ring.lane, ring.cpu), *ring)).collect();
        Self { time: checkpoint.time, rings }
    }

    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint { time: self.time, rings: self.rings.values().copied().collect() }
    }

    /// All that was recorded before this moment is in the files, ns of `CLOCK_MONOTONIC`; 0: not
    /// known.
    pub(super) fn time(&self) -> u64 {
        self.time
    }

    /// How far a ring is.
    pub(super) fn mark(&self, lane: Lane, cpu: u16) -> RingMark {
        self.rings.get(&(lane, cpu)).copied().unwrap_or(RingMark::new(lane, cpu))
    }

    /// Where a ring is to be read on.
    pub(super) fn position(&self, lane: Lane, cpu: u16) -> Position {
        self.mark(lane, cpu).position()
    }

    /// Events before a place in a ring, if it is the one reached.
    pub(super) fn events_at(&self, page: &Page, units: u32) -> Option<Counts> {
        let mark = self.rings.get(&(page.lane(), page.header().cpu))?;
        (mark.seq == page.header().seq && mark.used == units).then_some(mark.events)
    }

    /// A page, or part of one, is in the files. Places only go forward.
    pub(super) fn reached(&mut self, page: &Page, summary: &Summary) {
        let header = page.header();
        let key = (page.lane(), header.cpu);
        let mark = self.rings.entry(key).or_insert_with(|| RingMark::new(key.0, key.1));
        if (header.seq, header.used) <= (mark.seq, mark.used) {
            return;
        }
        (mark.seq, mark.used) = (header.seq, header.used);
        mark.events = header.events.plus(&summary.counts);
        for (refused, opened) in mark.refused.iter_mut().zip(header.refused) {
            *refused = opened.max(*refused);
        }
    }

    /// What both hold: of each ring, up to the earlier place.
    pub(super) fn common(&self, other: &Self) -> Self {
        let common = |(key, a): (&(Lane, u16), &RingMark)| {
            let b = other.rings.get(key)?;
            let mut mark = if (a.seq, a.used) <= (b.seq, b.used) { *a } else { *b };
            for (least, (a, b)) in mark.refused.iter_mut().zip(a.refused.iter().zip(b.refused)) {
                *least = b.min(*a);
            }
            Some((*key, mark))
        };
        Self {
            time: self.time.min(other.time),
            rings: self.rings.iter().filter_map(common).collect(),
        }
    }

    /// All that the rings held when these counters were read has been given to the writer since.
    pub(super) fn vouch(&mut self, totals: &Totals) {
        self.time = self.time.max(totals.now.saturating_sub(PROVISIONAL_NS));
        for cpu in totals.cpus.iter().filter(|cpu| cpu.recorded) {
            for (lane, refused) in Lane::RINGS.into_iter().zip(cpu.refused) {
                let mark = self
                    .rings
                    .entry((lane, cpu.cpu))
                    .or_insert_with(|| RingMark::new(lane, cpu.cpu));
                for (known, counted) in mark.refused.iter_mut().zip(refused) {
                    *known = counted.max(*known);
                }
            }
        }
    }
}

/// How far the pages of each ring are in one file, in units ([`part`]): what follows is cut to
/// parts.
#[derive(Debug, Default)]
pub(super) struct InFile(BTreeMap<(Lane, u16), (u64, u32)>);

impl InFile {
    /// What of a page is not in the file yet and final; `None`: nothing.
    pub(super) fn rest(
        &self,
        page: Page,
        open: bool,
        now: u64,
        progress: &Progress,
    ) -> Option<Page> {
        let header = *page.header();
        let settled = part::settled(&page, open, now);
        let key = (page.lane(), header.cpu);
        let (seq, units) = self.0.get(&key).copied().unwrap_or_default();
        let whole = part::start(&header);
        // What is in earlier files already, and no more, need not be repeated until more comes.
        let place = progress.position(key.0, key.1);
        if settled <= whole || (header.seq, settled) <= (place.seq, place.used) || header.seq < seq
        {
            return None;
        }
        let page = if settled < header.used { part::head(&page, settled) } else { page };
        if seq != header.seq {
            return Some(page);
        }
        match part::tail_after(&page, units, progress.events_at(&page, units)) {
            Some(rest) => Some(rest),
            // Damaged before: stored whole, again.
            None => (settled > units).then_some(page),
        }
    }

    /// A page, or part of one, is in the file.
    pub(super) fn reached(&mut self, page: &Page) {
        self.0.insert((page.lane(), page.header().cpu), (page.header().seq, page.header().used));
    }
}
