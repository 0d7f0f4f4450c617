//! Blocks for a question about system calls: those that may have a wanted beginning or end, those
//! with the beginnings of the calls that end in them, the requests to disks meanwhile, and whatever
//! tells what descriptors stand for.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::Abi;
use flightrec_format::decode::{Brief, Half, Page};
use flightrec_format::failure::is_own;
use flightrec_store::summary::{BlockSummary, CallSummary};
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::name_index::Names;
use super::map::{At, Map};
use super::scan::{self, Arguments, What};
use super::{Only, Picked, Place, Sought, family, slow};
use crate::window::LEAD_OUT_NS;

/// Of how many blocks of system calls one may be read for a question to be narrow: after it,
/// choosing costs as much as it saves.
pub(super) const PART: usize = 3;

/// A wanted end of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) tid: u32,
    pub(super) time: u64,
    /// When its call began, as far as that is known.
    pub(super) began: Option<u64>,
    pub(super) ret: i64,
}

/// What was found so far.
#[derive(Default)]
pub(super) struct Found {
    pub(super) ends: Vec<End>,
    /// Threads of which it is shown what a descriptor stands for, and when.
    descriptors: Vec<(u32, u64)>,
    /// Stretches of time of which all events are needed.
    whole: Vec<(u64, u64)>,
    /// How long wanted calls take at least, ns.
    least: u64,
}

/// What is needed; `None`: too much, or not known.
pub(super) fn choose(map: &Map<'_>, place: &Place<'_>, sought: &dyn Sought) -> Option<Picked> {
    let arguments = Arguments::new(place.meta);
    let all = map.open(Lane::Syscall, place.from).count();
    let seeds: Vec<At> = map
        .open(Lane::Syscall, place.from)
        .filter(|(_, block)| block.may(|entry| may_have(entry, sought, place.names)))
        .map(|(at, _)| at)
        .collect();
    if seeds.len() > all / PART {
        return None;
    }
    let least = sought.slower_than().unwrap_or(0);
    let slow = if least == 0 { None } else { Some(slow::choose(map, place, &seeds, least)?) };
    let seeds = match &slow {
        Some(slow) => seeds.into_iter().filter(|at| slow.contains_key(at)).collect(),
        None => seeds,
    };
    let of_blocks = map.scan(&seeds, |at, pages| {
        let mut found = Found { least, ..Found::default() };
        let threads = match slow.as_ref().and_then(|slow| slow.get(&at)) {
            Some(threads) => threads,
            None => &wanted_threads(pages, sought),
        };
        found.take(&scan::calls(pages, &arguments, threads), sought);
        (threads.clone(), found)
    })?;
    let mut chosen: FxHashSet<At> = seeds.iter().copied().collect();
    let mut found = Found { least, ..Found::default() };
    let mut threads = FxHashSet::default();
    for (own, of_block) in of_blocks {
        threads.extend(own);
        found.join(of_block);
    }
    chosen.extend(found.begin(map, place, &arguments)?);
    let renamed: Vec<u32> = threads.iter().flat_map(|tid| place.names.before(*tid)).collect();
    threads.extend(renamed);
    for End { tid, time, began, .. } in &found.ends {
        let Some(began) = began else {
            let asks = |entry: &BlockSummary| entry.has_thread(*tid);
            // Which requests were made in a call that began before all is not known.
            if found.least != 0
                && map.of(Lane::Kernel).any(|(_, b)| b.first <= *time && b.may(asks))
            {
                return None;
            }
            continue;
        };
        let requests = map.of(Lane::Kernel).filter(|(_, block)| block.touches(*began, *time));
        chosen.extend(requests.map(|(at, _)| at));
    }
    for (from, until) in &found.whole {
        chosen.extend(map.all().filter(|(_, b)| b.touches(*from, *until)).map(|(at, _)| at));
    }
    if sought.names_descriptors() {
        let family = family::choose(map, place, &found.descriptors)?;
        chosen.extend(family.blocks);
        threads.extend(family.threads);
    }
    let calls = |at: &&At| map.get(**at).is_some_and(|block| block.lane == Lane::Syscall);
    if chosen.iter().filter(calls).count() > all / PART {
        return None;
    }
    // Where a call waits for others to complete it, how many there are counts.
    let threads = found.whole.is_empty().then_some(threads);
    let only = sought.slower_than().map(|_| Only {
        from: place.from,
        moments: found.ends.iter().map(|end| (end.tid, end.time)).collect(),
        ..Only::default()
    });
    Some(Picked { blocks: chosen, threads, only })
}

/// Whether a block may have something that is wanted.
fn may_have(entry: &BlockSummary, sought: &dyn Sought, names: &Names) -> bool {
    // Who executed a program may have begun that call as another.
    let is_renamed = || names.renumbered().any(|tid| entry.has_thread(tid));
    let is_wanted = |of: &CallSummary| {
        let (renumbered, abi) = (scan::is_renumbered(of.call.1), abi(of.call.0));
        let fails = |error: &u16| {
            renumbered
                || abi.is_none_or(|abi| sought.may_want_error(abi, of.call.1, (*error).into()))
        };
        let is_slow =
            |least: u64| of.longest.is_none_or(|longest| longest >= least) || is_renamed();
        (renumbered || abi.is_none_or(|abi| sought.may_want_call(abi, of.call.1)))
            && sought.slower_than().is_none_or(is_slow)
            && (!sought.is_of_failures() || of.errors.iter().any(fails))
    };
    sought.threads().is_none_or(|threads| entry.has_any_thread(threads))
        && entry.calls.iter().any(is_wanted)
}

