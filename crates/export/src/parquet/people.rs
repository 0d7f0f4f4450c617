//! Threads and processes, of which rows are written when nothing more is to come of them.

use rustc_hash::FxHashMap;

use flightrec_format::abi::record::Comm;
use flightrec_format::abi::slot::TaskSlot;
use flightrec_reader::threads::trim;

use super::columns::Rows;
use super::places::Places;
use crate::printable::printable;

/// Most threads, and most processes, that are remembered; to make room, all are written.
pub(super) const PEOPLE_MAX: usize = 1 << 16;

/// A thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Thread {
    pub(super) pid: u32,
    pub(super) comm: Comm,
    /// Its control group, as of its process; 0: not known.
    pub(super) cgroup: u64,
    /// ns of `CLOCK_MONOTONIC`; 0: not known.
    pub(super) started: u64,
    /// UNIX times in ns of its first and its last event; none where `events` is 0.
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) ended: Option<(i64, u32)>,
    pub(super) events: u64,
}

/// A process.
#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    pub(super) parent: u32,
    pub(super) comm: Comm,
    pub(super) file: Option<Box<str>>,
    pub(super) args: Option<Box<str>>,
    pub(super) cgroup: u64,
    pub(super) started: u64,
    pub(super) ended: Option<(i64, u32)>,
}

/// All that are remembered.
#[derive(Debug, Default)]
pub(super) struct People {
    pub(super) threads: FxHashMap<u32, Thread>,
    pub(super) processes: FxHashMap<u32, Process>,
    /// What the last threads did that did anything, by the number of the thread.
    recent: [Recent; RECENT],
}

/// Threads whose events are counted without a look for them; a power of two.
const RECENT: usize = 32;

/// Events of a thread that are not counted with it yet.
#[derive(Debug, Clone, Copy, Default)]
struct Recent {
    tid: u32,
    pid: u32,
    comm: Comm,
    last: i64,
    events: u64,
}

impl People {
    /// Counts what is not counted yet of threads in this place.
    fn settle_at(&mut self, at: usize) {
        let recent = std::mem::take(&mut self.recent[at]);
        if recent.events != 0
            && let Some(thread) = self.threads.get_mut(&recent.tid)
        {
            thread.last = recent.last;
            thread.events += recent.events;
        }
    }

    /// Counts all that is not counted yet.
    pub(super) fn settle(&mut self) {
        (0..RECENT).for_each(|at| self.settle_at(at));
    }

    /// Nothing more comes of a thread: its number is another one's.
    pub(super) fn remove_thread(&mut self, tid: u32) -> Option<Thread> {
        self.settle_at(tid as usize % RECENT);
        self.threads.remove(&tid)
    }

    /// Takes who was there at the recording's end.
    pub(super) fn learn(&mut self, slot: &TaskSlot) {
        if slot.tid == 0 || self.is_full() {
            return;
        }
        let thread = self.threads.entry(slot.tid).or_default();
        if thread.started == 0 && thread.ended.is_none() {
            (thread.pid, thread.started) = (slot.tgid, slot.start_time);
            if thread.cgroup == 0 {
                thread.cgroup = slot.cgroup;
            }
            if thread.events == 0 {
                thread.comm = slot.comm;
            }
        }
        if slot.tid == slot.tgid {
            let process = self.processes.entry(slot.tid).or_default();
            if process.started == 0 && process.ended.is_none() {
                (process.parent, process.started) = (slot.ppid, slot.start_time);
                process.cgroup = slot.cgroup;
                if trim(&process.comm).is_empty() {
                    process.comm = slot.comm;
                }
            }
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.threads.len() >= PEOPLE_MAX || self.processes.len() >= PEOPLE_MAX
    }

    /// A thread does something.
    #[inline]
    pub(super) fn met(&mut self, tid: u32, (pid, comm, cgroup): (u32, &Comm, u64), wall: i64) {
        let at = tid as usize % RECENT;
        let recent = &mut self.recent[at];
        if (recent.tid, recent.pid) == (tid, pid) && recent.comm == *comm {
            recent.last = wall;
            recent.events += 1;
            return;
        }
        self.settle_at(at);
        self.meet(tid, (pid, comm, cgroup), wall);
        self.recent[at] = Recent { tid, pid, comm: *comm, last: wall, events: 0 };
    }

    fn meet(&mut self, tid: u32, (pid, comm, cgroup): (u32, &Comm, u64), wall: i64) {
        let thread = self.threads.entry(tid).or_default();
        (thread.pid, thread.comm) = (pid, *comm);
        if cgroup != 0 {
            thread.cgroup = cgroup;
        }
        if thread.events == 0 {
            thread.first = wall;
            // Seldom: a process is met with its first thread.
            let process = self.processes.entry(pid).or_default();
            if tid == pid || trim(&process.comm).is_empty() {
                process.comm = *comm;
            }
        }
        thread.last = wall;
        thread.events += 1;
    }

    /// A thread's name and process; `None`: it was not met.
    pub(super) fn who(&self, tid: u32) -> Option<(u32, Comm)> {
        self.threads.get(&tid).map(|thread| (thread.pid, thread.comm))
    }
}

/// Nothing where it is empty.
pub(super) fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// A time that is known, UNIX time in ns.
fn wall(mono: u64, offset: i64) -> Option<i64> {
    (mono != 0).then(|| (mono as i64).saturating_add(offset))
}

/// Status and signal of `task_struct.exit_code`.
fn status(code: Option<u32>) -> (Option<i32>, Option<i32>) {
    let signal = code.map(|code| (code & 0x7f) as i32).filter(|signal| *signal != 0);
    let status = code.filter(|_| signal.is_none()).map(|code| (code >> 8 & 0xff) as i32);
    (status, signal)
}

impl Thread {
    /// Appends its row. `offset`: what the wall clock is ahead of `CLOCK_MONOTONIC`.
    pub(super) fn write(
        &self,
        tid: u32,
        places: &Places,
        offset: i64,
        session: &str,
        rows: &mut Rows,
    ) {
        let is_met = self.events != 0;
        let (status, signal) = status(self.ended.map(|(_, code)| code));
        rows.int(tid as i32)
            .int(self.pid as i32)
            .text(some(&printable(trim(&self.comm))))
            .long(wall(self.started, offset))
            .long(self.ended.map(|(at, _)| at))
            .int(status)
            .int(signal)
            .long(is_met.then_some(self.first))
            .long(is_met.then_some(self.last))
            .long(self.events as i64)
            .text(session);
        places.container(self.cgroup, rows);
    }
}

impl Process {
    /// Appends its row.
    pub(super) fn write(
        &self,
        pid: u32,
        places: &Places,
        offset: i64,
        session: &str,
        rows: &mut Rows,
    ) {
        let (status, signal) = status(self.ended.map(|(_, code)| code));
        rows.int(pid as i32)
            .int((self.parent != 0).then_some(self.parent as i32))
            .text(some(&printable(trim(&self.comm))))
            .text(self.file.as_deref())
            .text(self.args.as_deref());
        places.unit(self.cgroup, rows);
        rows.long(wall(self.started, offset))
            .long(self.ended.map(|(at, _)| at))
            .int(status)
            .int(signal)
            .text(session);
        places.container(self.cgroup, rows);
    }
}
