//! When to degrade, and when to go back: a model, without a clock or the kernel.
//!
//! What calls would cost at every step is known at any time, since the probes count refused ones as
//! well. So a CPU goes down to the first step that fits when its bucket has been spent, and up
//! again when the step above would have fitted well for a while: it does not have to try.
//!
//! The total is a bucket of its own. When it has been spent, the CPUs that cost most are held to
//! what is fair. Where the probe overhead alone is more than that, system calls are detached: then
//! they are attached for a short slice whenever the bucket holds enough for one, and a slice that
//! costs little ends it.

use crate::buckets::{for_calls, for_sched, least};
use crate::calibrate::Costs;
use crate::config::Step;

/// A bucket with less than this part of what it can hold is spent.
const SPENT: f64 = 0.25;
/// The total's bucket is well again with more than this.
const WELL: f64 = 0.5;
/// A step is taken back when what it would cost is within this part of the limit, for so long (s).
const ROOM: f64 = 0.8;
const HOLD: f64 = 5.0;
/// How fast what is seen counts, s.
const SMOOTH: f64 = 1.0;
/// What the probes may take at least of the total, however much the daemon itself takes.
const PROBES: f64 = 0.25;
/// How long system calls are attached at a time, at least, and how long they are detached, s.
const SLICE: f64 = 0.1;
const APART: f64 = 0.5;
/// A slice that has lasted so long, s, shows that calls can stay attached.
const STAYS: f64 = 1.0;

/// What is limited.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Of each CPU, ns a second; `None`: no limit.
    pub per_cpu: Option<f64>,
    /// Of the machine, ns a second of all CPUs together; `None`: no limit.
    pub total: Option<f64>,
    /// Seconds of unspent allowance that may be spent at once.
    pub burst: f64,
    /// Steps that may be taken, in order.
    pub order: Vec<Step>,
    /// Whether system calls may be detached.
    pub detach: bool,
}

/// What one CPU did since the last look.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sight {
    /// System calls, recorded or not.
    pub calls: f64,
    /// Of these, refused.
    pub refused: f64,
    /// Calls recorded while strings were, and the strings of these.
    pub with_strings: (f64, f64),
    /// Scheduling events, recorded or not.
    pub sched: f64,
    /// Events of requests to disks, recorded or not.
    pub disk: f64,
    /// What taking stacks cost, ns; `None`: none were to be taken.
    pub stacks: Option<f64>,
    /// Interrupts and waits for locks that were looked at in vain.
    pub looked: f64,
    /// How full its bucket for scheduling is, from 0 to 1.
    pub sched_full: f64,
    /// How full its bucket for calls is, from 0 to 1.
    pub full: f64,
}

/// What one CPU is to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rung {
    /// Steps of the order that are taken, of those that are of system calls.
    pub level: usize,
    /// Whether those that are of scheduling are taken ([`Step::is_of_scheduling`]).
    pub thin: bool,
    /// CPU time that its probes may take, ns a second; `None`: no limit.
    pub limit: Option<f64>,
    /// What refused calls cost it, ns a second.
    pub refused: f64,
    /// What is left to its calls in any case, ns a second.
    pub least: f64,
}

/// Whether system calls are attached.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Duty {
    /// All the time.
    Whole,
    /// Detached for so long, until the total's bucket holds so much, s and ns.
    Off { since: f64, need: f64 },
    /// Attached for so long, having spent so much, of it on probe overhead; s and ns.
    On { since: f64, spent: f64, floor: f64 },
}

/// What a CPU usually does.
#[derive(Debug, Clone, Copy, Default)]
struct Usual {
    /// A second.
    calls: f64,
    refused: f64,
    sched: f64,
    disk: f64,
    looked: f64,
    /// Strings of a call.
    strings: f64,
    /// What stacks cost for each event of scheduling, ns.
    stacks: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    level: usize,
    usual: Usual,
    full: f64,
    /// For how long the step above would have fitted, s.
    fits: f64,
    /// As of the steps of scheduling: whether they are taken, how full its bucket is, and for how
    /// long all would have fitted, s.
    thin: bool,
    sched_full: f64,
    sched_fits: f64,
}

