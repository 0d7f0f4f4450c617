//! Long waits for locks of the kernel.
//!
//! Who waits without sleeping stays on its CPU, and an interrupt there may wait for another lock in
//! the middle; who sleeps may go on elsewhere. So a wait is kept by CPU or by thread
//! ([`crate::waits`]), and as the end does not tell which ([`contention_end`]), the lock does. The
//! end of an inner wait that is told with another lock is an event of its own.

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use flightrec_format::abi::kinds::Contention;
use flightrec_format::abi::record::kind;
use flightrec_format::abi::state::ENABLE_LOCKS;

use crate::cpu::{now, this_cpu};
use crate::kernel::{arg, number};
use crate::kernel_lane::{Payer, open, room};
use crate::pseudonym::pseudonym;
use crate::{context, running, waits};

/// `LCB_F_SPIN`, `LCB_F_MUTEX`: include/trace/events/lock.h, Linux 6.1.
const SPIN: u64 = 1 << 0;
const MUTEX: u64 = 1 << 5;

/// `contention_begin(lock, flags)`
#[btf_tracepoint(function = "contention_begin")]
fn contention_begin(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    let state = this_cpu();
    if state.enabled & ENABLE_LOCKS == 0 {
        return None;
    }
    let (lock, flags) = (number::<0>(ctx), arg::<1>(ctx) & 0xffff_ffff);
    // Who spins for a mutex may give the CPU away (`mutex_optimistic_spin`,
    // kernel/locking/mutex.c).
    let place = if flags & (SPIN | MUTEX) == SPIN {
        (&raw mut state.spins).cast()
    } else {
        let place = waits::take(running::tid(state))?;
        // SAFETY: a place of this thread's own.
        unsafe { (&raw mut (*place).locks).cast() }
    };
    // A mutex tells of each time that its waiter spins or sleeps (`__mutex_lock_common`,
    // kernel/locking/mutex.c, Linux 6.1).
    waits::lock_begins(place, lock, flags, flags & MUTEX != 0, now);
    Some(())
}

/// `contention_end(lock, ret)`
#[btf_tracepoint(function = "contention_end")]
fn contention_end(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    let state = this_cpu();
    if state.enabled & ENABLE_LOCKS == 0 {
        return None;
    }
    let lock = number::<0>(ctx);
    let found = match waits::lock_ends((&raw mut state.spins).cast(), lock) {
        Some(found) => found,
        None => {
            let place = waits::find(running::tid(state))?;
            // SAFETY: a place of this thread's own.
            let found = waits::lock_ends(unsafe { (&raw mut (*place).locks).cast() }, lock)?;
            // Only then: in an interrupt whose beginning was not seen, the place is that of the
            // interrupted thread, which may be about to use it.
            waits::leave(place);
            found
        }
    };
    let (began, flags) = found;
    let duration = now().wrapping_sub(began);
    if duration < state.long_lock {
        state.looked += 1;
        return None;
    }
    let context = context::now(state.preempt_count);
    let body = Contention {
        duration,
        lock: pseudonym(lock),
        flags: flags as u32,
        ret: arg::<1>(ctx) as i32,
        context: u32::from(context),
    };
    let payer = Payer::of(context);
    let mut w = open::<{ room(size_of::<Contention>()) }>(state, kind::CONTENTION, payer)?;
    w.record(kind::CONTENTION, body);
    w.publish(kind::CONTENTION);
    Some(())
}
