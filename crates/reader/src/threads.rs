//! Who a thread id is, at the time of an event.
//!
//! The task lane tells births, names and deaths; the thread table tells who was alive at the end.
//! The state at the beginning is inferred backwards from both: the first thing heard of a thread
//! says what it was called until then. From there the table is kept up event by event, in merged
//! order.

use std::collections::hash_map::Entry;

use rustc_hash::{FxHashMap, FxHashSet};

use flightrec_format::abi::record::{Comm, Fork, SHARES_NAME};
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::decode::{Body, Event};

/// A thread id's present bearer.
#[derive(Debug, Clone, Copy)]
struct Thread {
    tgid: u32,
    comm: Comm,
    /// The id meant another thread before (`task_struct.start_time`); 0 where that is known
    /// otherwise.
    from: u64,
    /// The process that made its process; 0: not known, or none.
    parent: u32,
    /// Control group at its birth, or at its last exec; 0: not known.
    cgroup: u64,
}

/// Most threads that are known, and most that a part of the pass remembers anything of: a file may
/// name millions.
pub const THREADS_MAX: usize = 1 << 19;
/// Most generations that [`Threads::descends`] goes up: ids that are used again could make a
/// circle.
const GENERATIONS: usize = 1024;

/// The threads at one moment of the merged stream.
#[derive(Debug, Clone, Default)]
pub struct Threads {
    table: FxHashMap<u32, Thread>,
    /// Names of the idle threads, by CPU.
    idle: Vec<Comm>,
}

/// The bytes of a name before its NUL.
#[inline]
pub fn trim(comm: &Comm) -> &[u8] {
    // The highest bit of the first byte that is 0, perhaps of later ones too: names are looked at
    // by the million.
    const ONES: u128 = u128::from_le_bytes([1; 16]);
    let word = u128::from_le_bytes(*comm);
    let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
    comm.get(..zeros.trailing_zeros() as usize / 8).unwrap_or_default()
}

impl Threads {
    /// The threads as they were before the first of `events`, which are the whole task lane in
    /// order. `cpus` is one more than the greatest CPU number.
    pub fn before(
        events: impl Iterator<Item = Event>,
        slots: impl Iterator<Item = TaskSlot>,
        cpus: usize,
    ) -> Self {
        let idle = (0..cpus).map(idle_name).collect();
        let mut threads = Self { table: FxHashMap::default(), idle };
        let mut heard = FxHashMap::default();
        for event in events {
            threads.infer(&event, &mut heard);
        }
        for slot in slots {
            match heard.get(&slot.tid) {
                None => {
                    let TaskSlot { tgid, comm, start_time: from, ppid: parent, cgroup, .. } = slot;
                    threads.table.insert(slot.tid, Thread { tgid, comm, from, parent, cgroup });
                }
                // The same thread all the time.
                Some(first) if slot.start_time <= *first => {
                    if let Some(thread) = threads.table.get_mut(&slot.tid) {
                        thread.parent = slot.ppid;
                        if thread.cgroup == 0 {
                            thread.cgroup = slot.cgroup;
                        }
                    }
                }
                Some(_) => {}
            }
        }
        threads
    }

    /// Takes what `event` says of the time before it, about threads of which nothing was heard yet.
    /// `heard` says when that was.
    fn infer(&mut self, event: &Event, heard: &mut FxHashMap<u32, u64>) {
        let mut first = |tid, thread: Option<Thread>| {
            if heard.len() < THREADS_MAX
                && let Entry::Vacant(vacant) = heard.entry(tid)
            {
                vacant.insert(event.time);
                if let Some(thread) = thread {
                    self.table.insert(tid, thread);
                }
            }
        };
        let known = |tgid, comm| Some(Thread { tgid, comm, from: 0, parent: 0, cgroup: 0 });
        match &event.body {
            Body::Fork(fork) => {
                // Who bore the child's id before is not known.
                first(fork.tid, None);
                // A child that has another name than its parent tells nothing of that.
                if fork.shares & SHARES_NAME != 0 {
                    let parent = known(fork.parent_tgid, fork.comm)
                        .map(|thread| Thread { cgroup: fork.cgroup, ..thread });
                    first(fork.parent_tid, parent);
                }
            }
            Body::Rename(rename) => first(rename.tid, known(rename.tgid, rename.old)),
            Body::TaskExit(exit) => {
                let from = exit.start_time;
                first(
                    exit.tid,
                    Some(Thread { tgid: exit.tgid, comm: exit.comm, from, parent: 0, cgroup: 0 }),
                );
            }
            Body::Exec { exec, .. } => {
                // The name was set just before, by a RENAME that must have been lost: not known.
                first(exec.old_tid, known(exec.tgid, [0; 16]));
                first(exec.tid, known(exec.tgid, [0; 16]));
            }
            _ => {}
        }
    }

