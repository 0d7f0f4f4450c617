//! The model of the scheduling lane: who was current is known, who comes next is who came next
//! before, and priority, state and CPU of a thread are mostly what they were.

use flightrec_format::abi::record::{kind, migrate, switch, wake};

use super::column::Column;
use super::record::Sched;
use super::stream::Stream;
use super::threads::Threads;

/// What a lane of a CPU is at.
#[derive(Debug, Clone, Default)]
pub(super) struct Current {
    /// The thread that runs.
    pub(super) tid: u32,
    /// The thread that was woken last.
    pub(super) wakee: u32,
    /// The kind of the last event.
    pub(super) kind: u8,
}

/// Scheduling events of a block.
pub(super) struct Scheduling {
    /// Usual steps between two events, by their kinds.
    gaps: [u16; 16],
}

impl Scheduling {
    pub(super) fn new() -> Self {
        Self { gaps: [0; 16] }
    }

    /// Codes an event; `now` is the time field that it would have at once.
    pub(super) fn code<S: Stream>(
        &mut self,
        s: &mut S,
        event: &mut Sched,
        current: &mut Current,
        threads: &mut Threads,
        (now, cpu): (u32, u16),
    ) {
        let (at, mask) = flags(event.kind);
        let byte = s.byte(Column::Sched, event.kind & 3 | ((event.word >> at) as u8 & mask) << 2);
        let low = byte & 3;
        event.kind = kind::SWITCH | low;
        let gap = self.gaps.get_mut(usize::from((current.kind & 3) << 2 | low));
        let gap = s.interval(Column::Gap, event.upper.wrapping_sub(now), gap.unwrap_or(&mut 0));
        event.upper = now.wrapping_add(gap);
        current.kind = event.kind;
        match event.kind {
            kind::SWITCH => switched(s, event, current, threads, cpu),
            kind::MIGRATE => migrated(s, event, current, threads, cpu),
            _ => woken(s, event, current, threads),
        }
        let (at, mask) = flags(event.kind);
        event.word |= u64::from(byte >> 2 & mask) << at;
    }
}

/// Where the bits of a word begin that stand beside the kind, and a mask of so many: the context of
/// a wakeup, and whether the thread that stops waits for I/O.
fn flags(kind: u8) -> (u32, u8) {
    match kind {
        kind::SWITCH => (switch::IO_WAIT, 1),
        kind::MIGRATE => (0, 0),
        _ => (wake::CONTEXT, 7),
    }
}

/// Codes a priority, which is mostly the thread's last.
fn priority<S: Stream>(s: &mut S, value: u16, last: &mut u8) -> u16 {
    *last = s.byte(Column::Priority, (value as u8).wrapping_sub(*last)).wrapping_add(*last);
    u16::from(*last)
}

/// Codes a CPU.
fn place<S: Stream>(s: &mut S, cpu: u16, expected: u16) -> u16 {
    s.near(Column::Cpu, u64::from(cpu), u64::from(expected)) as u16
}

/// SWITCH.
fn switched<S: Stream>(
    s: &mut S,
    event: &mut Sched,
    current: &mut Current,
    threads: &mut Threads,
    cpu: u16,
) {
    let (prev, next, state, preempted, _) = switch::unpack(event.word);
    let prev = s.near(Column::Prev, u64::from(prev), u64::from(current.tid)) as u32;
    let before = threads.of(prev).next;
    let next = threads.code(s, next, before, 0);
    let thread = threads.of(prev);
    thread.next = next;
    let how =
        s.near(Column::State, u64::from(state) << 1 | u64::from(preempted), u64::from(thread.left));
    thread.left = how as u32;
    let low = priority(s, event.aux & 0xff, &mut thread.priority);
    let thread = threads.of(next);
    thread.cpu = cpu;
    let high = priority(s, event.aux >> 8, &mut thread.priority);
    event.aux = low | high << 8;
    event.word = switch::pack(prev, next, (how >> 1) as u32, how & 1 != 0, false);
    current.tid = next;
}

/// WAKING and WAKEUP_NEW.
fn woken<S: Stream>(s: &mut S, event: &mut Sched, current: &mut Current, threads: &mut Threads) {
    let (tid, state, cpu, _) = wake::unpack(event.word);
    let before = threads.of(current.tid).wakee;
    let tid = threads.code(s, tid, before, current.wakee);
    threads.of(current.tid).wakee = tid;
    current.wakee = tid;
    let thread = threads.of(tid);
    event.aux = priority(s, event.aux, &mut thread.priority);
    let expected = if event.kind == kind::WAKEUP_NEW { 0 } else { thread.left >> 1 };
    let state = s.near(Column::State, u64::from(state), u64::from(expected)) as u16;
    thread.cpu = place(s, cpu, thread.cpu);
    event.word = wake::pack(tid, u32::from(state), u32::from(thread.cpu), 0);
}

/// MIGRATE.
fn migrated<S: Stream>(
    s: &mut S,
    event: &mut Sched,
    current: &mut Current,
    threads: &mut Threads,
    here: u16,
) {
    let (tid, from, to) = migrate::unpack(event.word);
    let tid = threads.code(s, tid, current.wakee, current.tid);
    let thread = threads.of(tid);
    event.aux = priority(s, event.aux, &mut thread.priority);
    let from = place(s, from, thread.cpu);
    // A thread is drawn to where it is woken, or, of two CPUs, to the other.
    let to = place(s, to, if from == here { here ^ 1 } else { here });
    thread.cpu = to;
    event.word = migrate::pack(tid, u32::from(from), u32::from(to));
}
