//! What the rings had overwritten before it was taken: exact, by the totals in the pages' headers.
//!
//! The difference between what a page counts before itself and where the drain stands is what is
//! missing between. It is counted when the page behind the gap is in the files, once, however often
//! a fault makes the drain go back.

use std::collections::BTreeMap;

use flightrec_format::abi::page::{LANE_KINDS, Lane, RING_LANES};
use flightrec_format::decode::Page;
use flightrec_store::RingMark;

type Counts = [u64; LANE_KINDS];

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
    /// behind the mark.
    pub(super) fn see(&mut self, mark: &RingMark, before: Option<&Page>, page: &Page) {
        let header = page.header();
        let until = self.ring(mark).until;
        let (seq, from) = match before {
            Some(before) if before.header().seq.checked_add(1) == Some(header.seq) => return,
            Some(before) => {
                let head = before.header();
                (head.seq, combine(&head.events, &before.summary().counts, u64::saturating_add))
            }
            None => (mark.seq, mark.events),
        };
        if header.seq <= seq {
            return;
        }
        let lost = combine(&header.events, &combine(&from, &until, u64::max), u64::saturating_sub);
        let lost = sum(&lost);
        if lost != 0 {
            self.gaps.push(Gap { lane: page.lane(), cpu: header.cpu, until: header.events, lost });
        }
    }

    /// Pages were handed over; `mark` tells how far a ring is in the files now. Gaps before that
    /// are final.
    pub(super) fn settle(&mut self, mark: impl Fn(Lane, u16) -> RingMark) {
        for gap in self.gaps.drain(..) {
            let lost = self.lost.get_mut(gap.lane as usize);
            if sum(&mark(gap.lane, gap.cpu).events) >= sum(&gap.until)
                && let Some(lost) = lost
            {
                *lost = lost.saturating_add(gap.lost);
            }
        }
        for ((lane, cpu), ring) in &mut self.rings {
            ring.until = combine(&ring.until, &mark(*lane, *cpu).events, u64::max);
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
                *written =
                    written.saturating_add(sum(&ring.until)).saturating_sub(sum(&ring.begin));
            }
        }
        combine(&written, &self.lost, u64::saturating_sub)
    }
}

fn sum(counts: &Counts) -> u64 {
    counts.iter().fold(0, |sum, n| sum.saturating_add(*n))
}

fn combine<const N: usize>(a: &[u64; N], b: &[u64; N], by: fn(u64, u64) -> u64) -> [u64; N] {
    let mut out = *a;
    for (out, b) in out.iter_mut().zip(b) {
        *out = by(*out, *b);
    }
    out
}
