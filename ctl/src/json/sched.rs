//! Scheduling: switches, wakeups, migrations.

use flightrec_analysis::State;
use flightrec_format::abi::record::{Comm, WakeContext};
use flightrec_reader::names::TASK_STATE;
use flightrec_reader::pipeline::Wake;

use super::value;
use crate::text::names::flags;
use crate::text::number::decimal;

/// A thread in an event of scheduling.
#[derive(Clone, Copy)]
pub(super) struct Thread<'a> {
    pub(super) tid: u32,
    pub(super) comm: &'a Comm,
    pub(super) prio: u8,
}

/// How a thread stopped running.
#[derive(Clone, Copy)]
pub(super) struct Stop {
    pub(super) state: u16,
    pub(super) preempted: bool,
    pub(super) io_wait: bool,
}

/// `,"prev_tid":…,"prev_comm":…,"prev_prio":…,"prev_state":…,"preempted":…,"io_wait":…,
/// "next_tid":…,"next_comm":…,"next_prio":…`
pub(super) fn switch(
    cpu: u16,
    prev: Thread<'_>,
    Stop { state, preempted, io_wait }: Stop,
    next: Thread<'_>,
    out: &mut Vec<u8>,
) {
    thread((b",\"prev_tid\":", b",\"prev_comm\":", b",\"prev_prio\":"), cpu, prev, out);
    out.extend_from_slice(b",\"prev_state\":");
    task_state(state, out);
    out.extend_from_slice(if preempted {
        b",\"preempted\":true".as_slice()
    } else {
        b",\"preempted\":false"
    });
    out.extend_from_slice(if io_wait {
        b",\"io_wait\":true".as_slice()
    } else {
        b",\"io_wait\":false"
    });
    if State::after(state, preempted, next.tid == 0) == State::Held {
        out.extend_from_slice(b",\"gave_way_to_idle\":true");
    }
    thread((b",\"next_tid\":", b",\"next_comm\":", b",\"next_prio\":"), cpu, next, out);
}

/// `,"wakee_tid":…,"wakee_comm":…,"wakee_prio":…,"wakee_cpu":…,"queued_on":…,"slept_in":…,"qlen":…
/// ,"waker_context":…`; `slept_in` `None`: its first wakeup.
pub(super) fn wakeup(
    wake: &Wake,
    wakee: Thread<'_>,
    slept_in: Option<u16>,
    context: WakeContext,
    out: &mut Vec<u8>,
) {
    thread(
        (b",\"wakee_tid\":", b",\"wakee_comm\":", b",\"wakee_prio\":"),
        wake.runs_on,
        wakee,
        out,
    );
    out.extend_from_slice(b",\"wakee_cpu\":");
    decimal(wake.runs_on, out);
    out.extend_from_slice(b",\"queued_on\":");
    decimal(wake.queued_on, out);
    if let Some(state) = slept_in {
        out.extend_from_slice(b",\"slept_in\":");
        task_state(state, out);
    }
    out.extend_from_slice(b",\"qlen\":");
    match wake.qlen {
        Some(length) => decimal(length, out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"waker_context\":\"");
    out.extend_from_slice(context.name().as_bytes());
    out.push(b'"');
}

/// `,"moved_tid":…,"moved_comm":…,"moved_prio":…,"from_cpu":…,"to_cpu":…`
pub(super) fn migrate(moved: Thread<'_>, from: u16, to: u16, out: &mut Vec<u8>) {
    thread((b",\"moved_tid\":", b",\"moved_comm\":", b",\"moved_prio\":"), from, moved, out);
    out.extend_from_slice(b",\"from_cpu\":");
    decimal(from, out);
    out.extend_from_slice(b",\"to_cpu\":");
    decimal(to, out);
}

/// A thread, under these keys, whose lengths are known where they are written.
#[inline]
fn thread<const T: usize, const C: usize>(
    (tid, comm, prio): (&[u8; T], &[u8; C], &[u8; C]),
    cpu: u16,
    thread: Thread<'_>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(tid);
    decimal(thread.tid, out);
    out.extend_from_slice(comm);
    value::thread(thread.tid, cpu, thread.comm, out);
    out.extend_from_slice(prio);
    decimal(thread.prio, out);
}

fn task_state(state: u16, out: &mut Vec<u8>) {
    out.push(b'"');
    flags(&TASK_STATE, u64::from(state), out);
    out.push(b'"');
}
