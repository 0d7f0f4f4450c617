//! How far one ring is drained.

use flightrec_format::abi::page::{HEADER_LEN, LANE_KINDS, Lane, REFUSALS};
use flightrec_format::control::Position;
use flightrec_format::decode::Page;
use flightrec_store::{RingMark, part};

/// Words of a page's header.
const HEADER_WORDS: u32 = HEADER_LEN as u32 / 8;

/// A ring, and the place up to which it is in the files.
#[derive(Debug, Clone)]
pub struct Ring {
    /// Lane.
    pub lane: Lane,
    /// CPU.
    pub cpu: u16,
    /// Pages that it has.
    pub pages: u64,
    /// The page that the place is in; 0: before the first.
    seq: u64,
    /// Words of that page before the place.
    used: u32,
    /// As many of them stand in the present file, from its first on; 0: none does, and the page is to be written
    /// from its beginning when there is more of it.
    in_file: u32,
    /// The page was closed when it was taken, and all of it was: nothing is lost before the next one.
    complete: bool,
    /// What the place was taken from; `None` where it is known from a checkpoint, or nothing was taken yet.
    last: Option<Page>,
    /// Where `last` is `None`: events before the place.
    known: [u64; LANE_KINDS],
    /// Events up to which losses have been counted already; ahead of the place behind [`Self::rewind`].
    accounted: [u64; LANE_KINDS],
    /// Events that were overwritten before they could be taken.
    lost: u64,
}

impl Ring {
    /// Nothing of it is in the files.
    pub fn new(lane: Lane, cpu: u16, pages: u64) -> Self {
        Self {
            lane,
            cpu,
            pages,
            seq: 0,
            used: 0,
            in_file: 0,
            complete: false,
            last: None,
            known: [0; LANE_KINDS],
            accounted: [0; LANE_KINDS],
            lost: 0,
        }
    }

    /// The place, for a source.
    pub fn position(&self) -> Position {
        Position { lane: self.lane as u8, cpu: self.cpu, seq: self.seq, used: self.used }
    }

    /// Events before the place, as the ring counts them.
    pub fn totals(&self) -> [u64; LANE_KINDS] {
        self.last.as_ref().map_or(self.known, |page| add(&page.header().events, &page.summary().counts))
    }

    /// Events that were overwritten before they could be taken.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The place, for a checkpoint.
    pub fn mark(&self, refused: [u64; REFUSALS]) -> RingMark {
        RingMark {
            lane: self.lane,
            cpu: self.cpu,
            seq: self.seq,
            used: self.used,
            events: self.totals(),
            refused,
        }
    }

    /// Continues where a checkpoint says.
    pub fn resume(&mut self, mark: &RingMark) {
        self.go_to(mark);
        self.accounted = mark.events;
    }

    /// Goes back to an earlier place: what was taken since may not be in the files. What was lost stays counted once.
    pub fn rewind(&mut self, mark: &RingMark) {
        self.accounted = max(&self.accounted, &self.totals());
        self.go_to(mark);
    }

    fn go_to(&mut self, mark: &RingMark) {
        (self.seq, self.used, self.known) = (mark.seq, mark.used, mark.events);
        (self.last, self.in_file, self.complete) = (None, 0, false);
    }

    /// A new file begins: nothing is in it.
    pub fn new_file(&mut self) {
        self.in_file = 0;
    }

    /// Takes a copy of the page that the place is in, or of a later one. What is to be written of it: what is new, or all
    /// of it where the present file has nothing of the page; `None` where nothing is new. `open`: the ring may
    /// still be writing it, and what may change by `now` (ns of `CLOCK_MONOTONIC`) is left for later.
    pub fn take(&mut self, page: Page, open: bool, now: u64) -> Option<Page> {
        let header = *page.header();
        let same = header.seq == self.seq;
        if header.seq < self.seq {
            return None;
        }
        let words = part::settled(&page, open, now);
        let (before, in_file) = if same { (self.used, self.in_file) } else { (HEADER_WORDS, 0) };
        if words <= before {
            // Closed without having got more: the next page follows it without a gap.
            self.complete |= same && !open && words == before;
            return None;
        }
        if !same && !(self.complete && header.seq == self.seq + 1) {
            let from = max(&self.totals(), &self.accounted);
            let lost = header.events.iter().zip(from).map(|(now, then)| now.saturating_sub(then));
            self.lost = lost.fold(self.lost, u64::saturating_add);
        }
        let page = if words == header.used { page } else { part::head(&page, words) };
        let part = if in_file > HEADER_WORDS { part::tail(&page, in_file) } else { None };
        // Of a damaged page no part can be made: it is stored whole again.
        let new = part.unwrap_or_else(|| page.clone());
        (self.seq, self.used, self.in_file) = (header.seq, words, words);
        self.complete = !open && words == header.used;
        self.last = Some(page);
        Some(new)
    }
}

fn add(a: &[u64; LANE_KINDS], b: &[u64; LANE_KINDS]) -> [u64; LANE_KINDS] {
    combine(a, b, u64::saturating_add)
}

fn max(a: &[u64; LANE_KINDS], b: &[u64; LANE_KINDS]) -> [u64; LANE_KINDS] {
    combine(a, b, u64::max)
}

fn combine(a: &[u64; LANE_KINDS], b: &[u64; LANE_KINDS], by: fn(u64, u64) -> u64) -> [u64; LANE_KINDS] {
    let mut out = *a;
    for (out, b) in out.iter_mut().zip(b) {
        *out = by(*out, *b);
    }
    out
}
