//! What is missing from a recording, where, and why.

use crate::abi::counts::Counts;
use crate::abi::page::{Lane, REFUSALS, Refusal};

/// Why events are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The ring was written over before the pages were read.
    Overwritten,
    /// Pages in the middle are not in the source: overwritten while they were copied, or not in the
    /// dump.
    Missing,
    /// Pages in the middle were overwritten in the ring before they were written to a file.
    Undrained,
    /// A page is damaged.
    Damaged,
    /// The probes counted the events, but did not record them; nothing else is missing.
    Refused,
    /// They are newer than the copy: no loss, only a later moment.
    Newer,
    /// The ring was written over, and the quiet ring holds the events of other processes alone
    /// ([`crate::kept`]).
    LeftOut,
    /// The source has no counters for the stretch: nobody can tell whether something is missing.
    Uncounted,
}

impl Reason {
    /// The reason in a few words, for output.
    pub const fn describe(self) -> &'static str {
        match self {
            Reason::Overwritten => "overwritten in the ring",
            Reason::Missing => "pages missing",
            Reason::Undrained => "overwritten before it was written to a file",
            Reason::Damaged => "damaged page",
            Reason::Refused => "refused by the probes",
            Reason::Newer => "newer than the copy",
            Reason::LeftOut => {
                "of busy processes, overwritten in the ring (the quiet ring holds the others')"
            }
            Reason::Uncounted => "the source has no later counters",
        }
    }
}

/// A stretch of time in which events of one lane are missing on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Lane.
    pub lane: Lane,
    /// CPU.
    pub cpu: u16,
    /// Everything up to here is there, the last event at this very time included; ns of
    /// `CLOCK_MONOTONIC`.
    pub from: u64,
    /// Everything from here on is there again.
    pub until: u64,
    /// Recorded events that are missing, by kind; `None` where no totals tell.
    pub lost: Option<Counts>,
    /// Events refused meanwhile, by [`Refusal`].
    pub refused: [u64; REFUSALS],
    /// Why.
    pub reason: Reason,
}

impl Gap {
    /// Number of missing events, where it is known.
    pub fn missing(&self) -> Option<u64> {
        self.lost.map(|lost| lost.total())
    }

    /// Whether of two events that belong together, as the entry and the exit of a call, one may be
    /// missing and the other be there. Of what the budget refuses both are missing (`exit_alone`,
    /// probes-ebpf/src/syscalls.rs), and of what the quiet ring leaves out all of a process.
    pub fn splits_pairs(&self) -> bool {
        let is_lost = !matches!(self.reason, Reason::LeftOut | Reason::Newer)
            && self.missing().is_none_or(|events| events != 0);
        is_lost || self.refused[Refusal::Busy as usize] != 0
    }

    /// Whether an event of this time comes after the gap's beginning. The last event before a gap
    /// is at its very beginning: where no page tells more, that event's time is all that is known.
    pub fn begins_before(&self, time: u64) -> bool {
        self.from < time
    }

    /// Whether it touches the window [`from`, `until`).
    pub fn intersects(&self, from: u64, until: u64) -> bool {
        self.from < until && self.until > from
    }
}

impl Gap {
    /// Gaps of one ring, in order, as they are told: stretches of refusal that touch are one.
    pub fn joined(gaps: Vec<Self>) -> Vec<Self> {
        let mut joined: Vec<Self> = Vec::with_capacity(gaps.len());
        for gap in gaps {
            match joined.last_mut() {
                Some(last)
                    if (last.reason, gap.reason) == (Reason::Refused, Reason::Refused)
                        && last.until == gap.from =>
                {
                    last.until = gap.until;
                    last.refused = sum(&last.refused, &gap.refused);
                }
                _ => joined.push(gap),
            }
        }
        joined
    }
}

/// Whether events of these were refused that should have been recorded: all but the recorder's own.
pub fn is_loss(refused: &[u64; REFUSALS]) -> bool {
    refused.iter().enumerate().any(|(i, n)| *n != 0 && i != Refusal::Own as usize)
}

/// `later - earlier`, element by element; `None` where one went backwards.
pub(super) fn difference<const N: usize>(later: &[u64; N], earlier: &[u64; N]) -> Option<[u64; N]> {
    let mut out = [0; N];
    for ((out, later), earlier) in out.iter_mut().zip(later).zip(earlier) {
        *out = later.checked_sub(*earlier)?;
    }
    Some(out)
}

/// `a + b`, element by element.
pub(super) fn sum<const N: usize>(a: &[u64; N], b: &[u64; N]) -> [u64; N] {
    let mut out = *a;
    for (out, b) in out.iter_mut().zip(b) {
        *out = out.saturating_add(*b);
    }
    out
}
