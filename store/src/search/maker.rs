//! What is in a block, from its pages.

use std::collections::{BTreeMap, BTreeSet};

use flightrec_format::abi::kinds::Unit;
use flightrec_format::decode::{Body, Call, Event, Page};

use super::{BlockEntry, CallKey, CpuEntry};
use crate::block::BlockRef;

/// Greatest number of an error.
const ERRNO_MAX: i64 = 4095;

/// The entry of a block, which has these pages.
pub fn entry<'p>(block: &BlockRef, pages: impl IntoIterator<Item = &'p Page>) -> BlockEntry {
    let mut made = Making::default();
    let mut event = Event::default();
    for page in pages {
        let mut events = page.events();
        while events.read(&mut event) {
            made.take(&event);
        }
    }
    let cpus = made.cpus.into_iter().map(|(cpu, (_, idles, ends_idle))| CpuEntry {
        cpu,
        idles,
        ends_idle,
    });
    BlockEntry {
        offset: block.offset,
        crc: block.header.data_crc,
        kinds: made.kinds,
        threads: made.threads.into_iter().collect(),
        calls: made.calls.into_iter().collect(),
        failures: made.failures.into_iter().collect(),
        cpus: cpus.collect(),
    }
}

#[derive(Default)]
struct Making {
    kinds: u16,
    threads: BTreeSet<u32>,
    /// The thread that was named last: most events are of the one before.
    last: Option<u32>,
    calls: BTreeSet<CallKey>,
    failures: BTreeSet<(CallKey, u16)>,
    /// By CPU: when it switched last, whether it idled, and whether it idles now.
    cpus: BTreeMap<u16, (u64, bool, bool)>,
}

impl Making {
    fn take(&mut self, event: &Event) {
        self.kinds |= 1 << (event.body.kind() as u8 & 0xf);
        self.thread(event.tid);
        match &event.body {
            Body::Enter(call) => self.call(call),
            Body::Exit { call, ret, .. } => {
                self.call(call);
                if (-ERRNO_MAX..0).contains(ret) {
                    self.failures.insert((key(call), ret.unsigned_abs() as u16));
                }
            }
            Body::Switch { next, .. } => {
                self.thread(*next);
                let idle = *next == 0;
                let (time, idles, ends_idle) =
                    self.cpus.entry(event.cpu).or_insert((event.time, false, idle));
                *idles |= idle;
                // Pages of a CPU need not stand in order.
                if event.time >= *time {
                    (*time, *ends_idle) = (event.time, idle);
                }
            }
            Body::Waking { wakee, .. } => self.thread(*wakee),
            Body::Migrate { thread, .. } => self.thread(*thread),
            Body::Fork(fork) => {
                for id in [fork.parent_tid, fork.parent_tgid, fork.tid, fork.tgid] {
                    self.thread(id);
                }
            }
            Body::Exec { exec, .. } => {
                for id in [exec.tid, exec.old_tid, exec.tgid] {
                    self.thread(id);
                }
            }
            Body::Rename(rename) => {
                self.thread(rename.tid);
                self.thread(rename.tgid);
            }
            Body::TaskExit(exit) => {
                self.thread(exit.tid);
                self.thread(exit.tgid);
            }
            Body::Plain(plain) => {
                for unit in [Unit::Thread, Unit::Process] {
                    plain.ids(unit).for_each(|id| self.thread(id));
                }
            }
            Body::Stack(_)
            | Body::Sample(_)
            | Body::IoSubmit { .. }
            | Body::Tracepoint(_)
            | Body::Mark(_)
            | Body::Act(..) => {}
        }
    }

    fn thread(&mut self, tid: u32) {
        if self.last != Some(tid) {
            self.last = Some(tid);
            self.threads.insert(tid);
        }
    }

    fn call(&mut self, call: &Call) {
        self.calls.insert(key(call));
    }
}

fn key(call: &Call) -> CallKey {
    (call.abi as u8, call.nr)
}
