//! What the rings had overwritten before it was taken: exact, by the totals in the pages' headers.
//!
//! The difference between what a page counts before itself and where the drain stands is what is
//! missing between. It is counted when the page after the gap is in the files, once, however often
//! a fault makes the drain go back.

use std::collections::BTreeMap;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, RING_LANES};
use flightrec_format::decode::Page;
use flightrec_store::RingMark;

/// One ring.
#[derive(Debug, Clone, Copy)]
struct Ring {
    /// Its counters where the drain began with it.
    begin: Counts,
    /// Up to where it is accounted for: written, or counted as lost.
    until: Counts,
}

/// A gap before a page that is on its way to the files.
#[derive(Debug)]
struct Gap {
    lane: Lane,
    cpu: u16,
    /// The ring's counters at its end.
    until: Counts,
    lost: u64,
}

/// Events of one recording, written and lost.
#[derive(Debug, Default)]
pub(super) struct Losses {
    rings: BTreeMap<(Lane, u16), Ring>,
    gaps: Vec<Gap>,
    lost: [u64; RING_LANES],
}

impl Losses {
    /// A page is about to be handed over. `mark`: the place up to which the ring is in the files;
    /// `before`: the page that was handed over before this one, if it is of the same ring and
    /// after the mark.
    pub(super) fn see(&mut self, mark: &RingMark, before: Option<&Page>, page: &Page) {
        let header = page.header();
        let until = self.ring(mark).until;
        let (seq, from) = match before {
            Some(before) if before.header().seq.checked_add(1) == Some(header.seq) => return,
            Some(before) => {
                let head = before.header();
                (head.seq, head.events.plus(&before.summary().counts))
            }
            None => (mark.seq, mark.events),
        };
        if header.seq <= seq {
            return;
        }
        let lost = header.events.less(&from.most(&until)).total();
        if lost != 0 {
            self.gaps.push(Gap { lane: page.lane(), cpu: header.cpu, until: header.events, lost });
        }
    }

    /// Pages were handed over; `mark` tells how far a ring is in the files now. Gaps before that
    /// are final.
    pub(super) fn settle(&mut self, mark: impl Fn(Lane, u16) -> RingMark) {
        for gap in self.gaps.drain(..) {
            let lost = self.lost.get_mut(gap.lane as usize);
            if mark(gap.lane, gap.cpu).events.total() >= gap.until.total()
                && let Some(lost) = lost
            {
                *lost = lost.saturating_add(gap.lost);
            }
        }
        for ((lane, cpu), ring) in &mut self.rings {
            ring.until = ring.until.most(&mark(*lane, *cpu).events);
        }
    }

    fn ring(&mut self, mark: &RingMark) -> &mut Ring {
        let ring = Ring { begin: mark.events, until: mark.events };
        self.rings.entry((mark.lane, mark.cpu)).or_insert(ring)
    }

    /// Events lost so far, by lane.
    pub(super) fn lost(&self) -> [u64; RING_LANES] {
        self.lost
    }

    /// Events written so far, by lane, each once.
    pub(super) fn written(&self) -> [u64; RING_LANES] {
        let mut written = [0u64; RING_LANES];
        for ((lane, _), ring) in &self.rings {
            if let Some(written) = written.get_mut(*lane as usize) {
                let (until, begin) = (ring.until.total(), ring.begin.total());
                *written = written.saturating_add(until).saturating_sub(begin);
            }
        }
        for (written, lost) in written.iter_mut().zip(self.lost) {
            *written = written.saturating_sub(lost);
        }
        written
    }
}