/// The state of the model.
#[derive(Debug)]
pub struct Ladder {
    cpus: Vec<Cpu>,
    /// What may be spent of the total, ns.
    left: f64,
    /// Whether the total's bucket has been spent, and for how long all would have fitted since, s.
    capped: Option<f64>,
    duty: Duty,
    /// The daemon's CPU time, ns a second.
    daemon: f64,
}

impl Ladder {
    /// For CPUs that are at these levels, those of system calls and of scheduling ([`Rung`]). A
    /// recording that begins may spend a burst's worth at once.
    pub fn new(levels: &[(usize, bool)], limits: &Limits, begins: bool) -> Self {
        let at = |(level, thin): &(usize, bool)| Cpu {
            level: *level,
            full: 1.0,
            thin: *thin,
            sched_full: 1.0,
            ..Cpu::default()
        };
        let cpus = levels.iter().map(at).collect();
        let left = if begins { limits.total.unwrap_or(0.0) * limits.burst } else { 0.0 };
        Self { cpus, left, capped: None, duty: Duty::Whole, daemon: 0.0 }
    }

    /// What may be spent of the total at once, ns.
    pub fn left(&self) -> f64 {
        self.left
    }

    /// Whether system calls are to be attached.
    pub fn is_attached(&self) -> bool {
        !matches!(self.duty, Duty::Off { .. })
    }

    /// Whether they are attached for a short time only: it should be looked often.
    pub fn in_slice(&self) -> bool {
        matches!(self.duty, Duty::On { .. })
    }

    /// Takes in what was seen in `dt` seconds (all that was spent, and the daemon's part of that,
    /// ns), and says what each CPU is to do. What was spent is what it cost there and then: see
    /// [`super::crowding`].
    pub fn step(
        &mut self,
        limits: &Limits,
        costs: &Costs,
        dt: f64,
        sights: &[Sight],
        (spent, daemon): (f64, f64),
    ) -> Vec<Rung> {
        let weight = 1.0 - (-dt / SMOOTH).exp();
        self.daemon += (daemon / dt - self.daemon) * weight;
        if self.is_attached() {
            for (cpu, sight) in self.cpus.iter_mut().zip(sights) {
                cpu.see(sight, dt, if self.duty == Duty::Whole { weight } else { 1.0 });
            }
        }
        let allowed = limits.total.map(|total| (total - self.daemon).max(total * PROBES));
        if let Some(total) = limits.total {
            let depth = total * limits.burst;
            let mut gained = total * dt - daemon;
            if !self.is_attached() {
                // However much the daemon itself takes, system calls come back in time.
                gained = gained.max(total * PROBES * dt);
            }
            // Also what was asked until detaching was done.
            gained -= spent - daemon;
            self.left = (self.left + gained).clamp(-depth, depth);
        } else {
            (self.left, self.capped) = (0.0, None);
        }
        let floors = |cpus: &[Cpu]| cpus.iter().map(|cpu| cpu.floor(costs)).sum::<f64>();
        self.take_turns(limits, allowed, dt, spent, floors(&self.cpus));
        let cap = allowed.and_then(|allowed| self.cap(limits, costs, allowed, dt));
        let most = of_calls(&limits.order).count();
        let thrifty = of_calls(&limits.order)
            .position(|s| matches!(s, Step::Sampling | Step::QuietOnly))
            .unwrap_or(most);
        let (whole, is_slice) = (self.duty == Duty::Whole, self.in_slice());
        let least = least(limits.per_cpu, limits.total, self.cpus.len());
        let rung = |cpu: &mut Cpu| {
            // A slice shows what calls do. Between slices scheduling alone is recorded, and keeps
            // to its part of the total.
            let limit = match (limits.per_cpu, cap.filter(|_| !is_slice)) {
                (Some(limit), Some(cap)) => Some(limit.min(cap)),
                (limit, cap) => limit.or(cap),
            };
            cpu.level = cpu.level.min(most);
            match limit {
                // Slices are for seeing what they can.
                _ if !whole => (cpu.level, cpu.fits) = (thrifty, 0.0),
                Some(limit) => cpu.climb(limits, costs, for_calls(limit), cap.is_some(), dt),
                None => (cpu.level, cpu.fits) = (0, 0.0),
            }
            cpu.thin_out(limits, costs, limit, dt);
            Rung {
                level: cpu.level,
                thin: cpu.thin,
                limit,
                refused: limit.map_or(0.0, |limit| cpu.refused(costs, limit)),
                least,
            }
        };
        self.cpus.iter_mut().map(rung).collect()
    }

