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

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, Act, NR_INVALID, StringStatus, errno};
use flightrec_format::decode::{Body, Call, Text};
use flightrec_format::meta::{Meta, Syscall};

use super::delay::{Began, DelayLine, Item};
use super::placement::Placement;
use crate::holes::Holes;
use crate::left_out::LeftOuts;
use crate::threads::THREADS_MAX;

/// From so many threads on, one gives up its place with each exit.
const CROWDED: usize = THREADS_MAX / 2;

/// What is known of a thread.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// When it was last seen: at its birth, or at the last entry or exit of a call.
    time: u64,
    pending: Option<Pending>,
}

/// An entry without its exit, so far: the last that was seen of its thread.
#[derive(Debug, Clone, Copy)]
struct Pending {
    nr: u16,
    abi: Abi,
    /// Its item in the delay line, where a string of it is still to come.
    incomplete: Option<u64>,
    /// A program has been executed in it: it is execve or execveat, and ends next.
    executed: bool,
}

/// Entries that wait for their exits, by thread.
#[derive(Debug, Clone, Default)]
pub struct Pairing {
    /// A thread keeps its place until it ends, or it is [`CROWDED`]: one look finds it, for its
    /// entries and its exits.
    places: FxHashMap<u32, Place>,
    /// No place is of a thread that is in no call.
    swept: bool,
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
    fn end(&mut self, tid: u32, time: u64) -> Option<Place> {
        if self.is_crowded() {
            return self.places.remove(&tid);
        }
        self.swept = false;
        let place = self.places.get_mut(&tid)?;
        let before = *place;
        *place = Place { time, pending: None };
        Some(before)
    }

