//! What was spent on what: the probes' counters × what an event costs, and the daemon's own CPU
//! clock.

use std::collections::VecDeque;

use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::abi::record::kind;
use flightrec_format::control::{CpuTotals, SPANS, Spent};

use crate::calibrate::Costs;

/// How long a sample lasts, and how many there are: the last minute.
const SAMPLE: u64 = 1_000_000_000;
const SAMPLES: usize = 61;

/// Events of a CPU, as its probes have counted them since the recording began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries and exits recorded.
    pub call_events: u64,
    /// Entries and exits that were not: refused by the budget, or the recorder's own.
    pub other_call_events: u64,
    /// Strings recorded.
    pub strings: u64,
    /// Scheduling events recorded, but for stacks.
    pub sched: u64,
    /// What taking stacks cost, ns: the probes measure that themselves.
    pub stack_time: u64,
    /// Scheduling events refused.
    pub other_sched: u64,
    /// Events of requests to disks recorded.
    pub disk: u64,
    /// Events of requests to disks refused.
    pub other_disk: u64,
    /// Interrupts and waits for locks that were looked at in vain: too short to be recorded.
    pub looked: u64,
}

impl Counts {
    /// From a CPU's totals.
    pub fn of(cpu: &CpuTotals) -> Self {
        let [calls, sched, _, disk] = &cpu.events;
        let refused = |lane: Lane, reason: Refusal| {
            cpu.refused
                .get(lane as usize)
                .and_then(|of| of.get(reason as usize))
                .copied()
                .unwrap_or(0)
        };
        Self {
            call_events: calls.of(kind::ENTER) + calls.of(kind::EXIT),
            other_call_events: refused(Lane::Syscall, Refusal::Throttled)
                + refused(Lane::Syscall, Refusal::Own),
            strings: cpu.strings,
            sched: sched.iter().sum::<u64>().saturating_sub(sched.of(kind::STACK)),
            stack_time: cpu.stack_time,
            other_sched: refused(Lane::Sched, Refusal::Throttled),
            disk: disk.iter().sum(),
            other_disk: refused(Lane::Kernel, Refusal::Throttled),
            looked: cpu.looked,
        }
    }

    /// What came since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            call_events: self.call_events.saturating_sub(before.call_events),
            other_call_events: self.other_call_events.saturating_sub(before.other_call_events),
            strings: self.strings.saturating_sub(before.strings),
            sched: self.sched.saturating_sub(before.sched),
            stack_time: self.stack_time.saturating_sub(before.stack_time),
            other_sched: self.other_sched.saturating_sub(before.other_sched),
            disk: self.disk.saturating_sub(before.disk),
            other_disk: self.other_disk.saturating_sub(before.other_disk),
            looked: self.looked.saturating_sub(before.looked),
        }
    }

    /// What they cost, with `given` up (`GIVEN_…` bits).
    pub fn cost(&self, costs: &Costs, given: u32) -> Spent {
        let each = |n: u64, ns: u32| n.saturating_mul(u64::from(ns));
        // An entry and an exit are a call.
        let call = costs.call_with(given) - costs.call_floor;
        let calls = self.call_events.saturating_add(self.other_call_events);
        let sched = self.sched.saturating_add(self.other_sched);
        let disk = self.disk.saturating_add(self.other_disk);
        Spent {
            calls: each(self.call_events, call) / 2,
            strings: each(self.strings, costs.string),
            sched: each(self.sched, costs.sched.saturating_sub(costs.sched_floor))
                .saturating_add(self.stack_time),
            disk: each(self.disk, costs.disk.saturating_sub(costs.disk_floor)),
            floor: (each(calls, costs.call_floor) / 2)
                .saturating_add(each(sched, costs.sched_floor))
                .saturating_add(each(disk, costs.disk_floor))
                .saturating_add(each(self.looked, costs.look())),
        }
    }
}

/// All of it.
pub fn sum(spent: &Spent) -> u64 {
    let Spent { calls, strings, sched, disk, floor } = *spent;
    [calls, strings, sched, disk, floor].into_iter().fold(0, u64::saturating_add)
}

/// Sums since the daemon began, at one moment.
#[derive(Debug, Clone, Default)]
struct Sample {
    time: u64,
    cpus: Vec<Spent>,
    daemon: [u64; 3],
}

/// What was spent, over some spans of time.
#[derive(Debug)]
pub struct Account {
    /// Until now.
    sums: Sample,
    /// About a second apart; the first is the daemon's beginning.
    samples: VecDeque<Sample>,
    began: Sample,
}

impl Account {
    /// Begins at `now`, when the daemon had used so much CPU time: the drain, all else, and answers
    /// to clients.
    pub fn new(now: u64, cpus: usize, daemon: [u64; 3]) -> Self {
        let began = Sample { time: now, cpus: vec![Spent::default(); cpus], daemon };
        Self { sums: began.clone(), samples: [began.clone()].into(), began }
    }

