//! What a filter can't decide: a call of which the recorder gave up just what the filter asks for.

use flightrec_format::abi::kinds::Kind;
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, NR_INVALID};
use flightrec_format::decode::{Body, CallRecord, Event, Page};
use flightrec_reader::pipeline::choice::UNTIMED_NS;
use flightrec_reader::pipeline::{CallFacts, Part, Took};
use flightrec_reader::threads::Threads;

use super::Filter;
use super::calls::CallSet;

/// The record of one end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alone {
    /// That tells all that is asked for.
    WholeExit,
    /// That tells less.
    Exit,
    Entry,
}

impl Filter {
    /// Whether it asks for something that may have been given up of calls that are recorded.
    pub fn can_doubt(&self) -> bool {
        self.paths.is_some() || self.is_timed() || self.needs_entries()
    }

    /// Whether it asks for calls whose number only their beginning has.
    pub(super) fn needs_entries(&self) -> bool {
        self.calls.as_ref().is_some_and(CallSet::needs_entries)
    }

    /// Whether it asks how long calls took.
    pub(super) fn is_timed(&self) -> bool {
        self.slower_than.is_some() || self.faster_than.is_some()
    }

    /// From which length on it is told of a call whose beginning is not known whether it is wanted.
    pub fn decides_from(&self) -> Option<u64> {
        self.slower_than.max(self.faster_than)
    }

    /// Whether calls of a number are wanted at all.
    pub fn wants_number(&self, abi: Abi, nr: u16) -> bool {
        self.calls.as_ref().is_none_or(|calls| calls.has_number(abi, nr))
    }

    /// Whether anything is missing in these pages that it asks for. Where this says no,
    /// [`Self::doubt`] does of every event in them whose thread was not left out.
    pub fn may_doubt<'p>(&self, pages: impl IntoIterator<Item = &'p Page>) -> bool {
        let untimed = self.slower_than.is_some_and(|least| least <= UNTIMED_NS)
            || self.faster_than.is_some_and(|limit| limit <= UNTIMED_NS);
        let needs_entries = self.needs_entries();
        if self.paths.is_none() && !needs_entries {
            return untimed && pages.into_iter().any(Page::has_untimed_call);
        }
        let paths = self.paths.as_ref();
        let is_unsure = |abi: Abi, nr: u16| paths.is_some_and(|paths| paths.is_unsure(abi, nr));
        let is_beyond = |nr: u16| needs_entries && nr == NR_INVALID;
        let wanted = |abi: Abi, nr: u16, _: Option<i64>| {
            is_beyond(nr) || is_unsure(abi, nr) || paths.is_some_and(|of| of.concerns(abi, nr))
        };
        // Beginnings and ends that stand alone, by thread.
        let mut alone: Vec<(u32, u64, Alone)> = Vec::new();
        for page in pages {
            if untimed && page.has_untimed_call() {
                return true;
            }
            let has_wanted = || {
                let counts = page.summary().counts;
                let operations = [Kind::IoSubmit, Kind::IoComplete];
                operations.iter().any(|kind| self.kinds.has(*kind) && counts.of(*kind as u8) != 0)
            };
            if page.lane() == Lane::Kernel && paths.is_some() && has_wanted() {
                return true;
            }
            for record in page.calls(wanted) {
                if is_unsure(record.call.abi, record.call.nr) {
                    return true;
                }
                let lacks_number = is_beyond(record.call.nr) && record.entered.is_none();
                let lacks = lacks_number || paths.is_some_and(|of| of.lacks_parts(&record));
                match (record.entered, record.exited) {
                    (Some(_), _) if lacks => return true,
                    (Some(entered), None) => alone.push((record.tid, entered, Alone::Entry)),
                    (None, Some((exited, _))) if lacks => {
                        alone.push((record.tid, exited, Alone::Exit));
                    }
                    (None, Some((exited, _))) => alone.push((record.tid, exited, Alone::WholeExit)),
                    _ => {}
                }
            }
        }
        alone.sort_unstable();
        let mut before = None;
        alone.into_iter().any(|(tid, _, this)| {
            let is_paired = before.replace((tid, this)) == Some((tid, Alone::Entry));
            this == Alone::Exit && !is_paired
        })
    }

    /// Of an event that is not wanted: what is missing of it, if it might be wanted were that
    /// there.
    pub fn doubt(&self, event: &Event, facts: CallFacts, threads: &Threads) -> Option<Part> {
        let path = match facts.path {
            _ if self.paths.is_none() => None,
            true => None,
            false => Some(facts.lacks?),
        };
        let time = match self.takes(facts.took) {
            Some(true) => None,
            Some(false) => return None,
            None if matches!(facts.took, Took::Between(..)) => Some(Part::Entries),
            None => Some(Part::ExitTimes),
        };
        let numbered = match (&self.calls, &event.body) {
            (Some(calls), Body::Exit { call, entered, ret }) if calls.has(call).is_none() => {
                let call = calls.assumed(call)?;
                Some(Event {
                    body: Body::Exit { call, entered: *entered, ret: *ret },
                    ..event.clone()
                })
            }
            _ => None,
        };
        let number = numbered.as_ref().map(|_| Part::Entries);
        let part = path.or(time).or(number)?;
        let took =
            if time.is_some() { Took::Ns(self.slower_than.unwrap_or(0)) } else { facts.took };
        let facts = CallFacts { path: true, took, lacks: None, ..facts };
        self.wants(numbered.as_ref().unwrap_or(event), facts, threads).then_some(part)
    }

    /// Whether a call takes as long as is wanted; `None`: it is not known.
    pub(super) fn takes(&self, took: Took) -> Option<bool> {
        if !self.is_timed() {
            return Some(true);
        }
        if took == Took::Nothing {
            return Some(false);
        }
        let slower =
            self.slower_than.map_or(Some(true), |least| Some(took.compare(least)?.is_ge()));
        let faster =
            self.faster_than.map_or(Some(true), |limit| Some(took.compare(limit)?.is_lt()));
        match (slower, faster) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }
    }
}

/// Whether a record lacks the argument at an index, or has it and not the string that it points to.
pub(super) fn lacks_string(record: &CallRecord, index: usize) -> bool {
    let given = record.call.args.get(index).filter(|_| index < usize::from(record.call.nargs));
    record.strings >> index & 1 == 0 && given.is_none_or(|address| *address != 0)
}
