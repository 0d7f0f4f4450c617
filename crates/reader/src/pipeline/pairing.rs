//! Exits find their entries.
//!
//! An exit knows its entry where it folded into it; else the entry is the last of its thread. A
//! thread that executes a program while it is not its process's leader takes over the leader's id
//! in the middle of its call. A path that could not be read at entry, because its page was not yet
//! there, comes with the exit (or with the EXEC event) and is put where it belongs. Where the
//! recorder resumes system calls that it did not record for a time, entries from before have no
//! exits.
//!
//! An exit without an entry is of a call that began before all that is there, or of one that never
//! began: a new thread's first return, a call that a filter (seccomp) refused or a tracer skipped.
//! Where its thread was seen since all calls are there, it is the latter. Else it is the former, if
//! it is certain that the thread was in a call: it slept as threads do in calls, or the call
//! returned what no filter is used to return.
//!
//! An entry from before the pages of all CPUs begin ([`Holes::whole`]) may have had its exit, and
//! others may have followed, on a CPU whose pages begin later. It is the one that ends next only if
//! the thread then is woken where it was entered: elsewhere it has not run since.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, Act, NR_INVALID, StringStatus};
use flightrec_format::decode::{Body, Call, Text};
use flightrec_format::failure::is_own;
use flightrec_format::meta::{Meta, Syscall};

use super::addresses;
use super::delay::{Began, DelayLine, Item};
use super::placement::Placement;
use crate::holes::Holes;
use crate::left_out::LeftOuts;
use crate::threads::THREADS_MAX;

/// From so many threads on, one gives up its place with each exit.
const CROWDED: usize = THREADS_MAX / 2;

/// What is known of a thread.
#[derive(Debug, Clone, Copy)]
struct ThreadPlace {
    /// When it was last seen: at its birth, or at the last entry or exit of a call.
    time: u64,
    pending: Option<Pending>,
}

/// An entry without its exit, so far: the last that was seen of its thread.
#[derive(Debug, Clone, Copy)]
struct Pending {
    nr: u16,
    abi: Abi,
    /// Its number, where that is beyond all tables ([`NR_INVALID`]).
    beyond: Option<u64>,
    /// `Some`: calls of this thread may be missing behind it, but for those on this CPU.
    doubted: Option<u16>,
    /// Its item in the delay line, where a string of it is still to come.
    incomplete: Option<u64>,
    /// A program has been executed in it: it is execve or execveat, and ends next.
    executed: bool,
    /// The room that it gave for an address.
    room: Option<u32>,
}

/// Entries that wait for their exits, by thread.
#[derive(Debug, Clone, Default)]
pub struct Pairing {
    /// A thread keeps its place until it ends, or it is [`CROWDED`]: one look finds it, for its
    /// entries and its exits.
    places: FxHashMap<u32, ThreadPlace>,
    /// No place is of a thread that is in no call.
    swept: bool,
    /// There have been entries that are [doubted](Pending::doubted).
    has_doubts: bool,
    execve: FxHashSet<(Abi, u16)>,
    /// Calls that make threads, whose first return is theirs.
    births: FxHashSet<(Abi, u16)>,
    /// When calls may be missing, or the places of threads that were seen.
    holes: Holes,
    /// Of the stretches of the recording so far, the newest two.
    left_outs: Vec<Arc<LeftOuts>>,
}

impl Pairing {
    /// For a recording.
    pub fn new(meta: &Meta, holes: Holes) -> Self {
        Self {
            places: FxHashMap::default(),
            swept: false,
            has_doubts: false,
            execve: numbers(meta, &["execve"]),
            births: numbers(meta, &BIRTHS),
            holes,
            left_outs: Vec::new(),
        }
    }

    /// Goes on with what is read from `from` on.
    pub fn go_on(&mut self, next: Holes, from: u64) {
        self.holes.go_on(next, from);
    }

    /// When calls may be missing.
    pub fn holes(&mut self) -> &mut Holes {
        &mut self.holes
    }

    /// From when on all calls are there, up to a moment.
    pub fn whole_since(&self, time: u64) -> u64 {
        self.holes.since(time)
    }

    /// Whether anything was seen of a thread.
    pub fn has_seen(&self, tid: u32) -> bool {
        self.places.contains_key(&tid)
    }

    /// Whether a call that ends without an entry is sure to have begun before all that is there, or
    /// never to have begun: what it returned tells.
    pub fn tells(&self, (abi, nr): (Abi, u16), ret: i64) -> bool {
        is_own(ret) || self.is_birth((abi, nr), ret)
    }

    /// A new thread's first return.
    fn is_birth(&self, call: (Abi, u16), ret: i64) -> bool {
        ret == 0 && self.births.contains(&call)
    }

    /// Where events are left out of a thread, an exit may be of another call than the last entry.
    /// They are of what is read from `from` on.
    pub fn learn(&mut self, left_outs: &Arc<LeftOuts>, from: u64) {
        if crate::left_out::learn(&mut self.left_outs, left_outs) {
            self.holes.begin(from);
        }
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
        self.places.len() < THREADS_MAX
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        self.places.len() >= CROWDED
    }

