//! Which exit of a system call belongs to which entry: the rules, for all that ask how long calls
//! took ([`pipeline`](crate::pipeline), the sums of minutes, the triggers of flightd).
//!
//! An exit ends the last entry of its thread, if it has the entry's number. Two exits have lost
//! that number: of a call in which a program was executed, and one whose registers say none
//! ([`NR_INVALID`]). A thread that executes a program while it is not its process's leader takes
//! over the leader's id in the middle of its call.
//!
//! The last entry of a thread is not the exit's where calls may be missing between the two:
//!
//! - Recorded events of a CPU are missing then ([`Holes::lose`]) on which the thread may have run
//!   meanwhile. Where no switch is missing, it runs on one CPU until it is switched from there, and
//!   then on none until it is switched to. (What the budget refuses is no such loss: the probes
//!   refuse an exit only if they refused its entry.)
//! - The entry is from before the pages of all CPUs begin ([`Holes::whole`]). It may have had its
//!   exit, and others may have followed, on a CPU whose pages begin later. It is the one that ends
//!   next only if the thread then is woken where it was entered: elsewhere it has not run since.
//! - The quiet ring left out events of its process ([`LeftOuts`]).
//! - System calls were detached ([`Pairing::attach`]).

#[cfg(test)]
mod tests;

use std::sync::Arc;

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, Act, NR_INVALID};
use flightrec_format::decode::{Body, Call, Event};
use rustc_hash::FxHashMap;

use crate::holes::Holes;
use crate::left_out::{self, LeftOuts};

/// A system call by its table and its number in it.
pub type CallNumber = (Abi, u16);

/// Where an event happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct At {
    /// ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The thread.
    pub tid: u32,
    /// The CPU.
    pub cpu: u16,
}

/// The entry of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<T> {
    /// When, ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The call.
    pub call: CallNumber,
    /// What was given with it.
    pub extra: T,
    /// Whether a program was executed in the call.
    pub executed: bool,
}

/// What an exit ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended<T> {
    /// The last entry of the thread, if it is in a call.
    last: Option<Entry<T>>,
    /// Whether that is for certain the entry of the call that ends.
    is_its: bool,
    /// When the thread was seen last before, if it was.
    pub seen: Option<u64>,
    /// Where the entry is not known: from when on all calls before the exit are there.
    pub since: u64,
}

/// What an event does to the calls of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken<T> {
    /// No call begins or ends, or there is no room to remember that one begins.
    Nothing,
    /// A call begins, and is remembered.
    Begun,
    /// A call ends.
    Ended(Ended<T>),
}

/// There are as many threads in calls as may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// An entry without its exit, so far.
#[derive(Debug, Clone, Copy)]
struct Pending<T> {
    call: CallNumber,
    cpu: u16,
    /// Calls of this thread may be missing since, but for those on this CPU.
    doubted: bool,
    executed: bool,
    extra: T,
}

/// In [`Place::cpu`]: it is not known.
const NO_CPU: u16 = u16::MAX;

/// What is known of a thread.
#[derive(Debug, Clone, Copy)]
pub struct Place<T> {
    /// When it was seen last: at its birth, or at the last entry or exit of a call.
    time: u64,
    /// Up to when nothing of it is missing since then.
    whole: u64,
    /// When it lost its CPU; 0: it runs, or that is not known.
    off: u64,
    /// The CPU on which it ran last; [`NO_CPU`]: not known.
    cpu: u16,
    pending: Option<Pending<T>>,
}

/// The threads of a recording, each with the entry of the call that it is in. `T` is what the
/// caller stores with an entry.
#[derive(Debug, Clone)]
pub struct Pairing<T> {
    /// A thread keeps its place until it ends, or there is a crowd: one look finds it, for its
    /// entries and its exits.
    places: FxHashMap<u32, Place<T>>,
    /// Most threads. From half as many on it is a crowd: each gives up its place with its exit.
    most: usize,
    /// No place is of a thread that is in no call.
    swept: bool,
    /// There have been entries that are doubted.
    has_doubts: bool,
    /// When calls may be missing, or the places of threads that were seen.
    holes: Holes,
    /// Of the segments of the recording so far, the newest two.
    left_outs: Vec<Arc<LeftOuts>>,
}

