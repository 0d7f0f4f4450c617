//! What the recorder's checkpoints add to what pages can vouch for: counters at moments before the
//! first page, after the last one, and between.

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, PageHeader, REFUSALS};
use flightrec_format::decode::Page;
use flightrec_format::part;
use flightrec_format::ring::{Gap, LaneStream, Reason, RingCoverage, Scope, is_loss};
use flightrec_format::totals::Totals;

use crate::source::PageSet;

/// A ring's counters at a moment.
#[derive(Debug, Clone, Copy)]
struct Point {
    time: u64,
    events: Counts,
    refused: [u64; REFUSALS],
}

/// The moments at which the counters of a ring are known beside its pages, in order; none where
/// checkpoints tell of none.
fn points(recording: &PageSet, lane: Lane, cpu: u16) -> Vec<Point> {
    if recording.before.is_none() && recording.marks.is_empty() {
        return Vec::new();
    }
    let all = recording.before.iter().chain(&recording.marks).chain([&recording.totals]);
    let point = |totals: &Totals| {
        let of_cpu = totals.cpus.iter().find(|of_cpu| of_cpu.cpu == cpu)?;
        let (events, refused) =
            (*of_cpu.events.get(lane as usize)?, *of_cpu.refused.get(lane as usize)?);
        Some(Point { time: totals.now, events, refused })
    };
    // They began with the recording.
    let start =
        Point { time: recording.meta.started, events: Counts::ZERO, refused: [0; REFUSALS] };
    let mut points: Vec<Point> =
        all.filter_map(point).filter(|point| point.time > start.time).collect();
    points.push(start);
    points.sort_by_key(|point| point.time);
    points.dedup_by_key(|point| point.time);
    points
}

/// What a stream has of a scope, as its pages tell and the counters at moments beside them.
pub(crate) fn coverage(
    recording: &PageSet,
    stream: &LaneStream,
    scope: &Scope<'_>,
) -> RingCoverage {
    let mut coverage = stream.coverage_around(scope);
    refine(&mut coverage, stream, recording);
    coverage
}

/// `coverage` of `stream`, where the counters were known at moments before, between and after its
/// pages: what is missing is then known from one such moment to the next.
fn refine(coverage: &mut RingCoverage, stream: &LaneStream, recording: &PageSet) {
    let points = points(recording, stream.lane(), stream.cpu());
    let Some(before) = points.first() else { return };
    let gaps = std::mem::take(&mut coverage.gaps);
    let mut known: Vec<Gap> = Vec::new();
    let Some(first) = stream.pages().first() else {
        // A ring without pages that recorded nothing is complete; what it refused is known.
        if let Some(last) = points.last().filter(|last| last.time > before.time) {
            known.extend(points.windows(2).filter_map(|pair| between(coverage, pair)));
            coverage.complete = Some((before.time, last.time));
            coverage.gaps = known;
        } else {
            coverage.gaps = gaps;
        }
        return;
    };
    let begins = part::begins(first);
    let mut gaps = gaps.into_iter().peekable();
    if before.time < begins {
        // The one gap that a first page can have before it is of all that ever was.
        gaps.next_if(|gap| gap.from == before.time && gap.until == begins);
        let mut until: Vec<Point> =
            points.iter().filter(|point| point.time < begins).copied().collect();
        let PageHeader { events, refused, .. } = *first.header();
        until.push(Point { time: begins, events, refused });
        known.extend(until.windows(2).filter_map(|pair| between(coverage, pair)));
        if let Some((from, until)) = &mut coverage.complete {
            *from = before.time.min(*from);
            *until = (*until).max(*from);
        }
    }
    for gap in gaps {
        match gap.reason {
            Reason::Refused => known.extend(parted(&gap, stream.pages(), &points)),
            Reason::Missing => known.extend(shortened(gap, stream, &points)),
            _ => known.push(gap),
        }
    }
    coverage.gaps = known;
}

