//! Tracks: of threads, of CPUs, of disks, of what belongs to nobody.

use rustc_hash::FxHashMap;

use flightrec_format::abi::record::Comm;
use flightrec_format::abi::slot::TaskSlot;
use flightrec_reader::threads::{THREADS_MAX, trim};

use super::field::{packet, process, track};
use super::packets::{EVENTS, Packets};
use super::proto::{bytes, message, number};
use crate::lanes::Lanes;
use crate::printable::printable;

/// Most tracks that are no threads'; what comes then is on one more.
const TRACKS_MAX: usize = 65_536;

/// What a track is of, beside those of threads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Of {
    /// A track by this name.
    Named(&'static str),
    /// A group of tracks by this name, of a CPU.
    Cpu(&'static str, u16),
    /// The requests to a disk.
    Disk(Box<str>),
    /// A track below a thread's, by the thread's track.
    Thread(&'static str, u64),
    /// Gaps of a CPU and lane.
    Gaps(u16, &'static str),
    /// What found no other.
    Rest,
}

impl Of {
    fn name(&self) -> String {
        match self {
            Self::Named(name) | Self::Thread(name, _) => (*name).to_owned(),
            Self::Cpu(name, cpu) => format!("CPU {cpu}: {name}"),
            Self::Disk(name) => format!("Disk {name}"),
            Self::Gaps(cpu, lane) => format!("Gaps: CPU {cpu}, lane {lane}"),
            Self::Rest => "Other events".to_owned(),
        }
    }

    fn parent(&self) -> Option<u64> {
        if let Self::Thread(_, thread) = self { Some(*thread) } else { None }
    }
}

/// A thread that has a track.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    /// Its track.
    pub(super) track: u64,
    /// Its call under way: number and table, as in [`super::calls`].
    pub(super) open: Option<(u16, u8)>,
    /// The end of the last thing on its track.
    pub(super) last: u64,
    /// Its tracks for stretches that end before they begin to be told.
    waits: FxHashMap<&'static str, Lanes>,
}

/// All tracks that there are.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    next: u64,
    threads: FxHashMap<u32, Thread>,
    /// Processes that were told of, each with its parent.
    processes: FxHashMap<u32, u32>,
    /// What the recording's table of threads knew of processes: name, parent, since when.
    known: FxHashMap<u32, (Comm, u32, u64)>,
    others: FxHashMap<(Of, usize), u64>,
    lanes: FxHashMap<Of, Lanes>,
}

/// Who a thread is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Who<'a> {
    pub(super) tid: u32,
    pub(super) pid: u32,
    pub(super) comm: &'a Comm,
    /// Its container, unit or control group; empty: not known.
    pub(super) unit: &'a str,
    /// The time of the event.
    pub(super) time: u64,
}

