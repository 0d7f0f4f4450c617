//! Scheduling: switches, wakeups, migrations.

use flightrec_analysis::State;
use flightrec_format::abi::record::{Comm, WakeContext};
use flightrec_reader::names::{Priority, TASK_STATE};

use super::Wake;
use super::names::flags;
use super::number::decimal;
use super::paint::Paint;
use super::thread;

/// The state that a thread was in when it stopped running.
pub(super) struct Stop {
    pub(super) state: u16,
    pub(super) preempted: bool,
    /// Whether it waits for I/O.
    pub(super) io_wait: bool,
    /// Whether the CPU idles from then on.
    pub(super) idles: bool,
}

/// `mysqld[n:-5] <-- TASK_INTERRUPTIBLE`
pub(super) fn out_of(
    paint: Paint,
    (cpu, tid): (u16, u32),
    comm: &Comm,
    prio: u8,
    stop: &Stop,
    out: &mut Vec<u8>,
) {
    thread(cpu, tid, comm, out);
    priority(prio, out);
    out.extend_from_slice(b" <-- ");
    let left = State::after(stop.state, stop.preempted, stop.idles);
    let is_stuck = left.is_uninterruptible();
    if is_stuck {
        paint.stuck(out);
    }
    flags(&TASK_STATE, u64::from(stop.state), out);
    if stop.io_wait {
        out.extend_from_slice(b" (I/O wait)");
    }
    if is_stuck {
        paint.end(out);
    }
    if left == State::Held {
        out.extend_from_slice(b" (gave way to idle)");
    } else if stop.preempted {
        out.extend_from_slice(b" (preempted)");
    }
}

/// `swapper/0[n:0] -->`
pub(super) fn into(cpu: u16, tid: u32, comm: &Comm, prio: u8, out: &mut Vec<u8>) {
    thread(cpu, tid, comm, out);
    priority(prio, out);
    out.extend_from_slice(b" -->");
}

/// What a wakeup's line begins with: whether it is a new thread's first, and what the CPU was doing
/// unless it ran the line's thread.
pub(super) fn wakeup_word(new: bool, context: WakeContext) -> &'static [u8] {
    match (new, context) {
        (false, WakeContext::Thread) => b"(RUNQ) #",
        (false, WakeContext::Softirq) => b"(RUNQ softirq) #",
        (false, WakeContext::Hardirq) => b"(RUNQ hardirq) #",
        (false, WakeContext::Nmi) => b"(RUNQ nmi) #",
        (false, WakeContext::Unknown) => b"(RUNQ ?) #",
        (true, WakeContext::Thread | WakeContext::Unknown) => b"(RUNQ new) #",
        (true, WakeContext::Softirq) => b"(RUNQ new softirq) #",
        (true, WakeContext::Hardirq) => b"(RUNQ new hardirq) #",
        (true, WakeContext::Nmi) => b"(RUNQ new nmi) #",
    }
}

/// `(RUNQ) #7 8883 TP09[n:-5] qlen:0`
pub(super) fn wakeup(
    word: &[u8],
    wake: &Wake,
    wakee: u32,
    comm: &Comm,
    prio: u8,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(word);
    decimal(wake.queued_on, out);
    if wake.runs_on != wake.queued_on {
        out.push(b'>');
        decimal(wake.runs_on, out);
    }
    named(wake.runs_on, wakee, comm, prio, out);
    out.extend_from_slice(b" qlen:");
    match wake.qlen {
        Some(length) => decimal(length, out),
        None => out.push(b'?'),
    }
}

/// `(MIGRATE) 8883 TP09[n:0] #1>#3`
pub(super) fn migrate(moved: u32, comm: &Comm, prio: u8, from: u16, to: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"(MIGRATE)");
    named(from, moved, comm, prio, out);
    out.extend_from_slice(b" #");
    decimal(from, out);
    out.extend_from_slice(b">#");
    decimal(to, out);
}

/// ` 8883 TP09[n:-5]`
fn named(cpu: u16, tid: u32, comm: &Comm, prio: u8, out: &mut Vec<u8>) {
    out.push(b' ');
    decimal(tid, out);
    out.push(b' ');
    thread(cpu, tid, comm, out);
    priority(prio, out);
}

/// `[n:-5]`, `[r:50]`, `[d]`
fn priority(prio: u8, out: &mut Vec<u8>) {
    out.push(b'[');
    match Priority::from_event(prio) {
        Priority::Nice(value) => {
            out.extend_from_slice(b"n:");
            decimal(value, out);
        }
        Priority::RealTime(value) => {
            out.extend_from_slice(b"r:");
            decimal(value, out);
        }
        Priority::Deadline => out.push(b'd'),
    }
    out.push(b']');
}