    /// Attaches and detaches.
    fn take_turns(
        &mut self,
        limits: &Limits,
        allowed: Option<f64>,
        dt: f64,
        spent: f64,
        floor: f64,
    ) {
        let Some(allowed) = allowed.filter(|_| limits.detach) else {
            self.duty = Duty::Whole;
            return;
        };
        let breaks = floor > allowed * ROOM;
        let need =
            |rate: f64| (rate * SLICE).min(limits.total.unwrap_or(0.0) * limits.burst * WELL);
        self.duty = match self.duty {
            Duty::Whole if breaks && self.left <= 0.0 => {
                Duty::Off { since: 0.0, need: need(spent / dt) }
            }
            Duty::Off { since, need } if since + dt >= APART && self.left >= need => {
                Duty::On { since: 0.0, spent: 0.0, floor: 0.0 }
            }
            Duty::Off { since, need } => Duty::Off { since: since + dt, need },
            Duty::Whole => Duty::Whole,
            Duty::On { since, spent: before, floor: asked } => {
                let (since, spent, asked) = (since + dt, before + spent, asked + floor * dt);
                if self.left <= 0.0 && since >= SLICE && asked / since > allowed * ROOM {
                    Duty::Off { since: 0.0, need: need(spent / since) }
                } else if since >= STAYS {
                    Duty::Whole
                } else {
                    Duty::On { since, spent, floor: asked }
                }
            }
        };
    }

    /// What each CPU may take at most so that all keep the total, where that is at stake; ns a
    /// second.
    fn cap(&mut self, limits: &Limits, costs: &Costs, allowed: f64, dt: f64) -> Option<f64> {
        let depth = limits.total? * limits.burst;
        let mut wanted: Vec<f64> =
            self.cpus.iter().map(|cpu| cpu.cost(limits, costs, 0) + cpu.sched(costs)).collect();
        let sum: f64 = wanted.iter().sum();
        self.capped = match self.capped {
            None if self.left < depth * SPENT && sum > allowed => Some(0.0),
            Some(_) if sum > allowed * ROOM || self.left < depth * WELL => Some(0.0),
            Some(fits) if fits + dt < HOLD => Some(fits + dt),
            _ => None,
        };
        self.capped?;
        // Who wants less than a fair part leaves the rest to the others.
        wanted.sort_by(f64::total_cmp);
        let (mut left, mut cpus) = (allowed, wanted.len() as f64);
        for want in wanted {
            if want > left / cpus {
                return Some(left / cpus);
            }
            (left, cpus) = (left - want, cpus - 1.0);
        }
        Some(allowed)
    }
}

/// The steps of an order that are of system calls.
pub(super) fn of_calls(order: &[Step]) -> impl Iterator<Item = Step> + '_ {
    order.iter().copied().filter(|step| !step.is_of_scheduling())
}

impl Cpu {
    fn see(&mut self, sight: &Sight, dt: f64, weight: f64) {
        let usual = &mut self.usual;
        usual.calls += (sight.calls / dt - usual.calls) * weight;
        usual.refused += (sight.refused / dt - usual.refused) * weight;
        usual.sched += (sight.sched / dt - usual.sched) * weight;
        usual.disk += (sight.disk / dt - usual.disk) * weight;
        usual.looked += (sight.looked / dt - usual.looked) * weight;
        if let Some(stacks) = sight.stacks.filter(|_| sight.sched >= 1.0) {
            // As of strings.
            usual.stacks += (stacks / sight.sched - usual.stacks) * weight;
        }
        self.sched_full = sight.sched_full;
        let (calls, strings) = sight.with_strings;
        if calls >= 1.0 {
            // What was left out is remembered as it was.
            usual.strings += (strings / calls - usual.strings) * weight;
        }
        self.full = sight.full;
    }