impl Tracks {
    /// Learns names of processes from the recording's table of threads.
    pub(super) fn learn<'a>(&mut self, slots: impl Iterator<Item = &'a TaskSlot>) {
        let leaders = slots.filter(|slot| slot.tid == slot.tgid).take(THREADS_MAX);
        self.known =
            leaders.map(|slot| (slot.tid, (slot.comm, slot.ppid, slot.start_time))).collect();
    }

    /// A thread's track; told of when it is new.
    #[inline]
    pub(super) fn thread(&mut self, who: &Who<'_>, packets: &mut Packets) -> &mut Thread {
        if !self.threads.contains_key(&who.tid) {
            if self.threads.len() >= THREADS_MAX {
                self.threads.clear();
                self.processes.clear();
            }
            let thread = self.new_thread(who, packets);
            self.threads.insert(who.tid, thread);
        }
        let none = Thread { track: 0, open: None, last: 0, waits: FxHashMap::default() };
        self.threads.entry(who.tid).or_insert(none)
    }

    #[cold]
    fn new_thread(&mut self, who: &Who<'_>, packets: &mut Packets) -> Thread {
        if !self.processes.contains_key(&who.pid) {
            let known = self.known.get(&who.pid).filter(|(.., since)| *since <= who.time);
            let (name, parent) = match known {
                Some((comm, parent, _)) => (Some(*comm), *parent),
                None => ((who.tid == who.pid).then_some(*who.comm), 0),
            };
            self.processes.insert(who.pid, parent);
            if let Some(name) = name {
                let name = printable(trim(&name));
                tell_process(who.time, (who.pid, parent), [&*name].into_iter(), packets);
            }
            if !who.unit.is_empty() {
                self.next += 1;
                let uuid = self.next;
                packets.push(|out| {
                    number(packet::SEQUENCE, EVENTS, out);
                    message(packet::TRACK, out, |out| {
                        number(track::UUID, uuid, out);
                        message(track::PROCESS, out, |out| {
                            number(track::PROCESS_PID, u64::from(who.pid), out);
                            bytes(track::PROCESS_LABELS, who.unit.as_bytes(), out);
                        });
                    });
                });
            }
        }
        tell_thread(who.time, (who.tid, who.pid), who.comm, packets);
        self.next += 1;
        let uuid = self.next;
        packets.push(|out| {
            number(packet::SEQUENCE, EVENTS, out);
            message(packet::TRACK, out, |out| {
                number(track::UUID, uuid, out);
                message(track::THREAD, out, |out| {
                    number(track::THREAD_PID, u64::from(who.pid), out);
                    number(track::THREAD_TID, u64::from(who.tid), out);
                });
            });
        });
        Thread { track: uuid, open: None, last: 0, waits: FxHashMap::default() }
    }

    /// A thread is new, and its number's; the process that made its process.
    pub(super) fn born(&mut self, tid: u32, parent: u32, comm: &Comm, time: u64) {
        self.processes.remove(&tid);
        self.threads.remove(&tid);
        if self.known.len() < THREADS_MAX || self.known.contains_key(&tid) {
            self.known.insert(tid, (*comm, parent, time));
        }
    }

    /// The parent with which a process was told of. Another one would be another process.
    pub(super) fn parent(&self, pid: u32) -> Option<u32> {
        let told = self.processes.get(&pid).copied();
        told.or_else(|| self.known.get(&pid).map(|(_, parent, _)| *parent))
    }

    /// The track for a stretch below a thread's.
    pub(super) fn below(
        &mut self,
        who: &Who<'_>,
        name: &'static str,
        (from, until): (u64, u64),
        packets: &mut Packets,
    ) -> u64 {
        let thread = self.thread(who, packets);
        let place = thread.waits.entry(name).or_default().place(from, until);
        let of = Of::Thread(name, thread.track);
        match place {
            Some(place) => self.other(of, place, packets),
            None => self.other(Of::Rest, 0, packets),
        }
    }

    /// The track for a stretch.
    pub(super) fn stretch(&mut self, of: Of, from: u64, until: u64, packets: &mut Packets) -> u64 {
        if self.lanes.len() >= TRACKS_MAX && !self.lanes.contains_key(&of) {
            return self.other(Of::Rest, 0, packets);
        }
        match self.lanes.entry(of.clone()).or_default().place(from, until) {
            Some(place) => self.other(of, place, packets),
            None => self.other(Of::Rest, 0, packets),
        }
    }

    /// A track that is no thread's, by its number among those of its kind.
    pub(super) fn other(&mut self, of: Of, place: usize, packets: &mut Packets) -> u64 {
        let key = (of, place);
        if let Some(uuid) = self.others.get(&key) {
            return *uuid;
        }
        let key = if self.others.len() < TRACKS_MAX { key } else { (Of::Rest, 0) };
        if let Some(uuid) = self.others.get(&key) {
            return *uuid;
        }
        self.next += 1;
        let uuid = self.next;
        packets.push(|out| {
            number(packet::SEQUENCE, EVENTS, out);
            message(packet::TRACK, out, |out| {
                number(track::UUID, uuid, out);
                if let Some(parent) = key.0.parent() {
                    number(track::PARENT, parent, out);
                }
                bytes(track::NAME, key.0.name().as_bytes(), out);
            });
        });
        self.others.insert(key, uuid);
        uuid
    }
}

/// Tells a process's name, or what it was started as.
pub(super) fn tell_process<'a>(
    time: u64,
    (pid, parent): (u32, u32),
    cmdline: impl Iterator<Item = &'a str>,
    packets: &mut Packets,
) {
    packets.at(time, |out| {
        message(packet::PROCESS_TREE, out, |out| {
            message(process::PROCESSES, out, |out| {
                number(process::PID, u64::from(pid), out);
                number(process::PPID, u64::from(parent), out);
                for argument in cmdline {
                    bytes(process::CMDLINE, argument.as_bytes(), out);
                }
            });
        });
    });
}

/// Tells a thread's name.
pub(super) fn tell_thread(time: u64, (tid, pid): (u32, u32), comm: &Comm, packets: &mut Packets) {
    if tid == 0 || trim(comm).is_empty() {
        return;
    }
    packets.at(time, |out| {
        message(packet::PROCESS_TREE, out, |out| {
            message(process::THREADS, out, |out| {
                number(process::TID, u64::from(tid), out);
                bytes(process::NAME, printable(trim(comm)).as_bytes(), out);
                number(process::TGID, u64::from(pid), out);
            });
        });
    });
}
