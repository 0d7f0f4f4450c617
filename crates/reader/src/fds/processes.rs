//! Which process a thread's id stands for, and which processes share their descriptors, over a
//! whole recording.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::SHARES_FILES;
use flightrec_format::decode::Body;
use flightrec_format::descriptors::Snapshot;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::source::PageSet;

/// Threads and processes of a recording, at any time of it.
#[derive(Debug, Default)]
pub(super) struct Processes {
    of_thread: FxHashMap<u32, u32>,
    /// Further processes, where an id was used again.
    others: FxHashMap<u32, Vec<u32>>,
    /// Processes whose births are recorded.
    born: FxHashSet<u32>,
    /// Processes that share their descriptors with others at any time.
    groups: FxHashMap<u32, Vec<u32>>,
}

impl Processes {
    pub(super) fn new(recording: &PageSet, snapshots: &[Snapshot]) -> Self {
        let mut processes = Self::default();
        for slot in &recording.slots {
            processes.learn(slot.tid, slot.tgid);
        }
        let tasks = recording.streams.iter().filter(|stream| stream.lane() == Lane::Task);
        for event in tasks.flat_map(|stream| stream.events()) {
            match event.body {
                Body::Fork(fork) => {
                    processes.learn(fork.parent_tid, fork.parent_tgid);
                    processes.learn(fork.tid, fork.tgid);
                    if fork.tgid != fork.parent_tgid {
                        processes.born.insert(fork.tgid);
                        if fork.shares & SHARES_FILES != 0 {
                            processes.join(fork.parent_tgid, fork.tgid);
                        }
                    }
                }
                Body::Exec { exec, .. } => {
                    processes.learn(exec.tid, exec.tgid);
                    processes.learn(exec.old_tid, exec.tgid);
                }
                Body::Rename(rename) => processes.learn(rename.tid, rename.tgid),
                Body::TaskExit(exit) => processes.learn(exit.tid, exit.tgid),
                _ => {}
            }
        }
        for table in snapshots.iter().flat_map(|snapshot| &snapshot.tables) {
            if let Some((first, others)) = table.processes.split_first() {
                for other in others {
                    processes.join(*first, *other);
                }
            }
        }
        processes
    }

    /// Whether the birth of a process is recorded.
    pub(super) fn is_born(&self, process: u32) -> bool {
        self.born.contains(&process)
    }

    fn learn(&mut self, tid: u32, tgid: u32) {
        let first = *self.of_thread.entry(tid).or_insert(tgid);
        if first != tgid {
            let others = self.others.entry(tid).or_default();
            if !others.contains(&tgid) {
                others.push(tgid);
            }
        }
    }

    fn join(&mut self, one: u32, other: u32) {
        let mut all: Vec<u32> =
            [one, other].into_iter().flat_map(|process| self.sharing(process).to_vec()).collect();
        all.extend([one, other]);
        all.sort_unstable();
        all.dedup();
        for process in &all {
            self.groups.insert(*process, all.clone());
        }
    }

    /// A thread's process, and others that its id belonged to; its own id where nothing is known,
    /// which is right for most.
    pub(super) fn of_thread(&self, tid: u32) -> (u32, Vec<u32>) {
        let others = self.others.get(&tid).cloned().unwrap_or_default();
        (self.of_thread.get(&tid).copied().unwrap_or(tid), others)
    }

    /// The processes that share descriptors with this one, which is among them; none where it
    /// shares with none.
    pub(super) fn sharing(&self, process: u32) -> &[u32] {
        self.groups.get(&process).map_or(&[], Vec::as_slice)
    }
}
