//! Which processes' events the quiet ring left out, and when.
//!
//! Where the quiet ring stands in for a ring that was written over, busy processes are missing for
//! a time while others are whole. What is concluded from one event about another of the same thread
//! (which entry an exit is of, where a wakee runs) holds for those others alone; and whether a
//! window is complete depends on who is asked for.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Body;
use flightrec_format::kept::{ANYONE, LeftOut, YOUNG};
use flightrec_format::merge::Merge;

use crate::source::Recording;

/// A thread, as far as it tells what was left out of it.
#[derive(Debug, Clone, Copy)]
struct Thread {
    tgid: u32,
    /// When it began, ns of `CLOCK_MONOTONIC`; 0: not known.
    began: u64,
}

/// What was left out of a recording.
#[derive(Debug, Default)]
pub struct LeftOuts {
    /// By process; [`ANYONE`] and [`YOUNG`] stand for more.
    stretches: FxHashMap<u32, Vec<(u64, u64)>>,
    /// Of the lane `sched`, by CPU.
    scheduling: FxHashMap<u16, Vec<(u64, u64)>>,
    threads: FxHashMap<u32, Thread>,
}

impl LeftOuts {
    /// Of a recording; `None`: nothing.
    pub fn of(recording: &Recording) -> Option<Arc<Self>> {
        let mut left_outs = Self::default();
        for stream in &recording.streams {
            for LeftOut { process, from, until, .. } in stream.left_out() {
                left_outs.stretches.entry(process).or_default().push((from, until));
                if stream.lane() == Lane::Sched {
                    left_outs.scheduling.entry(stream.cpu()).or_default().push((from, until));
                }
            }
        }
        if left_outs.stretches.is_empty() {
            return None;
        }
        left_outs.stretches.values_mut().for_each(merge);
        left_outs.scheduling.values_mut().for_each(merge);
        for slot in &recording.slots {
            left_outs.threads.insert(slot.tid, Thread { tgid: slot.tgid, began: slot.start_time });
        }
        let task = recording.streams.iter().filter(|stream| stream.lane() == Lane::Task);
        for event in Merge::new(task.map(|stream| stream.events())) {
            let (tid, thread) = match &event.body {
                Body::Fork(fork) => (fork.tid, Thread { tgid: fork.tgid, began: event.time }),
                Body::TaskExit(exit) => {
                    (exit.tid, Thread { tgid: exit.tgid, began: exit.start_time })
                }
                _ => continue,
            };
            left_outs.threads.entry(tid).or_insert(thread);
        }
        Some(Arc::new(left_outs))
    }

    /// Whether events of a thread may be left out between two moments.
    pub fn has(&self, tid: u32, from: u64, until: u64) -> bool {
        let of = |process: u32| {
            self.stretches.get(&process).and_then(|stretches| within(stretches, from, until))
        };
        let Some(thread) = self.threads.get(&tid) else {
            return self
                .stretches
                .values()
                .any(|stretches| within(stretches, from, until).is_some());
        };
        let leader = self.threads.get(&thread.tgid).map_or(0, |leader| leader.began);
        let is_young = |(begins, _): (u64, u64)| leader == 0 || leader >= begins;
        of(thread.tgid).is_some() || of(ANYONE).is_some() || of(YOUNG).is_some_and(is_young)
    }

    /// Whether scheduling events of a CPU are left out around a moment.
    pub fn has_scheduling(&self, cpu: u16, time: u64) -> bool {
        let stretches = self.scheduling.get(&cpu);
        stretches.is_some_and(|stretches| within(stretches, time, time.saturating_add(1)).is_some())
    }

    /// When the process began, if it is known.
    pub fn began(&self, process: u32) -> Option<u64> {
        self.threads.get(&process).map(|thread| thread.began).filter(|began| *began != 0)
    }

    /// The process of a thread, if it is known.
    pub fn process(&self, tid: u32) -> Option<u32> {
        self.threads.get(&tid).map(|thread| thread.tgid)
    }

    /// The threads that are known of a process.
    pub fn threads(&self, process: u32) -> impl Iterator<Item = u32> + '_ {
        self.threads.iter().filter(move |(_, thread)| thread.tgid == process).map(|(tid, _)| *tid)
    }
}

/// Adds what was left out of the next stretch of a recording: what began in one may end in the
/// next.
pub fn learn(known: &mut Vec<Arc<LeftOuts>>, next: &Arc<LeftOuts>) {
    if known.len() == 2 {
        known.remove(0);
    }
    known.push(next.clone());
}

/// Sorts stretches of time, and makes one of those that touch.
fn merge(stretches: &mut Vec<(u64, u64)>) {
    stretches.sort_unstable();
    stretches.dedup_by(|next, before| {
        let touches = next.0 <= before.1;
        if touches {
            before.1 = before.1.max(next.1);
        }
        touches
    });
}

/// The first of some stretches, merged, that has a moment of another.
fn within(stretches: &[(u64, u64)], from: u64, until: u64) -> Option<(u64, u64)> {
    let at = stretches.partition_point(|(_, end)| *end <= from);
    stretches.get(at).copied().filter(|(begin, _)| *begin < until)
}
