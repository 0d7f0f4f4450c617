//! Exits find their entries.
//!
//! An exit knows its entry where it folded into it; else the entry is the last of its thread. A
//! thread that executes a program while it is not its process's leader takes over the leader's id
//! in the middle of its call. A path that could not be read at entry, because its page was not yet
//! there, comes with the exit (or with the EXEC event) and is put where it belongs. Where the
//! recorder resumes system calls that it did not record for a time, entries from before have no
//! exits.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, Act, NR_INVALID, StringStatus};
use flightrec_format::decode::{Body, Call, Text};
use flightrec_format::meta::Meta;

use super::delay::{DelayLine, Item};
use crate::left_out::LeftOuts;
use crate::threads::THREADS_MAX;

/// From so many threads on, one gives up its place with each exit.
const CROWDED: usize = THREADS_MAX / 2;

/// An entry without its exit, so far.
#[derive(Debug, Clone, Copy)]
struct Pending {
    time: u64,
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
    pending: FxHashMap<u32, Option<Pending>>,
    /// No place is of a thread that is in no call.
    swept: bool,
    execve: FxHashSet<(Abi, u16)>,
    /// Of the stretches of the recording so far, the newest two.
    left_outs: Vec<Arc<LeftOuts>>,
}

impl Pairing {
    /// For a recording.
    pub fn new(meta: &Meta) -> Self {
        let numbers = |table: &[flightrec_format::meta::Syscall], abis: &'static [Abi]| {
            let numbers: Vec<u16> =
                table.iter().filter(|call| call.name == "execve").map(|call| call.nr).collect();
            numbers.into_iter().flat_map(|nr| abis.iter().map(move |abi| (*abi, nr)))
        };
        let native = numbers(&meta.native, &[Abi::Native, Abi::X32]);
        let compat = numbers(&meta.compat, &[Abi::Compat]);
        Self {
            pending: FxHashMap::default(),
            swept: false,
            execve: native.chain(compat).collect(),
            left_outs: Vec::new(),
        }
    }

    /// Where events are left out of a thread, an exit may be of another call than the last entry.
    pub fn learn(&mut self, left_outs: &Arc<LeftOuts>) {
        crate::left_out::learn(&mut self.left_outs, left_outs);
    }

    /// Whether an entry of a thread can be remembered, where there are as many as there may be:
    /// places of threads that are in no call are given up for it. Until it is less crowded there
    /// are none of these again, so what that costs is spread over as many entries.
    #[cold]
    fn has_room(&mut self, tid: u32) -> bool {
        if self.pending.contains_key(&tid) {
            return true;
        }
        if !self.swept {
            self.pending.retain(|_, pending| pending.is_some());
            self.swept = true;
        }
        self.pending.len() < THREADS_MAX
    }

    /// The entry that an exit of the thread may belong to, which is over.
    #[inline]
    fn end(&mut self, tid: u32) -> Option<Pending> {
        if self.pending.len() >= CROWDED {
            return self.pending.remove(&tid).flatten();
        }
        self.swept = false;
        self.pending.get_mut(&tid).and_then(Option::take)
    }

    /// Takes the next event in, on its way to the end of the line.
    #[inline]
    pub fn take(&mut self, item: &mut Item, line: &mut DelayLine) {
        let (tid, time) = (item.event.tid, item.event.time);
        match &mut item.event.body {
            Body::Enter(call) => {
                let incomplete = call.strings.iter().any(partial).then(|| line.next());
                item.waiting = incomplete.is_some();
                let pending =
                    Pending { time, nr: call.nr, abi: call.abi, incomplete, executed: false };
                if self.pending.len() >= THREADS_MAX && !self.has_room(tid) {
                    item.waiting = false;
                    return;
                }
                if let Some(before) = self.pending.entry(tid).or_default().replace(pending) {
                    before.release(line);
                }
            }
            Body::Exit { call, entered, .. } => {
                item.found.entered = *entered;
                let Some(pending) = self.end(tid) else { return };
                let is_left_out = |left_outs: &Arc<LeftOuts>| {
                    left_outs.has(Lane::Syscall, tid, pending.time, time)
                };
                if self.left_outs.iter().any(is_left_out) {
                    item.found.is_parted = entered.is_none();
                    return pending.release(line);
                }
                if let Some(number) = pending.incomplete {
                    line.settle(number, |entry| complete(&mut entry.event.body, &call.strings));
                }
                if pending.ends_with(call) {
                    item.found.entered = item.found.entered.or(Some(pending.time));
                }
            }
            Body::Exec { exec, file, .. } => {
                if exec.old_tid != exec.tid
                    && let Some(pending) = self.pending.remove(&exec.old_tid).flatten()
                    && let Some(leader) = self.pending.entry(exec.tid).or_default().replace(pending)
                {
                    leader.release(line);
                }
                let mut pending = self.pending.get_mut(&exec.tid).and_then(Option::as_mut);
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
                if let Some(pending) = self.pending.remove(&exit.tid).flatten() {
                    pending.release(line);
                }
            }
            // Its thread may have made any number of calls meanwhile.
            Body::Act(act, _) if *act == Act::Attached as u16 => {
                for pending in self.pending.drain().filter_map(|(_, pending)| pending) {
                    pending.release(line);
                }
            }
            _ => {}
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
    use flightrec_format::meta::Syscall;

    fn meta() -> Meta {
        Meta {
            native: vec![Syscall { nr: 59, name: "execve".into(), args: None }],
            ..Meta::default()
        }
    }

    fn run(events: Vec<Event>) -> Vec<Item> {
        let mut pairing = Pairing::new(&meta());
        let mut line = DelayLine::default();
        for event in events {
            let mut item = Item::new(event.into());
            pairing.take(&mut item, &mut line);
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
        let (mut pairing, mut line) = (Pairing::new(&meta()), DelayLine::default());
        let mut take = |event: Event| {
            let mut item = Item::new(event.into());
            pairing.take(&mut item, &mut line);
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
