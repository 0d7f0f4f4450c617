//! The records of system calls that are new, over all CPUs in the order of time: a thread may begin
//! a call on one CPU and end it on another.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use flightrec_format::abi::record::Abi;
use flightrec_format::decode::CallRecord;

use super::feed::New;

/// A CPU's records.
struct Ring<'n> {
    pages: std::slice::Iter<'n, New>,
    /// Of the page at hand.
    records: VecDeque<CallRecord>,
}

/// The new records of all CPUs. Those of a page are in memory for each CPU, and no more.
pub(super) struct Calls<'n> {
    rings: Vec<Ring<'n>>,
    /// When the first record of each ring was, and which ring that is.
    first: BinaryHeap<Reverse<(u64, usize)>>,
    /// Rings whose first record is not in `first`.
    due: Vec<usize>,
}

impl<'n> Calls<'n> {
    /// Of these rings.
    pub(super) fn new(rings: &'n [Vec<New>]) -> Self {
        let ring = |pages: &'n Vec<New>| Ring { pages: pages.iter(), records: VecDeque::new() };
        Self {
            rings: rings.iter().map(ring).collect(),
            first: BinaryHeap::with_capacity(rings.len()),
            due: (0..rings.len()).collect(),
        }
    }

    /// The next record of those that are wanted: by table, number and return value, if the record
    /// has one.
    pub(super) fn next(
        &mut self,
        wanted: impl Fn(Abi, u16, Option<i64>) -> bool,
    ) -> Option<CallRecord> {
        // Looking at all rings for each record would take time by the square of the CPUs.
        for at in self.due.drain(..) {
            let Some(ring) = self.rings.get_mut(at) else { continue };
            ring.fill(&wanted);
            self.first.extend(ring.records.front().map(|record| Reverse((moment(record), at))));
        }
        let Reverse((_, at)) = self.first.pop()?;
        self.due.push(at);
        self.rings.get_mut(at)?.records.pop_front()
    }
}

impl Ring<'_> {
    /// Reads pages until there is a record.
    fn fill(&mut self, wanted: &impl Fn(Abi, u16, Option<i64>) -> bool) {
        while self.records.is_empty()
            && let Some(new) = self.pages.next()
        {
            let seen = || new.page.events().nth(new.seen).map_or(u64::MAX, |event| event.time);
            let begins = if new.seen == 0 { 0 } else { seen() };
            // An entry that was seen may have an exit in it that was not.
            let is_new = |record: &CallRecord| {
                record.exited.map_or(moment(record), |(time, _)| time) >= begins
            };
            self.records.extend(new.page.calls(wanted).filter(is_new));
        }
    }
}

/// Where a record stands in its ring's order of time.
fn moment(record: &CallRecord) -> u64 {
    record.entered.or(record.exited.map(|(time, _)| time)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::page::Lane;
    use flightrec_format::decode::{Body, Call, Event, Page};
    use flightrec_format::encode::PageWriter;

    use super::*;

    fn ring(cpu: u16, events: &[(u64, u32, bool)]) -> Vec<New> {
        let call = || Call { nr: 0, abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() };
        let mut writer = PageWriter::new(7, Lane::Syscall, cpu, 0);
        for &(time, tid, begins) in events {
            let end = Body::Exit { call: call(), ret: 0, entered: None };
            let body = if begins { Body::Enter(call()) } else { end };
            writer.push(&Event { time, cpu, tid, body }).unwrap();
        }
        writer
            .finish()
            .into_iter()
            .map(|page| New { page: Page::new(page).unwrap(), seen: 0 })
            .collect()
    }

    #[test]
    fn a_call_that_ends_on_another_cpu_ends_after_its_beginning() {
        let ms = 1_000_000;
        // Thread 5 ends on CPU 0 what it began on CPU 1; thread 6 the other way round.
        let rings = [
            ring(0, &[(100 * ms, 6, true), (400 * ms, 5, false)]),
            ring(1, &[(90 * ms, 5, true), (500 * ms, 6, false)]),
            Vec::new(),
        ];
        let mut calls = Calls::new(&rings);
        let order: Vec<_> = std::iter::from_fn(|| calls.next(|_, _, _| true))
            .map(|record| (record.tid, record.entered.is_some()))
            .collect();
        assert_eq!(order, [(5, true), (6, true), (5, false), (6, false)]);
        assert!(Calls::new(&rings).next(|_, nr, _| nr == 1).is_none());
    }
}