    /// Goes past `event`.
    #[inline]
    pub fn apply(&mut self, event: &Event) {
        // Most events change nothing.
        if matches!(
            event.body,
            Body::Fork(_) | Body::Rename(_) | Body::Exec { .. } | Body::TaskExit(_)
        ) {
            self.change(event);
        }
    }

    fn change(&mut self, event: &Event) {
        match &event.body {
            Body::Fork(fork) => {
                let Fork { tgid, comm, cgroup, .. } = *fork;
                // A thread's process was made by its leader's parent.
                let parent = if tgid == fork.parent_tgid { 0 } else { fork.parent_tgid };
                if self.table.len() < THREADS_MAX || self.table.contains_key(&fork.tid) {
                    self.table.insert(fork.tid, Thread { tgid, comm, from: 0, parent, cgroup });
                }
            }
            Body::Rename(rename) => self.rename(rename.tid, rename.tgid, rename.new),
            Body::Exec { exec, .. } => {
                if exec.old_tid != exec.tid {
                    self.table.remove(&exec.old_tid);
                }
                self.rename(exec.tid, exec.tgid, exec.comm);
                if let Some(thread) = self.table.get_mut(&exec.tid) {
                    thread.cgroup = exec.cgroup;
                }
            }
            // A thread that ended still is switched out; its name stays until its id is used again.
            Body::TaskExit(exit) => self.rename(exit.tid, exit.tgid, exit.comm),
            _ => {}
        }
    }

    /// The thread has this name now; what else is known of it stays.
    fn rename(&mut self, tid: u32, tgid: u32, comm: Comm) {
        if self.table.len() >= THREADS_MAX && !self.table.contains_key(&tid) {
            return;
        }
        let unknown = Thread { tgid, comm, from: 0, parent: 0, cgroup: 0 };
        let thread = self.table.entry(tid).or_insert(unknown);
        (thread.tgid, thread.comm, thread.from) = (tgid, comm, 0);
    }

    /// A thread's name, empty where unknown. `cpu` tells the idle threads, all of id 0, apart.
    pub fn comm(&self, tid: u32, cpu: u16, time: u64) -> &[u8] {
        trim(self.who(tid, cpu, time).1)
    }

    /// A thread's process and its name, filled up with NUL: [`Self::tgid`] and [`Self::comm`] at
    /// once.
    #[inline]
    pub fn who(&self, tid: u32, cpu: u16, time: u64) -> (u32, &Comm) {
        let (tgid, comm, _) = self.who_and_where(tid, cpu, time);
        (tgid, comm)
    }

    /// The same, with its control group: [`Self::cgroup`].
    #[inline]
    pub fn who_and_where(&self, tid: u32, cpu: u16, time: u64) -> (u32, &Comm, u64) {
        let thread = self.get(tid, time);
        let (tgid, cgroup) = thread.map_or((tid, 0), |thread| (thread.tgid, thread.cgroup));
        let comm = if tid == 0 {
            self.idle.get(usize::from(cpu)).unwrap_or(IDLE)
        } else {
            thread.map_or(&[0; 16], |thread| &thread.comm)
        };
        (tgid, comm, cgroup)
    }

    /// All threads that are known: thread, process, name.
    pub fn known(&self) -> impl Iterator<Item = (u32, u32, &[u8])> {
        self.table.iter().map(|(tid, thread)| (*tid, thread.tgid, trim(&thread.comm)))
    }

    /// A thread's process; the thread's own id where unknown, which is right for most.
    pub fn tgid(&self, tid: u32, time: u64) -> u32 {
        self.get(tid, time).map_or(tid, |thread| thread.tgid)
    }

    /// A thread's control group at its birth or its last exec; 0 where unknown.
    pub fn cgroup(&self, tid: u32, time: u64) -> u64 {
        self.get(tid, time).map_or(0, |thread| thread.cgroup)
    }

    /// Whether a thread's process is one of `roots`, or descends from one as far as births are
    /// known. (A process that was adopted by another when its parent died still descends from
    /// its parent.)
    pub fn descends(&self, tid: u32, time: u64, roots: &FxHashSet<u32>) -> bool {
        let mut process = self.tgid(tid, time);
        for _ in 0..GENERATIONS {
            if roots.contains(&process) {
                return true;
            }
            match self.get(process, time) {
                Some(Thread { parent, .. }) if *parent != 0 => process = *parent,
                _ => return false,
            }
        }
        false
    }

    #[inline]
    fn get(&self, tid: u32, time: u64) -> Option<&Thread> {
        self.table.get(&tid).filter(|thread| thread.from <= time)
    }
}

/// Name of the idle thread of a CPU that the recording does not know.
pub(crate) const IDLE: &Comm = b"swapper\0\0\0\0\0\0\0\0\0";

