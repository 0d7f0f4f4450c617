//! What recording may cost: each CPU's token buckets ([`Bucket`]).
//!
//! A CPU's bucket is drawn from by its own programs. Where one interrupts another (see `lane`), a drawing may be
//! lost, which the next make up for; the counters may not, and are atomic.

use aya_ebpf::helpers::generated::bpf_jiffies64;
use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::abi::record::counter;
use flightrec_format::abi::state::{Bucket, CpuState};

use crate::{atomic, lane};

/// Jiffies that count at most: 17 minutes and more, so that the product with any rate stays within 64 bits.
const LONGEST: u64 = 1 << 20;

/// `jiffies_64`: a clock that costs a load.
#[inline(always)]
pub(crate) fn jiffies() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_jiffies64() }
}

/// Takes the cost of an event out of the bucket, if it is there.
#[inline(always)]
pub(crate) fn draw(bucket: &mut Bucket, cost: u32) -> bool {
    let tokens = bucket.tokens - i64::from(cost);
    if tokens < 0 {
        return refill(bucket, cost) != 0;
    }
    bucket.tokens = tokens;
    true
}

/// Fills the bucket by the kernel's tick: what is refused reads no clock, but for one event a jiffy. Takes the cost out of
/// it, if it is there then, and returns 1.
#[inline(never)]
fn refill(bucket: &mut Bucket, cost: u32) -> u32 {
    let cost = i64::from(cost);
    let now = jiffies();
    let mut passed = now.wrapping_sub(bucket.filled);
    if passed == 0 {
        return 0;
    }
    if passed > LONGEST {
        passed = LONGEST;
    }
    let mut tokens = bucket.tokens + (passed * bucket.rate) as i64;
    // Nothing is stored: the tokens that would be there must not be drawn before they are enough.
    if tokens < bucket.resume as i64 {
        return 0;
    }
    bucket.filled = now;
    bucket.time = lane::now();
    if tokens > bucket.depth as i64 {
        tokens = bucket.depth as i64;
    }
    bucket.tokens = tokens;
    if tokens < cost {
        return 0;
    }
    bucket.tokens = tokens - cost;
    1
}

/// Takes the cost of an event that is recorded in any case, at the expense of those that follow; no debt is longer
/// than what the bucket holds.
#[inline(always)]
pub(crate) fn owe(bucket: &mut Bucket, cost: u32) {
    if !draw(bucket, cost) && bucket.tokens > -(bucket.depth as i64) {
        bucket.tokens -= i64::from(cost);
    }
}

/// Counts a system call's event that was refused. No other program of the lane can come between.
#[inline(always)]
pub(crate) fn refuse_call(state: &mut CpuState, kind: u8) {
    let i = Lane::Syscall as usize;
    state.lanes[i].refused[Refusal::Throttled as usize] += 1;
    state.throttled[i][counter(kind)] += 1;
}

/// Counts a scheduling event that was refused.
#[inline(always)]
pub(crate) fn refuse_sched(state: &mut CpuState, kind: u8) {
    let i = Lane::Sched as usize;
    // SAFETY: aligned words of this CPU's state.
    unsafe {
        atomic::increment(&raw mut state.lanes[i].refused[Refusal::Throttled as usize]);
        atomic::increment(&raw mut state.throttled[i][counter(kind)]);
    }
}
