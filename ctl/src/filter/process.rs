//! Whether events that are not there could have been wanted.

use rustc_hash::FxHashSet;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Body, Event};
use flightrec_format::kept::{ANYONE, LeftOut, YOUNG};
use flightrec_format::merge::Merge;
use flightrec_format::ring::LaneStream;
use flightrec_reader::left_out::LeftOuts;
use flightrec_reader::source::PageSet;
use flightrec_reader::threads::Threads;

use super::Filter;

/// The processes of a recording that a filter may mean by a name, a tree or a group: any bearer of
/// a process's id at any time.
#[derive(Debug, Default)]
pub struct Meant {
    /// Those of which anything is known.
    known: FxHashSet<u32>,
    comms: FxHashSet<u32>,
    trees: FxHashSet<u32>,
    groups: FxHashSet<u32>,
}

impl Filter {
    /// The processes of a recording that it may mean.
    pub fn meant(&self, recording: &PageSet) -> Meant {
        let mut meant = Meant::default();
        if self.comms.is_empty() && self.trees.is_empty() && self.groups.is_empty() {
            return meant;
        }
        let mut threads = recording.threads();
        let known: Vec<u32> = threads.known().map(|(tid, ..)| tid).collect();
        for tid in known {
            self.see(&mut meant, &threads, tid, u64::MAX);
        }
        let task = recording.streams.iter().filter(|stream| stream.lane() == Lane::Task);
        for event in Merge::new(task.map(LaneStream::events)) {
            threads.apply(&event);
            if let Some(tid) = subject(&event) {
                self.see(&mut meant, &threads, tid, event.time);
            }
        }
        meant
    }

    /// Takes a thread in as it is at a moment.
    fn see(&self, meant: &mut Meant, threads: &Threads, tid: u32, time: u64) {
        let process = threads.tgid(tid, time);
        meant.known.insert(process);
        let comm = threads.comm(tid, 0, time);
        if comm.is_empty() || self.comms.has(comm) {
            meant.comms.insert(process);
        }
        if threads.descends(tid, time, &self.trees) {
            meant.trees.insert(process);
        }
        let group = threads.cgroup(tid, time);
        if group == 0 || self.groups.iter().any(|groups| groups.contains(&group)) {
            meant.groups.insert(process);
        }
    }

    /// Whether something that the quiet ring left out may be wanted; where that is not known, it
    /// may.
    pub fn may_want(&self, left_out: &LeftOut, known: &LeftOuts, meant: &Meant) -> bool {
        match left_out.process {
            ANYONE => true,
            YOUNG => self.may_want_young(left_out, known),
            process => self.may_want_process(process, left_out, known, meant),
        }
    }

    /// Whether young processes may be wanted.
    fn may_want_young(
        &self,
        LeftOut { from, until, born, .. }: &LeftOut,
        known: &LeftOuts,
    ) -> bool {
        let may_be = |process: u32| known.may_begin(process, *born, *until);
        let by_tid =
            |tid: &u32| known.processes(*tid, *from, *until).is_none_or(|mut all| all.any(may_be));
        (self.pids.is_empty() || self.pids.iter().copied().any(may_be))
            && (self.tids.is_empty() || self.tids.iter().any(by_tid))
    }

    fn may_want_process(
        &self,
        process: u32,
        LeftOut { from, until, .. }: &LeftOut,
        known: &LeftOuts,
        meant: &Meant,
    ) -> bool {
        let by_tid = |tid: &u32| {
            known.processes(*tid, *from, *until).is_none_or(|mut all| all.any(|of| of == process))
        };
        let is_meant =
            |by: &FxHashSet<u32>| by.contains(&process) || !meant.known.contains(&process);
        (self.pids.is_empty() || self.pids.contains(&process))
            && (self.tids.is_empty() || self.tids.iter().any(by_tid))
            && (self.comms.is_empty() || is_meant(&meant.comms))
            && (self.trees.is_empty() || is_meant(&meant.trees))
            && (self.groups.is_empty() || is_meant(&meant.groups))
    }
}

/// The thread that an event of a task's life changes.
fn subject(event: &Event) -> Option<u32> {
    match &event.body {
        Body::Fork(fork) => Some(fork.tid),
        Body::Rename(rename) => Some(rename.tid),
        Body::Exec { exec, .. } => Some(exec.tid),
        Body::TaskExit(exit) => Some(exit.tid),
        _ => None,
    }
}
