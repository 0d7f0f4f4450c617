//! The coverage of a window that is read in stretches, as one.

use std::collections::BTreeMap;

use flightrec_format::abi::page::Lane;
use flightrec_format::ring::{Gap, RingCoverage};

use super::Coverage;
use crate::pipeline::Doubt;
use crate::window::Window;

impl Coverage {
    /// Whether `next`, of the same recording, is about the stretch after this one.
    pub fn goes_on_in(&self, next: &Self) -> bool {
        !self.window.is_empty() && !next.window.is_empty() && self.window.until == next.window.from
    }

    /// Makes it one of both stretches ([`Self::goes_on_in`]). What pages of both count is in both:
    /// numbers of the recorder's own events are then [bounds](Self::is_joined).
    pub fn join(&mut self, next: Self) {
        let (first, second) = (self.window, next.window);
        self.is_joined = true;
        self.window.until = second.until;
        self.now = self.now.max(next.now);
        self.totals = next.totals;
        join_lanes(&mut self.lanes, next.lanes, first, second);
        for (from, until) in next.detached {
            match self.detached.last_mut() {
                Some(last) if last.1 == from => last.1 = until,
                _ => self.detached.push((from, until)),
            }
        }
        self.untold = self.untold.saturating_add(next.untold);
        for doubt in next.doubts {
            let is_same = |of: &&mut Doubt| (of.cpu, of.part) == (doubt.cpu, doubt.part);
            match self.doubts.iter_mut().find(is_same) {
                Some(of) => {
                    of.until = of.until.max(doubt.until);
                    of.events = of.events.saturating_add(doubt.events);
                }
                None => self.doubts.push(doubt),
            }
        }
        add_gaps(&mut self.spared, next.spared, second);
        for (kind, n) in next.unknown.kinds {
            let sum = self.unknown.kinds.entry(kind).or_default();
            *sum = sum.saturating_add(n);
        }
        let mut left_out: BTreeMap<u32, u64> = self.left_out.iter().copied().collect();
        for (pid, n) in next.left_out {
            let sum = left_out.entry(pid).or_default();
            *sum = sum.saturating_add(n);
        }
        self.left_out = left_out.into_iter().collect();
        self.left_out.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    }
}

/// What rings have of both stretches.
fn join_lanes(
    lanes: &mut Vec<RingCoverage>,
    next: Vec<RingCoverage>,
    first: Window,
    second: Window,
) {
    let key = |of: &RingCoverage| (of.lane, of.cpu);
    let mut later: BTreeMap<(Lane, u16), RingCoverage> =
        next.into_iter().map(|of| (key(&of), of)).collect();
    for lane in &mut *lanes {
        let Some(other) = later.remove(&key(lane)) else {
            // The ring has nothing of the second stretch, and lacks nothing there.
            if let Some((_, until)) = &mut lane.complete
                && *until >= first.until
            {
                *until = second.until;
            }
            continue;
        };
        lane.complete = match (lane.complete, other.complete) {
            (Some((from, end)), Some((begin, until)))
                if end >= first.until && begin <= second.from =>
            {
                Some((from, until))
            }
            (Some(complete), Some(_)) => Some(complete),
            _ => None,
        };
        add_gaps(&mut lane.gaps, other.gaps, second);
        lane.recorded = lane.recorded.plus(&other.recorded);
        for (sum, n) in lane.refused.iter_mut().zip(other.refused) {
            *sum = sum.saturating_add(n);
        }
    }
    for mut lane in later.into_values() {
        if let Some((from, _)) = &mut lane.complete
            && *from <= second.from
        {
            *from = (*from).min(first.from);
        }
        lanes.push(lane);
    }
}

/// Adds the gaps of the second stretch; one that reaches into the first may be there already.
fn add_gaps(gaps: &mut Vec<Gap>, next: Vec<Gap>, second: Window) {
    for gap in next {
        if gap.from >= second.from || !gaps.contains(&gap) {
            gaps.push(gap);
        }
    }
    *gaps = Gap::joined(std::mem::take(gaps));
}