    /// The probe overhead, ns a second.
    fn floor(&self, costs: &Costs) -> f64 {
        self.usual.calls * f64::from(costs.call_floor)
            + self.usual.sched * f64::from(costs.sched_floor)
            + self.usual.disk * f64::from(costs.disk_floor)
            + self.usual.looked * f64::from(costs.look())
    }

    /// What refused calls cost, ns a second: in steps, so that the probes' limits do not change all
    /// the time.
    fn refused(&self, costs: &Costs, limit: f64) -> f64 {
        let step = limit / 64.0;
        (self.usual.refused * f64::from(costs.call_floor) / step).floor() * step
    }

    /// What recording scheduling costs, and requests to disks, ns a second.
    fn sched(&self, costs: &Costs) -> f64 {
        self.usual.sched * f64::from(costs.sched) + self.usual.disk * f64::from(costs.disk)
    }

    /// What all calls would cost at a level, ns a second. Where they come in stretches or not at
    /// all, no more than that they are asked about.
    fn cost(&self, limits: &Limits, costs: &Costs, level: usize) -> f64 {
        let given = of_calls(&limits.order).take(level).fold(0, |bits, step| bits | step.bit());
        let asked = f64::from(costs.call_floor);
        if given & (Step::Sampling.bit() | Step::QuietOnly.bit()) != 0 {
            return self.usual.calls * asked;
        }
        let strings = if given & Step::NoStrings.bit() == 0 {
            self.usual.strings * f64::from(costs.string)
        } else {
            0.0
        };
        self.usual.calls * (f64::from(costs.call_with(given)) + strings)
    }

    /// Takes the steps of scheduling, where its part of `limit` (ns a second) is spent, or takes
    /// them back.
    fn thin_out(&mut self, limits: &Limits, costs: &Costs, limit: Option<f64>, dt: f64) {
        let may = limits.order.iter().any(|step| step.is_of_scheduling());
        let Some(limit) = limit.filter(|_| may).map(for_sched) else {
            (self.thin, self.sched_fits) = (false, 0.0);
            return;
        };
        let cost = self.sched(costs) + self.usual.sched * self.usual.stacks;
        if !self.thin {
            self.thin = self.sched_full < SPENT && self.usual.stacks > 0.0 && cost > limit;
            self.sched_fits = 0.0;
            return;
        }
        self.sched_fits = if cost <= limit * ROOM { self.sched_fits + dt } else { 0.0 };
        self.thin = self.sched_fits < HOLD;
    }

    /// Degrades as far as `limit` (of calls, ns a second) needs it, or takes back a step.
    fn climb(&mut self, limits: &Limits, costs: &Costs, limit: f64, capped: bool, dt: f64) {
        let most = of_calls(&limits.order).count();
        let fits = |level: usize, part: f64| {
            let last = of_calls(&limits.order).take(level).any(|step| step == Step::QuietOnly);
            last || self.cost(limits, costs, level) <= limit * part
        };
        if (capped || self.full < SPENT) && !fits(self.level, 1.0) {
            self.level = (self.level + 1..most).find(|level| fits(*level, 1.0)).unwrap_or(most);
            self.fits = 0.0;
            return;
        }
        let above = self
            .level
            .checked_sub(1)
            .filter(|above| self.cost(limits, costs, *above) <= limit * ROOM);
        self.fits = if above.is_some() { self.fits + dt } else { 0.0 };
        if let Some(above) = above
            && self.fits >= HOLD
        {
            (self.level, self.fits) = (above, 0.0);
        }
    }
}

#[cfg(test)]
#[path = "ladder/tests.rs"]
mod tests;