    /// Where a thread had come to whose call ends; nothing, if it was not seen.
    #[inline]
    fn end(&mut self, tid: u32, time: u64) -> Option<ThreadPlace> {
        if self.is_crowded() {
            return self.places.remove(&tid);
        }
        self.swept = false;
        let place = self.places.get_mut(&tid)?;
        let before = *place;
        *place = ThreadPlace { time, pending: None };
        Some(before)
    }

    /// A thread is seen that is in no call.
    fn see(&mut self, tid: u32, time: u64, line: &mut DelayLine) {
        if self.is_crowded() && !self.places.contains_key(&tid) {
            return self.holes.begin(time);
        }
        self.swept = false;
        if let Some(before) = self.places.insert(tid, ThreadPlace { time, pending: None }) {
            before.release(line);
        }
    }

    /// When a call began that ends without an entry; `seen`: its thread, when it was before.
    /// `None`: it never began.
    #[cold]
    fn began(
        &self,
        (tid, time): (u32, u64),
        seen: Option<u64>,
        (call, ret): (&Call, i64),
        slept: impl FnOnce(u64) -> bool,
    ) -> Option<Began> {
        let since = self.holes.since(time);
        let from = seen.unwrap_or(0);
        let is_left_out =
            |left_outs: &Arc<LeftOuts>| left_outs.has(Lane::Syscall, tid, since.max(from), time);
        if self.is_birth((call.abi, call.nr), ret) {
            None
        } else if self.left_outs.iter().any(is_left_out) {
            Some(Began { from, until: time })
        } else if seen.is_some_and(|seen| seen >= since) {
            None
        } else if since < time && (is_own(ret) || slept(since)) {
            Some(Began { from, until: since })
        } else {
            Some(Began { from, until: time })
        }
    }

    /// A thread is woken that last ran on this CPU: an entry of it that is doubted is the one that
    /// ends next, or it is none any more. Before all pages are there the thread may go on unseen.
    #[cold]
    fn woken(&mut self, (tid, time): (u32, u64), cpu: u16, line: &mut DelayLine) {
        let is_whole = time >= self.holes.whole();
        let Some(place) = self.places.get_mut(&tid) else { return };
        let Some(pending) = &mut place.pending else { return };
        let Some(entered_on) = pending.doubted else { return };
        if cpu != entered_on {
            pending.release(line);
            place.pending = None;
        } else if is_whole {
            pending.doubted = None;
        }
    }

    /// Takes an exit; returns its entry, where that was seen.
    #[inline]
    fn exit(
        &mut self,
        item: &mut Item,
        line: &mut DelayLine,
        placement: &Placement,
    ) -> Option<Pending> {
        let (tid, time, cpu) = (item.event.tid, item.event.time, item.event.cpu);
        let Body::Exit { call, entered, ret } = &mut item.event.body else { return None };
        item.found.entered = *entered;
        let is_crowded = self.is_crowded();
        let place = self.end(tid, time);
        let mut entry = None;
        if let Some(ThreadPlace { time: began, pending: Some(pending) }) = place {
            let is_left_out =
                |left_outs: &Arc<LeftOuts>| left_outs.has(Lane::Syscall, tid, began, time);
            if self.left_outs.iter().any(is_left_out) {
                item.found.began = entered.is_none().then_some(Began { from: began, until: time });
                pending.release(line);
                if is_crowded {
                    self.holes.begin(time);
                }
                return None;
            }
            if pending.is_doubted_at(cpu, time >= self.holes.whole()) {
                pending.release(line);
            } else if pending.ends_with(call, line) {
                item.found.entered = item.found.entered.or(Some(began));
                entry = Some(pending);
            }
        }
        if item.found.entered.is_none() {
            let slept = |since| placement.has_slept(tid, cpu, since);
            let seen = place.map(|place| place.time);
            item.found.began = self.began((tid, time), seen, (call, *ret), slept);
        }
        if place.is_none() {
            self.see(tid, time, line);
        } else if is_crowded {
            // Who has given up its place was seen.
            self.holes.begin(time);
        }
        entry
    }