impl<T: Copy> Pairing<T> {
    /// `holes`: when calls may be missing; `most`: how many threads it remembers at most.
    pub fn new(holes: Holes, most: usize) -> Self {
        Self {
            places: FxHashMap::default(),
            most,
            swept: false,
            has_doubts: false,
            holes,
            left_outs: Vec::new(),
        }
    }

    /// Goes on with the holes of what is read after `from`. `dropped` takes the same entries as in
    /// [`Self::settle`].
    pub fn go_on(&mut self, next: Holes, from: u64, dropped: impl FnMut(Entry<T>)) {
        self.settle(from, dropped);
        self.holes.go_on(next, from);
    }

    /// All events before a moment were taken: what was lost until then counts no more, once the
    /// entries that may have had their exits meanwhile are `dropped`.
    pub fn settle(&mut self, now: u64, mut dropped: impl FnMut(Entry<T>)) {
        if self.holes.has_losses() {
            for place in self.places.values_mut().filter(|place| place.whole < now) {
                let is_off = place.is_off(&self.holes, now);
                if !is_off && !place.is_whole(&self.holes, now, place.cpu) {
                    place.entry().into_iter().for_each(&mut dropped);
                    place.pending = None;
                }
                if !is_off && place.off != 0 {
                    place.cpu = NO_CPU;
                }
                (place.whole, place.off) = (now, if is_off { now } else { 0 });
            }
        }
        self.holes.settle(now);
    }

    /// When calls may be missing.
    pub fn holes(&mut self) -> &mut Holes {
        &mut self.holes
    }

    /// From when on all calls are there, up to a moment.
    pub fn whole_since(&self, time: u64) -> u64 {
        self.holes.since(time)
    }

    /// What the quiet ring left out of what is read from `from` on.
    pub fn learn(&mut self, left_outs: &Arc<LeftOuts>, from: u64) {
        if left_out::learn(&mut self.left_outs, left_outs) {
            self.holes.begin(from);
        }
    }

    /// Whether calls of a thread may have been left out between two moments.
    pub fn is_left_out(&self, tid: u32, from: u64, until: u64) -> bool {
        self.left_outs.iter().any(|left_outs| left_outs.has(Lane::Syscall, tid, from, until))
    }

    /// When a thread was seen last: at its birth, or at the last entry or exit of a call.
    pub fn seen(&self, tid: u32) -> Option<u64> {
        self.places.get(&tid).map(|place| place.time)
    }

    /// What is remembered with the entry of the call that a thread is in.
    pub fn extra(&mut self, tid: u32) -> Option<(CallNumber, &mut T)> {
        let pending = self.places.get_mut(&tid)?.pending.as_mut()?;
        Some((pending.call, &mut pending.extra))
    }

    /// Takes the next event, in the order of time. `extra`: what is remembered with the entry of a
    /// call; `dropped`: is given each entry that has no exit, or not for certain.
    #[inline]
    pub fn event(
        &mut self,
        event: &Event,
        extra: impl FnOnce(&Call) -> T,
        mut dropped: impl FnMut(Entry<T>),
    ) -> Taken<T> {
        let at = At { time: event.time, tid: event.tid, cpu: event.cpu };
        let (taken, entry) = match &event.body {
            Body::Enter(call) => match self.enter(at, (call.abi, call.nr), extra(call)) {
                Ok(before) => (Taken::Begun, before),
                Err(Full) => return Taken::Nothing,
            },
            Body::Exit { call, .. } => {
                let ended = self.exit(at, (call.abi, call.nr));
                (Taken::Ended(ended), ended.dropped())
            }
            Body::Waking { wakee, cpu, .. } if self.has_doubts => {
                (Taken::Nothing, self.wake(At { tid: *wakee, cpu: *cpu, ..at }))
            }
            Body::Switch { next, .. } => {
                self.switch(at.tid, *next, at.time, at.cpu);
                return Taken::Nothing;
            }
            Body::Fork(fork) => (Taken::Nothing, self.see(fork.tid, at.time)),
            Body::Exec { exec, .. } => (Taken::Nothing, self.execute(exec.old_tid, exec.tid)),
            Body::TaskExit(exit) => (Taken::Nothing, self.leave(exit.tid)),
            Body::Act(act, _) if *act == Act::Attached as u16 => {
                self.attach(at.time, dropped);
                return Taken::Nothing;
            }
            _ => return Taken::Nothing,
        };
        if let Some(entry) = entry {
            dropped(entry);
        }
        taken
    }