/// What is missing between two moments, without a page between them.
fn between(coverage: &RingCoverage, pair: &[Point]) -> Option<Gap> {
    let [earlier, later] = pair else { return None };
    let lost = later.events.less(&earlier.events);
    let refused = less(&later.refused, &earlier.refused);
    let is_start = earlier.events == Counts::ZERO;
    let reason = match lost {
        Counts::ZERO => Reason::Refused,
        // Before the first that there ever was.
        _ if is_start => Reason::Overwritten,
        _ => Reason::Missing,
    };
    let (from, until, lost) = (earlier.time, later.time, Some(lost));
    let RingCoverage { lane, cpu, .. } = *coverage;
    (reason != Reason::Refused || is_loss(&refused)).then_some(Gap {
        lane,
        cpu,
        from,
        until,
        lost,
        refused,
        reason,
    })
}

/// A stretch of refusal, parted where the counters are known within it.
fn parted(gap: &Gap, pages: &[Page], points: &[Point]) -> Vec<Gap> {
    let at = pages.partition_point(|page| page.header().base_mono < gap.from);
    let begin = pages.get(at).map(Page::header).filter(|header| header.base_mono == gap.from);
    let inside = points.iter().filter(|point| gap.from < point.time && point.time < gap.until);
    let (Some(begin), mut inside) = (begin, inside.peekable()) else { return vec![*gap] };
    if inside.peek().is_none() {
        return vec![*gap];
    }
    let mut parts = Vec::new();
    let (mut from, mut left) = (gap.from, gap.refused);
    let mut gone = [0; REFUSALS];
    for point in inside {
        // Counters were read at the moment or a little later.
        let until_here = less(&point.refused, &begin.refused);
        let mut refused = less(&until_here, &gone);
        refused.iter_mut().zip(left).for_each(|(n, left)| *n = (*n).min(left));
        left = less(&left, &refused);
        gone.iter_mut().zip(refused).for_each(|(gone, n)| *gone = gone.saturating_add(n));
        parts.push(Gap { from, until: point.time, refused, ..*gap });
        from = point.time;
    }
    parts.push(Gap { from, refused: left, ..*gap });
    parts.retain(|part| is_loss(&part.refused));
    parts
}

/// A stretch of loss after a page: all was there until the last moment at which no more was
/// counted than there is, and what was refused before then is known by itself.
fn shortened(gap: Gap, stream: &LaneStream, points: &[Point]) -> Vec<Gap> {
    let after = stream.pages().partition_point(|page| part::begins(page) < gap.until);
    let Some(page) = after.checked_sub(1).and_then(|at| stream.pages().get(at)) else {
        return vec![gap];
    };
    let header = page.header();
    let held = header.events.plus(&page.summary().counts);
    let is_whole = |point: &&Point| {
        header.base_mono < point.time
            && point.time < gap.until
            && point.events.less(&held).is_zero()
    };
    let Some(last) = points.iter().rfind(is_whole) else { return vec![gap] };
    let mut before = less(&last.refused, &header.refused);
    before.iter_mut().zip(gap.refused).for_each(|(n, all)| *n = (*n).min(all));
    let (from, until, lost) = (header.base_mono, last.time, Some(Counts::ZERO));
    let refused = Gap { from, until, lost, refused: before, reason: Reason::Refused, ..gap };
    let mut parts = parted(&refused, stream.pages(), points);
    parts.retain(|part| is_loss(&part.refused));
    parts.push(Gap { from: gap.from.max(last.time), refused: less(&gap.refused, &before), ..gap });
    parts
}

fn less<const N: usize>(later: &[u64; N], earlier: &[u64; N]) -> [u64; N] {
    let mut out = *later;
    out.iter_mut()
        .zip(earlier)
        .for_each(|(later, earlier)| *later = later.saturating_sub(*earlier));
    out
}

/// The source holds less than the recorder put into it: what came after the last page is missing,
/// not newer.
pub(crate) fn is_missing(coverage: &mut RingCoverage) {
    for gap in &mut coverage.gaps {
        if gap.reason == Reason::Newer {
            gap.reason = Reason::Missing;
        }
    }
}

/// The source is files that have all that the recorder wrote: what they lack in the middle was
/// never written.
pub(crate) fn is_undrained(coverage: &mut RingCoverage) {
    for gap in &mut coverage.gaps {
        if gap.reason == Reason::Missing {
            gap.reason = Reason::Undrained;
        }
    }
}
