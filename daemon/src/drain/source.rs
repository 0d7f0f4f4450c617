//! Where the pages come from: the rings of a recording, as the drain sees them.

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::control::{Position, Totals};
use flightrec_format::live;

/// The rings of one recording.
pub(super) trait Source {
    /// Every ring, with its number of pages.
    fn rings(&self) -> Vec<(Lane, u16, u64)>;
    /// Sequence number of a ring's newest page; 0: none yet.
    fn newest(&self, lane: Lane, cpu: u16) -> u64;
    /// The probes' counters, with the time from before they were read.
    fn counters(&self) -> Totals;
    /// Copies of the pages of a ring after a position, up to page `last`, oldest first, as far as
    /// they are still there.
    fn after(&self, after: Position, last: u64) -> impl Iterator<Item = Box<[u8; PAGE_SIZE]>>;
}

impl Source for live::LiveRings {
    fn rings(&self) -> Vec<(Lane, u16, u64)> {
        let cpus = self.cpus();
        let rings =
            Lane::RINGS.into_iter().flat_map(|lane| cpus.iter().map(move |cpu| (lane, *cpu)));
        rings
            .map(|(lane, cpu)| (lane, cpu, self.ring_pages(lane, cpu)))
            .filter(|(.., pages)| *pages != 0)
            .collect()
    }

    fn newest(&self, lane: Lane, cpu: u16) -> u64 {
        Self::newest(self, lane, cpu)
    }

    fn counters(&self) -> Totals {
        Self::counters(self)
    }

    fn after(&self, after: Position, last: u64) -> impl Iterator<Item = Box<[u8; PAGE_SIZE]>> {
        let mut since = Self::after(self, &after, last);
        std::iter::from_fn(move || self.page_since(&mut since))
    }
}