    /// A thread begins a call. Returns an entry of it that has had no exit.
    ///
    /// # Errors
    /// There are as many threads in calls as may be: this one is not remembered.
    #[inline]
    pub fn enter(&mut self, at: At, call: CallNumber, extra: T) -> Result<Option<Entry<T>>, Full> {
        let At { time, tid, cpu } = at;
        let doubted = time < self.holes.whole();
        self.has_doubts |= doubted;
        if self.places.len() >= self.most && !self.has_room(tid, time) {
            return Err(Full);
        }
        let pending = Pending { call, cpu, doubted, executed: false, extra };
        let place = Place { time, whole: time, off: 0, cpu, pending: Some(pending) };
        Ok(self.places.insert(tid, place).and_then(Place::entry))
    }

    /// A call ends.
    #[inline]
    pub fn exit(&mut self, at: At, call: CallNumber) -> Ended<T> {
        let At { time, tid, .. } = at;
        let is_crowded = self.is_crowded();
        let place = self.end(tid, time);
        let mut ended = Ended {
            last: place.and_then(Place::entry),
            is_its: false,
            seen: place.map(|place| place.time),
            since: 0,
        };
        if let Some(place) = place
            && let Some(entry) = &ended.last
        {
            ended.is_its = entry.ends_with(call)
                && !self.is_doubted(&place, at)
                && !self.is_left_out(tid, place.time, time)
                && place.is_whole(&self.holes, time, at.cpu);
        }
        if !ended.is_its {
            ended.since = self.holes.since(time);
        }
        if place.is_none() {
            // It has no entry there that could be dropped.
            self.see(tid, time);
        } else if is_crowded {
            // Who has given up its place was seen.
            self.holes.begin(time);
        }
        ended
    }

    /// A thread is seen that is in no call. Returns an entry of it that has had no exit.
    pub fn see(&mut self, tid: u32, time: u64) -> Option<Entry<T>> {
        if self.is_crowded() && !self.places.contains_key(&tid) {
            self.holes.begin(time);
            return None;
        }
        self.swept = false;
        let place = Place { time, whole: time, off: 0, cpu: NO_CPU, pending: None };
        self.places.insert(tid, place).and_then(Place::entry)
    }

    /// A thread executes a program; its id before. Returns the entry of the one that had its id.
    pub fn execute(&mut self, old: u32, tid: u32) -> Option<Entry<T>> {
        let dropped = if old == tid {
            None
        } else {
            let place = self.take(old);
            self.put(tid, place)
        };
        self.mark_executed(tid);
        dropped
    }

    /// Forgets a thread. Returns what is known of it: to be [put](Self::put) under another id.
    pub fn take(&mut self, tid: u32) -> Option<Place<T>> {
        self.places.remove(&tid)
    }

    /// A thread has another one's id now. Returns the entry of the one that had it.
    pub fn put(&mut self, tid: u32, place: Option<Place<T>>) -> Option<Entry<T>> {
        let before = match place {
            Some(place) => self.places.insert(tid, place),
            None => self.places.remove(&tid),
        };
        before.and_then(Place::entry)
    }

    /// A program is executed in the call that a thread is in: it ends next.
    pub fn mark_executed(&mut self, tid: u32) {
        if let Some(place) = self.places.get_mut(&tid)
            && let Some(pending) = &mut place.pending
        {
            pending.executed = true;
        }
    }

    /// A thread ends: its last call (`exit`, `exit_group`) never returns.
    pub fn leave(&mut self, tid: u32) -> Option<Entry<T>> {
        self.places.remove(&tid).and_then(Place::entry)
    }

    /// Threads that are gone end no call any more.
    pub fn retain(&mut self, mut lives: impl FnMut(u32) -> bool) {
        self.places.retain(|tid, _| lives(*tid));
    }

    /// A CPU goes from one thread to another. It matters where recorded calls are missing.
    fn switch(&mut self, prev: u32, next: u32, time: u64, cpu: u16) {
        if let Some(place) = self.places.get_mut(&prev) {
            if place.is_whole(&self.holes, time, cpu) {
                place.whole = time;
            }
            place.off = time;
        }
        if let Some(place) = self.places.get_mut(&next) {
            if place.is_off(&self.holes, time) {
                place.whole = time;
            }
            (place.off, place.cpu) = (0, cpu);
        }
    }

