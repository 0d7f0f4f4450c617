//! All who lived in a window, from the task lane and the tables of threads alone: which names
//! threads may have had, and of which processes they may have been. A question about some of them
//! needs no other events, or few.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Act, SHARES_NAME};
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::decode::Body;
use flightrec_format::meta::CPUS_MAX;
use flightrec_format::ring::LaneStream;
use flightrec_store::columns::Contents;
use flightrec_store::{Content, FileReader, Kind, PagesReader};
use rustc_hash::{FxHashMap, FxHashSet};

use super::load;
use crate::source::PageSet;
use crate::threads::{IDLE, idle_name, trim};

/// Most names that are held; where there are more, none are told.
const NAMES_MAX: usize = 1 << 16;
/// Most that is known of threads: the names, the processes and the control groups of each.
const KNOWN_MAX: usize = 3 << 19;
/// Most events of the task lane that are looked at: with more of them than that, looking costs as
/// much as it saves.
const EVENTS_MAX: u64 = 2_000_000;

/// The names that any thread may have in a window, that of a thread of which nothing is known
/// included, and the processes that it may be of.
#[derive(Debug, Default)]
pub struct Names {
    /// By name: the threads that had it. Idle threads and unknown ones are not among them.
    by_name: FxHashMap<Box<[u8]>, FxHashSet<u32>>,
    /// By process: its threads.
    processes: FxHashMap<u32, FxHashSet<u32>>,
    /// By thread: its processes.
    of: FxHashMap<u32, FxHashSet<u32>>,
    /// By control group: the threads that may have been in it.
    groups: FxHashMap<u64, FxHashSet<u32>>,
    /// By process: those that made it.
    parents: FxHashMap<u32, FxHashSet<u32>>,
    /// Threads that were born.
    born: FxHashSet<u32>,
    /// By thread: those that had another id before they executed a program as this one.
    before: FxHashMap<u32, FxHashSet<u32>>,
    /// The recorder resumed system calls.
    resumes: bool,
    /// How much of all that there is.
    held: usize,
}

impl Names {
    /// Of all that is in some files, and in the rings after them. `None`: something can't be read,
    /// or there is too much.
    pub(super) fn of(opened: &[&FileReader], rings: Option<&PageSet>) -> Option<Self> {
        let jobs: Vec<_> = load::jobs(opened)
            .filter(|job| job.block.header.kind == Kind::Pages)
            .filter(|job| job.block.header.lane == Some(Lane::Task))
            .collect();
        let of_rings = || {
            let streams = rings.into_iter().flat_map(|rings| &rings.streams);
            streams.filter(|stream| stream.lane() == Lane::Task)
        };
        let events = jobs.iter().map(|job| job.block.header.events);
        let events = events.chain(of_rings().map(|stream| stream.recorded().total()));
        if events.fold(0, u64::saturating_add) > EVENTS_MAX {
            return None;
        }
        let mut names = Self::default();
        names.add(b"");
        names.add(trim(IDLE));
        (0..CPUS_MAX).for_each(|cpu| names.add(trim(&idle_name(cpu))));
        let mut reader = PagesReader::default();
        for job in &jobs {
            for (page, _) in job.pages(&mut reader, Contents::All).ok()? {
                for event in page.events() {
                    names.learn(&event.body);
                }
            }
            if names.is_full() {
                return None;
            }
        }
        for event in of_rings().flat_map(LaneStream::events) {
            names.learn(&event.body);
        }
        names.slots(rings.map(|rings| rings.slots.as_slice()).unwrap_or_default());
        for reader in opened {
            for block in reader.of(Kind::Slots) {
                let Content::Slots(threads) = reader.read(block).ok()? else { return None };
                names.slots(&threads);
                if names.is_full() {
                    return None;
                }
            }
        }
        (!names.is_full()).then_some(names)
    }

    fn slots(&mut self, threads: &[TaskSlot]) {
        for thread in threads {
            self.thread(thread.tid, thread.tgid, &thread.comm);
            self.parent(thread.tgid, thread.ppid);
            self.group(thread.cgroup, thread.tid);
        }
    }

    fn learn(&mut self, body: &Body) {
        match body {
            Body::Fork(fork) => {
                let has_its_name = fork.shares & SHARES_NAME != 0;
                let of_parent = if has_its_name { fork.comm } else { [0; 16] };
                self.thread(fork.parent_tid, fork.parent_tgid, &of_parent);
                self.thread(fork.tid, fork.tgid, &fork.comm);
                self.parent(fork.tgid, fork.parent_tgid);
                // The parent is mostly in the group that its child is born in.
                self.group(fork.cgroup, fork.parent_tid);
                self.group(fork.cgroup, fork.tid);
                self.born.insert(fork.tid);
            }
            Body::Exec { exec, .. } => {
                self.thread(exec.tid, exec.tgid, &exec.comm);
                self.group(exec.cgroup, exec.tid);
                if exec.old_tid != exec.tid {
                    self.thread(exec.old_tid, exec.tgid, &exec.comm);
                    self.before.entry(exec.tid).or_default().insert(exec.old_tid);
                }
            }
            Body::Rename(rename) => {
                self.thread(rename.tid, rename.tgid, &rename.old);
                self.thread(rename.tid, rename.tgid, &rename.new);
            }
            Body::TaskExit(exit) => self.thread(exit.tid, exit.tgid, &exit.comm),
            Body::Act(act, _) => self.resumes |= *act == Act::Attached as u16,
            _ => {}
        }
    }

