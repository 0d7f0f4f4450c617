//! The probes' token buckets ([`Bucket`]), set from the configuration and from the costs that were
//! measured ([`crate::calibrate`]). The probes keep the limits by themselves.

use std::mem::offset_of;

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::state::{
    Bucket, CpuState, GIVEN_SAMPLING, GIVEN_STACKS, GIVEN_SYSCALLS, LIMIT_SCHED, LIMIT_SYSCALL,
    TIMED_BUCKETS,
};
use flightrec_format::live::map::ArrayMap;

use crate::calibrate::Costs;
use crate::clock;
use crate::config::Budget;

/// Fifths of the limit that each lane has for itself: system calls and scheduling.
const FIFTHS: [u64; TIMED_BUCKETS] = [3, 2];

/// Nanoseconds of a second.
const SECOND: f64 = 1e9;
/// System calls keep this part of what is configured for them when refused ones eat it up by being
/// asked, or the daemon eats up the total: something is always seen, and enough of it for quiet
/// processes.
const LEAST: f64 = 1.0 / 5.0;
/// Where calls are recorded in stretches: for how long a bucket must have filled before it gives
/// again to who was refused, s.
const STRETCH: f64 = 0.25;
/// A bucket that holds less than it gains in so long, s, looks at who draws. One loud process alone
/// has it hold about half of that, or more, so that the quiet find it filled.
const FAIR: f64 = 0.25;

/// Bytes of a CPU's ring of task life that births and ends of threads may take, a second and at
/// once; renames an eighth of that (`BIRTH`, `END`, `RENAME` in probes-ebpf/src/budget.rs).
/// Processes' own draw nothing.
const TASK_LIFE: f64 = 524_288.0;
const TASK_LIFE_AT_ONCE: u64 = 2_097_152;

/// What the probes add to a lane's allowance, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Allowance {
    /// Millionths of a CPU; 0: no limit.
    limit: u32,
    /// ns a jiffy.
    rate: u64,
    /// ns.
    depth: u64,
    /// ns.
    resume: u64,
    /// ns.
    fair: u64,
}

impl Allowance {
    const NONE: Self = Self { limit: 0, rate: 0, depth: 0, resume: 0, fair: 0 };
}

/// The limit of one CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// CPU time that its probes may take, ns a second; `None`: no limit.
    pub share: Option<f64>,
    /// What refused calls take of that, ns a second: their probe overhead.
    pub refused: f64,
    /// What is left to system calls in any case, ns a second: see [`least`].
    pub least: f64,
    /// `GIVEN_…` bits.
    pub given: u32,
}

/// CPU time that system calls may take of a CPU's `share`, ns a second.
pub fn for_calls(share: f64) -> f64 {
    share * FIFTHS[0] as f64 / 5.0
}

/// The same of scheduling and lane `kernel`.
pub fn for_sched(share: f64) -> f64 {
    share - for_calls(share)
}

/// CPU time that system calls may take of a CPU in any case, as `per_cpu` and `total` (of all
/// `cpus`) are configured, ns a second.
pub fn least(per_cpu: Option<f64>, total: Option<f64>, cpus: usize) -> f64 {
    let part = total.map(|total| total / cpus.max(1) as f64);
    let share = match (per_cpu, part) {
        (Some(limit), Some(part)) => Some(limit.min(part)),
        (limit, part) => limit.or(part),
    };
    share.map_or(0.0, |share| for_calls(share) * LEAST)
}

/// A lane's allowance, on a kernel whose jiffy takes `jiffy` ns, with so many seconds' worth of
/// `burst`.
fn allowance(limit: &Limit, lane: usize, burst: u32, jiffy: u64) -> Allowance {
    let fifths = FIFTHS.get(lane).copied().unwrap_or(0) as f64;
    let Some(share) = limit.share.map(|share| share * fifths / 5.0) else {
        return Allowance::NONE;
    };
    let mut rest = share;
    if lane == 0 {
        rest = (share - limit.refused).max(limit.least).min(share);
    }
    // A limit however small lets something through in time.
    let rate = ((rest * jiffy as f64 / SECOND) as u64).max(1);
    let depth = ((share * f64::from(burst)) as u64).max(rate);
    let (mut resume, mut fair) = (0, ((rest * FAIR) as u64).clamp(1, depth));
    if lane == 0 {
        if limit.given & GIVEN_SYSCALLS != 0 {
            resume = depth;
        } else if limit.given & GIVEN_SAMPLING != 0 {
            resume = ((rest * STRETCH) as u64).min(depth);
        }
        if limit.given & !GIVEN_STACKS != 0 {
            // Whose calls are degraded is looked at for each call.
            fair = depth.saturating_add(1);
        }
    }
    Allowance { limit: (share / SECOND * 1e6).round() as u32, rate, depth, resume, fair }
}

