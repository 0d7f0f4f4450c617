//! What a ring's pages can vouch for within a window of time.

use super::gap::{Gap, Reason, difference, is_loss, sum};
use super::stream::LaneStream;
use crate::abi::counts::Counts;
use crate::abi::page::{Lane, PAGE_SIZE, REFUSALS, RING_LANES};
use crate::decode::Page;
use crate::totals::{CpuTotals, Totals};
use crate::{kept, part};

/// What is asked, and what is known beside the pages. Times in ns of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope<'a> {
    /// Start of the window.
    pub from: u64,
    /// End of the window (exclusive).
    pub until: u64,
    /// When the session began ([`crate::meta::Meta::started`]).
    pub started: u64,
    /// Everything recorded in the window before this moment was in the source when it was copied:
    /// for a live recording the moment at which the copying began; 0 where nothing is known (a
    /// dump).
    pub copied: u64,
    /// Counters, read after the pages were copied.
    pub totals: Option<&'a Totals>,
    /// Bytes of one CPU's ring, by lane ([`crate::meta::Lanes::ring_bytes`]); 0: not known.
    pub ring_bytes: [u64; RING_LANES],
}

impl Scope<'_> {
    /// Whether a ring of which nothing was copied, and which has had these events since, was empty
    /// when the copying began: its pages would have been copied unless they were written over
    /// meanwhile, and no event opens more than one page.
    fn was_empty(&self, lane: Lane, events: Counts) -> bool {
        let bytes = self.ring_bytes.get(lane as usize).copied().unwrap_or(0);
        self.copied != 0 && events.total() < bytes / PAGE_SIZE as u64
    }
}

/// What one lane of one CPU holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingCoverage {
    /// Lane.
    pub lane: Lane,
    /// CPU.
    pub cpu: u16,
    /// From when to when every recorded event is there, but for `gaps`. `None`: nothing is known
    /// of this ring. An open window is answered by the last moment that is sure.
    pub complete: Option<(u64, u64)>,
    /// What is missing in the window, in order.
    pub gaps: Vec<Gap>,
    /// Events that the pages hold, by kind; not only in the window.
    pub recorded: Counts,
    /// Events refused on the pages that touch the window, by [`crate::abi::page::Refusal`].
    pub refused: [u64; REFUSALS],
}

impl RingCoverage {
    /// Whether every event of the window is there. `until` at most the moment of the copy.
    pub fn is_complete(&self, from: u64, until: u64) -> bool {
        let whole = self.complete.is_some_and(|(start, end)| start <= from && until <= end);
        whole && !self.gaps.iter().any(|g| g.reason != Reason::Newer && g.intersects(from, until))
    }
}

impl LaneStream {
    /// What these pages can vouch for.
    pub fn coverage(&self, scope: &Scope<'_>) -> RingCoverage {
        let mut coverage = self.coverage_around(scope);
        coverage.gaps.retain(|gap| gap.intersects(scope.from, scope.until));
        coverage
    }

    /// The same, with the gaps before and after the window that the pages tell of.
    pub fn coverage_around(&self, scope: &Scope<'_>) -> RingCoverage {
        let totals = scope
            .totals
            .and_then(|t| t.cpus.iter().find(|c| c.cpu == self.cpu()).map(|c| (t.now, c)));
        let end = self.end(scope, totals);
        let mut gaps: Vec<Gap> = self.before(scope).into_iter().chain(self.gaps()).collect();
        if let (Some((now, lost)), Some(damage)) = (end.damaged, gaps.last_mut()) {
            (damage.until, damage.lost) = (now, Some(lost));
        }
        gaps.extend(end.gaps);
        let complete = match self.pages().first() {
            Some(page) if cut_off(page) => Some(part::begins(page)),
            Some(_) => Some(scope.started),
            None => end.until.map(|_| scope.started),
        }
        .and_then(|from| Some((from, end.until?.max(from))));
        RingCoverage {
            lane: self.lane(),
            cpu: self.cpu(),
            complete,
            gaps,
            recorded: self.recorded(),
            refused: self.refused(scope, totals.map(|(_, t)| t)),
        }
    }

