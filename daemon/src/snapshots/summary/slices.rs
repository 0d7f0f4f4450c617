//! A file's window, event by event in the order of time, with few of its pages in memory.
//!
//! The window is cut into slices whose pages fit into memory ([`fn@slice`]).

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Event, Page};
use flightrec_format::merge::Merge;
use flightrec_format::ring::{Gap, LaneStream};
use flightrec_store::{BlockRef, FileReader, Kind, slice};

/// How much of a file is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Most pages that are in memory at a time, but for one block.
    pub(super) pages: usize,
    /// Most events of all: of more, those nearest to the cause.
    pub(super) events: u64,
}

/// What is found in a window.
#[derive(Debug)]
pub(super) enum Seen<'s> {
    Event(&'s Event),
    /// Events are missing from here on.
    Gap(&'s Gap),
}

/// A file's window, slice by slice.
pub(super) struct Slices<'f> {
    file: &'f FileReader,
    session: u64,
    pages: usize,
    /// The blocks that touch the window, by their first event.
    blocks: Vec<BlockRef>,
    from: u64,
    until: u64,
    /// Where the next slice begins.
    next: u64,
    /// The last page of each ring: what is missing after it shows in the next slice.
    last: Vec<Page>,
    missing: u64,
}

impl<'f> Slices<'f> {
    /// Of the window [`from`, `until`), or of so much of it around `cause` as `bounds` allow; all
    /// ns of `CLOCK_MONOTONIC`.
    pub(super) fn new(
        file: &'f FileReader,
        session: u64,
        window: (u64, u64),
        cause: u64,
        bounds: Bounds,
    ) -> Self {
        let is_ring =
            |block: &&BlockRef| block.header.lane.is_some_and(|lane| Lane::RINGS.contains(&lane));
        let mut blocks: Vec<BlockRef> = file.of(Kind::Pages).filter(is_ring).copied().collect();
        blocks.sort_by_key(|block| (block.header.first, block.header.number));
        let (from, until) = around(&blocks, window, cause, bounds.events);
        blocks.retain(|block| touches(block, from, until));
        Self {
            file,
            session,
            pages: bounds.pages,
            blocks,
            from,
            until,
            next: from,
            last: Vec::new(),
            missing: 0,
        }
    }

    /// The part of the window that is read.
    pub(super) fn range(&self) -> (u64, u64) {
        (self.from, self.until)
    }

    /// Events that are missing in what was read so far, as far as their number is known.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// Gives each event and gap of it to `visit`, in the order of time; a gap of which a slice has
    /// but the end comes with that. Events on the first pages that are older than the window come
    /// too. What of it did not fit, ns: 0, unless its pages overlap as
    /// no recorder's do.
    pub(super) fn each(&mut self, mut visit: impl FnMut(Seen<'_>)) -> u64 {
        let mut left_out = 0;
        while self.next < self.until {
            let begins = self.next;
            let (streams, ends) = self.slice();
            if ends <= begins {
                // So many pages at one moment are no recorder's work.
                left_out = self.until.saturating_sub(begins);
                break;
            }
            let gaps = self.gaps(&streams);
            let mut gaps = gaps.iter().peekable();
            let least = if begins == self.from { 0 } else { begins };
            for event in Merge::new(streams.iter().map(|stream| stream.events_from(begins))) {
                if event.time >= ends {
                    break;
                }
                while let Some(gap) = gaps.next_if(|gap| gap.begins_before(event.time)) {
                    visit(Seen::Gap(gap));
                }
                if event.time >= least {
                    visit(Seen::Event(&event));
                }
            }
            gaps.for_each(|gap| visit(Seen::Gap(gap)));
            self.last =
                streams.into_iter().filter_map(|stream| stream.into_pages().pop()).collect();
            self.next = ends;
        }
        left_out
    }

    /// The rings from `next` on as far as there is room for them, and how far that is.
    fn slice(&self) -> (Vec<LaneStream>, u64) {
        let blocks = self.blocks.iter().map(|block| (self.file, block));
        slice(self.session, blocks, (self.next, self.until), self.pages, &self.last)
    }

    /// What is missing between the pages of a slice, and between it and the one before, in order;
    /// counts it.
    fn gaps(&mut self, streams: &[LaneStream]) -> Vec<Gap> {
        let (from, until) = (self.from, self.until);
        let gaps = streams.iter().flat_map(LaneStream::gaps);
        let mut gaps: Vec<Gap> = gaps.filter(|gap| gap.intersects(from, until)).collect();
        let missing = gaps.iter().filter_map(Gap::missing);
        self.missing = missing.fold(self.missing, u64::saturating_add);
        gaps.sort_by_key(|gap| gap.from);
        gaps
    }
}

fn touches(block: &BlockRef, from: u64, until: u64) -> bool {
    block.header.last >= from && block.header.first < until
}

/// The window, or where it holds more than `most` events, so much on both sides of the cause, in
/// the window's proportions.
fn around(blocks: &[BlockRef], window: (u64, u64), cause: u64, most: u64) -> (u64, u64) {
    const PARTS: u64 = 1 << 20;
    let (from, until) = window;
    let cause = cause.clamp(from, until);
    let share =
        |of: u64, parts: u64| (u128::from(of) * u128::from(parts) / u128::from(PARTS)) as u64;
    let range =
        |parts: u64| (cause - share(cause - from, parts), cause + share(until - cause, parts));
    let fits = |parts: u64| {
        let (from, until) = range(parts);
        let blocks = blocks.iter().filter(|block| touches(block, from, until));
        blocks.fold(0, |sum: u64, block| sum.saturating_add(block.header.events)) <= most
    };
    if fits(PARTS) {
        return window;
    }
    // The greatest share that fits; the blocks right at the cause are taken in any case.
    let (mut good, mut bad) = (1, PARTS);
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if fits(middle) { good = middle } else { bad = middle }
    }
    range(good)
}
