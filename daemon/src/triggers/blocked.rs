//! A thread has been in uninterruptible sleep for long.
//!
//! Some wait so without anything being wrong: kernel threads without work (`TASK_IDLE`, which has
//! `TASK_NOLOAD`), and whoever waits for a child by vfork. That one is told by its call; of clone3,
//! whose flags are in the caller's memory, by a state in which only `wait_for_vfork_done` sleeps
//! there (kernel/fork.c, Linux 6.1). Frozen threads have a state of their own since 6.1.

use std::collections::HashMap;

use flightrec_analysis::TaskState;
use flightrec_format::abi::record::Abi;
use flightrec_format::abi::slot::{BLOCKED, IN_SYSCALL, TaskSlot};
use flightrec_format::meta::Meta;

use super::threads::is_kernel;
use crate::snapshots::names;

/// `TASK_FREEZABLE`, include/linux/sched.h, Linux 6.1.
const FREEZABLE: u32 = 0x2000;
/// `CLONE_VFORK`, include/uapi/linux/sched.h.
const CLONE_VFORK: u64 = 0x4000;

/// Finds who is stuck, each time once.
#[derive(Debug)]
pub struct Blocked {
    longer_than: u64,
    kernel_threads: bool,
    /// Since when those are who were told.
    told: HashMap<u32, u64>,
}

impl Blocked {
    /// `longer_than`: ns.
    pub fn new(longer_than: u64, kernel_threads: bool) -> Self {
        Self { longer_than, kernel_threads, told: HashMap::new() }
    }

    /// Who is stuck at `now` (ns of `CLOCK_MONOTONIC`) and was not told before.
    pub fn look<'a>(
        &mut self,
        threads: &'a [TaskSlot],
        meta: &Meta,
        now: u64,
    ) -> Vec<&'a TaskSlot> {
        let stuck = |slot: &&TaskSlot| {
            (self.kernel_threads || !is_kernel(slot))
                && is_stuck(slot, meta)
                && now.saturating_sub(slot.since.max(meta.started)) >= self.longer_than
        };
        let stuck: Vec<&TaskSlot> = threads.iter().filter(stuck).collect();
        let new = stuck
            .iter()
            .copied()
            .filter(|slot| self.told.get(&slot.tid) != Some(&slot.since))
            .collect();
        self.told = stuck.into_iter().map(|slot| (slot.tid, slot.since)).collect();
        new
    }
}

/// Whether nothing but what it waits for gets it out of there.
fn is_stuck(slot: &TaskSlot, meta: &Meta) -> bool {
    slot.flags & BLOCKED != 0
        && TaskState::of(slot.state) == TaskState::Uninterruptible
        && !is_vfork(slot, meta)
}

/// Whether it waits for a child to execute a program or to end.
fn is_vfork(slot: &TaskSlot, meta: &Meta) -> bool {
    if slot.flags & IN_SYSCALL == 0 {
        return false;
    }
    let call = names::call(meta, slot.nr as u16, slot.abi == Abi::Compat as u32);
    match call.as_str() {
        "vfork" => true,
        "clone" => slot.args.first().is_some_and(|flags| flags & CLONE_VFORK != 0),
        "clone3" => slot.state & FREEZABLE != 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::slot::KTHREAD;
    use flightrec_format::meta::Syscall;

    use super::*;

    fn slot(flags: u32, state: u32, nr: i32) -> TaskSlot {
        TaskSlot {
            seq: 0,
            tid: 5,
            tgid: 5,
            flags,
            start_time: 1,
            cgroup: 0,
            comm: [0; 16],
            since: 1000,
            state,
            nr,
            args: [0x4111, 0, 0, 0, 0, 0],
            ppid: 1,
            prio: 120,
            abi: 0,
            known: 0,
        }
    }

    fn meta() -> Meta {
        let native = [(56, "clone"), (58, "vfork"), (74, "fsync"), (435, "clone3")];
        let native = native.map(|(nr, name)| Syscall { nr, name: name.into(), args: None });
        Meta { native: native.to_vec(), started: 10, ..Meta::default() }
    }

    fn stuck(slot: TaskSlot) -> bool {
        !Blocked::new(500, false).look(&[slot], &meta(), 1500).is_empty()
    }

    #[test]
    fn who_can_not_be_interrupted_is_stuck() {
        let fsync = slot(BLOCKED | IN_SYSCALL, 0x2, 74);
        assert!(stuck(fsync));
        assert!(stuck(TaskSlot { state: 0x102, ..fsync }), "killable");
        assert!(stuck(slot(BLOCKED, 0x2, 0)), "a page fault");
        assert!(stuck(slot(BLOCKED, 0x1000, 0)), "a lock (PREEMPT_RT)");
        assert!(!stuck(TaskSlot { state: 0x1, ..fsync }), "asleep");
        assert!(!stuck(TaskSlot { since: 1001, ..fsync }), "not long enough");
        assert!(!stuck(TaskSlot { flags: IN_SYSCALL, ..fsync }), "it runs");
        assert!(!stuck(TaskSlot { state: 0x8000, ..fsync }), "frozen");
    }

    #[test]
    fn parents_by_vfork_and_idle_kernel_threads_are_not() {
        let call = |nr| slot(BLOCKED | IN_SYSCALL, 0x2102, nr);
        assert!(!stuck(call(58)) && !stuck(call(56)) && !stuck(call(435)));
        assert!(stuck(TaskSlot { args: [0x11; 6], ..call(56) }), "clone without CLONE_VFORK");
        assert!(
            stuck(TaskSlot { state: 0x102, ..call(435) }),
            "clone3 that waits for something else"
        );
        assert!(!stuck(slot(BLOCKED | KTHREAD, 0x402, 0)));
        let busy = slot(BLOCKED | KTHREAD, 0x2, 0);
        assert!(!stuck(busy));
        assert_eq!(Blocked::new(500, true).look(&[busy], &meta(), 1500).len(), 1);
    }

    #[test]
    fn each_time_is_told_once() {
        let mut blocked = Blocked::new(500, false);
        let first = slot(BLOCKED, 0x2, 0);
        let told: Vec<usize> =
            [1400, 1500, 2000].map(|now| blocked.look(&[first], &meta(), now).len()).to_vec();
        assert_eq!(told, [0, 1, 0]);
        let again = TaskSlot { since: 3000, ..first };
        assert_eq!(blocked.look(&[again], &meta(), 3600).len(), 1);
        let before = TaskSlot { since: 0, ..first };
        assert_eq!(
            Blocked::new(500, false).look(&[before], &meta(), 509).len(),
            0,
            "since before the recording"
        );
    }
}