    /// Takes the next event in, on its way to the end of the line.
    #[inline]
    pub fn take(&mut self, item: &mut Item, line: &mut DelayLine, placement: &Placement) {
        let (tid, time, cpu) = (item.event.tid, item.event.time, item.event.cpu);
        match &mut item.event.body {
            Body::Enter(call) => {
                let incomplete = call.strings.iter().any(partial).then(|| line.next());
                item.waiting = incomplete.is_some();
                let doubted = (time < self.holes.whole()).then_some(cpu);
                self.has_doubts |= doubted.is_some();
                let Call { nr, abi, .. } = *call;
                let beyond = call.args.first().copied().filter(|_| nr == NR_INVALID);
                let room = addresses::room(call);
                let pending =
                    Pending { nr, abi, beyond, doubted, incomplete, executed: false, room };
                if self.places.len() >= THREADS_MAX && !self.has_room(tid, time) {
                    item.waiting = false;
                    return;
                }
                let place = ThreadPlace { time, pending: Some(pending) };
                if let Some(before) = self.places.insert(tid, place) {
                    before.release(line);
                }
            }
            Body::Exit { .. } => {
                let entry = self.exit(item, line, placement);
                if let Body::Exit { call, .. } = &mut item.event.body
                    && !call.strings.is_empty()
                {
                    addresses::cut(call, entry.and_then(|entry| entry.room));
                }
            }
            Body::Waking { wakee, cpu: slept_on, .. } if self.has_doubts => {
                self.woken((*wakee, time), *slept_on, line);
            }
            Body::Fork(fork) => self.see(fork.tid, time, line),
            Body::Exec { exec, file, .. } => {
                if exec.old_tid != exec.tid {
                    let leader = match self.places.remove(&exec.old_tid) {
                        Some(place) => self.places.insert(exec.tid, place),
                        None => self.places.remove(&exec.tid),
                    };
                    if let Some(leader) = leader {
                        leader.release(line);
                    }
                }
                let mut pending =
                    self.places.get_mut(&exec.tid).and_then(|place| place.pending.as_mut());
                if let Some(pending) = &mut pending {
                    pending.executed = true;
                }
                // The file that is executed is execve's first argument. (Not execveat's: there it
                // may be relative to a directory.)
                if let (Some(pending), Some(file)) = (pending, file)
                    && self.execve.contains(&(pending.abi, pending.nr))
                    && let Some(number) = pending.incomplete.take()
                {
                    let path = Text { index: 0, ..file.clone() };
                    line.settle(number, |entry| complete(&mut entry.event.body, &[path]));
                }
            }
            // `exit` and `exit_group` never return.
            Body::TaskExit(exit) => {
                if let Some(place) = self.places.remove(&exit.tid) {
                    place.release(line);
                }
            }
            // Its thread may have made any number of calls meanwhile.
            Body::Act(act, _) if *act == Act::Attached as u16 => {
                self.holes.begin(time);
                for (_, place) in self.places.drain() {
                    place.release(line);
                }
            }
            _ => {}
        }
    }
}

/// Calls that make threads.
const BIRTHS: [&str; 4] = ["clone", "clone3", "fork", "vfork"];

/// The numbers of calls, by name.
fn numbers(meta: &Meta, names: &[&str]) -> FxHashSet<(Abi, u16)> {
    let of = |table: &[Syscall], abis: &[Abi]| {
        let named = table.iter().filter(|call| names.contains(&call.name.as_str()));
        named.flat_map(|call| abis.iter().map(|abi| (*abi, call.nr))).collect::<Vec<_>>()
    };
    let native = of(&meta.native, &[Abi::Native, Abi::X32]);
    native.into_iter().chain(of(&meta.compat, &[Abi::Compat])).collect()
}

impl ThreadPlace {
    fn release(self, line: &mut DelayLine) {
        if let Some(pending) = self.pending {
            pending.release(line);
        }
    }
}

impl Pending {
    fn release(self, line: &mut DelayLine) {
        if let Some(number) = self.incomplete {
            line.settle(number, |_| {});
        }
    }

    /// Whether the call that ends on this CPU may be another one; `is_whole`: at a moment when the
    /// pages of all CPUs are there, so that the thread's last wakeup would have told.
    fn is_doubted_at(self, cpu: u16, is_whole: bool) -> bool {
        self.doubted.is_some_and(|entered_on| is_whole || cpu != entered_on)
    }

    /// Whether this entry's call is the one that returns; if so, the exit is given the number and
    /// table under which it was entered: the record of an exit has no number beyond all tables,
    /// `rt_sigreturn` leaves none, and executing a program leaves execve's of the new program's width (`set_personality_64bit`,
    /// arch/x86/kernel/process_64.c).
    fn ends_with(self, call: &mut Call, line: &mut DelayLine) -> bool {
        if let Some(number) = self.incomplete {
            line.settle(number, |entry| complete(&mut entry.event.body, &call.strings));
        }
        let lost = self.executed || call.nr == NR_INVALID && self.nr != NR_INVALID;
        if lost {
            call.nargs = 0;
        }
        if lost || call.nr == self.nr {
            (call.nr, call.abi) = (self.nr, self.abi);
            if let (Some(number), Some(first)) = (self.beyond, call.args.first_mut()) {
                (*first, call.nargs) = (number, 1);
            }
            return true;
        }
        false
    }
}

fn unreadable(text: &Text) -> bool {
    text.status == StringStatus::Unreadable
}

/// Whether the exit may tell more: nothing could be read at the entry, or not the end.
fn partial(text: &Text) -> bool {
    unreadable(text) || text.is_string() && text.status == StringStatus::Cut
}

/// Puts strings that could be read later where they could not be read.
fn complete(entry: &mut Body, later: &[Text]) {
    let Body::Enter(call) = entry else { return };
    for text in call.strings.iter_mut().filter(|text| partial(text)) {
        if let Some(found) = later.iter().find(|found| found.is_as(text) && !unreadable(found)) {
            text.clone_from(found);
        }
    }
}