    /// Enters what CPUs have spent until `now`, and the daemon's CPU time as it is now.
    pub fn enter(&mut self, now: u64, cpus: &[Spent], daemon: [u64; 3]) {
        for (sum, more) in self.sums.cpus.iter_mut().zip(cpus) {
            *sum = Spent {
                calls: sum.calls.saturating_add(more.calls),
                strings: sum.strings.saturating_add(more.strings),
                sched: sum.sched.saturating_add(more.sched),
                disk: sum.disk.saturating_add(more.disk),
                floor: sum.floor.saturating_add(more.floor),
            };
        }
        (self.sums.time, self.sums.daemon) = (now, daemon);
        if self.samples.back().is_none_or(|last| now.saturating_sub(last.time) >= SAMPLE) {
            self.samples.push_back(self.sums.clone());
            if self.samples.len() > SAMPLES {
                self.samples.pop_front();
            }
        }
    }

    /// Lengths of the spans (the last second or two, the last minute, since the daemon began), what
    /// each CPU spent in them, and the daemon.
    pub fn spans(&self) -> ([u64; SPANS], Vec<[Spent; SPANS]>, [[u64; 3]; SPANS]) {
        // The newest sample that is a second old: not the last one where that has just been taken.
        let now = self.sums.time;
        let old = |sample: &&Sample| now.saturating_sub(sample.time) >= SAMPLE;
        let recent =
            self.samples.iter().rev().find(old).or(self.samples.front()).unwrap_or(&self.began);
        let minute = self.samples.front().unwrap_or(&self.began);
        let starts = [recent, minute, &self.began];
        let length = starts.map(|start| now.saturating_sub(start.time));
        let of_cpu = |(i, sum): (usize, &Spent)| {
            starts.map(|start| {
                let before = start.cpus.get(i).copied().unwrap_or_default();
                Spent {
                    calls: sum.calls.saturating_sub(before.calls),
                    strings: sum.strings.saturating_sub(before.strings),
                    sched: sum.sched.saturating_sub(before.sched),
                    disk: sum.disk.saturating_sub(before.disk),
                    floor: sum.floor.saturating_sub(before.floor),
                }
            })
        };
        let daemon = starts.map(|start| {
            let [drain, rest, readers] = self.sums.daemon;
            let [drain_then, rest_then, readers_then] = start.daemon;
            [
                drain.saturating_sub(drain_then),
                rest.saturating_sub(rest_then),
                readers.saturating_sub(readers_then),
            ]
        });
        (length, self.sums.cpus.iter().enumerate().map(of_cpu).collect(), daemon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flightrec_format::abi::state::GIVEN_EXIT_TIMES;

    const COSTS: Costs = Costs {
        call: 260,
        exit_time: 30,
        call_floor: 140,
        sched_floor: 100,
        disk: 200,
        disk_floor: 90,
        ..Costs::ASSUMED
    };
    const S: u64 = 1_000_000_000;

    fn recorded(events: [u64; 4]) -> flightrec_format::abi::counts::Counts {
        flightrec_format::abi::counts::Counts::first(events)
    }

    #[test]
    fn events_times_what_one_costs() {
        let cpu = CpuTotals {
            events: [
                recorded([100, 98, 0, 0]),
                {
                    let mut sched = recorded([7, 5, 1, 2]);
                    (0..3).for_each(|_| sched.count(kind::STACK));
                    sched
                },
                recorded([9; 4]),
                recorded([3, 3, 3, 0]),
            ],
            refused: [[4, 20, 2], [1, 6, 0], [0; 3], [2, 4, 0]],
            strings: 10,
            stack_time: 7000,
            looked: 6,
            ..CpuTotals::default()
        };
        let counts = Counts::of(&cpu);
        let want = Counts {
            call_events: 198,
            other_call_events: 22,
            strings: 10,
            sched: 15,
            stack_time: 7000,
            other_sched: 6,
            disk: 9,
            other_disk: 4,
            looked: 6,
        };
        assert_eq!(counts, want);
        let spent = counts.cost(&COSTS, 0);
        let floor = 110 * 140 + 21 * 100 + 13 * 90 + 6 * 2 * 90;
        let sched = 15 * 74 + 7000;
        assert_eq!(spent, Spent { calls: 99 * 120, strings: 1150, sched, disk: 9 * 110, floor });
        assert_eq!(counts.cost(&COSTS, GIVEN_EXIT_TIMES).calls, 99 * 90);
        assert_eq!(counts.since(&counts), Counts::default());
    }

    #[test]
    fn spans_of_time() {
        let mut account = Account::new(10 * S, 1, [5, 7, 1]);
        for quarter in 1..=400 {
            let spent = Spent { floor: 1, ..Spent::default() };
            account.enter(10 * S + quarter * S / 4, &[spent], [5 + quarter, 7, 1 + 2 * quarter]);
        }
        let (lengths, cpus, daemon) = account.spans();
        assert_eq!(lengths, [S, 60 * S, 100 * S]);
        assert_eq!(cpus[0].map(|spent| spent.floor), [4, 240, 400]);
        assert_eq!(daemon, [[4, 0, 8], [240, 0, 480], [400, 0, 800]]);
    }

    #[test]
    fn a_daemon_that_has_just_begun() {
        let mut account = Account::new(10 * S, 1, [0; 3]);
        account.enter(10 * S + S / 4, &[Spent { sched: 3, ..Spent::default() }], [0; 3]);
        let (lengths, cpus, _) = account.spans();
        assert_eq!(lengths, [S / 4; 3]);
        assert_eq!(cpus[0].map(|spent| spent.sched), [3; 3]);
    }
}