    /// What was overwritten before the first page, or refused before the first that there ever was.
    fn before(&self, scope: &Scope<'_>) -> Option<Gap> {
        let page = self.pages().first()?;
        let first = page.header();
        let reason = if cut_off(page) { Reason::Overwritten } else { Reason::Refused };
        let gap =
            self.gap(scope.started, part::begins(page), Some(first.events), first.refused, reason);
        (reason == Reason::Overwritten || is_loss(&first.refused)).then_some(gap)
    }

    /// Where certainty ends, and what the counters know beyond.
    fn end(&self, scope: &Scope<'_>, totals: Option<(u64, &CpuTotals)>) -> End {
        let lane = self.lane() as usize;
        let known = self.known().next_back();
        // What was left out of a thinned page may have been at any time since its beginning.
        let begins =
            |page: &Page| kept::is_thinned(page.header()).then_some(page.header().base_mono);
        let last = known.map(|(page, summary)| begins(page).unwrap_or(summary.last));
        let damaged = known.is_some_and(|(_, summary)| summary.damage.is_some());
        let copied = (scope.copied != 0 && !damaged).then_some(scope.copied.min(scope.until));
        let sure = last.max(copied);
        let mut end = End { until: sure, gaps: Vec::new(), damaged: None };
        let Some((now, events, refused)) =
            totals.and_then(|(now, t)| Some((now, t.events.get(lane)?, t.refused.get(lane)?)))
        else {
            return end;
        };
        let (seen, refused_before, from) = match known {
            Some((page, summary)) => {
                let header = page.header();
                (header.events.plus(&summary.counts), header.refused, header.base_mono)
            }
            None => (Counts::ZERO, [0; REFUSALS], scope.started),
        };
        match events.since(&seen) {
            // Nothing came since: complete until the counters were read.
            Some(Counts::ZERO) => end.until = Some(now),
            // A ring that was written, and of which the source has nothing.
            Some(newer) if known.is_none() && !scope.was_empty(self.lane(), newer) => {
                end.gaps.push(self.gap(from, now, Some(newer), *refused, Reason::Missing));
                end.until = None;
                return end;
            }
            // What the damaged page lost can't be told from what came later.
            Some(newer) if damaged => end.damaged = Some((now, newer)),
            Some(newer) => {
                end.gaps.push(self.gap(
                    sure.unwrap_or(from),
                    now,
                    Some(newer),
                    [0; REFUSALS],
                    Reason::Newer,
                ));
            }
            // Counters that were read before the copy.
            None => {}
        }
        if let Some(delta) = difference(refused, &refused_before).filter(is_loss) {
            end.gaps.push(self.gap(from, now, Some(Counts::ZERO), delta, Reason::Refused));
        }
        end
    }

    /// Refusals while the pages that touch the window were open.
    fn refused(&self, scope: &Scope<'_>, totals: Option<&CpuTotals>) -> [u64; REFUSALS] {
        let now = totals.and_then(|t| t.refused.get(self.lane() as usize)).copied();
        let headers = self.pages().iter().map(Page::header);
        // Where each page's time ends, and the totals then.
        let ends = headers
            .clone()
            .skip(1)
            .map(|h| (h.base_mono, Some(h.refused)))
            .chain([(u64::MAX, now)]);
        headers
            .zip(ends)
            .filter(|(page, (end, _))| page.base_mono < scope.until && *end > scope.from)
            .filter_map(|(page, (_, then))| difference(&then?, &page.refused))
            .fold([0; REFUSALS], |all, delta| sum(&all, &delta))
    }
}

/// Whether something stood in the ring before this page, or part of a page.
fn cut_off(page: &Page) -> bool {
    page.header().seq > 1 || part::is_part(page.header())
}

/// The end of what is sure.
struct End {
    until: Option<u64>,
    /// Beyond the last page.
    gaps: Vec<Gap>,
    /// The last page is damaged: what it lost, or came later, until the counters were read.
    damaged: Option<(u64, Counts)>,
}
