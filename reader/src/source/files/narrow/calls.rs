//! Blocks for a question about system calls: those that may have a wanted beginning or end, those
//! with the beginnings of the calls that end in them, the requests to disks meanwhile, and whatever
//! tells what descriptors stand for.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::Abi;
use flightrec_store::search::CallKey;
use rustc_hash::{FxHashMap, FxHashSet};

use super::map::{At, Map};
use super::scan::{self, Arguments, Brief, What};
use super::{Place, Sought, family};
use crate::window::LEAD_OUT_NS;

/// Of how many blocks of system calls one may be read for a question to be narrow: behind it,
/// choosing costs as much as it saves.
pub(super) const PART: usize = 3;

/// A wanted end of a call.
#[derive(Debug, Clone, Copy)]
struct End {
    tid: u32,
    time: u64,
    /// When its call began, as far as that is known.
    began: Option<u64>,
}

/// What was found so far.
#[derive(Default)]
struct Found {
    ends: Vec<End>,
    /// Threads of which it is shown what a descriptor stands for, and when.
    descriptors: Vec<(u32, u64)>,
    /// Stretches of time of which all events are needed.
    whole: Vec<(u64, u64)>,
}

/// The blocks; `None`: too many, or not known.
pub(super) fn choose(map: &Map<'_>, place: &Place<'_>, sought: &dyn Sought) -> Option<Vec<At>> {
    let arguments = Arguments::new(place.meta);
    let all = map.open(Lane::Syscall, place.from).count();
    let seeds: Vec<At> = map
        .open(Lane::Syscall, place.from)
        .filter(|(_, block)| block.may(|entry| may_have(entry, sought)))
        .map(|(at, _)| at)
        .collect();
    if seeds.len() > all / PART {
        return None;
    }
    let mut chosen: FxHashSet<At> = seeds.iter().copied().collect();
    let mut found = Found::default();
    map.decode(&seeds, |_, pages| {
        let threads = wanted_threads(pages, sought);
        found.take(&scan::calls(pages, &arguments, &threads), sought);
    })?;
    chosen.extend(found.begin(map, place, &arguments)?);
    for End { time, began, .. } in &found.ends {
        let Some(began) = began else { continue };
        let requests = map.of(Lane::Trace).filter(|(_, block)| block.touches(*began, *time));
        chosen.extend(requests.map(|(at, _)| at));
    }
    for (from, until) in &found.whole {
        chosen.extend(map.all().filter(|(_, b)| b.touches(*from, *until)).map(|(at, _)| at));
    }
    if sought.names_descriptors() {
        chosen.extend(family::choose(map, place, &found.descriptors)?);
    }
    let calls = |at: &&At| map.get(**at).is_some_and(|block| block.lane == Lane::Syscall);
    (chosen.iter().filter(calls).count() <= all / PART).then(|| chosen.into_iter().collect())
}

/// Whether a block may have something that is wanted.
fn may_have(entry: &flightrec_store::search::BlockEntry, sought: &dyn Sought) -> bool {
    let is_known = |call: &CallKey| {
        abi(call.0)
            .is_none_or(|abi| scan::is_renumbered(call.1) || sought.may_want_call(abi, call.1))
    };
    let fails = |(call, error): &(CallKey, u16)| {
        is_known(call)
            && abi(call.0).is_none_or(|abi| {
                scan::is_renumbered(call.1) || sought.may_want_error(abi, call.1, (*error).into())
            })
    };
    sought.threads().is_none_or(|threads| entry.has_any_thread(threads))
        && if sought.is_of_failures() {
            entry.failures.iter().any(fails)
        } else {
            entry.calls.iter().any(is_known)
        }
}

fn abi(number: u8) -> Option<Abi> {
    [Abi::Native, Abi::Compat, Abi::X32].into_iter().find(|abi| *abi as u8 == number)
}

/// The threads in these pages that do something that may be wanted.
fn wanted_threads(
    pages: &[&flightrec_format::decode::Page],
    sought: &dyn Sought,
) -> FxHashSet<u32> {
    use flightrec_format::decode::Body;
    let mut threads = FxHashSet::default();
    scan::each(pages, |event| {
        let is_wanted = match &event.body {
            Body::Enter(call) => sought.wants_entries() && wants(sought, call.abi, call.nr, None),
            Body::Exit { call, ret, .. } => wants(sought, call.abi, call.nr, Some(*ret)),
            _ => false,
        };
        if is_wanted && sought.threads().is_none_or(|of| of.binary_search(&event.tid).is_ok()) {
            threads.insert(event.tid);
        }
    });
    threads
}

