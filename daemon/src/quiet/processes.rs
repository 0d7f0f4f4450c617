//! Which process a thread is of, and when that began.

use std::collections::HashMap;

use flightrec_format::abi::page::Lane;
use flightrec_format::control::Position;
use flightrec_format::decode::{Body, Page};
use flightrec_format::kept::{ANYONE, YOUNG, YOUNG_NS};
use flightrec_format::live;
use flightrec_format::slots;

/// Most threads that ended and are still known; when there are more, all are forgotten.
const GONE_MOST: usize = 1 << 16;
/// How long a thread that ended is known at least, ns: longer than a busy ring holds.
const GONE_NS: u64 = 30_000_000_000;

/// A thread.
#[derive(Debug, Clone, Copy)]
struct Thread {
    tgid: u32,
    /// `task_struct.start_time`, ns of `CLOCK_MONOTONIC`.
    began: u64,
    /// When it ended; `u64::MAX`: it lives.
    ended: u64,
}

/// The threads that live, and those that ended a short while ago.
#[derive(Debug, Default)]
pub(super) struct Processes {
    alive: HashMap<u32, Thread>,
    gone: HashMap<u32, Thread>,
    /// How far the task lane's rings were read, by CPU.
    read: HashMap<u16, Position>,
}

impl Processes {
    /// Learns what has changed.
    pub(super) fn update(&mut self, live: &live::Recording) {
        for cpu in live.cpus() {
            let lane = Lane::Task as u8;
            let position = *self.read.entry(cpu).or_insert(Position { lane, cpu, seq: 0, used: 0 });
            let mut since = live.behind(&position, live.newest(Lane::Task, cpu));
            while let Some(page) =
                live.page_since(&mut since).and_then(|bytes| Page::new(bytes).ok())
            {
                let header = page.header();
                self.read.insert(cpu, Position { seq: header.seq, used: header.used, ..position });
                self.learn(&page);
            }
        }
        let threads = live.slots().flat_map(|page| slots::read(&page).collect::<Vec<_>>());
        let thread = |slot: flightrec_format::abi::slot::TaskSlot| {
            (slot.tid, Thread { tgid: slot.tgid, began: slot.start_time, ended: u64::MAX })
        };
        self.alive = threads.map(thread).collect();
        let latest = self.gone.values().map(|thread| thread.ended).max().unwrap_or(0);
        self.gone.retain(|_, thread| thread.ended.saturating_add(GONE_NS) > latest);
        if self.gone.len() > GONE_MOST {
            self.gone.clear();
        }
    }

    /// Threads that live, each with its process and when it began, for tests.
    #[cfg(test)]
    pub(super) fn living(threads: impl IntoIterator<Item = (u32, u32, u64)>) -> Self {
        let thread = |(tid, tgid, began)| (tid, Thread { tgid, began, ended: u64::MAX });
        Self { alive: threads.into_iter().map(thread).collect(), ..Self::default() }
    }

    /// Learns what a page of the task lane tells of threads that ended.
    pub(super) fn learn(&mut self, page: &Page) {
        for event in page.events() {
            if let Body::TaskExit(exit) = &event.body {
                let thread = Thread { tgid: exit.tgid, began: exit.start_time, ended: event.time };
                self.gone.insert(exit.tid, thread);
            }
        }
    }

    /// The process of a thread that did something shortly before a moment; [`YOUNG`] where that
    /// began less than [`YOUNG_NS`] before it, [`ANYONE`] where it is not known.
    pub(super) fn of(&self, tid: u32, time: u64) -> u32 {
        let Some(thread) = self.thread(tid, time) else { return ANYONE };
        let leader = if thread.tgid == tid { Some(thread) } else { self.thread(thread.tgid, time) };
        match leader {
            Some(leader) if leader.began.saturating_add(YOUNG_NS) > time => YOUNG,
            _ => thread.tgid,
        }
    }

    fn thread(&self, tid: u32, time: u64) -> Option<Thread> {
        // One that lives may have the id of one that ended.
        let alive = self.alive.get(&tid).copied().filter(|thread| thread.began < time);
        alive.or_else(|| self.gone.get(&tid).copied())
    }
}
