//! What the recorder's checkpoints add to what pages can vouch for: counters at a moment before the first page, and
//! at one behind the last.

use flightrec_format::abi::page::{LANE_KINDS, Lane, REFUSALS, Refusal};
use flightrec_format::control::Totals;
use flightrec_format::ring::{Coverage, LaneStream, Reason};

/// A ring's counters.
type Counters = ([u64; LANE_KINDS], [u64; REFUSALS]);

/// The counters of a ring at the moment of `totals`.
fn counters(totals: &Totals, lane: Lane, cpu: u16) -> Option<Counters> {
    let of_cpu = totals.cpus.iter().find(|totals| totals.cpu == cpu)?;
    Some((*of_cpu.events.get(lane as usize)?, *of_cpu.refused.get(lane as usize)?))
}

/// Whether nothing was recorded, and nothing refused that is a loss, between two readings of the counters.
fn is_idle(earlier: &Counters, later: &Counters) -> bool {
    let loss = |refused: &[u64; REFUSALS]| {
        let of = |reason: Refusal| refused.get(reason as usize).copied();
        (of(Refusal::Busy), of(Refusal::Throttled))
    };
    earlier.0 == later.0 && loss(&earlier.1) == loss(&later.1)
}

/// `coverage` of `stream`, where the counters were known at an earlier moment, `before`: a ring that recorded nothing
/// between that moment and its first page has lost nothing there, and one without pages that recorded nothing until
/// `after` is complete between the two.
pub(super) fn begin_at(coverage: &mut Coverage, stream: &LaneStream, before: &Totals, after: &Totals) {
    let (lane, cpu) = (stream.lane(), stream.cpu());
    let Some(then) = counters(before, lane, cpu) else { return };
    let Some(first) = stream.pages().first().map(flightrec_format::decode::Page::header) else {
        if counters(after, lane, cpu).is_some_and(|now| is_idle(&then, &now)) {
            coverage.gaps.clear();
            coverage.complete = Some((before.now, after.now.max(before.now)));
        }
        return;
    };
    if !is_idle(&then, &(first.events, first.refused)) {
        return;
    }
    // The one gap that a first page can have before it.
    if coverage.gaps.first().is_some_and(|gap| gap.reason == Reason::Overwritten && gap.lost == Some(first.events)) {
        coverage.gaps.remove(0);
    }
    if let Some((from, until)) = &mut coverage.complete {
        *from = before.now.min(*from);
        *until = (*until).max(*from);
    }
}

/// The source holds less than the recorder put into it: what came behind the last page is missing, not newer.
pub(super) fn is_missing(coverage: &mut Coverage) {
    for gap in &mut coverage.gaps {
        if gap.reason == Reason::Newer {
            gap.reason = Reason::Missing;
        }
    }
}

/// The source is files that have all that the recorder wrote: what they lack in the middle was never written.
pub(super) fn is_undrained(coverage: &mut Coverage) {
    for gap in &mut coverage.gaps {
        if gap.reason == Reason::Missing {
            gap.reason = Reason::Undrained;
        }
    }
}
