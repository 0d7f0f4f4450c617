//! Who a thread is: from the table of live threads, and from what is recorded of their lives.

use std::collections::HashMap;

use flightrec_format::abi::record::Comm;
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::decode::{Body, Event, unnamed_call};
use flightrec_format::live;
use flightrec_format::meta::Meta;
use flightrec_format::slots;
use flightrec_store::snapshot::Thread;

/// Most threads that are known at a time.
const THREADS_MOST: usize = 1 << 17;

/// What is known of threads.
#[derive(Debug, Default)]
pub struct Names(HashMap<u32, (u32, Comm)>);

impl Names {
    /// Those that live.
    pub fn of(threads: &[TaskSlot]) -> Self {
        Self(threads.iter().map(|slot| (slot.tid, (slot.tgid, slot.comm))).collect())
    }

    /// Keeps room for a thread, whose name may come.
    pub fn expect(&mut self, tid: u32) {
        self.0.entry(tid).or_insert_with(|| {
            let mut comm = [0; 16];
            comm[0] = b'?';
            (0, comm)
        });
    }

    /// What an event tells.
    pub fn learn(&mut self, event: &Event) {
        let (tid, tgid, comm) = match &event.body {
            Body::Fork(fork) => (fork.tid, fork.tgid, fork.comm),
            Body::Exec { exec, .. } => (exec.tid, exec.tgid, exec.comm),
            Body::Rename(rename) => (rename.tid, rename.tgid, rename.new),
            Body::TaskExit(exit) => (exit.tid, exit.tgid, exit.comm),
            _ => return,
        };
        if self.0.len() < THREADS_MOST || self.0.contains_key(&tid) {
            self.0.insert(tid, (tgid, comm));
        }
    }

    /// A thread, as far as it is known.
    pub fn thread(&self, tid: u32) -> Thread {
        match self.0.get(&tid) {
            Some((tgid, comm)) => Thread { tid, tgid: *tgid, name: text(comm) },
            None => {
                Thread { tid, tgid: 0, name: if tid == 0 { "idle".into() } else { "?".into() } }
            }
        }
    }
}

/// A copy of the table of live threads.
pub fn threads(live: &live::LiveRings) -> Vec<TaskSlot> {
    live.slots().flat_map(|page| slots::read(&page).collect::<Vec<_>>()).collect()
}

/// A name as text: what is no UTF-8 in it is replaced.
pub fn text(comm: &Comm) -> String {
    let name = comm.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// The name of a call, given its number and whether that is of the 32-bit table.
pub fn call(meta: &Meta, nr: u16, compat: bool) -> String {
    let table = if compat { &meta.compat } else { &meta.native };
    let found = table.iter().find(|call| call.nr == nr);
    found.map_or_else(|| unnamed_call(nr).into_owned(), |call| call.name.clone())
}

/// The name of an error.
pub fn error(errno: i32) -> String {
    syscalls::Errno::new(errno).name().map_or_else(|| format!("error {errno}"), str::to_owned)
}