pub(super) fn abi(number: u8) -> Option<Abi> {
    [Abi::Native, Abi::Compat, Abi::X32].into_iter().find(|abi| *abi as u8 == number)
}

/// The threads in these pages that do something that may be wanted.
fn wanted_threads(pages: &[&Page], sought: &dyn Sought) -> FxHashSet<u32> {
    let mut threads = FxHashSet::default();
    for brief in pages.iter().flat_map(|page| page.brief_calls()) {
        let Brief { tid, abi, nr, half, .. } = brief;
        let entered = || sought.wants_entries() && wants(sought, abi, nr, None);
        let is_wanted = match half {
            Half::Enter => entered(),
            Half::Exit { ret } => wants(sought, abi, nr, Some(ret)),
            Half::Whole { ret, .. } => entered() || wants(sought, abi, nr, Some(ret)),
        };
        if is_wanted && sought.threads().is_none_or(|of| of.binary_search(&tid).is_ok()) {
            threads.insert(tid);
        }
    }
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
    /// Takes what was found in another block.
    fn join(&mut self, other: Self) {
        self.ends.extend(other.ends);
        self.descriptors.extend(other.descriptors);
        self.whole.extend(other.whole);
    }

    /// Takes the calls of some threads in one block.
    fn take(&mut self, briefs: &[scan::Brief], sought: &dyn Sought) {
        let mut open: Option<(u32, u64, bool, bool)> = None;
        for scan::Brief { tid, time, what } in briefs {
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
                    // If other blocks have anything of the thread in between, it took less.
                    let known = began.map(|(_, at, ..)| at).or(entered);
                    if !wants(sought, abi, nr, Some(ret)) || self.is_short(time, known) {
                        continue;
                    }
                    let given = began.is_some_and(|(_, _, descriptors, _)| descriptors);
                    if descriptors || given {
                        self.descriptors.push((tid, time));
                    }
                    if let Some((_, at, _, true)) = began {
                        self.completes(at);
                    }
                    // Where only the slow ones are wanted, it has to be exact.
                    let began = entered.or(known.filter(|_| self.least == 0));
                    self.ends.push(End { tid, time, began, ret });
                }
                What::Switch { .. } => {}
            }
        }
    }

    /// Whether a call is too short to be wanted.
    fn is_short(&self, time: u64, began: Option<u64>) -> bool {
        began.is_some_and(|began| time.saturating_sub(began) < self.least)
    }

    /// A call that began at `time` is completed by later events, as long as it waits for them: how
    /// many there are counts.
    fn completes(&mut self, time: u64) {
        self.whole.push((time, time.saturating_add(LEAD_OUT_NS)));
    }

    /// Finds the beginnings of calls in other blocks than their ends, and returns these blocks.
    pub(super) fn begin(
        &mut self,
        map: &Map<'_>,
        place: &Place<'_>,
        arguments: &Arguments,
    ) -> Option<FxHashSet<At>> {
        // By number of the end: the last event of its thread, under any of its ids.
        let (mut asked, mut numbers) = (Vec::new(), Vec::new());
        for (number, end) in self.ends.iter().enumerate().filter(|(_, end)| end.began.is_none()) {
            for tid in place.names.before(end.tid).chain([end.tid]) {
                asked.push((tid, end.time));
                numbers.push(number);
            }
        }
        let (found, blocks) = map.last(Lane::Syscall, &asked, |pages, asked| {
            scan::last(&scan::calls(pages, arguments, &scan::threads(asked)), asked)
        })?;
        let mut last = FxHashMap::<usize, scan::Brief>::default();
        for (at, number) in numbers.into_iter().enumerate() {
            let Some((_, brief)) = found.get(&at) else { continue };
            let known = last.entry(number).or_insert(*brief);
            if known.time <= brief.time {
                *known = *brief;
            }
        }
        let mut short = FxHashSet::default();
        for (number, end) in self.ends.iter_mut().enumerate() {
            if end.began.is_some() {
                continue;
            }
            match last.get(&number) {
                Some(scan::Brief { time, .. })
                    if end.time.saturating_sub(*time) < self.least
                        && place.names.before(end.tid).next().is_none() =>
                {
                    short.insert(number);
                }
                Some(scan::Brief {
                    time, what: What::Enter { descriptors, partial, .. }, ..
                }) => {
                    end.began = Some(*time);
                    if *descriptors {
                        self.descriptors.push((end.tid, end.time));
                    }
                    if *partial {
                        self.whole.push((*time, time.saturating_add(LEAD_OUT_NS)));
                    }
                }
                // A call that waited, since before all that is there.
                None if self.least != 0
                    && is_own(end.ret)
                    && end.time.saturating_sub(place.from) >= self.least => {}
                // Whether it began at all, scheduling tells.
                None if !place.names.is_born(end.tid) => return None,
                // It never began.
                _ if self.least != 0 => drop(short.insert(number)),
                _ => {}
            }
        }
        let mut number = 0..;
        self.ends.retain(|_| number.next().is_none_or(|number| !short.contains(&number)));
        Some(blocks)
    }
}
