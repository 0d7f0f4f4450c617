//! Who ran on which CPU, and between which CPUs a runnable thread moved.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::Interval;

/// Runs that are remembered, of all CPUs together, and of one CPU at least and at most.
const RUNS_MAX: usize = 1 << 18;
const CPU_RUNS_MIN: usize = 64;
const CPU_RUNS_MAX: usize = if cfg!(test) { 100 } else { 1 << 14 };
/// CPUs of which runs are remembered.
const CPUS_MAX: usize = 4096;
/// Moves that are remembered of a thread that waits for a CPU.
const MOVES_MAX: usize = 64;

/// Who ran while a thread waited for a CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ran {
    /// Threads, each for how many ns, the one that ran first met last. A thread may be there more
    /// than once.
    pub threads: Vec<(u32, u64)>,
    /// ns of which it is not known who ran: too many threads ran since, or the waiting thread moved
    /// too often. In the rest of the time the CPU was idle, or served an interrupt of the idle
    /// thread.
    pub unknown_ns: u64,
}

/// A thread had a CPU.
#[derive(Debug, Clone, Copy)]
struct Run {
    tid: u32,
    from: u64,
    until: u64,
}

/// Who ran on a CPU.
#[derive(Debug, Default)]
struct Cpu {
    /// Runs that are over, in the order in which they ended.
    runs: VecDeque<Run>,
    /// Who runs, and since when.
    running: Option<(u32, u64)>,
    /// Runs that ended before are not remembered any longer.
    forgotten: u64,
}

/// Who ran on each CPU, as far as it is remembered.
#[derive(Debug, Default)]
pub(super) struct Runs {
    cpus: FxHashMap<u16, Cpu>,
}

impl Runs {
    fn cpu(&mut self, cpu: u16) -> Option<&mut Cpu> {
        if self.cpus.len() >= CPUS_MAX && !self.cpus.contains_key(&cpu) {
            return None;
        }
        Some(self.cpus.entry(cpu).or_default())
    }

    /// A thread was switched in; 0: the idle one.
    pub(super) fn begin(&mut self, cpu: u16, tid: u32, time: u64) {
        if let Some(of) = self.cpu(cpu) {
            of.running = (tid != 0).then_some((tid, time));
        }
    }

    /// A thread's run is over.
    pub(super) fn end(&mut self, interval: &Interval) {
        let Interval { tid, from, until, cpu, .. } = *interval;
        let most = (RUNS_MAX / self.cpus.len().max(1)).clamp(CPU_RUNS_MIN, CPU_RUNS_MAX);
        let Some(of) = self.cpu(cpu) else { return };
        of.running = of.running.filter(|(running, _)| *running != tid);
        if from >= until {
            return;
        }
        while of.runs.len() >= most {
            let gone = of.runs.pop_front().map_or(0, |run| run.until);
            of.forgotten = of.forgotten.max(gone);
        }
        of.runs.push_back(Run { tid, from, until });
    }

    /// It is not known who runs on a CPU.
    pub(super) fn lose(&mut self, cpu: u16) {
        if let Some(of) = self.cpus.get_mut(&cpu) {
            of.running = None;
        }
    }

    /// Adds who ran on a CPU between two moments.
    pub(super) fn add(&self, cpu: Option<u16>, (from, until): (u64, u64), to: &mut Ran) {
        let length = until.saturating_sub(from);
        let Some(of) = cpu.and_then(|cpu| self.cpus.get(&cpu)) else {
            // Of a CPU of which nothing is known, and of one of which no event came at all.
            to.unknown_ns = to.unknown_ns.saturating_add(length);
            return;
        };
        let forgotten = of.forgotten.min(until).saturating_sub(from);
        to.unknown_ns = to.unknown_ns.saturating_add(forgotten);
        let from = from.max(of.forgotten);
        let running = of.running.map(|(tid, from)| Run { tid, from, until: u64::MAX });
        let over = of.runs.iter().rev().take_while(|run| run.until > from).copied();
        for run in running.into_iter().chain(over) {
            let ns = run.until.min(until).saturating_sub(run.from.max(from));
            if ns != 0 {
                to.threads.push((run.tid, ns));
            }
        }
    }
}

/// Between which CPUs a thread moved while it was runnable.
#[derive(Debug, Clone, Default)]
pub(super) struct Moves {
    /// When, from where, to where.
    moves: Vec<(u64, u16, u16)>,
    /// There were more before.
    is_cut: bool,
}

impl Moves {
    pub(super) fn add(&mut self, time: u64, from: u16, to: u16) {
        if self.moves.len() >= MOVES_MAX {
            self.moves.remove(0);
            self.is_cut = true;
        }
        self.moves.push((time, from, to));
    }

    /// For which CPUs it waited between two moments, each from when until when; `None`: it is not
    /// known for which. `last`: for which it waited at the end.
    pub(super) fn cpus(
        &self,
        last: u16,
        from: u64,
        until: u64,
    ) -> impl Iterator<Item = (Option<u16>, u64, u64)> + '_ {
        let first = self
            .moves
            .first()
            .map_or(Some(last), |(_, from, _)| if self.is_cut { None } else { Some(*from) });
        let begins = std::iter::once((0, first))
            .chain(self.moves.iter().map(|(time, _, to)| (*time, Some(*to))));
        let ends = self.moves.iter().map(|(time, ..)| *time).chain([u64::MAX]);
        begins.zip(ends).filter_map(move |((begin, cpu), end)| {
            let (begin, end) = (begin.max(from), end.min(until));
            (begin < end).then_some((cpu, begin, end))
        })
    }
}
