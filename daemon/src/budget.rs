//! What recording may cost: the probes' token buckets ([`Bucket`]), set from the configuration and from the costs that
//! were measured ([`crate::calibrate`]). The probes keep the limits by themselves.

use std::mem::offset_of;

use flightrec_format::abi::state::{BUCKETS, Bucket, CpuState, LIMIT_SCHED, LIMIT_SYSCALL};
use flightrec_format::live::map::ArrayMap;

use crate::calibrate::Costs;
use crate::clock;
use crate::config::Budget;

/// Fifths of the limit that each lane has for itself: system calls and scheduling.
const FIFTHS: [u64; BUCKETS] = [3, 2];

/// What the probes add to a lane's allowance, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Allowance {
    /// Millionths of a CPU; 0: no limit.
    limit: u32,
    /// ns a jiffy.
    rate: u64,
    /// ns.
    depth: u64,
}

/// A lane's allowance, on a kernel whose jiffy takes `jiffy` ns.
fn allowance(budget: &Budget, lane: usize, jiffy: u64) -> Allowance {
    let fifths = FIFTHS.get(lane).copied().unwrap_or(0);
    let limit = budget.per_cpu.millionths().map_or(0, |n| u64::from(n) * fifths / 5);
    let of = |ns: u64| ns.saturating_mul(limit) / 1_000_000;
    // A limit however small lets something through in time.
    let rate = if limit == 0 { 0 } else { of(jiffy).max(1) };
    Allowance { limit: limit as u32, rate, depth: of(u64::from(budget.burst_seconds) * 1_000_000_000).max(rate) }
}

/// The `LIMIT_…` bits of what is limited.
pub fn limits(budget: &Budget) -> u32 {
    if budget.per_cpu.millionths().is_some() { LIMIT_SYSCALL | LIMIT_SCHED } else { 0 }
}

/// Sets how the buckets of all CPUs fill. What a full one holds is there from the start: a recording begins with a
/// burst's worth, and one that is taken over keeps what it has left.
pub fn set_limits(state: &ArrayMap, budget: &Budget) {
    let jiffy = clock::jiffy();
    let allowances: [Allowance; BUCKETS] = std::array::from_fn(|lane| allowance(budget, lane, jiffy));
    for cpu in 0..state.entries() {
        let mut limits = 0;
        for (lane, allowance) in allowances.iter().enumerate() {
            limits |= u64::from(allowance.limit) << (32 * lane);
            let at = bucket(lane);
            state.write(cpu, at + offset_of!(Bucket, rate), &allowance.rate.to_le_bytes());
            state.write(cpu, at + offset_of!(Bucket, depth), &allowance.depth.to_le_bytes());
            // A limit that was greater before must not leave more than this one allows.
            let tokens = at + offset_of!(Bucket, tokens);
            if state.load(cpu, tokens) as i64 > allowance.depth as i64 {
                state.write(cpu, tokens, &allowance.depth.to_le_bytes());
            }
        }
        state.write(cpu, offset_of!(CpuState, limits), &limits.to_le_bytes());
    }
}

/// Sets what events cost.
pub fn set_costs(state: &ArrayMap, costs: &Costs) {
    let words = [u64::from(costs.call) | u64::from(costs.string) << 32, u64::from(costs.sched)];
    for cpu in 0..state.entries() {
        for (lane, word) in words.iter().enumerate() {
            state.write(cpu, bucket(lane) + offset_of!(Bucket, cost), &word.to_le_bytes());
        }
        state.write(cpu, offset_of!(CpuState, measured), &u64::from(costs.measured).to_le_bytes());
    }
}

const fn bucket(lane: usize) -> usize {
    offset_of!(CpuState, buckets) + lane * size_of::<Bucket>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Share;

    fn budget(per_cpu: Share) -> Budget {
        Budget { per_cpu, burst_seconds: 30 }
    }

    #[test]
    fn a_limit_is_shared_by_the_lanes() {
        let budget = budget(Share::Millionths(50_000));
        // 3 % and 2 % of a CPU: of 4 ms, and of 30 s.
        let syscall = Allowance { limit: 30_000, rate: 120_000, depth: 900_000_000 };
        let sched = Allowance { limit: 20_000, rate: 80_000, depth: 600_000_000 };
        assert_eq!([0, 1].map(|lane| allowance(&budget, lane, 4_000_000)), [syscall, sched]);
        assert_eq!(limits(&budget), LIMIT_SYSCALL | LIMIT_SCHED);
    }

    #[test]
    fn the_least_limit_lets_something_through() {
        let least = allowance(&budget(Share::Millionths(1)), 1, 1_000_000);
        assert_eq!(least, Allowance { limit: 0, rate: 0, depth: 0 });
        let least = allowance(&budget(Share::Millionths(100)), 1, 1_000);
        assert_eq!(least, Allowance { limit: 40, rate: 1, depth: 1_200_000 });
    }

    #[test]
    fn no_limit() {
        let off = budget(Share::Off);
        assert_eq!(limits(&off), 0);
        assert_eq!(allowance(&off, 0, 4_000_000), Allowance { limit: 0, rate: 0, depth: 0 });
    }
}