/// `swapper/N`
pub(crate) fn idle_name(cpu: usize) -> Comm {
    let mut name = *IDLE;
    // There is room for eight digits, and CPUs have 16 bits.
    for (to, from) in name.iter_mut().zip(format!("swapper/{cpu}").bytes()) {
        *to = from;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::testing::{comm, event, fork};
    use flightrec_format::abi::record::{Exec, Rename, TaskExit};

    fn slot(tid: u32, start_time: u64, name: &str) -> TaskSlot {
        TaskSlot {
            seq: 0,
            tid,
            tgid: tid,
            flags: 0,
            start_time,
            cgroup: 0,
            comm: comm(name),
            since: 0,
            state: 0,
            nr: 0,
            args: [0; 6],
            ppid: 1,
            prio: 120,
            abi: 0,
            known: 0,
        }
    }

    fn rename(time: u64, tid: u32, old: &str, new: &str) -> Event {
        event(time, 0, tid, Body::Rename(Rename { tid, tgid: tid, old: comm(old), new: comm(new) }))
    }

    fn task_exit(time: u64, tid: u32, name: &str) -> Event {
        let exit = TaskExit { tid, tgid: tid, code: 0, left: 0, start_time: 0, comm: comm(name) };
        event(time, 0, tid, Body::TaskExit(exit))
    }

    fn before(events: &[Event], slots: &[TaskSlot]) -> Threads {
        Threads::before(events.iter().cloned(), slots.iter().copied(), 2)
    }

    #[test]
    fn the_idle_threads_have_their_cpus_name() {
        let threads = before(&[], &[]);
        assert_eq!(threads.comm(0, 1, 5), b"swapper/1");
        assert_eq!(threads.comm(0, 9, 5), b"swapper");
        assert_eq!(threads.comm(7, 0, 5), b"");
    }

    #[test]
    fn a_rename_gives_the_name_before() {
        let events = [rename(50, 7, "sh", "ls"), task_exit(60, 7, "ls")];
        let mut threads = before(&events, &[slot(7, 0, "late")]);
        assert_eq!(threads.comm(7, 0, 10), b"sh");
        threads.apply(&events[0]);
        assert_eq!(threads.comm(7, 0, 50), b"ls");
        threads.apply(&events[1]);
        assert_eq!(threads.comm(7, 0, 61), b"ls", "its last switch comes after its exit");
    }

    #[test]
    fn an_id_used_again_is_another_thread() {
        let events =
            [task_exit(20, 7, "old"), event(40, 0, 1, Body::Fork(fork(1, 1, 7, 7, "init")))];
        let mut threads = before(&events, &[]);
        assert_eq!(threads.comm(7, 0, 10), b"old");
        assert_eq!(threads.comm(1, 0, 10), b"init", "a child has its parent's name");
        for event in &events {
            threads.apply(event);
        }
        assert_eq!(threads.comm(7, 0, 41), b"init");
    }

    #[test]
    fn a_child_with_a_name_of_its_own_says_nothing_of_its_parents() {
        let born = Fork { shares: 0, ..fork(2, 2, 7, 7, "jbd2/loop0-8") };
        let events = [event(40, 0, 2, Body::Fork(born))];
        assert_eq!(before(&events, &[]).comm(2, 0, 10), b"");
        let mut threads = before(&events, &[slot(2, 1, "kthreadd")]);
        assert_eq!(threads.comm(2, 0, 10), b"kthreadd");
        threads.apply(&events[0]);
        assert_eq!(threads.comm(2, 0, 41), b"kthreadd");
        assert_eq!(threads.comm(7, 0, 41), b"jbd2/loop0-8");
    }

    #[test]
    fn the_table_of_the_living_knows_nothing_before_their_birth() {
        let threads = before(&[], &[slot(7, 100, "young")]);
        assert_eq!(threads.comm(7, 0, 99), b"");
        assert_eq!(threads.comm(7, 0, 100), b"young");
        assert_eq!((threads.tgid(7, 99), threads.tgid(8, 0)), (7, 8));
    }

    #[test]
    fn exec_takes_the_leaders_id() {
        let exec = Exec { tid: 7, old_tid: 9, tgid: 7, args_len: 0, cgroup: 0, comm: comm("new") };
        let mut threads = before(&[event(0, 0, 7, Body::Fork(fork(7, 7, 9, 7, "multi")))], &[]);
        threads.apply(&event(0, 0, 7, Body::Fork(fork(7, 7, 9, 7, "multi"))));
        assert_eq!(threads.tgid(9, 1), 7);
        threads.apply(&event(10, 0, 7, Body::Exec { exec, file: None, args: None }));
        assert_eq!(threads.comm(7, 0, 11), b"new");
        assert_eq!(threads.comm(9, 0, 11), b"");
    }
}
