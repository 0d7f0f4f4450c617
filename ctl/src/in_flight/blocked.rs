//! The threads that are blocked now: since when, in which call, worst first. From the thread table,
//! so it holds even when the rings have long forgotten how a call began.

use std::cmp::Reverse;

use flightrec_analysis::TaskState;
use flightrec_format::abi::record::Abi;
use flightrec_format::abi::slot::{BLOCKED, IN_SYSCALL, KTHREAD, TaskSlot};
use flightrec_format::decode::Call;
use flightrec_format::meta::Meta;
use flightrec_reader::fds::{Fds, Kept};
use flightrec_reader::source::PageSet;

use crate::filter::Names;

/// A thread that is blocked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// What the table has of it.
    pub slot: TaskSlot,
    /// For how long, ns; at least so long where [`Self::is_since_before`].
    pub time: u64,
    /// How it waits.
    pub state: TaskState,
    /// The call that it waits in.
    pub call: Option<Call>,
    /// What the call's descriptors stand for now.
    pub names: Kept,
}

impl Blocked {
    pub(crate) fn new(slot: TaskSlot, meta: &Meta, now: u64) -> Self {
        let since = if slot.since == 0 { meta.started } else { slot.since };
        let call = call(&slot, meta);
        Self {
            slot,
            time: now.saturating_sub(since),
            state: TaskState::of(slot.state),
            call,
            names: Kept::default(),
        }
    }

    /// Takes the names of its call's descriptors from those of all processes.
    pub fn name_descriptors(&mut self, fds: &Fds) {
        if let Some(call) = &self.call {
            self.names = fds.names(self.slot.tid, self.slot.tgid).keep(call, None);
        }
    }

    /// It has been blocked since before the recording began.
    pub fn is_since_before(&self) -> bool {
        self.slot.since == 0
    }

    /// It is a thread of the kernel's own.
    pub fn is_kernel(&self) -> bool {
        self.slot.flags & KTHREAD != 0
    }

    /// It waits for work to come, as kernel threads do most of the time.
    fn is_idle(&self) -> bool {
        self.state == TaskState::Idle
            || self.is_kernel() && matches!(self.state, TaskState::Sleeping | TaskState::Parked)
    }
}

/// The blocked threads that are wanted, at `now`, the worst first: who can't be interrupted, then
/// who waits longest.
pub fn blocked(recording: &PageSet, wanted: &Wanted, now: u64) -> Vec<Blocked> {
    // That they are patterns was found out when they were typed.
    let names = Names::new(&wanted.comms).unwrap_or_default();
    let mut threads: Vec<Blocked> = recording
        .slots
        .iter()
        .filter(|slot| slot.flags & BLOCKED != 0)
        .map(|slot| Blocked::new(*slot, &recording.meta, now))
        .filter(|thread| wanted.wants(thread, &names))
        .collect();
    threads.sort_by_key(|t| (t.state != TaskState::Uninterruptible, Reverse(t.time), t.slot.tid));
    // A slot that was read twice, or damaged, does not make two threads of one.
    threads.dedup_by_key(|thread| thread.slot.tid);
    threads
}

/// Which blocked threads are wanted.
#[derive(Debug, Default, PartialEq)]
pub struct Wanted {
    /// Also those that wait for work.
    pub all: bool,
    /// In these states; none: in any.
    pub states: Vec<TaskState>,
    /// Of these processes; none: of any.
    pub pids: Vec<u32>,
    /// These; none: any.
    pub tids: Vec<u32>,
    /// With these names, or names like these patterns; none: with any.
    pub comms: Vec<String>,
}

impl Wanted {
    fn wants(&self, thread: &Blocked, names: &Names) -> bool {
        let slot = &thread.slot;
        let comm = flightrec_reader::threads::trim(&slot.comm);
        // Who asks for a thread by its state or name is not told that it is idle.
        let idle =
            self.all || !self.states.is_empty() || !self.tids.is_empty() || !self.comms.is_empty();
        (idle || !thread.is_idle())
            && (self.states.is_empty() || self.states.contains(&thread.state))
            && (self.pids.is_empty() || self.pids.contains(&slot.tgid))
            && (self.tids.is_empty() || self.tids.contains(&slot.tid))
            && (names.is_empty() || names.has(comm))
    }
}