    /// A thread is woken that last ran on this CPU: an entry of it that is doubted is the one that
    /// ends next, or it is none any more, and returned. Before all pages are there the thread may
    /// go on unseen.
    #[cold]
    fn wake(&mut self, at: At) -> Option<Entry<T>> {
        let is_whole = at.time >= self.holes.whole();
        let place = self.places.get_mut(&at.tid)?;
        let pending = place.pending.as_mut().filter(|pending| pending.doubted)?;
        if at.cpu != pending.cpu {
            let entry = place.entry();
            place.pending = None;
            return entry;
        }
        pending.doubted = !is_whole;
        None
    }

    /// System calls are recorded again: threads may have made any number of them meanwhile.
    pub fn attach(&mut self, time: u64, dropped: impl FnMut(Entry<T>)) {
        self.holes.begin(time);
        self.places.drain().filter_map(|(_, place)| place.entry()).for_each(dropped);
    }

    /// Whether an entry of a thread can be remembered, where there are as many as there may be:
    /// places of threads that are in no call are given up for it. Until it is less crowded there
    /// are none of these again, so what that costs is spread over as many entries.
    #[cold]
    fn has_room(&mut self, tid: u32, time: u64) -> bool {
        if self.places.contains_key(&tid) {
            return true;
        }
        // Of threads without a place it is not known whether they were seen before.
        self.holes.begin(time);
        if !self.swept {
            self.places.retain(|_, place| place.pending.is_some());
            self.swept = true;
        }
        self.places.len() < self.most
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        self.places.len() >= self.most / 2
    }

    /// What was known of a thread whose call ends; nothing, if it was not seen.
    #[inline]
    fn end(&mut self, tid: u32, time: u64) -> Option<Place<T>> {
        if self.is_crowded() {
            return self.places.remove(&tid);
        }
        self.swept = false;
        let place = self.places.get_mut(&tid)?;
        let before = *place;
        *place = Place { time, whole: time, off: 0, cpu: NO_CPU, pending: None };
        Some(before)
    }

    /// Whether an entry is doubted, and the call that ends may be another one. Once the pages of all
    /// CPUs are there, the thread's last wakeup has removed the doubt, or the entry.
    fn is_doubted(&self, place: &Place<T>, at: At) -> bool {
        let is_whole = at.time >= self.holes.whole();
        place.pending.is_some_and(|of| of.doubted && (is_whole || at.cpu != of.cpu))
    }
}

impl<T: Copy> Ended<T> {
    /// The entry of the call that ends; `None`: not known.
    pub fn entry(&self) -> Option<Entry<T>> {
        if self.is_its { self.last } else { None }
    }

    /// The last entry of the thread, if it is another call's, or that is not certain.
    pub fn dropped(&self) -> Option<Entry<T>> {
        if self.is_its { None } else { self.last }
    }
}

impl<T> Place<T> {
    /// Whether the thread lost its CPU, has had none since, up to a moment, and nothing of it was
    /// missing before.
    fn is_off(&self, holes: &Holes, now: u64) -> bool {
        self.off != 0 && self.whole == self.off && holes.has_switches(self.off, now)
    }

    /// Whether nothing of the thread is missing up to a moment when it runs on a CPU.
    fn is_whole(&self, holes: &Holes, now: u64, cpu: u16) -> bool {
        let has_stayed = || {
            self.off == 0 && self.cpu == cpu && cpu != NO_CPU && holes.has_switches(self.whole, now)
        };
        !holes.loses(self.whole, now, None)
            || has_stayed() && !holes.loses(self.whole, now, Some(cpu))
    }

    fn entry(self) -> Option<Entry<T>> {
        let time = self.time;
        self.pending.map(|pending| {
            let Pending { call, executed, extra, .. } = pending;
            Entry { time, call, extra, executed }
        })
    }
}

impl<T> Entry<T> {
    /// Whether an exit is of this call, by the number that it has.
    fn ends_with(&self, call: CallNumber) -> bool {
        self.is_lost_by(call) || call.1 == self.call.1
    }

    /// Whether the exit of its call has lost the call's number: `rt_sigreturn` leaves none, and
    /// executing a program leaves execve's of the new program's width (`set_personality_64bit`,
    /// arch/x86/kernel/process_64.c).
    pub fn is_lost_by(&self, call: CallNumber) -> bool {
        self.executed || call.1 == NR_INVALID && self.call.1 != NR_INVALID
    }
}
