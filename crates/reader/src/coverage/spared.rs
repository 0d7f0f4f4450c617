//! Gaps that don't touch what is asked for: the quiet ring left out others.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use flightrec_format::abi::page::Lane;
use flightrec_format::kept::LeftOut;
use flightrec_format::ring::{Gap, LaneStream, Reason};

use super::Coverage;
use crate::source::PageSet;
use crate::window::Window;

impl Coverage {
    /// Takes out the gaps that lack nothing of which `may_want` says that it may be wanted.
    pub fn spare(&mut self, recording: &PageSet, may_want: &mut dyn FnMut(&LeftOut) -> bool) {
        for lane in &mut self.lanes {
            let is_ring =
                |stream: &&LaneStream| (stream.lane(), stream.cpu()) == (lane.lane, lane.cpu);
            let Some(stream) = recording.streams.iter().find(is_ring) else { continue };
            let left_out: Vec<(LeftOut, bool)> =
                stream.left_out().map(|left_out| (left_out, may_want(&left_out))).collect();
            let is_spared = |gap: &Gap| {
                let mut of_gap =
                    left_out.iter().filter(|(of, _)| gap.intersects(of.from, of.until)).peekable();
                gap.reason == Reason::LeftOut
                    && of_gap.peek().is_some()
                    && of_gap.all(|(_, is_wanted)| !is_wanted)
            };
            let (spared, gaps) = std::mem::take(&mut lane.gaps).into_iter().partition(is_spared);
            lane.gaps = gaps;
            self.spared.extend::<Vec<Gap>>(spared);
        }
        let gaps: Vec<Gap> = self.gaps().into_iter().copied().collect();
        self.left_out = named(recording, |lane, cpu, of| {
            let has =
                |gap: &Gap| (gap.lane, gap.cpu) == (lane, cpu) && gap.intersects(of.from, of.until);
            may_want(of) && gaps.iter().any(has)
        });
    }

    /// Events of others that are not in the window; a bound where gaps reach beyond it.
    pub fn spared(&self) -> u64 {
        self.spared.iter().filter_map(Gap::missing).fold(0, u64::saturating_add)
    }
}

/// Whose events the quiet ring left out in a window, and how many.
pub(super) fn left_out(recording: &PageSet, window: Window) -> Vec<(u32, u64)> {
    named(recording, |_, _, of| of.from < window.until && of.until > window.from)
}

fn named(
    recording: &PageSet,
    mut counts: impl FnMut(Lane, u16, &LeftOut) -> bool,
) -> Vec<(u32, u64)> {
    let mut events: BTreeMap<u32, u64> = BTreeMap::new();
    for stream in &recording.streams {
        for left_out in stream.left_out() {
            if counts(stream.lane(), stream.cpu(), &left_out) {
                let sum = events.entry(left_out.process).or_default();
                *sum = sum.saturating_add(u64::from(left_out.events));
            }
        }
    }
    let mut events: Vec<(u32, u64)> = events.into_iter().collect();
    events.sort_unstable_by_key(|(process, events)| (Reverse(*events), *process));
    events
}