/// The call that a slot names, with as many arguments as it takes; `None`: it names none, or is
/// damaged.
pub(crate) fn call(slot: &TaskSlot, meta: &Meta) -> Option<Call> {
    if slot.flags & IN_SYSCALL == 0 {
        return None;
    }
    let abi = match slot.abi {
        0 => Abi::Native,
        1 => Abi::Compat,
        2 => Abi::X32,
        _ => return None,
    };
    let nr = u16::try_from(slot.nr).ok()?;
    let table = if abi == Abi::Compat { &meta.compat } else { &meta.native };
    let args = table.iter().find(|call| call.nr == nr).and_then(|call| call.args.as_ref());
    let takes = args.map_or(6, |args| args.len().min(6));
    let nargs = if slot.known == 0 { takes } else { takes.min(slot.known as usize) } as u8;
    Some(Call { nr, abi, nargs, args: slot.args, strings: Vec::new() })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use flightrec_format::control::Totals;
    use flightrec_format::meta::{Argument, Syscall};
    use flightrec_reader::source::Collector;

    const S: u64 = 1_000_000_000;

    fn slot(tid: u32, state: u32, since: u64) -> TaskSlot {
        TaskSlot {
            tid,
            tgid: tid,
            flags: BLOCKED,
            comm: *b"name\0\0\0\0\0\0\0\0\0\0\0\0",
            since,
            state,
            args: [7, 8, 9, 10, 11, 12],
            ppid: 1,
            prio: 120,
            ..TaskSlot::default()
        }
    }

    pub(crate) fn meta() -> Meta {
        let arg = |ctype: &str, name: &str| Argument { name: name.into(), ctype: ctype.into() };
        let args = vec![arg("unsigned int", "fd"), arg("char *", "buf"), arg("size_t", "count")];
        let read = Syscall { nr: 0, name: "read".into(), args: Some(args) };
        Meta { session: 1, started: 10 * S, native: vec![read], ..Meta::default() }
    }

    fn tids(slots: &[TaskSlot], wanted: &Wanted) -> Vec<u32> {
        let mut recording = Collector::new(meta()).finish(Totals::default());
        recording.slots = slots.to_vec();
        blocked(&recording, wanted, 100 * S).iter().map(|thread| thread.slot.tid).collect()
    }

    #[test]
    fn the_worst_first() {
        let running = TaskSlot { flags: 0, ..slot(9, 1, 1) };
        let slots = [
            slot(1, 1, 99 * S),
            slot(2, 1, 0),
            slot(3, 2, 98 * S),
            slot(4, 0x102, 20 * S),
            running,
        ];
        assert_eq!(tids(&slots, &Wanted::default()), [4, 3, 2, 1]);
    }

    #[test]
    fn kernel_threads_that_wait_for_work_are_hidden() {
        let kernel = |tid, state| TaskSlot { flags: BLOCKED | KTHREAD, ..slot(tid, state, 50 * S) };
        let slots = [kernel(1, 0x402), kernel(2, 1), kernel(3, 2), slot(4, 1, 50 * S)];
        assert_eq!(tids(&slots, &Wanted::default()), [3, 4]);
        assert_eq!(tids(&slots, &Wanted { all: true, ..Wanted::default() }), [3, 1, 2, 4]);
        assert_eq!(
            tids(&slots, &Wanted { states: vec![TaskState::Idle], ..Wanted::default() }),
            [1]
        );
        assert_eq!(tids(&slots, &Wanted { pids: vec![4], ..Wanted::default() }), [4]);
        assert_eq!(
            tids(&slots, &Wanted { comms: vec!["other".into()], ..Wanted::default() }),
            Vec::<u32>::new()
        );
        assert_eq!(
            tids(&slots, &Wanted { comms: vec!["n?me".into()], ..Wanted::default() }),
            [3, 1, 2, 4]
        );
    }

    #[test]
    fn a_call_takes_the_arguments_that_it_takes() {
        let blocked = |slot| Blocked::new(slot, &meta(), 100 * S);
        let in_call = TaskSlot { flags: BLOCKED | IN_SYSCALL, ..slot(1, 1, 0) };
        let thread = blocked(in_call);
        assert!(thread.is_since_before() && thread.time == 90 * S);
        assert_eq!(thread.call.map(|call| (call.nr, call.nargs)), Some((0, 3)));
        // The budget had all but the first left out, or it is a call of which more are recorded
        // than it takes.
        assert_eq!(blocked(TaskSlot { known: 1, ..in_call }).call.map(|call| call.nargs), Some(1));
        assert_eq!(blocked(TaskSlot { known: 6, ..in_call }).call.map(|call| call.nargs), Some(3));
        assert_eq!(blocked(TaskSlot { nr: 77, ..in_call }).call.map(|call| call.nargs), Some(6));
        for damaged in
            [TaskSlot { nr: -1, ..in_call }, TaskSlot { abi: 9, ..in_call }, slot(1, 1, 5)]
        {
            assert_eq!(blocked(damaged).call, None);
        }
    }
}
