//! When descriptors changed, found in one quick pass over a recording's pages: what a snapshot says
//! holds as far back as nothing has changed it.
//!
//! Most calls are passed over by their number. Times are kept for each stretch between two
//! snapshots, since only the last change before a snapshot matters to it. The order of events does
//! not matter, so nothing is merged or sorted.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{SHARES_FILES, errno};
use flightrec_format::decode::{Body, CallRecord};
use flightrec_format::descriptors::Snapshot;
use rustc_hash::FxHashMap;

use super::arg;
use super::processes::Processes;
use super::role::{Role, Roles, role};
use crate::source::PageSet;

/// Something changed while the snapshot was taken, or too near to it: what it shows may be from
/// before or from after.
pub(super) const UNSURE: u64 = u64::MAX;
/// How soon after a call's beginning a descriptor is closed or replaced, at the latest, ns: before
/// the call does anything that it may wait for.
const DEED_NS: u64 = 10_000_000;
/// Most ranges of one process and stretch that are kept apart; more count as if all had changed.
const RANGES_MAX: usize = 32;

/// What a call is to this pass.
#[derive(Debug, Clone, Copy)]
enum Watch {
    Role(Role),
    /// It changes what a socket is bound or connected to.
    Address,
    /// After it descriptors may change without a call.
    Ring,
}

fn watch(name: &str) -> Option<Watch> {
    match name {
        "bind" | "connect" => Some(Watch::Address),
        "io_uring_setup" | "io_uring_enter" => Some(Watch::Ring),
        _ => {
            let is_other = |role: &Role| !matches!(role, Role::Chroot | Role::Ioctl);
            role(name).filter(is_other).map(Watch::Role)
        }
    }
}

/// A stretch between two snapshots, and a process.
type ProcessStretch = (u32, u32);

/// The last changes before each snapshot, ns of `CLOCK_MONOTONIC`.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// When each snapshot's taking began and ended.
    taken: Vec<(u64, u64)>,
    ones: FxHashMap<(ProcessStretch, i32), u64>,
    /// What sockets are bound and connected to.
    addresses: FxHashMap<(ProcessStretch, i32), u64>,
    ranges: FxHashMap<ProcessStretch, Vec<(u32, u32, u64)>>,
    all: FxHashMap<ProcessStretch, u64>,
    processes: Processes,
}

/// What changed.
#[derive(Debug, Clone, Copy)]
enum What {
    One(i32),
    Address(i32),
    Range(u32, u32),
    All,
}

impl Changes {
    /// The changes in a recording, which has these snapshots, in order.
    pub(super) fn new(recording: &PageSet, snapshots: &[Snapshot]) -> Self {
        let mut changes = Self {
            taken: snapshots.iter().map(|snapshot| (snapshot.begin, snapshot.end)).collect(),
            processes: Processes::new(recording, snapshots),
            ..Self::default()
        };
        let end = snapshots.last().map_or(0, |snapshot| snapshot.end);
        let roles = Roles::by_name(&recording.meta, watch);
        for stream in &recording.streams {
            match stream.lane() {
                Lane::Syscall => {
                    let wanted =
                        |abi, nr, ret| ret == Some(-i64::from(libc::EBADF)) || roles.has(abi, nr);
                    let pages =
                        stream.pages().iter().take_while(|page| page.header().base_mono <= end);
                    for record in pages.flat_map(|page| page.calls(wanted)) {
                        let watch = roles.get(record.call.abi, record.call.nr);
                        changes.call(&record, watch);
                    }
                }
                Lane::Task => {
                    for event in stream.events() {
                        changes.life(&event.body, event.time);
                    }
                }
                _ => {}
            }
        }
        changes
    }

    /// Births and execs: an id that means another process from then on, a thread with descriptors
    /// of its own, and descriptors that were closed.
    fn life(&mut self, body: &Body, time: u64) {
        match body {
            Body::Fork(fork)
                if fork.tgid != fork.parent_tgid || fork.shares & SHARES_FILES == 0 =>
            {
                self.note(fork.tgid, (time, time), What::All);
            }
            Body::Exec { exec, .. } => self.note(exec.tgid, (time, time), What::All),
            _ => {}
        }
    }

