//! The CPU that a program runs on, its clock, and its state.

use core::arch::asm;

use aya_ebpf::helpers::generated::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use flightrec_format::abi::probe::{LAST_CPU, STATE};
use flightrec_format::abi::state::CpuState;

#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

/// This CPU's number.
#[inline(always)]
pub(crate) fn cpu() -> u32 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_get_smp_processor_id() }
}

/// This CPU's state.
#[inline(always)]
pub(crate) fn this_cpu() -> &'static mut CpuState {
    // SAFETY: only programs on this CPU write this CPU's state, and `busy` keeps a nested one out
    // of what the outer one is using; the daemon writes `enabled` and `own_tgid` alone.
    unsafe { &mut *state_of(cpu()) }
}

/// The state of any CPU; of a number that none has, the first one's.
#[inline(always)]
pub(crate) fn state_of(cpu: u32) -> *mut CpuState {
    let mut at = u64::from(cpu);
    let state;
    // SAFETY: arithmetic on two registers; the loader puts in the address and the last CPU's
    // number.
    unsafe {
        asm!("if {at} <= {last} goto +1", "{at} = 0", "{at} *= {size}", "{state} = {first} ll",
            "{state} += {at}", at = inout(reg) at, state = out(reg) state, last = const LAST_CPU,
            size = const size_of::<CpuState>(), first = const STATE, options(nomem, nostack));
    }
    let _ = at;
    state
}

/// Whether a CPU can have this number.
#[inline(always)]
pub(crate) fn is_cpu(cpu: u32) -> bool {
    let mut at = u64::from(cpu) + 1;
    // SAFETY: a comparison, with what the loader puts in: the last CPU's number.
    unsafe {
        asm!("if {cpu} <= {last} goto +1", "{at} = 0", at = inout(reg) at,
            cpu = in(reg) u64::from(cpu), last = const LAST_CPU, options(nomem, nostack));
    }
    at != 0
}
