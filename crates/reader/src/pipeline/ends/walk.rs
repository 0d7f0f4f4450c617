//! The walk over a ring's pages.

use flightrec_format::decode::{Brief, Half, Page, Summary};
use flightrec_format::ring::LaneStream;

use super::{CallEnd, Step, TakeEnds, What, worker_of};

/// Pages that a worker takes at a time.
const PAGES: usize = if cfg!(test) { 2 } else { 64 };

/// Of which events of its pages a walk is: from the first one on that is not before `from`, up to
/// the first one after that which is not before `until`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) from: u64,
    pub(super) until: u64,
}

/// A walk over pages of a ring that follow each other.
pub(super) struct Walk<'a, T> {
    cpu: u16,
    range: Range,
    begun: bool,
    /// Each whole call ends what its thread was in before.
    strict: bool,
    taker: &'a mut T,
    /// By worker.
    pub(super) steps: Vec<Vec<Step>>,
    /// The thread whose records come, and whether it is known already that it is in no call.
    run: Option<(u32, bool)>,
}

/// The pages of a ring that have a range, those from `first` on, in parts for workers; the first
/// and the last part tell where the range begins and ends.
pub(super) fn parts(
    stream: &LaneStream,
    first: u64,
    range: Range,
) -> impl Iterator<Item = (&[Page], Range)> {
    let known: Vec<&Summary> = stream.summaries().iter().collect();
    let pages = stream.pages();
    let find = |from: usize, is: &dyn Fn(&Page, &Summary) -> bool| {
        let rest = pages.iter().zip(&known).skip(from);
        rest.into_iter()
            .position(|(page, summary)| is(page, summary))
            .map_or(pages.len(), |at| from + at)
    };
    let begin = find(0, &|_, summary| summary.last >= first);
    // Where a page has no event, its last moment is its base.
    let begun = find(begin, &|page, summary| {
        summary.last >= range.from && summary.last > page.header().base_mono
    });
    let begun = (begun + 1).min(pages.len());
    let ends = find(begin, &|_, summary| summary.last >= range.until);
    let (middle, ends) = if ends < begun { (begun, begun) } else { (begun, ends) };
    let is_one = ends == begun;
    let head = pages.get(begin..if is_one { pages.len() } else { begun }).unwrap_or_default();
    let tail = if is_one { &[] } else { pages.get(ends..).unwrap_or_default() };
    let all = Range { from: 0, until: u64::MAX };
    let middle = pages.get(middle..ends).unwrap_or_default();
    let after = Range { from: 0, ..range };
    [(head, range)]
        .into_iter()
        .chain(middle.chunks(PAGES).map(move |pages| (pages, all)))
        .chain([(tail, after)])
        .filter(|(pages, _)| !pages.is_empty())
}

impl<'a, T: TakeEnds> Walk<'a, T> {
    /// `room`: for so many steps of each worker.
    pub(super) fn new(
        cpu: u16,
        range: Range,
        strict: bool,
        (workers, room): (usize, usize),
        taker: &'a mut T,
    ) -> Self {
        let steps = (0..workers).map(|_| Vec::with_capacity(room)).collect();
        Self { cpu, range, begun: false, strict, taker, steps, run: None }
    }

    /// Walks over the next page; whether the range goes on after it.
    pub(super) fn page(&mut self, page: &Page) -> bool {
        self.run = None;
        page.brief_calls().all(|brief| self.take(&brief))
    }

    /// Whether an event is after the range's beginning.
    #[inline]
    fn begins(&mut self, time: u64) -> bool {
        self.begun |= time >= self.range.from;
        self.begun
    }

    /// Takes a record; whether the range goes on.
    #[inline]
    fn take(&mut self, brief: &Brief) -> bool {
        let Brief { time, tid, abi, nr, half } = *brief;
        let until = self.range.until;
        let begun = self.begins(time);
        if begun && time >= until {
            return false;
        }
        match half {
            Half::Enter if begun => self.step(time, tid, What::Enter((abi, nr)), false),
            Half::Exit { ret } if begun => self.step(time, tid, What::Exit((abi, nr), ret), true),
            Half::Whole { exited, ret } if self.begins(exited) => {
                if exited >= until {
                    if begun {
                        self.step(time, tid, What::Enter((abi, nr)), false);
                    }
                    return false;
                }
                let is_known = self.run == Some((tid, true)) && !self.strict;
                if !is_known {
                    self.step(exited, tid, What::Idle, true);
                }
                let took = Some(exited.saturating_sub(time)).filter(|ns| *ns != 0);
                let cpu = self.cpu;
                self.taker.take(&CallEnd { time: exited, tid, cpu, abi, nr, ret, took });
            }
            _ => {}
        }
        true
    }

    #[inline]
    fn step(&mut self, time: u64, tid: u32, what: What, is_idle: bool) {
        self.run = Some((tid, is_idle));
        let worker = worker_of(tid, self.steps.len());
        if let Some(steps) = self.steps.get_mut(worker) {
            steps.push(Step { time, tid, cpu: self.cpu, what });
        }
    }
}