    /// A thread is seen that is in no call.
    fn see(&mut self, tid: u32, time: u64, line: &mut DelayLine) {
        if self.is_crowded() && !self.places.contains_key(&tid) {
            return self.holes.begin(time);
        }
        self.swept = false;
        if let Some(before) = self.places.insert(tid, Place { time, pending: None }) {
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

    /// Takes the next event in, on its way to the end of the line.
    #[inline]
    pub fn take(&mut self, item: &mut Item, line: &mut DelayLine, placement: &Placement) {
        let (tid, time, cpu) = (item.event.tid, item.event.time, item.event.cpu);
        match &mut item.event.body {
            Body::Enter(call) => {
                let incomplete = call.strings.iter().any(partial).then(|| line.next());
                item.waiting = incomplete.is_some();
                let pending = Pending { nr: call.nr, abi: call.abi, incomplete, executed: false };
                if self.places.len() >= THREADS_MAX && !self.has_room(tid, time) {
                    item.waiting = false;
                    return;
                }
                let place = Place { time, pending: Some(pending) };
                if let Some(before) = self.places.insert(tid, place) {
                    before.release(line);
                }
            }
            Body::Exit { call, entered, ret } => {
                item.found.entered = *entered;
                let is_crowded = self.is_crowded();
                let place = self.end(tid, time);
                if let Some(Place { time: began, pending: Some(pending) }) = place {
                    let is_left_out =
                        |left_outs: &Arc<LeftOuts>| left_outs.has(Lane::Syscall, tid, began, time);
                    if self.left_outs.iter().any(is_left_out) {
                        item.found.began =
                            entered.is_none().then_some(Began { from: began, until: time });
                        pending.release(line);
                        if is_crowded {
                            self.holes.begin(time);
                        }
                        return;
                    }
                    if let Some(number) = pending.incomplete {
                        line.settle(number, |entry| complete(&mut entry.event.body, &call.strings));
                    }
                    if pending.ends_with(call) {
                        item.found.entered = item.found.entered.or(Some(began));
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

/// Whether a call itself returned this: it is no failure, or one of a call that waited, with which
/// no filter refuses a call.
fn is_own(ret: i64) -> bool {
    const EINTR: i32 = 4;
    const ETIMEDOUT: i32 = 110;
    // `ERESTARTSYS` to `ERESTART_RESTARTBLOCK` (include/linux/errno.h, Linux 6.1).
    errno(ret).is_none_or(|error| matches!(error, EINTR | ETIMEDOUT | 512..=516))
}

impl Place {
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

    /// Whether this entry's call is the one that returns; if so, the exit is given the number and
    /// table under which it was entered: `rt_sigreturn` leaves none, and executing a program
    /// leaves execve's of the new program's width (`set_personality_64bit`,
    /// arch/x86/kernel/process_64.c).
    fn ends_with(self, call: &mut Call) -> bool {
        let lost = self.executed || call.nr == NR_INVALID && self.nr != NR_INVALID;
        if lost {
            call.nargs = 0;
        }
        if lost || call.nr == self.nr {
            (call.nr, call.abi) = (self.nr, self.abi);
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
    matches!(text.status, StringStatus::Unreadable | StringStatus::Cut)
}

/// Puts strings that could be read later where they could not be read.
fn complete(entry: &mut Body, later: &[Text]) {
    let Body::Enter(call) = entry else { return };
    for text in call.strings.iter_mut().filter(|text| partial(text)) {
        if let Some(found) =
            later.iter().find(|found| found.index == text.index && !unreadable(found))
        {
            text.clone_from(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::pipeline::testing::{call, comm, enter, event, exit, text};
    use flightrec_format::abi::record::{Exec, TaskExit};
    use flightrec_format::decode::Event;

    fn meta() -> Meta {
        Meta {
            native: [(56, "clone"), (59, "execve")]
                .map(|(nr, name)| Syscall { nr, name: name.into(), args: None })
                .into(),
            ..Meta::default()
        }
    }

    fn run(events: Vec<Event>) -> Vec<Item> {
        run_since(Holes::new(0), events)
    }

    /// When the last of these, an exit, began.
    fn began(holes: &[(u64, u64)], events: Vec<Event>) -> Option<Began> {
        let mut all = Holes::new(100);
        all.extend(holes.iter().copied());
        run_since(all, events).pop().and_then(|item| item.found.began)
    }

    fn returns(time: u64, tid: u32, nr: u16, ret: i64) -> Event {
        event(time, 0, tid, Body::Exit { call: call(nr), ret, entered: None })
    }

    const EPERM: i64 = -1;

    fn run_since(holes: Holes, events: Vec<Event>) -> Vec<Item> {
        let mut pairing = Pairing::new(&meta(), holes);
        let mut placement = Placement::default();
        let mut line = DelayLine::default();
        for event in events {
            let mut item = Item::new(event.into());
            pairing.take(&mut item, &mut line, &placement);
            placement.take(&mut item, &mut line);
            item.waiting &= matches!(item.event.body, Body::Enter(_));
            line.push(item);
        }
        std::iter::from_fn(|| line.pop(0)).collect()
    }

    fn cold(time: u64, tid: u32, nr: u16) -> Event {
        let strings = vec![text(0, StringStatus::Unreadable, "")];
        event(time, 0, tid, Body::Enter(Call { strings, ..call(nr) }))
    }

    fn path(item: &Item) -> &[u8] {
        match &item.event.body {
            Body::Enter(call) => &call.strings[0].bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_last_entry_of_the_thread() {
        let out = run(vec![
            enter(10, 0, 1, 0),
            enter(11, 0, 2, 0),
            exit(15, 1, 1, 0),
            exit(19, 0, 2, 0),
            exit(20, 0, 2, 0),
        ]);
        let entered: Vec<_> = out.iter().map(|i| i.found.entered).collect();
        assert_eq!(entered, [None, None, Some(10), Some(11), None]);
    }

    /// As many threads as there may be are in calls, and more want to: none of these may cost a
    /// walk over all of those.
    #[test]
    fn more_threads_than_are_remembered_cost_no_more() {
        let (mut pairing, mut line) = (Pairing::new(&meta(), Holes::new(0)), DelayLine::default());
        let placement = Placement::default();
        let mut take = |event: Event| {
            let mut item = Item::new(event.into());
            pairing.take(&mut item, &mut line, &placement);
            item.found.entered
        };
        let begun = Instant::now();
        let all = THREADS_MAX as u32;
        for tid in 1..=all + 100_000 {
            take(enter(u64::from(tid), 0, tid, 0));
        }
        // Each exit makes room for one thread.
        for tid in 1..=100_000 {
            assert_eq!(take(exit(1 << 32, 0, tid, 0)), Some(u64::from(tid)));
            assert_eq!(take(exit(1 << 32, 0, all + tid, 0)), None);
            take(enter(2 << 32, 0, all + tid, 0));
            assert_eq!(take(exit(3 << 32, 0, all + tid, 0)), Some(2 << 32));
            take(enter(4 << 32, 0, all + tid, 0));
        }
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(30), "{took:?}");
    }

    #[test]
    fn who_was_not_seen_since_all_is_there_was_in_its_call() {
        let before = |from, until| Some(Began { from, until });
        assert_eq!(began(&[], vec![returns(900, 1, 0, 7)]), before(0, 100));
        // What was read from before that tells no more than when it was not.
        let early = vec![enter(50, 0, 1, 9), exit(60, 0, 1, 9), returns(900, 1, 0, 7)];
        assert_eq!(began(&[], early), before(60, 100));
        let seen = vec![enter(500, 0, 1, 9), exit(501, 0, 1, 9), returns(900, 1, 0, 7)];
        assert_eq!(began(&[], seen), None, "all that it did since is there");
        assert_eq!(began(&[], vec![returns(500, 1, 0, EPERM), returns(900, 1, 0, 7)]), None);
        assert_eq!(run(vec![enter(5, 0, 1, 0), returns(900, 1, 0, 7)])[1].found.began, None);
    }

    #[test]
    fn a_hole_is_where_it_may_have_begun() {
        let holes = [(200, 300)];
        let bounds = |from, until| Some(Began { from, until });
        assert_eq!(began(&holes, vec![returns(900, 1, 0, 7)]), bounds(0, 300));
        let seen = |at| vec![enter(at, 0, 1, 9), exit(at + 1, 0, 1, 9), returns(900, 1, 0, 7)];
        assert_eq!(began(&holes, seen(150)), bounds(151, 300));
        assert_eq!(began(&holes, seen(400)), None);
        // Within one nothing is known but that it was seen.
        assert_eq!(began(&[(200, 1000)], seen(150)), bounds(151, 900));
        assert_eq!(began(&[(200, 1000)], vec![returns(900, 1, 0, 7)]), bounds(0, 900));
        // So it is where system calls were detached.
        let attached =
            event(400, 0, 9, Body::Act(Act::Attached as u16, text(0, StringStatus::Whole, "x")));
        assert_eq!(began(&[], vec![attached, returns(900, 1, 0, 7)]), bounds(0, 400));
    }

    #[test]
    fn the_born_were_in_no_call() {
        assert_eq!(began(&[], vec![returns(900, 1, 56, 0)]), None);
        let parent = vec![returns(900, 1, 56, 77)];
        assert_eq!(began(&[], parent), Some(Began { from: 0, until: 100 }));
        let fork = crate::pipeline::testing::fork(2, 2, 1, 1, "x");
        let born = event(700, 0, 2, Body::Fork(fork));
        assert_eq!(began(&[], vec![born, returns(900, 1, 0, 7)]), None);
    }

    /// A filter may refuse the first call in a long time of a thread that was in no call.
    #[test]
    fn what_a_filter_may_return_tells_nothing_unless_its_thread_slept() {
        use crate::pipeline::testing::{switch, waking};
        let unknown = Some(Began { from: 0, until: 900 });
        let known = Some(Began { from: 0, until: 100 });
        for (ret, expected) in [(EPERM, unknown), (-38, unknown), (-11, unknown)] {
            assert_eq!(began(&[], vec![returns(900, 1, 0, ret)]), expected, "{ret}");
        }
        for ret in [0, 7, -4, -110, -512, -516, -5000] {
            assert_eq!(began(&[], vec![returns(900, 1, 0, ret)]), known, "{ret}");
        }
        let slept = |state| {
            let mut waking = waking(800, 1, 5, 1, 0);
            if let Body::Waking { state: of, .. } = &mut waking.body {
                *of = state;
            }
            vec![waking, switch(850, 0, 9, 1, 1), returns(900, 1, 0, EPERM)]
        };
        assert_eq!(began(&[], slept(1)), known);
        assert_eq!(began(&[], slept(0x2001)), known, "freezable");
        assert_eq!(began(&[], slept(2)), unknown, "as for a page of memory");
        assert_eq!(began(&[], slept(8)), unknown, "stopped by a tracer");
        assert_eq!(
            began(&[(200, 851)], slept(1)),
            unknown,
            "calls that are missing may have followed"
        );
        let mut preempted = slept(1);
        preempted.splice(2..2, [switch(860, 0, 1, 0, 9), switch(870, 0, 9, 0, 1)]);
        assert_eq!(began(&[], preempted), unknown, "it ran since");
    }

    /// A thread that has given up its place may have been seen.
    #[test]
    fn in_a_crowd_only_the_latest_is_known() {
        let (mut pairing, mut line) = (Pairing::new(&meta(), Holes::new(1)), DelayLine::default());
        let mut take = |event: Event| {
            let mut item = Item::new(event.into());
            pairing.take(&mut item, &mut line, &Placement::default());
            item.found.began
        };
        let all = CROWDED as u32;
        for tid in 1..=all {
            take(enter(u64::from(tid), 0, tid, 0));
        }
        let (first, then) = (1 << 32, 2 << 32);
        assert_eq!(take(returns(first, 1, 0, 7)), None, "its entry is there");
        assert_eq!(take(returns(then, 1, 0, 7)), Some(Began { from: 0, until: first }));
    }

    #[test]
    fn another_call_is_no_pair() {
        assert_eq!(run(vec![enter(10, 0, 1, 0), exit(15, 0, 1, 1)])[1].found.entered, None);
    }

    #[test]
    fn sigreturn_is_named_by_its_entry() {
        let out = run(vec![enter(10, 0, 1, 15), exit(15, 0, 1, NR_INVALID)]);
        assert_eq!(out[1].found.entered, Some(10));
        assert!(matches!(&out[1].event.body, Body::Exit { call, .. } if call.nr == 15));
    }

    #[test]
    fn nothing_pairs_across_a_time_without_system_calls() {
        let act =
            |act: Act| event(12, 0, 9, Body::Act(act as u16, text(0, StringStatus::Whole, "x")));
        let paired = |with: Act| {
            run(vec![enter(10, 0, 1, 0), act(with), exit(15, 0, 1, 0)])[2].found.entered
        };
        assert_eq!(paired(Act::Level), Some(10));
        assert_eq!(paired(Act::Attached), None);
        // Nor does a path that was to come with the exit hold anything up.
        assert_eq!(run(vec![cold(10, 1, 2), act(Act::Attached)]).len(), 2);
    }

    #[test]
    fn a_folded_exit_knows_better() {
        let folded = event(15, 0, 1, Body::Exit { call: call(0), ret: 0, entered: Some(12) });
        assert_eq!(run(vec![enter(10, 0, 1, 0), folded])[1].found.entered, Some(12));
    }

    #[test]
    fn exec_from_a_thread_that_is_no_leader() {
        let exec = Exec { tid: 1, old_tid: 3, tgid: 1, args_len: 0, cgroup: 0, comm: comm("x") };
        let gone =
            TaskExit { tid: 1, tgid: 1, code: 0, reserved: 0, start_time: 0, comm: comm("x") };
        let out = run(vec![
            enter(10, 0, 1, 34),
            cold(11, 3, 59),
            event(12, 1, 1, Body::TaskExit(gone)),
            event(
                13,
                0,
                1,
                Body::Exec { exec, file: Some(text(0, StringStatus::Whole, "/bin/x")), args: None },
            ),
            exit(14, 0, 1, 59),
        ]);
        assert_eq!(out[4].found.entered, Some(11));
        assert_eq!(path(&out[1]), b"/bin/x");
    }

    #[test]
    fn a_cold_path_comes_with_the_exit() {
        let strings = vec![text(0, StringStatus::Whole, "/etc/cold")];
        let warm = event(
            15,
            0,
            1,
            Body::Exit { call: Call { strings, ..call(2) }, ret: 3, entered: None },
        );
        let out = run(vec![cold(10, 1, 2), enter(11, 1, 2, 0), warm]);
        assert_eq!(path(&out[0]), b"/etc/cold");
        assert_eq!(out.len(), 3);
    }

    #[test]
    fn the_cold_end_of_a_path_comes_with_the_exit() {
        let of = |status, path: &str| Call { strings: vec![text(0, status, path)], ..call(2) };
        let entry = event(10, 0, 1, Body::Enter(of(StringStatus::Cut, "/./.")));
        let call = of(StringStatus::Ends, &["/.".repeat(64), "/secret".to_owned()].concat());
        let out = run(vec![entry, event(15, 0, 1, Body::Exit { call, ret: 3, entered: None })]);
        assert!(path(&out[0]).ends_with(b"/secret"));
        assert_eq!(out.len(), 2);
    }

    #[test]
    fn a_path_that_stays_unreadable_holds_nothing_up() {
        assert_eq!(run(vec![cold(10, 1, 2), exit(11, 0, 1, 2)]).len(), 2);
        assert_eq!(run(vec![cold(10, 1, 2), enter(11, 0, 1, 0)]).len(), 2);
        assert_eq!(run(vec![cold(10, 1, 2)]).len(), 0, "its exit is still to come");
    }
}
