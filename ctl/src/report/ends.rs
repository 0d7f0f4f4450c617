//! Reports on calls, from the ends of calls alone: without names, descriptors and scheduling, by
//! all CPUs, many times as fast as event by event.

use flightrec_analysis::CallId;
use flightrec_analysis::groups::Sum;
use flightrec_format::abi::record::Abi;
use flightrec_reader::Session;
use flightrec_reader::holes::Holes;
use flightrec_reader::pipeline::ends::{CallEnd, Ends, TakeEnds, workers};
use flightrec_reader::source::PageSet;
use flightrec_reader::windows::Windows;
use rustc_hash::FxHashMap;

use super::calls::Calls;
use super::{Facts, Key, Report, Sums};
use crate::filter::Filter;

/// By what ends of calls are grouped without anything else.
const KEYS: [Key; 4] = [Key::Syscall, Key::Errno, Key::Cpu, Key::Tid];

/// A report on calls in the making.
pub(super) struct EndSums {
    calls: Calls,
    filter: Filter,
    ends: Ends,
}

/// What tells one group of calls from another, as far as that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct CellKey {
    tid: u32,
    cpu: u16,
    nr: u16,
    abi: u8,
    errno: Option<i32>,
}

/// Sums of one worker.
struct Tally<'a> {
    calls: Calls,
    windows: &'a Windows,
    /// `None`: all are wanted.
    filter: Option<&'a Filter>,
    session: &'a Session,
    by_tid: bool,
    by_cpu: bool,
    by_errno: bool,
    /// By table and number: one more than the place among the cells, of what is grouped by nothing
    /// else. Most calls find their cell there.
    calls_alone: Vec<u32>,
    places: FxHashMap<CellKey, usize>,
    cells: Vec<(CellKey, Abi, Sum)>,
}

/// Calls by number that a table may have.
const NUMBERS: usize = 1 << 12;

impl EndSums {
    /// Whether a report, what it is grouped by and the filter need no more than the ends of calls.
    pub(super) fn suffice(report: &dyn Report, by: &[Key], filter: &Filter) -> bool {
        let is_by_ends = by.iter().all(|key| KEYS.contains(key));
        report.of_ends().is_some() && is_by_ends && filter.is_of_ends()
    }

    /// For a recording; `None`: they do not [suffice](Self::suffice). `holes`: when calls may be
    /// missing in what is read of it.
    pub(super) fn new(
        report: &dyn Report,
        by: &[Key],
        filter: &Filter,
        holes: &Holes,
    ) -> Option<Self> {
        let calls = report.of_ends().filter(|_| Self::suffice(report, by, filter))?;
        Some(Self { calls, filter: filter.clone(), ends: Ends::new(workers(), holes.clone()) })
    }

    /// Goes on with what comes next of the same recording, from `from` on.
    pub(super) fn go_on(&mut self, holes: &Holes, from: u64) {
        self.ends.go_on(holes, from);
    }

    /// Adds up a stretch: what ends from one moment on until another, within the windows.
    pub(super) fn add(
        &mut self,
        recording: &PageSet,
        moments: (u64, u64),
        windows: &Windows,
        to: &mut Sums,
    ) {
        let Some(session) = to.session().cloned() else { return };
        let tally = |_| Tally {
            calls: self.calls,
            windows,
            filter: (!self.filter.wants_all()).then_some(&self.filter),
            session: &session,
            by_tid: to.is_by(Key::Tid),
            by_cpu: to.is_by(Key::Cpu),
            by_errno: to.is_by(Key::Errno),
            calls_alone: vec![0; 4 * NUMBERS],
            places: FxHashMap::default(),
            cells: Vec::new(),
        };
        let mut tallies: Vec<Tally<'_>> = (0..workers()).map(tally).collect();
        self.ends.stretch(recording, moments, &mut tallies);
        let cells = tallies.into_iter().flat_map(|tally| tally.cells);
        let mut cells: Vec<(CellKey, Abi, Sum)> = cells.collect();
        // Words get their numbers in the same order each time.
        cells.sort_unstable_by_key(|(key, ..)| *key);
        for (CellKey { tid, cpu, nr, errno, .. }, abi, sum) in cells {
            let call = Some(CallId { nr, abi });
            to.of(&Facts { tid, cpu, call, errno, ..Facts::default() }).merge(&sum);
        }
    }
}

impl TakeEnds for Tally<'_> {
    fn take(&mut self, end: &CallEnd) {
        let CallEnd { time, tid, cpu, abi, nr, ret, took } = *end;
        if !self.windows.contains(time) || self.filter.is_some_and(|of| !of.wants_end(end)) {
            return;
        }
        let failure = self.session.failures().failure(abi, nr, ret);
        if !self.calls.counts(failure) {
            return;
        }
        let key = CellKey {
            tid: if self.by_tid { tid } else { 0 },
            cpu: if self.by_cpu { cpu } else { 0 },
            nr,
            abi: abi as u8,
            errno: failure.filter(|_| self.by_errno),
        };
        let alone = (!self.by_tid && !self.by_cpu && key.errno.is_none())
            .then_some(usize::from(key.abi) * NUMBERS + usize::from(nr))
            .filter(|alone| *alone < self.calls_alone.len());
        let known = alone.and_then(|at| self.calls_alone.get(at)).filter(|place| **place != 0);
        let place = if let Some(place) = known {
            *place as usize - 1
        } else {
            let place = *self.places.entry(key).or_insert(self.cells.len());
            if place == self.cells.len() {
                self.cells.push((key, abi, Sum::default()));
            }
            if let Some(of) = alone.and_then(|at| self.calls_alone.get_mut(at)) {
                *of = place as u32 + 1;
            }
            place
        };
        if let Some((.., sum)) = self.cells.get_mut(place) {
            Calls::add(sum, took, failure);
        }
    }
}
