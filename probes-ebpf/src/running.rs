//! Which thread runs on this CPU, mostly without asking the kernel: its helper would be most of
//! what a cheap event costs beside the clock, where calls and returns are slow (retpolines, safe
//! returns).
//!
//! `sched_switch` notes who runs next, and where that thread's kernel stack is. Whoever then finds
//! the program's own frame on that stack is that thread: two live threads never share one. Where a
//! switch was not seen, and in interrupts, which have stacks of their own, the frame is elsewhere,
//! and the kernel is asked.

use core::arch::asm;

use flightrec_format::abi::probe::STACK_BYTES;
use flightrec_format::abi::state::{CpuState, ENABLE_TASK};

use crate::kernel::Task;

/// Notes the thread that runs, or will after this switch. Without the programs on task life nobody
/// tells when it takes its leader's id (see `sched_process_exec`), so its stack is not noted then.
#[inline(always)]
pub(crate) fn note(state: &mut CpuState, task: Task) {
    state.running.stack = if state.enabled & ENABLE_TASK != 0 { task.stack() } else { 0 };
    state.running.task = task.as_ptr() as u64;
    state.running.tid = task.tid();
    state.running.tgid = task.tgid();
}

/// Makes sure that the thread noted is the one that runs.
#[inline(always)]
pub(crate) fn see(state: &mut CpuState) {
    if !is_here(state) {
        ask(state);
    }
}

/// Its id. Notes nothing: in interrupts it would be for nothing.
#[inline(always)]
pub(crate) fn tid(state: &CpuState) -> u32 {
    if is_here(state) { state.running.tid } else { Task::current().tid() }
}

#[inline(never)]
fn ask(state: &mut CpuState) -> u32 {
    note(state, Task::current());
    0
}

/// Whether the program runs on the stack of the thread noted.
#[inline(always)]
fn is_here(state: &CpuState) -> bool {
    let mut end = state.running.stack;
    // SAFETY: comparisons of the frame's address; the loader puts in the size.
    unsafe {
        asm!("if r10 < {end} goto +2", "{end} += {size}", "if r10 < {end} goto +1", "{end} = 0",
            end = inout(reg) end, size = const STACK_BYTES, options(nomem, nostack));
    }
    end != 0
}
