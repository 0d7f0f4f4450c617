//! Events for tests, in few words.

use flightrec_format::abi::record::{Abi, Comm, Fork, StringStatus};
use flightrec_format::decode::{Body, Call, Event, Text};

pub(crate) fn event(time: u64, cpu: u16, tid: u32, body: Body) -> Event {
    Event { time, cpu, tid, body }
}

pub(crate) fn call(nr: u16) -> Call {
    Call { nr, abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() }
}

pub(crate) fn enter(time: u64, cpu: u16, tid: u32, nr: u16) -> Event {
    event(time, cpu, tid, Body::Enter(call(nr)))
}

pub(crate) fn exit(time: u64, cpu: u16, tid: u32, nr: u16) -> Event {
    event(time, cpu, tid, Body::Exit { call: call(nr), ret: 0, entered: None })
}

/// `prev_state` 0: it was preempted.
pub(crate) fn switch(time: u64, cpu: u16, prev: u32, prev_state: u16, next: u32) -> Event {
    let preempted = prev_state == 0;
    event(
        time,
        cpu,
        prev,
        Body::Switch { prev_prio: 120, prev_state, preempted, next, next_prio: 120 },
    )
}

pub(crate) fn waking(time: u64, cpu: u16, tid: u32, wakee: u32, wakee_cpu: u16) -> Event {
    event(time, cpu, tid, Body::Waking { wakee, prio: 120, state: 1, cpu: wakee_cpu, new: false })
}

pub(crate) fn migrate(time: u64, cpu: u16, tid: u32, thread: u32, from: u16, to: u16) -> Event {
    event(time, cpu, tid, Body::Migrate { thread, prio: 120, from, to })
}

pub(crate) fn comm(name: &str) -> Comm {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

pub(crate) fn fork(parent_tid: u32, parent_tgid: u32, tid: u32, tgid: u32, name: &str) -> Fork {
    Fork { parent_tid, parent_tgid, tid, tgid, start_time: 0, cgroup: 0, comm: comm(name) }
}

pub(crate) fn text(index: u8, status: StringStatus, bytes: &str) -> Text {
    Text { index, status, bytes: bytes.as_bytes().into() }
}
