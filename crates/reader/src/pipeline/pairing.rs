//! Exits find their entries, by the rules of [`pairing`](crate::pairing), and what was not known
//! at the entry comes to it.
//!
//! A path that could not be read at entry, because its page was not yet there, comes with the exit
//! (or with the EXEC event) and is put where it belongs.
//!
//! An exit without an entry is of a call that began before all that is there, or of one that never
//! began: a new thread's first return, a call that a filter (seccomp) refused or a tracer skipped.
//! Where its thread was seen since all calls are there, it is the latter. Else it is the former, if
//! it is certain that the thread was in a call: it slept as threads do in calls, or the call
//! returned what no filter is used to return.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustc_hash::FxHashSet;

use flightrec_format::abi::record::{Abi, NR_INVALID, StringStatus};
use flightrec_format::decode::{Body, Call, Text};
use flightrec_format::failure::is_own;
use flightrec_format::meta::{Meta, Syscall};

use super::addresses;
use super::delay::{Began, DelayLine, Item};
use super::placement::Placement;
use crate::holes::Holes;
use crate::left_out::LeftOuts;
use crate::pairing::{At, CallNumber, Ended, Entry, Pairing, Taken};
use crate::threads::THREADS_MAX;

/// What is remembered of an entry, for its exit.
#[derive(Debug, Clone, Copy)]
struct Extra {
    /// Its number, where that is beyond all tables ([`NR_INVALID`]).
    beyond: Option<u64>,
    /// Its item in the delay line, where a string of it is still to come.
    incomplete: Option<u64>,
    /// The room that it gave for an address.
    room: Option<u32>,
}

/// The calls of a recording, whose exits find their entries.
#[derive(Debug, Clone)]
pub struct Pairs {
    pairing: Pairing<Extra>,
    execve: FxHashSet<CallNumber>,
    /// Calls that make threads, whose first return is theirs.
    births: FxHashSet<CallNumber>,
}

impl Pairs {
    /// For a recording.
    pub fn new(meta: &Meta, holes: Holes) -> Self {
        Self {
            pairing: Pairing::new(holes, THREADS_MAX),
            execve: numbers(meta, &["execve"]),
            births: numbers(meta, &BIRTHS),
        }
    }

    /// Goes on with what is read from `from` on.
    pub fn go_on(&mut self, next: Holes, from: u64, line: &mut DelayLine) {
        self.pairing.go_on(next, from, |entry| release(&entry, line));
    }

    /// When calls may be missing.
    pub fn holes(&mut self) -> &mut Holes {
        self.pairing.holes()
    }

    /// From when on all calls are there, up to a moment.
    pub fn whole_since(&self, time: u64) -> u64 {
        self.pairing.whole_since(time)
    }

    /// Whether anything was seen of a thread.
    pub fn has_seen(&self, tid: u32) -> bool {
        self.pairing.seen(tid).is_some()
    }

    /// Whether a call that ends without an entry is sure to have begun before all that is there, or
    /// never to have begun: what it returned tells.
    pub fn tells(&self, call: CallNumber, ret: i64) -> bool {
        is_own(ret) || self.is_birth(call, ret)
    }

    /// A new thread's first return.
    fn is_birth(&self, call: CallNumber, ret: i64) -> bool {
        ret == 0 && self.births.contains(&call)
    }

    /// Where events are left out of a thread, an exit may be of another call than the last entry.
    /// They are of what is read from `from` on.
    pub fn learn(&mut self, left_outs: &Arc<LeftOuts>, from: u64) {
        self.pairing.learn(left_outs, from);
    }

    /// When a call began that ends without an entry; `None`: it never began.
    #[cold]
    fn began(
        &self,
        At { time, tid, .. }: At,
        Ended { seen, since, .. }: Ended<Extra>,
        (call, ret): (CallNumber, i64),
        slept: impl FnOnce(u64) -> bool,
    ) -> Option<Began> {
        let from = seen.unwrap_or(0);
        if self.is_birth(call, ret) {
            None
        } else if self.pairing.is_left_out(tid, since.max(from), time) {
            Some(Began { from, until: time })
        } else if seen.is_some_and(|seen| seen >= since) {
            None
        } else if since < time && (is_own(ret) || slept(since)) {
            Some(Began { from, until: since })
        } else {
            Some(Began { from, until: time })
        }
    }