    fn is_full(&self) -> bool {
        self.by_name.len() > NAMES_MAX || self.held > KNOWN_MAX
    }

    fn add(&mut self, name: &[u8]) {
        if !self.by_name.contains_key(name) {
            self.by_name.insert(name.into(), FxHashSet::default());
        }
    }

    fn thread(&mut self, tid: u32, tgid: u32, comm: &[u8; 16]) {
        let name = trim(comm);
        self.add(name);
        if let Some(threads) = self.by_name.get_mut(name) {
            self.held += usize::from(threads.insert(tid));
        }
        self.held += usize::from(self.of.entry(tid).or_default().insert(tgid));
        self.processes.entry(tgid).or_default().insert(tid);
    }

    fn group(&mut self, group: u64, tid: u32) {
        self.held += usize::from(self.groups.entry(group).or_default().insert(tid));
    }

    fn parent(&mut self, process: u32, parent: u32) {
        if process != parent {
            self.held += usize::from(self.parents.entry(process).or_default().insert(parent));
        }
    }

    /// Each once, in no order; any bytes, without NUL.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.by_name.keys().map(AsRef::as_ref)
    }

    /// The threads that had a name at any time; those that had it all the time, and were heard of
    /// by nothing else, are not among them.
    pub fn threads_named(&self, is: impl Fn(&[u8]) -> bool) -> FxHashSet<u32> {
        let named = self.by_name.iter().filter(|(name, _)| is(name));
        named.flat_map(|(_, threads)| threads.iter().copied()).collect()
    }

    /// The threads that were of one of these processes at any time.
    pub fn threads_of(&self, processes: &FxHashSet<u32>) -> FxHashSet<u32> {
        let known = processes.iter().filter_map(|process| self.processes.get(process));
        // A thread of which nothing is known is taken for a process's own.
        known.flatten().chain(processes).copied().collect()
    }

    /// The threads that may have been in one of these control groups.
    pub fn threads_in(&self, groups: &FxHashSet<u64>) -> FxHashSet<u32> {
        groups.iter().filter_map(|group| self.groups.get(group)).flatten().copied().collect()
    }

    /// These processes, and all that descend from them.
    pub fn descendants(&self, roots: &FxHashSet<u32>) -> FxHashSet<u32> {
        let mut found = roots.clone();
        loop {
            let before = found.len();
            for (process, parents) in &self.parents {
                if parents.iter().any(|parent| found.contains(parent)) {
                    found.insert(*process);
                }
            }
            if found.len() == before {
                return found;
            }
        }
    }

    /// The processes that these threads may be of, and all that those descend from.
    pub(super) fn family(&self, threads: &FxHashSet<u32>) -> FxHashSet<u32> {
        let own = threads.iter().filter_map(|tid| self.of.get(tid)).flatten();
        let mut open: Vec<u32> = own.chain(threads).copied().collect();
        let mut found = FxHashSet::default();
        while let Some(process) = open.pop() {
            if found.insert(process) {
                open.extend(self.parents.get(&process).into_iter().flatten());
            }
        }
        found
    }

    /// The processes that these threads may be of.
    pub(super) fn processes_of(&self, threads: &FxHashSet<u32>) -> FxHashSet<u32> {
        let own = threads.iter().filter_map(|tid| self.of.get(tid)).flatten();
        own.chain(threads).copied().collect()
    }

    /// The processes that made these.
    pub(super) fn parents_of(&self, processes: &FxHashSet<u32>) -> FxHashSet<u32> {
        processes
            .iter()
            .filter_map(|process| self.parents.get(process))
            .flatten()
            .copied()
            .collect()
    }

    /// Whether the recorder resumed system calls, which it had not recorded for a time.
    pub(super) fn resumes(&self) -> bool {
        self.resumes
    }

    /// Whether a thread was born in the window.
    pub(super) fn is_born(&self, tid: u32) -> bool {
        self.born.contains(&tid)
    }

    /// The threads that may have had another id before they executed a program.
    pub(super) fn renumbered(&self) -> impl Iterator<Item = u32> {
        self.before.keys().copied()
    }

    /// The ids that a thread may have had before it executed a program.
    pub(super) fn before(&self, tid: u32) -> impl Iterator<Item = u32> {
        self.before.get(&tid).into_iter().flatten().copied()
    }
}