    fn call(&mut self, record: &CallRecord, watch: Option<Watch>) {
        let call = &record.call;
        let known = call.nargs > 0;
        let first = arg(call, 0);
        // What is closed or replaced goes at some moment of the call. A record of its beginning
        // alone is followed by one of its end; where that is far away, the deed itself was
        // done soon.
        let during = match (record.entered, record.exited) {
            (Some(entered), None) => (entered, entered.saturating_add(DEED_NS)),
            (entered, Some((exited, _))) => (entered.unwrap_or(exited), exited),
            (None, None) => return,
        };
        let ret = record.exited.map(|(_, ret)| ret);
        let failed = ret.is_some_and(|ret| errno(ret).is_some());
        let Some(watch) = watch else {
            // It was no descriptor then.
            if known {
                self.of_thread(record.tid, during, What::One(first as i32));
            }
            return;
        };
        let end = record.exited.map_or(during, |(exited, _)| (exited, exited));
        match watch {
            Watch::Ring => self.of_thread(record.tid, during, What::All),
            Watch::Address if known => {
                self.of_thread(record.tid, during, What::Address(first as i32));
            }
            Watch::Role(Role::Close) if known => {
                self.of_thread(record.tid, during, What::One(first as i32));
            }
            // A closing of which only the end is known: it may have been any.
            Watch::Role(Role::Close | Role::CloseRange) if record.entered.is_none() => {}
            Watch::Role(Role::CloseRange) if call.nargs >= 3 => {
                let flags = arg(call, 2);
                if flags & libc::CLOSE_RANGE_UNSHARE != 0 {
                    self.of_thread(record.tid, during, What::All);
                } else if flags & libc::CLOSE_RANGE_CLOEXEC == 0 {
                    self.of_thread(record.tid, during, What::Range(first, arg(call, 1)));
                }
            }
            Watch::Role(Role::Unshare) if !known || first & libc::CLONE_FILES as u32 != 0 => {
                self.of_thread(record.tid, during, What::All);
            }
            Watch::Role(Role::DupTo { .. }) if call.nargs >= 2 => {
                self.of_thread(record.tid, during, What::One(arg(call, 1) as i32));
            }
            Watch::Role(Role::Fcntl)
                if call.nargs >= 2
                    && !matches!(arg(call, 1) as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {}
            Watch::Role(Role::Chroot | Role::Unshare) => {}
            Watch::Role(_) if !failed => {
                if let Some(made) = ret {
                    self.of_thread(record.tid, end, What::One(made as i32));
                }
            }
            _ => {}
        }
    }

    /// A change by a thread; where its id meant several in the recording, by any of them.
    fn of_thread(&mut self, tid: u32, during: (u64, u64), what: What) {
        let (process, more) = self.processes.of_thread(tid);
        self.note(process, during, what);
        for process in more {
            self.note(process, during, what);
        }
    }

    fn note(&mut self, process: u32, (from, until): (u64, u64), what: What) {
        // The first snapshot that was complete after it.
        let stretch = self.taken.partition_point(|(_, end)| *end < from);
        let Some((begin, _)) = self.taken.get(stretch) else { return };
        let time = if until > *begin { UNSURE } else { until };
        let place = (stretch as u32, process);
        let slot = match what {
            What::One(fd) => self.ones.entry((place, fd)).or_default(),
            What::Address(fd) => self.addresses.entry((place, fd)).or_default(),
            What::Range(first, last) => {
                let ranges = self.ranges.entry(place).or_default();
                if ranges.len() < RANGES_MAX {
                    ranges.push((first, last, time));
                    return;
                }
                self.all.entry(place).or_default()
            }
            What::All => self.all.entry(place).or_default(),
        };
        *slot = time.max(*slot);
    }

    /// Whether the birth of a process is recorded.
    pub(super) fn is_born(&self, process: u32) -> bool {
        self.processes.is_born(process)
    }

    /// When a descriptor of a process last changed between the snapshot before and the one of this
    /// number; 0: it did not, as far as the recording has it.
    pub(super) fn last(&self, snapshot: usize, process: u32, fd: i32) -> u64 {
        self.greatest(process, |process| {
            let place = (snapshot as u32, process);
            let ranges = self.ranges.get(&place).into_iter().flatten();
            let range = ranges
                .filter(|(first, last, _)| (*first..=*last).contains(&(fd as u32)))
                .map(|range| range.2);
            let one = self.ones.get(&(place, fd)).copied();
            range.chain(one).chain(self.all.get(&place).copied()).max()
        })
    }

    /// As [`Self::last`], for all descriptors at once.
    pub(super) fn all(&self, snapshot: usize, process: u32) -> u64 {
        self.greatest(process, |process| self.all.get(&(snapshot as u32, process)).copied())
    }

    /// As [`Self::last`], for what a socket is bound or connected to.
    pub(super) fn last_address(&self, snapshot: usize, process: u32, fd: i32) -> u64 {
        self.greatest(process, |process| {
            self.addresses.get(&((snapshot as u32, process), fd)).copied()
        })
    }

    /// The greatest over a process and those that share its descriptors.
    fn greatest(&self, process: u32, of: impl Fn(u32) -> Option<u64>) -> u64 {
        let others =
            self.processes.sharing(process).iter().copied().filter(|other| *other != process);
        others.chain([process]).filter_map(of).max().unwrap_or(0)
    }
}
