//! In which context a program runs: in a thread, or in an interrupt that has nothing to do with
//! the thread it hit.
//!
//! The preemption count tells ([`preempt`]). Where it is a variable of each CPU, its address is
//! found once for each, at a switch: see [`ContextOffsets`]. Elsewhere it is the running thread's,
//! whom an interrupt does not change.

use flightrec_format::abi::probe::{ABSENT, ContextOffsets, preempt};
use flightrec_format::abi::record::WakeContext;
use flightrec_format::abi::state::{CpuState, NO_PREEMPT_COUNT};

use crate::kernel::{Task, can_cast, peek};

/// Filled by the loader, where the kernel tells.
#[unsafe(no_mangle)]
static CONTEXT_OFFSETS: ContextOffsets = ContextOffsets {
    cfs_rq: 0,
    rq: 0,
    preempt_count: 0,
    softirq_disable_cnt: 0,
    hardirq: 0,
    nmi: 0,
    in_task: 0,
};

/// The member of [`CONTEXT_OFFSETS`], read so that the compiler does not assume its initial value.
macro_rules! offset {
    ($member:ident) => {
        // SAFETY: a static of ours.
        unsafe { (&raw const CONTEXT_OFFSETS.$member).read_volatile() }
    };
}

/// Whether this kernel tells at all. A constant to the verifier.
#[inline(always)]
fn is_known() -> bool {
    offset!(cfs_rq) != 0 || is_in_task()
}

/// Whether the count is the running thread's, and not a variable of each CPU. A constant to the
/// verifier.
#[inline(always)]
fn is_in_task() -> bool {
    offset!(in_task) != 0
}

/// The preemption count at an address that [`find`] found.
#[inline(always)]
fn count(address: u64) -> u32 {
    if can_cast() { Task::cast(address).first_word() } else { peek(address) }
}

/// Sees to it that the address of the CPU's preemption count is known. `prev`: the thread that
/// stops on this CPU, so one of its run queue.
#[inline(always)]
pub(crate) fn see(state: &mut CpuState, prev: Task) {
    if is_known() && !is_in_task() && state.preempt_count == 0 {
        find(state, prev.as_ptr());
    }
}

/// What stands there is held against what the scheduler has while it switches threads: an address
/// that is wrong is not used.
#[inline(never)]
fn find(state: &mut CpuState, prev: *const u8) -> u32 {
    let queue = Task::from_arg(prev).run_queue(offset!(cfs_rq), offset!(rq));
    let address = queue.wrapping_add(i64::from(offset!(preempt_count) as i32) as u64);
    let interrupts = offset!(hardirq) | offset!(nmi);
    let is_right = queue != 0 && preempt::is_of_switch(count(address), interrupts);
    state.preempt_count = if is_right { address } else { NO_PREEMPT_COUNT };
    0
}

/// What the CPU does, as [`WakeContext`]. `address`: its [`CpuState::preempt_count`].
#[inline(always)]
pub(crate) fn now(address: u64) -> u8 {
    if !is_known() || !is_in_task() && address <= NO_PREEMPT_COUNT {
        return WakeContext::Unknown as u8;
    }
    let count =
        if is_in_task() { Task::current().word(offset!(in_task) as usize) } else { count(address) };
    if count & offset!(nmi) != 0 {
        WakeContext::Nmi as u8
    } else if count & offset!(hardirq) != 0 {
        WakeContext::Hardirq as u8
    } else if softirqs(count) & preempt::SOFTIRQ != 0 {
        WakeContext::Softirq as u8
    } else {
        WakeContext::Thread as u8
    }
}

/// The count that has the softirqs: with PREEMPT_RT, where threads run them, the running thread's.
#[inline(always)]
fn softirqs(count: u32) -> u32 {
    let at = offset!(softirq_disable_cnt);
    if at == ABSENT { count } else { Task::current().word(at as usize) }
}
