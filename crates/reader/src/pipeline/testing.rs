//! Events for tests, in few words, and numbers to choose them by.

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{
    COPY_MAGIC, DETACHED_SHIFT, HEADER_LEN, Lane, PAGE_SIZE, PageHeader, REFUSALS, UNIT, VERSION,
};
use flightrec_format::abi::record::{
    Abi, Comm, Fork, SHARES_FILES, SHARES_NAME, StringStatus, WakeContext,
};
use flightrec_format::decode::{Body, Call, Event, Text};
use flightrec_format::encode::write_header;
use flightrec_format::meta::Meta;
use flightrec_format::totals::Totals;

use crate::source::{Collector, PageSet};

const S: u64 = 1_000_000_000;

/// Numbers that come again with their seed.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// One below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// One of these, of which there is one at least.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// An event.
pub fn event(time: u64, cpu: u16, tid: u32, body: Body) -> Event {
    Event { time, cpu, tid, body }
}

/// A native call without arguments.
pub fn call(nr: u16) -> Call {
    Call { nr, abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() }
}

/// The entry of a call.
pub fn enter(time: u64, cpu: u16, tid: u32, nr: u16) -> Event {
    event(time, cpu, tid, Body::Enter(call(nr)))
}

/// The exit of a call that returned 0 and has no entry of its own.
pub fn exit(time: u64, cpu: u16, tid: u32, nr: u16) -> Event {
    event(time, cpu, tid, Body::Exit { call: call(nr), ret: 0, entered: None })
}

/// A switch. `prev_state` 0: it was preempted.
pub fn switch(time: u64, cpu: u16, prev: u32, prev_state: u16, next: u32) -> Event {
    let preempted = prev_state == 0;
    event(
        time,
        cpu,
        prev,
        Body::Switch {
            prev_prio: 120,
            prev_state,
            preempted,
            io_wait: false,
            next,
            next_prio: 120,
        },
    )
}

/// A wakeup of a thread that slept interruptibly.
pub fn waking(time: u64, cpu: u16, tid: u32, wakee: u32, wakee_cpu: u16) -> Event {
    event(
        time,
        cpu,
        tid,
        Body::Waking {
            wakee,
            prio: 120,
            state: 1,
            cpu: wakee_cpu,
            new: false,
            context: WakeContext::Thread,
        },
    )
}

/// A migration.
pub fn migrate(time: u64, cpu: u16, tid: u32, thread: u32, from: u16, to: u16) -> Event {
    event(time, cpu, tid, Body::Migrate { thread, prio: 120, from, to })
}

/// A name, filled up with NUL.
pub fn comm(name: &str) -> Comm {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

/// A birth: a thread shares its creator's descriptors, a process has a copy.
pub fn fork(parent_tid: u32, parent_tgid: u32, tid: u32, tgid: u32, name: &str) -> Fork {
    Fork {
        parent_tid,
        parent_tgid,
        tid,
        tgid,
        start_time: 0,
        cgroup: 0,
        comm: comm(name),
        shares: SHARES_NAME | (SHARES_FILES * u64::from(tgid == parent_tgid)),
    }
}

/// A string of an event.
pub fn text(index: u8, status: StringStatus, bytes: &str) -> Text {
    Text { index, status, bytes: bytes.as_bytes().into() }
}

/// A recording of one lane whose pages were opened at these seconds, system calls having been
/// detached for so many until then.
pub fn detached_recording(pages: &[(u64, u64)]) -> PageSet {
    let mut collector = Collector::new(Meta { session: 1, cpus: vec![0], ..Meta::default() });
    for (seq, (time, detached)) in (1..).zip(pages) {
        let header = PageHeader {
            magic: COPY_MAGIC,
            session: 1,
            version: VERSION,
            lane: Lane::Sched as u8,
            flags: 0,
            cpu: 0,
            header_len: HEADER_LEN as u16,
            seq,
            base_mono: time * S,
            base_tai: time * S,
            used: (HEADER_LEN / UNIT) as u32,
            detached: ((detached * S) >> DETACHED_SHIFT) as u32,
            events: Counts::ZERO,
            refused: [0; REFUSALS],
        };
        let mut page = [0; PAGE_SIZE];
        page[..HEADER_LEN].copy_from_slice(&write_header(&header));
        collector.add(&page).unwrap();
    }
    collector.finish(Totals::default())
}
