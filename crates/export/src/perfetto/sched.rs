//! Scheduling: bundles of ftrace events, by CPU, switches and wakeups in columns.
//!
//! A switch in columns does not tell who ran before: the reader knows it from the last one of the
//! CPU. So one that does not follow another, at the beginning, after a gap, or where a filter left
//! switches out, is written as an event by itself.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use flightrec_format::abi::record::{Comm, WakeContext};
use flightrec_reader::threads::trim;

use super::field::{bundle, event};
use super::proto::{bytes, message, number, varint};
use crate::kernel;
use crate::printable::printable;

/// Events of a bundle, and of all that wait.
const BUNDLE: usize = 4096;
const WAITING_MAX: usize = 32_768;
/// Most gaps that are waited for on a CPU.
const GAPS_MAX: usize = 65_536;

/// A priority as its 32 bits.
fn priority(prio: u8) -> u64 {
    u64::from(kernel::priority(prio) as u32)
}

/// A switch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switch {
    pub(super) time: u64,
    pub(super) prev: (u32, Comm, u8),
    pub(super) state: u64,
    pub(super) next: (u32, Comm, u8),
}

/// A wakeup.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waking {
    pub(super) time: u64,
    pub(super) waker: u32,
    pub(super) wakee: (u32, Comm, u8),
    pub(super) target: u16,
    pub(super) context: WakeContext,
}

impl Waking {
    /// As ftrace has it in every event of such a moment (`TRACE_FLAG_HARDIRQ`, `…_SOFTIRQ`).
    fn flags(&self) -> u64 {
        match self.context {
            WakeContext::Hardirq | WakeContext::Nmi => 8,
            WakeContext::Softirq => 16,
            WakeContext::Thread | WakeContext::Unknown => 0,
        }
    }
}

/// Events of a CPU that wait to be written.
#[derive(Debug, Default)]
struct Cpu {
    /// Who runs; `None`: nobody knows.
    running: Option<u32>,
    /// Since when.
    since: u64,
    /// After these moments events are there again.
    gaps: VecDeque<u64>,
    /// Events are missing before those that wait.
    lost: bool,
    switches: [Vec<u8>; 5],
    wakings: [Vec<u8>; 6],
    last_switch: u64,
    last_waking: u64,
    names: FxHashMap<Comm, u64>,
    /// The names, and the events that are by themselves, as fields of their messages.
    name_fields: Vec<u8>,
    events: Vec<u8>,
    count: usize,
}

/// Events of all CPUs that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Sched {
    cpus: FxHashMap<u16, Cpu>,
    waiting: usize,
    /// Bundles that are complete.
    ready: Vec<Vec<u8>>,
    /// Switches from another thread than the one that ran, where no gap tells why.
    torn: u64,
}

impl Sched {
    /// Events of a CPU are missing until this moment.
    pub(super) fn gap(&mut self, cpu: u16, until: u64) {
        let gaps = &mut self.cpus.entry(cpu).or_default().gaps;
        if gaps.len() < GAPS_MAX {
            let place = gaps.partition_point(|other| *other < until);
            gaps.insert(place, until);
        } else if let Some(last) = gaps.back_mut() {
            *last = until.max(*last);
        }
    }

    /// Nobody knows any more who runs where.
    pub(super) fn forget(&mut self) {
        self.all();
        self.cpus.clear();
    }

    pub(super) fn switch(&mut self, cpu: u16, of: &Switch) {
        let at = self.at(cpu, of.time);
        let is_torn = at.running.is_some_and(|running| running != of.prev.0);
        if at.running == Some(of.prev.0) && of.time >= at.last_switch {
            let name = at.name(of.next.1);
            let [times, states, nexts, prios, names] = &mut at.switches;
            varint(of.time - at.last_switch, times);
            at.last_switch = of.time;
            varint(of.state, states);
            varint(u64::from(of.next.0), nexts);
            varint(priority(of.next.2), prios);
            varint(name, names);
        } else {
            at.event(of.time, of.prev.0, 0, event::SWITCH, |out| {
                bytes(1, printable(trim(&of.prev.1)).as_bytes(), out);
                number(2, u64::from(of.prev.0), out);
                number(3, priority(of.prev.2), out);
                number(4, of.state, out);
                bytes(5, printable(trim(&of.next.1)).as_bytes(), out);
                number(6, u64::from(of.next.0), out);
                number(7, priority(of.next.2), out);
            });
        }
        at.running = Some(of.next.0);
        at.since = of.time;
        self.torn = self.torn.saturating_add(u64::from(is_torn));
        self.counted(cpu);
    }

    pub(super) fn waking(&mut self, cpu: u16, of: &Waking) {
        let at = self.at(cpu, of.time);
        let (wakee, comm, prio) = of.wakee;
        if at.running == Some(of.waker) && of.time >= at.last_waking {
            let name = at.name(comm);
            let [times, pids, targets, prios, names, flags] = &mut at.wakings;
            varint(of.time - at.last_waking, times);
            at.last_waking = of.time;
            varint(u64::from(wakee), pids);
            varint(u64::from(of.target), targets);
            varint(priority(prio), prios);
            varint(name, names);
            varint(of.flags(), flags);
        } else {
            at.wakeup(event::WAKING, of);
        }
        self.counted(cpu);
    }

