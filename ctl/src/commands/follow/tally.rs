//! What became of all that was recorded while it was followed.

use std::collections::BTreeMap;

use flightrec_format::ring::Gap;
use flightrec_reader::pipeline::Part;

use crate::text::coverage::refused;

/// What became of all that was recorded: `recorded` is what is shown, filtered out and skipped.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    /// For how long, ns.
    pub time: u64,
    /// Events recorded, as the rings' own totals tell.
    pub recorded: u64,
    /// Events shown.
    pub shown: u64,
    /// Events that the filter did not want.
    pub filtered: u64,
    /// Events written over before they were read.
    pub skipped: u64,
    /// Events read that were left out when the end came.
    pub cut: u64,
    /// Gaps of unknown length.
    pub unknown: u64,
    /// Events refused by the probes: busy, throttled.
    pub refused: [u64; 2],
    /// Events on CPUs without rings.
    pub no_ring: u64,
    /// Program runs that the kernel skipped.
    pub missed: u64,
    /// Of those filtered out: events that the filter can't decide, by what is missing of them.
    pub undecided: BTreeMap<Part, u64>,
    /// Whether the configuration has strings recorded.
    pub strings: bool,
}

impl Tally {
    /// Whether everything that happened was recorded and read.
    pub(super) fn is_complete(&self) -> bool {
        let Self { skipped, cut, unknown, refused, no_ring, missed, .. } = self;
        [*skipped, *cut, *unknown, refused[0], refused[1], *no_ring, *missed] == [0; 7]
            && self.undecided.is_empty()
    }

    pub(super) fn gap(&mut self, gap: &Gap) {
        match gap.missing() {
            Some(n) => self.skipped = self.skipped.saturating_add(n),
            None => self.unknown += 1,
        }
        for (sum, n) in self.refused.iter_mut().zip(refused(gap)) {
            *sum = sum.saturating_add(n);
        }
    }
}
