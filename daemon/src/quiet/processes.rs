//! Which process a thread is of, and when that began.
//!
//! Ids go round: where 32,768 of them are handed out (`kernel.pid_max`), a storm of threads has
//! used each within seconds. What is known of an id is therefore known of a life, from a birth to
//! an end.

use std::collections::{BTreeMap, HashMap};

use flightrec_format::abi::page::Lane;
use flightrec_format::control::Position;
use flightrec_format::decode::{Body, Page};
use flightrec_format::kept::{ANYONE, YOUNG, YOUNG_NS};
use flightrec_format::live;
use flightrec_format::slots;

/// Most threads that ended and are still known, but for those that ended since it was last looked;
/// when there are more, those that ended first are forgotten.
const GONE_MOST: usize = 1 << 16;
/// How long a thread that ended is known at least, ns: longer than a busy ring holds.
const GONE_NS: u64 = 30_000_000_000;
/// How long after its end a thread may still be switched away from, or wake its parent, ns: no id
/// is used again so soon.
const LAST_NS: u64 = 1_000_000;

/// A thread.
#[derive(Debug, Clone, Copy)]
struct Thread {
    tgid: u32,
    /// `task_struct.start_time`, ns of `CLOCK_MONOTONIC`.
    began: u64,
    /// When it ended; `u64::MAX`: it lives.
    ended: u64,
}

impl Thread {
    /// Whether it may have done something between two moments.
    fn is_of(&self, from: u64, until: u64) -> bool {
        self.began <= until && from <= self.ended.saturating_add(LAST_NS)
    }
}

/// The threads that live, and those that ended a short while ago.
#[derive(Debug, Default)]
pub(super) struct Processes {
    alive: HashMap<u32, Thread>,
    /// By id and birth.
    gone: BTreeMap<(u32, u64), Thread>,
    /// When so many have ended, the oldest are forgotten.
    forget_at: usize,
    /// How far the task lane's rings were read, by CPU.
    read: HashMap<u16, Position>,
}

impl Processes {
    /// Learns what has changed.
    pub(super) fn update(&mut self, live: &live::LiveRings) {
        for cpu in live.cpus() {
            let lane = Lane::Task as u8;
            let position = *self.read.entry(cpu).or_insert(Position { lane, cpu, seq: 0, used: 0 });
            let mut since = live.after(&position, live.newest(Lane::Task, cpu));
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
        self.forget();
    }

    /// Forgets threads that ended long ago, now and then.
    fn forget(&mut self) {
        if self.gone.len() < self.forget_at {
            return;
        }
        let mut ends: Vec<u64> = self.gone.values().map(|thread| thread.ended).collect();
        let latest = ends.iter().copied().max().unwrap_or(0);
        let mut since = latest.saturating_sub(GONE_NS);
        if let Some(excess) = ends.len().checked_sub(GONE_MOST + 1) {
            let (_, last, _) = ends.select_nth_unstable(excess);
            since = since.max(*last);
        }
        self.gone.retain(|_, thread| thread.ended > since);
        // What is looked at is as much as has come since.
        self.forget_at = self.gone.len() + GONE_MOST / 8;
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
                self.gone.insert((exit.tid, exit.start_time), thread);
            }
        }
    }

    /// The process of a thread that did something between two moments; [`YOUNG`] where that began
    /// less than [`YOUNG_NS`] before `now`, [`ANYONE`] where it is not known, or the id was that of
    /// several meanwhile.
    pub(super) fn of(&self, tid: u32, from: u64, until: u64, now: u64) -> u32 {
        let process = |thread: &Thread| {
            let mut leaders = self.bearers(thread.tgid, from, until);
            let is_young = leaders.any(|leader| leader.began.saturating_add(YOUNG_NS) > now);
            if is_young { YOUNG } else { thread.tgid }
        };
        let mut all = self.bearers(tid, from, until).map(process);
        let first = all.next();
        first.filter(|first| all.all(|of| of == *first)).unwrap_or(ANYONE)
    }

    /// The threads that had an id between two moments.
    fn bearers(&self, tid: u32, from: u64, until: u64) -> impl Iterator<Item = &Thread> {
        let gone = self.gone.range((tid, 0)..=(tid, until)).map(|(_, thread)| thread);
        self.alive.get(&tid).into_iter().chain(gone).filter(move |of| of.is_of(from, until))
    }
}