/// The `LIMIT_…` bits of a CPU with or without a limit. To be set after the limit, and taken away
/// before it is.
pub const fn switches(limited: bool) -> u32 {
    if limited { LIMIT_SYSCALL | LIMIT_SCHED } else { 0 }
}

/// Sets how the buckets of a CPU fill.
pub fn set_limit(state: &ArrayMap, cpu: usize, limit: &Limit, burst: u32) {
    let jiffy = clock::jiffy();
    let mut limits = 0;
    for lane in 0..TIMED_BUCKETS {
        let allowance = allowance(limit, lane, burst, jiffy);
        limits |= u64::from(allowance.limit) << (32 * lane);
        fill(state, cpu, lane, &allowance);
        let (at, depth) = (bucket(lane), allowance.depth);
        // A limit that was greater before must not leave more than this one allows.
        let tokens = at + offset_of!(Bucket, tokens);
        if state.load(cpu, tokens) as i64 > depth as i64 {
            state.write(cpu, tokens, &depth.to_le_bytes());
        }
    }
    state.write(cpu, offset_of!(CpuState, limits), &limits.to_le_bytes());
}

/// Sets how a bucket fills.
fn fill(state: &ArrayMap, cpu: usize, lane: usize, allowance: &Allowance) {
    let Allowance { limit: _, rate, depth, resume, fair } = *allowance;
    for (field, value) in [
        (offset_of!(Bucket, rate), rate),
        (offset_of!(Bucket, depth), depth),
        (offset_of!(Bucket, resume), resume),
        (offset_of!(Bucket, fair), fair),
    ] {
        state.write(cpu, bucket(lane) + field, &value.to_le_bytes());
    }
}

/// Sets what threads and renames may take of each CPU's ring of task life: bytes, whatever the
/// limits of CPU time are.
pub fn set_task_life(state: &ArrayMap) {
    let rate = ((TASK_LIFE * clock::jiffy() as f64 / SECOND) as u64).max(1);
    let fair = (TASK_LIFE * FAIR) as u64;
    let allowance = Allowance { limit: 0, rate, depth: TASK_LIFE_AT_ONCE, resume: 0, fair };
    for cpu in 0..state.entries() {
        fill(state, cpu, Lane::Task as usize, &allowance);
    }
}

/// Sets the limits of all CPUs as they are configured. What a full bucket holds is there from the
/// start: a recording begins with a burst's worth, and one that is taken over keeps what it has
/// left.
pub fn set_limits(state: &ArrayMap, budget: &Budget) {
    let share = budget.per_cpu.millionths().map(|n| f64::from(n) * 1e3);
    let least = least(share, None, 1);
    for cpu in 0..state.entries() {
        let given = state.load(cpu, offset_of!(CpuState, enabled)) as u32;
        set_limit(state, cpu, &Limit { share, refused: 0.0, least, given }, budget.burst_seconds());
    }
    set_total(state, budget);
}

/// Notes the total, for who asks.
pub fn set_total(state: &ArrayMap, budget: &Budget) {
    let total = budget.total.millionths().map_or(0, u64::from);
    for cpu in 0..state.entries() {
        state.write(cpu, offset_of!(CpuState, total), &total.to_le_bytes());
    }
}

/// What the bucket of a lane (0: system calls, 1: scheduling) could give at `now` (ns of
/// `CLOCK_MONOTONIC`) of all that it can hold, from 0 to 1. The probes fill it only when it is
/// empty, and note when.
pub fn fullness(state: &ArrayMap, cpu: usize, lane: usize, now: u64) -> f64 {
    let word = |field: usize| state.load(cpu, bucket(lane) + field);
    let depth = word(offset_of!(Bucket, depth)) as f64;
    let jiffies = now.saturating_sub(word(offset_of!(Bucket, time))) as f64 / clock::jiffy() as f64;
    let tokens = word(offset_of!(Bucket, tokens)) as i64 as f64
        + jiffies * word(offset_of!(Bucket, rate)) as f64;
    if depth == 0.0 { 1.0 } else { (tokens / depth).clamp(0.0, 1.0) }
}

/// Sets what a CPU's calls are charged with, with this left out.
pub fn set_call_cost(state: &ArrayMap, cpu: usize, costs: &Costs, given: u32) {
    let word = u64::from(costs.call_with(given)) | u64::from(costs.string) << 32;
    state.write(cpu, bucket(0) + offset_of!(Bucket, cost), &word.to_le_bytes());
}

/// What reading the clock took when costs were measured, ns; 0: not known.
pub fn clock(state: &ArrayMap) -> f64 {
    state.load(0, offset_of!(CpuState, clock)) as f64 / 1e3
}