/// Whether the beginning or the end (`ret`) of a call may be wanted.
fn wants(sought: &dyn Sought, abi: Abi, nr: u16, ret: Option<i64>) -> bool {
    let renumbered = scan::is_renumbered(nr);
    if !renumbered && !sought.may_want_call(abi, nr) {
        return false;
    }
    if !sought.is_of_failures() {
        return true;
    }
    let error = ret.filter(|ret| (-4095..0).contains(ret)).map(|ret| -(ret as i32));
    error.is_some_and(|error| renumbered || sought.may_want_error(abi, nr, error))
}

impl Found {
    /// Takes the calls of some threads in one block.
    fn take(&mut self, briefs: &[Brief], sought: &dyn Sought) {
        let mut open: Option<(u32, u64, bool, bool)> = None;
        for Brief { tid, time, what } in briefs {
            let (tid, time) = (*tid, *time);
            match *what {
                What::Enter { abi, nr, descriptors, partial } => {
                    if sought.wants_entries() && wants(sought, abi, nr, None) {
                        if descriptors {
                            self.descriptors.push((tid, time));
                        }
                        if partial {
                            self.completes(time);
                        }
                    }
                    open = Some((tid, time, descriptors, partial));
                }
                What::Exit { abi, nr, ret, entered, descriptors } => {
                    let began = open.take().filter(|(of, ..)| *of == tid);
                    if !wants(sought, abi, nr, Some(ret)) {
                        continue;
                    }
                    let given = began.is_some_and(|(_, _, descriptors, _)| descriptors);
                    if descriptors || given {
                        self.descriptors.push((tid, time));
                    }
                    if let Some((_, at, _, true)) = began {
                        self.completes(at);
                    }
                    let began = began.map(|(_, at, ..)| at).or(entered);
                    self.ends.push(End { tid, time, began });
                }
                What::Switch { .. } => {}
            }
        }
    }

    /// A call that began at `time` is completed by later events, as long as it waits for them: how
    /// many there are counts.
    fn completes(&mut self, time: u64) {
        self.whole.push((time, time.saturating_add(LEAD_OUT_NS)));
    }

    /// Finds the beginnings of calls in other blocks than their ends, and returns these blocks.
    fn begin(
        &mut self,
        map: &Map<'_>,
        place: &Place<'_>,
        arguments: &Arguments,
    ) -> Option<FxHashSet<At>> {
        // Which blocks may have each, and what the last event is that they have.
        let mut wanted = FxHashMap::<At, Vec<(usize, u32)>>::default();
        for (number, end) in self.ends.iter().enumerate().filter(|(_, end)| end.began.is_none()) {
            for tid in place.names.before(end.tid).chain([end.tid]) {
                for at in map.before(Lane::Syscall, tid, end.time) {
                    wanted.entry(at).or_default().push((number, tid));
                }
            }
        }
        let mut blocks: Vec<At> = wanted.keys().copied().collect();
        blocks.sort_unstable();
        let mut last = FxHashMap::<usize, Brief>::default();
        map.decode(&blocks, |at, pages| {
            let ends = wanted.get(&at).map(Vec::as_slice).unwrap_or_default();
            let threads: FxHashSet<u32> = ends.iter().map(|(_, tid)| *tid).collect();
            let briefs = scan::calls(pages, arguments, &threads);
            for (number, tid) in ends {
                let Some(end) = self.ends.get(*number) else { continue };
                let before = briefs.partition_point(|b| (b.tid, b.time) < (*tid, end.time));
                let before = before.checked_sub(1).and_then(|at| briefs.get(at));
                let Some(brief) = before.filter(|brief| brief.tid == *tid) else { continue };
                let known = last.entry(*number).or_insert(*brief);
                if known.time <= brief.time {
                    *known = *brief;
                }
            }
        })?;
        for (number, end) in self.ends.iter_mut().enumerate() {
            if end.began.is_some() {
                continue;
            }
            match last.get(&number) {
                Some(Brief { time, what: What::Enter { descriptors, partial, .. }, .. }) => {
                    end.began = Some(*time);
                    if *descriptors {
                        self.descriptors.push((end.tid, end.time));
                    }
                    if *partial {
                        self.whole.push((*time, time.saturating_add(LEAD_OUT_NS)));
                    }
                }
                // Whether it began at all, scheduling tells.
                None if !place.names.is_born(end.tid) => return None,
                // It never began.
                _ => {}
            }
        }
        Some(blocks.into_iter().collect())
    }
}