    pub(super) fn wakeup_new(&mut self, cpu: u16, of: &Waking) {
        self.at(cpu, of.time).wakeup(event::WAKEUP_NEW, of);
        self.counted(cpu);
    }

    /// Any other event of ftrace, at a time, of a thread.
    pub(super) fn other(
        &mut self,
        cpu: u16,
        (time, pid): (u64, u32),
        of: u64,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.at(cpu, time).event(time, pid, 0, of, write);
        self.counted(cpu);
    }

    /// Since when a thread runs on a CPU; `None`: it does not, or nobody knows.
    pub(super) fn runs_since(&self, cpu: u16, tid: u32) -> Option<u64> {
        self.cpus.get(&cpu).filter(|at| at.running == Some(tid)).map(|at| at.since)
    }

    /// Switches from another thread than the one that ran, where no gap tells why.
    pub(super) fn torn(&self) -> u64 {
        self.torn
    }

    /// The bundles that are complete, as messages.
    pub(super) fn ready(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.ready)
    }

    /// Completes all bundles.
    pub(super) fn all(&mut self) {
        for (cpu, at) in &mut self.cpus {
            self.ready.extend(at.take(*cpu));
        }
        self.waiting = 0;
    }

    /// The CPU at a time.
    fn at(&mut self, cpu: u16, time: u64) -> &mut Cpu {
        let Self { cpus, ready, .. } = self;
        let at = cpus.entry(cpu).or_default();
        let mut passed = false;
        while at.gaps.front().is_some_and(|until| *until <= time) {
            at.gaps.pop_front();
            passed = true;
        }
        if passed {
            ready.extend(at.take(cpu));
            at.lost = true;
            at.running = None;
        }
        at
    }

    fn counted(&mut self, cpu: u16) {
        self.waiting += 1;
        let Some(at) = self.cpus.get_mut(&cpu) else { return };
        at.count += 1;
        if at.count >= BUNDLE {
            self.waiting -= at.count.min(self.waiting);
            self.ready.extend(at.take(cpu));
        } else if self.waiting >= WAITING_MAX {
            self.all();
        }
    }
}

impl Cpu {
    fn name(&mut self, comm: Comm) -> u64 {
        let next = self.names.len() as u64;
        let fields = &mut self.name_fields;
        *self.names.entry(comm).or_insert_with(|| {
            bytes(bundle::NAMES, printable(trim(&comm)).as_bytes(), fields);
            next
        })
    }

    fn event(
        &mut self,
        time: u64,
        pid: u32,
        flags: u64,
        of: u64,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        message(bundle::EVENT, &mut self.events, |out| {
            number(event::TIMESTAMP, time, out);
            number(event::PID, u64::from(pid), out);
            if flags != 0 {
                number(event::COMMON_FLAGS, flags, out);
            }
            message(of, out, write);
        });
    }

    /// A wakeup by itself.
    fn wakeup(&mut self, kind: u64, of: &Waking) {
        let (wakee, comm, prio) = of.wakee;
        self.event(of.time, of.waker, of.flags(), kind, |out| {
            bytes(1, printable(trim(&comm)).as_bytes(), out);
            number(2, u64::from(wakee), out);
            number(3, priority(prio), out);
            number(4, 1, out);
            number(5, u64::from(of.target), out);
        });
    }

    /// The bundle of what waits; `None`: nothing does.
    fn take(&mut self, cpu: u16) -> Option<Vec<u8>> {
        if self.count == 0 && self.events.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(self.count * 10 + 64);
        number(bundle::CPU, u64::from(cpu), &mut out);
        if std::mem::take(&mut self.lost) {
            number(bundle::LOST_EVENTS, 1, &mut out);
        }
        out.append(&mut self.events);
        if !self.name_fields.is_empty() {
            let columns = [
                bundle::SWITCH_TIME,
                bundle::SWITCH_STATE,
                bundle::SWITCH_NEXT,
                bundle::SWITCH_PRIO,
                bundle::SWITCH_NAME,
                bundle::WAKING_TIME,
                bundle::WAKING_PID,
                bundle::WAKING_CPU,
                bundle::WAKING_PRIO,
                bundle::WAKING_NAME,
                bundle::WAKING_FLAGS,
            ];
            let values = self.switches.iter_mut().chain(&mut self.wakings);
            message(bundle::COMPACT, &mut out, |out| {
                out.append(&mut self.name_fields);
                for (field, column) in columns.into_iter().zip(values) {
                    if !column.is_empty() {
                        bytes(field, column, out);
                        column.clear();
                    }
                }
            });
        }
        self.names.clear();
        (self.last_switch, self.last_waking, self.count) = (0, 0, 0);
        Some(out)
    }
}