    /// Takes an exit whose entry is found, or not; `found`: what it ends.
    #[inline]
    fn exit(
        &self,
        item: &mut Item,
        found: Ended<Extra>,
        line: &mut DelayLine,
        placement: &Placement,
    ) {
        let at = At { time: item.event.time, tid: item.event.tid, cpu: item.event.cpu };
        let Body::Exit { call, entered, ret } = &mut item.event.body else { return };
        let entry = found.entry();
        item.found.entered = entered.or(entry.map(|entry| entry.time));
        if item.found.entered.is_none() {
            let slept = |since| placement.has_slept(at.tid, at.cpu, since);
            let number = (call.abi, call.nr);
            item.found.began = self.began(at, found, (number, *ret), slept);
        }
        if let Some(entry) = &entry {
            finish(entry, call, line);
        }
        if !call.strings.is_empty() {
            addresses::cut(call, entry.and_then(|entry| entry.extra.room));
        }
    }

    /// Takes the next event in, on its way to the end of the line.
    #[inline]
    pub fn take(&mut self, item: &mut Item, line: &mut DelayLine, placement: &Placement) {
        let number = line.next();
        let mut is_incomplete = false;
        let extra = |call: &Call| {
            is_incomplete = call.strings.iter().any(partial);
            Extra {
                beyond: call.args.first().copied().filter(|_| call.nr == NR_INVALID),
                incomplete: is_incomplete.then_some(number),
                room: addresses::room(call),
            }
        };
        match self.pairing.event(&item.event, extra, |entry| release(&entry, line)) {
            Taken::Begun => item.waiting = is_incomplete,
            Taken::Ended(found) => self.exit(item, found, line, placement),
            Taken::Nothing => {
                // The file that is executed is execve's first argument. (Not execveat's: there it
                // may be relative to a directory.)
                if let Body::Exec { exec, file: Some(file), .. } = &item.event.body
                    && let Some((call, extra)) = self.pairing.extra(exec.tid)
                    && self.execve.contains(&call)
                    && let Some(number) = extra.incomplete.take()
                {
                    let path = Text { index: 0, ..file.clone() };
                    line.settle(number, |entry| complete(&mut entry.event.body, &[path]));
                }
            }
        }
    }
}

/// Calls that make threads.
const BIRTHS: [&str; 4] = ["clone", "clone3", "fork", "vfork"];

/// The numbers of calls, by name.
fn numbers(meta: &Meta, names: &[&str]) -> FxHashSet<CallNumber> {
    let of = |table: &[Syscall], abis: &[Abi]| {
        let named = table.iter().filter(|call| names.contains(&call.name.as_str()));
        named.flat_map(|call| abis.iter().map(|abi| (*abi, call.nr))).collect::<Vec<_>>()
    };
    let native = of(&meta.native, &[Abi::Native, Abi::X32]);
    native.into_iter().chain(of(&meta.compat, &[Abi::Compat])).collect()
}

/// Nothing comes any more to an entry.
fn release(entry: &Entry<Extra>, line: &mut DelayLine) {
    if let Some(number) = entry.extra.incomplete {
        line.settle(number, |_| {});
    }
}

/// An entry is given what its exit has, and the exit the number and table under which it was
/// entered, where that is lost.
fn finish(entry: &Entry<Extra>, call: &mut Call, line: &mut DelayLine) {
    if let Some(number) = entry.extra.incomplete {
        line.settle(number, |entry| complete(&mut entry.event.body, &call.strings));
    }
    if entry.is_lost_by((call.abi, call.nr)) {
        call.nargs = 0;
    }
    (call.abi, call.nr) = entry.call;
    if let (Some(number), Some(first)) = (entry.extra.beyond, call.args.first_mut()) {
        (*first, call.nargs) = (number, 1);
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
