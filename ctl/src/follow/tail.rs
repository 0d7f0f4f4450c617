//! How far a follower has got in each ring, and what it missed.
//!
//! A ring's pages are taken up to a moment of time; what is newer stays for the next round, in
//! which its page comes again. So events of all rings can be merged by time, round by round, and an
//! entry of a system call is only taken when its exit can't fold into it any more. The totals in
//! the pages' headers tell exactly what was written over before it was read.

use std::collections::BTreeMap;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, REFUSALS, Refusal};
use flightrec_format::control::{Position, Totals};
use flightrec_format::decode::Page;
use flightrec_format::excerpt::{Events, Excerpt};
use flightrec_format::ring::{Gap, Reason};

/// Positions in all rings of a recording.
#[derive(Debug, Default)]
pub struct Tail {
    rings: BTreeMap<(Lane, u16), Ring>,
}

/// What is new in a round.
#[derive(Default)]
pub struct Round<'p> {
    /// Events of each ring, in order.
    pub events: Vec<Events<'p>>,
    /// What is missing before them.
    pub gaps: Vec<Gap>,
}

/// A position in one ring.
#[derive(Debug, Default, Clone, Copy)]
struct Ring {
    /// Page that it is in; 0: none.
    seq: u64,
    /// Words of it with which it is done.
    used: u32,
    /// Events of it that were given out.
    taken: u64,
    /// Whether the totals below are known.
    known: bool,
    /// Events of the ring up to here, given out or missed.
    events: Counts,
    /// Events refused up to the page's start.
    refused: [u64; REFUSALS],
    /// `events` when the following began.
    begun: Counts,
    /// Time of the last event, or of the page's start.
    last: u64,
}

impl Tail {
    /// At the beginning of these rings.
    pub fn new(cpus: &[u16]) -> Self {
        let rings = Lane::RINGS
            .iter()
            .flat_map(|lane| cpus.iter().map(move |cpu| ((*lane, *cpu), Ring::default())));
        Self { rings: rings.collect() }
    }

    /// Number of rings.
    pub fn rings(&self) -> usize {
        self.rings.len()
    }

    /// What to ask for.
    pub fn positions(&self) -> Vec<Position> {
        let position = |(&(lane, cpu), ring): (&(Lane, u16), &Ring)| Position {
            lane: lane as u8,
            cpu,
            seq: ring.seq,
            used: ring.used,
        };
        self.rings.iter().map(position).collect()
    }

    /// What was taken so far is the past: counting begins. A ring of which no page was there, and
    /// which `totals` know as empty, is known from its start.
    pub fn begin(&mut self, totals: &Totals) {
        for ((lane, cpu), ring) in &mut self.rings {
            let of_cpu = totals.cpus.iter().find(|totals| totals.cpu == *cpu);
            let empty =
                of_cpu.and_then(|totals| totals.events.get(*lane as usize)) == Some(&Counts::ZERO);
            ring.known |= ring.seq == 0 && empty;
            ring.begun = ring.events;
        }
    }

    /// Events recorded since [`Self::begin`], as the rings' own totals tell.
    pub fn recorded(&self) -> u64 {
        let of_ring = |ring: &Ring| ring.events.less(&ring.begun).total();
        self.rings.values().map(of_ring).fold(0, u64::saturating_add)
    }

    /// Takes pages, of each ring oldest first, up to the moment `until`, which was before they were
    /// copied.
    pub fn take<'p>(&mut self, pages: impl IntoIterator<Item = &'p Page>, until: u64) -> Round<'p> {
        let mut sorted: BTreeMap<(Lane, u16), Vec<&'p Page>> = BTreeMap::new();
        for page in pages {
            sorted.entry((page.lane(), page.header().cpu)).or_default().push(page);
        }
        let mut round = Round::default();
        for ((lane, cpu), pages) in sorted {
            // Pages of rings that nobody asked for are no part of it.
            let Some(ring) = self.rings.get_mut(&(lane, cpu)) else { continue };
            let mut excerpts = Vec::new();
            for (i, page) in pages.iter().enumerate() {
                let next = pages.get(i + 1).map(|next| next.header().base_mono);
                // Out of order, or twice: not what the probes write.
                if page.header().seq < ring.seq || i > 0 && page.header().seq == ring.seq {
                    continue;
                }
                round.gaps.extend(ring.enter(page));
                let (excerpt, all) = ring.excerpt(page, until, next);
                excerpts.push(excerpt);
                if !all {
                    break;
                }
            }
            round.events.push(Events::new(excerpts));
        }
        round
    }
}

impl Ring {
    /// Goes to the start of a page, if it is not in it. What should have been before it, and was
    /// not there?
    fn enter(&mut self, page: &Page) -> Option<Gap> {
        let header = page.header();
        if header.seq == self.seq {
            return None;
        }
        let before = *self;
        *self = Self {
            seq: header.seq,
            used: 0,
            taken: 0,
            known: true,
            events: header.events,
            refused: header.refused,
            last: header.base_mono,
            ..before
        };
        if !before.known && header.seq > 1 {
            // Where it begins to be known, nothing is missed.
            self.begun = header.events;
            return None;
        }
        let lost = header.events.since(&before.events);
        let refused = difference(&header.refused, &before.refused).unwrap_or_default();
        let reason = match lost {
            // The recorder's own calls are left out on purpose.
            Some(Counts::ZERO) if refused.iter().take(Refusal::Own as usize).all(|n| *n == 0) => {
                return None;
            }
            Some(Counts::ZERO) => Reason::Refused,
            Some(_) if header.seq != before.seq.saturating_add(1) => Reason::Overwritten,
            _ => Reason::Damaged,
        };
        let until = header.base_mono.max(before.last);
        Some(Gap {
            lane: page.lane(),
            cpu: header.cpu,
            from: before.last,
            until,
            lost,
            refused,
            reason,
        })
    }

    /// What is new in the page that it is in, up to `until`; and whether that is all of the page.
    /// `next` is when the next page was opened, if it is there.
    fn excerpt<'p>(
        &mut self,
        page: &'p Page,
        until: u64,
        next: Option<u64>,
    ) -> (Excerpt<'p>, bool) {
        let header = page.header();
        // A page's time ends where the next one begins, whatever a damaged record says.
        let whole = next.is_some_and(|next| next <= until);
        let skip = self.taken;
        let mut decoder = page.events();
        let mut counts = *decoder.counts();
        let (mut given, mut all) = (0, true);
        while let Some(event) = decoder.next() {
            if given >= skip && event.time >= until && !whole {
                all = false;
                break;
            }
            given += 1;
            counts = *decoder.counts();
            self.last = self.last.max(event.time);
        }
        if all {
            counts = *decoder.counts();
        }
        self.events = header.events.plus(&counts);
        self.taken = given.max(skip);
        // A page that is not through comes again.
        self.used = if all { header.used } else { 0 };
        (Excerpt { page, skip, take: given.saturating_sub(skip) }, all)
    }
}

fn difference<const N: usize>(later: &[u64; N], earlier: &[u64; N]) -> Option<[u64; N]> {
    let mut out = [0; N];
    for ((out, later), earlier) in out.iter_mut().zip(later).zip(earlier) {
        *out = later.checked_sub(*earlier)?;
    }
    Some(out)
}

#[cfg(test)]
mod tests;