/// Sets what events cost, and what reading the clock took when that was measured, ns.
pub fn set_costs(state: &ArrayMap, costs: &Costs, clock: f64) {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let words = [
        (bucket(1) + offset_of!(Bucket, cost), pair(costs.sched, 0)),
        (offset_of!(CpuState, full), pair(costs.call, costs.sched)),
        (offset_of!(CpuState, floor), pair(costs.call_floor, costs.sched_floor)),
        (offset_of!(CpuState, disk), pair(costs.disk, costs.disk_floor)),
        (offset_of!(CpuState, savings), pair(costs.exit_time, costs.arguments)),
        (offset_of!(CpuState, measured), u64::from(costs.measured)),
        (offset_of!(CpuState, clock), (clock * 1e3) as u64),
    ];
    for cpu in 0..state.entries() {
        let given = state.load(cpu, offset_of!(CpuState, enabled)) as u32;
        set_call_cost(state, cpu, costs, given);
        for (at, word) in words {
            state.write(cpu, at, &word.to_le_bytes());
        }
    }
}

const fn bucket(lane: usize) -> usize {
    offset_of!(CpuState, buckets) + lane * size_of::<Bucket>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(share: f64) -> Limit {
        Limit { share: Some(share), refused: 0.0, least: least(Some(share), None, 1), given: 0 }
    }

    #[test]
    fn a_limit_is_shared_by_the_lanes() {
        // Of 5 %, 3 % and 2 % of a CPU: of 4 ms, and of 30 s.
        let syscall = Allowance {
            limit: 30_000,
            rate: 120_000,
            depth: 900_000_000,
            resume: 0,
            fair: 7_500_000,
        };
        let sched = Allowance {
            limit: 20_000,
            rate: 80_000,
            depth: 600_000_000,
            resume: 0,
            fair: 5_000_000,
        };
        assert_eq!(
            [0, 1].map(|lane| allowance(&limit(5e7), lane, 30, 4_000_000)),
            [syscall, sched]
        );
    }

    #[test]
    fn the_least_limit_lets_something_through() {
        let least = allowance(&limit(1e5), 1, 30, 1_000);
        let want = Allowance { limit: 40, rate: 1, depth: 1_200_000, resume: 0, fair: 10_000 };
        assert_eq!(least, want);
    }

    #[test]
    fn being_asked_is_paid_from_the_allowance_of_calls() {
        let refused = |refused| allowance(&Limit { refused, ..limit(5e7) }, 0, 30, 4_000_000).rate;
        assert_eq!([0.0, 1e7, 1e9].map(refused), [120_000, 80_000, 24_000]);
        let sched = Limit { refused: 1e9, ..limit(5e7) };
        assert_eq!(allowance(&sched, 1, 30, 4_000_000).rate, 80_000);
    }

    /// A total of 2 % of two CPUs, of which the daemon leaves a quarter: calls keep a fifth of what
    /// they have of 2 %.
    #[test]
    fn calls_keep_a_part_of_what_is_configured_whatever_the_daemon_takes() {
        let least = least(Some(5e7), Some(4e7), 2);
        assert!((least - 2.4e6).abs() < 1.0, "{least}");
        let limit = |share| Limit { share: Some(share), refused: 1e9, least, given: 0 };
        assert_eq!(
            [2e7, 5e6].map(|share| allowance(&limit(share), 0, 10, 4_000_000).rate),
            [9_600, 9_600]
        );
        // But no more than they may take.
        assert_eq!(allowance(&limit(1e6), 0, 10, 4_000_000).rate, 2_400);
    }

    #[test]
    fn stretches_begin_with_a_quarter_of_a_seconds_allowance() {
        let limit = Limit { given: GIVEN_SAMPLING, ..limit(5e7) };
        assert_eq!(
            [0, 1].map(|lane| allowance(&limit, lane, 30, 4_000_000).resume),
            [7_500_000, 0]
        );
        assert!(allowance(&Limit { share: Some(1.0), ..limit }, 0, 1, 1).resume <= 1);
    }

    #[test]
    fn where_things_are_given_up_it_is_looked_at_who_draws_however_full_the_bucket_is() {
        let given = |given| allowance(&Limit { given, ..limit(5e7) }, 0, 30, 4_000_000);
        assert!(given(0).fair < given(0).depth && given(GIVEN_SAMPLING).fair > given(0).depth);
        assert_eq!(given(GIVEN_SAMPLING | GIVEN_SYSCALLS).resume, given(0).depth);
        let sched = allowance(&Limit { given: GIVEN_SYSCALLS, ..limit(5e7) }, 1, 30, 4_000_000);
        assert_eq!((sched.resume, sched.fair), (0, 5_000_000));
    }

    #[test]
    fn no_limit() {
        let none = Limit { share: None, refused: 5.0, least: 0.0, given: GIVEN_SAMPLING };
        assert_eq!(allowance(&none, 0, 30, 4_000_000), Allowance::NONE);
    }
}

#[cfg(test)]
mod storms;
