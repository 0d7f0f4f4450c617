//! Control groups that have used up their CPU time (`cpu.max`, `cpu.cfs_quota_us`), once they may
//! run again.
//!
//! A group is throttled on each CPU by itself, and `unthrottle_cfs_rq(cfs_rq)` of
//! kernel/sched/fair.c ends that on one CPU. It adds to the group's `throttled_usec` in `cpu.stat`
//! how far `rq.clock` is from `cfs_rq.throttled_clock`: an event has the same number, so the
//! durations of a group add up to it. The function holds the run queue's lock with interrupts off,
//! so that its beginning and end are on one CPU with nothing in between that would run these
//! programs. No tracepoint tells of it.
//!
//! What `throttled_clock` is: in Linux 6.1, when the group was throttled. Since Linux 6.6 (commit
//! 79462e8c879a, "don't account throttle time for empty groups"), only if a thread of it would run;
//! 0 while none would. In Linux 6.18, where threads go on until they leave the kernel, when the
//! first one has (`record_throttle_clock`).

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::{fentry, fexit};
use aya_ebpf::programs::{FEntryContext, FExitContext};
use flightrec_format::abi::kinds::Throttle;
use flightrec_format::abi::probe::ThrottleOffsets;
use flightrec_format::abi::record::kind;
use flightrec_format::abi::state::ENABLE_THROTTLING;

use crate::cpu::this_cpu;
use crate::kernel::{address_at, arg, group_id, pointer_at, word_at};
use crate::kernel_lane::{Payer, open, room};

/// Filled by the loader.
#[unsafe(no_mangle)]
static THROTTLE_OFFSETS: ThrottleOffsets = ThrottleOffsets {
    throttled_clock: 0,
    throttled: 0,
    throttled_mask: 0,
    rq: 0,
    clock: 0,
    cpu: 0,
    tg: 0,
    cgroup: 0,
    root: 0,
    hierarchy_id: 0,
};

/// Of cgroup v2, in `/proc/PID/cgroup` (`proc_cgroup_show`, kernel/cgroup/cgroup.c, Linux 6.1).
const HIERARCHY_V2: u32 = 0;

/// The function forgets when the waiting began (since Linux 6.6).
#[fentry(function = "unthrottle_cfs_rq")]
fn unthrottle_entry(ctx: FEntryContext) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_THROTTLING != 0 {
        // SAFETY: a static of ours; volatile because the loader replaces its value.
        let at = unsafe { (&raw const THROTTLE_OFFSETS.throttled_clock).read_volatile() };
        state.throttled_since = address_at(arg::<0>(ctx.as_ptr()) as *const u8, at);
    }
    Some(())
}

/// It has brought the run queue's clock up to date.
#[fexit(function = "unthrottle_cfs_rq")]
fn unthrottle_return(ctx: FExitContext) -> Option<()> {
    let state = this_cpu();
    let began = core::mem::take(&mut state.throttled_since);
    if state.enabled & ENABLE_THROTTLING == 0 || began == 0 {
        return None;
    }
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    let at = unsafe { (&raw const THROTTLE_OFFSETS).read_volatile() };
    let queue = arg::<0>(ctx.as_ptr()) as *const u8;
    // Its time is used up again: it stays throttled (since Linux 6.18).
    if word_at(queue, at.throttled) & at.throttled_mask != 0 {
        return None;
    }
    let rq = pointer_at(queue, at.rq);
    let group = pointer_at(pointer_at(queue, at.tg), at.cgroup);
    let is_v2 = word_at(pointer_at(group, at.root), at.hierarchy_id) == HIERARCHY_V2;
    let id = group_id(group);
    let body = Throttle {
        duration: address_at(rq, at.clock).wrapping_sub(began),
        cgroup: if is_v2 { id } else { 0 },
        v1_cgroup: if is_v2 { 0 } else { id },
        throttled_cpu: word_at(rq, at.cpu),
        reserved: 0,
    };
    let mut w = open::<{ room(size_of::<Throttle>()) }>(state, kind::THROTTLE, Payer::Nobody)?;
    w.record(kind::THROTTLE, body);
    w.publish(kind::THROTTLE);
    Some(())
}
