//! Functions of programs and of the kernel that are probed for a time, and marks in programs.
//!
//! One program serves all: its link says which function it is at (`bpf_get_attach_cookie`, Linux
//! 5.15). Calls are counted first, outside of budget and ring, by an atomic on a word of this CPU:
//! the programs at functions of programs can be preempted (`bpf_prog_run_array_uprobe`,
//! include/linux/bpf.h, Linux 6.1), and two of them may count on a CPU.

use core::ffi::c_void;
use core::mem::size_of;

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::{
    bpf_get_attach_cookie, bpf_get_current_pid_tgid, bpf_get_smp_processor_id,
    bpf_probe_read_kernel, bpf_probe_read_user,
};
use aya_ebpf::macros::{map, uprobe};
use aya_ebpf::maps::Array;
use aya_ebpf::programs::ProbeContext;
use flightrec_format::abi::function::{
    self, ARGUMENTS, BASE, Calls, CpuCalls, FUNCTIONS, INDEX, MEMORY, Mark, Operand, SIGNED,
};
use flightrec_format::abi::kinds::Function;
use flightrec_format::abi::record::kind;

use crate::atomic;
use crate::cpu::this_cpu;
use crate::kernel::{machine, member};
use crate::kernel_lane::{Payer, open, room};

/// By CPU.
#[map(name = "function_calls")]
static CALLS: Array<CpuCalls> = Array::with_max_entries(1, 1 << 10 /* BPF_F_MMAPABLE */);
/// Those that are probed.
#[map(name = "marks")]
static MARKS: Array<Mark> =
    Array::with_max_entries(function::MARKS as u32, 1 << 10 /* BPF_F_MMAPABLE */);

/// A function is called.
#[uprobe]
fn function_entry(ctx: ProbeContext) -> u32 {
    let ctx = ctx.as_ptr();
    let number = number(ctx);
    count(number, false);
    record(Function {
        probe: number,
        point: function::ENTRY,
        stack: member!(ctx, stack_pointer, u64) as u32,
        arguments: ARGUMENTS as u32,
        a0: member!(ctx, function_arguments, 0, u64),
        a1: member!(ctx, function_arguments, 1, u64),
        a2: member!(ctx, function_arguments, 2, u64),
        a3: member!(ctx, function_arguments, 3, u64),
        a4: member!(ctx, function_arguments, 4, u64),
        a5: member!(ctx, function_arguments, 5, u64),
    });
    0
}

/// A function has returned.
#[uprobe]
fn function_return(ctx: ProbeContext) -> u32 {
    let ctx = ctx.as_ptr();
    let number = number(ctx);
    count(number, true);
    record(Function {
        probe: number,
        point: function::RETURN,
        stack: member!(ctx, stack_pointer, u64) as u32,
        arguments: 1,
        a0: member!(ctx, function_result, u64),
        a1: 0,
        a2: 0,
        a3: 0,
        a4: 0,
        a5: 0,
    });
    0
}

/// A mark is passed.
#[uprobe]
fn function_mark(ctx: ProbeContext) -> u32 {
    let ctx = ctx.as_ptr();
    let number = number(ctx);
    count(number, false);
    let Some(mark) = MARKS.get((cookie(ctx) >> 32) as u32) else { return 0 };
    record(Function {
        probe: number,
        point: function::MARK,
        stack: member!(ctx, stack_pointer, u64) as u32,
        arguments: mark.count as u32,
        a0: value(ctx, mark, 0),
        a1: value(ctx, mark, 1),
        a2: value(ctx, mark, 2),
        a3: value(ctx, mark, 3),
        a4: value(ctx, mark, 4),
        a5: value(ctx, mark, 5),
    });
    0
}

#[inline(always)]
fn cookie(ctx: *mut c_void) -> u64 {
    // SAFETY: the context of this program.
    unsafe { bpf_get_attach_cookie(ctx) }
}

/// The function's number.
#[inline(always)]
fn number(ctx: *mut c_void) -> u32 {
    cookie(ctx) as u32
}

/// Counts a call, or a return.
#[inline(always)]
fn count(number: u32, returns: bool) {
    // SAFETY: the helper has no preconditions.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    let Some(calls) = CALLS.get_ptr_mut(cpu) else { return };
    let at = number as usize & (FUNCTIONS - 1);
    // SAFETY: `at` is below their number; an aligned word of a map's value.
    unsafe {
        let calls = calls.cast::<Calls>().add(at);
        let word = if returns { &raw mut (*calls).returns } else { &raw mut (*calls).calls };
        atomic::increment(word);
    }
}

/// Records it, if the budget allows that. The recorder's own calls are left out, as its system
/// calls are.
#[inline(always)]
fn record(body: Function) {
    let state = this_cpu();
    // SAFETY: the helper has no preconditions.
    let tgid = (unsafe { bpf_get_current_pid_tgid() } >> 32) as u32;
    if state.own_tgid == tgid {
        return;
    }
    let room = open::<{ room(size_of::<Function>()) }>(state, kind::FUNCTION, Payer::Thread);
    if let Some(mut w) = room {
        w.record(kind::FUNCTION, body);
        w.publish(kind::FUNCTION);
    }
}

/// The value of a mark's argument; 0 where there is none, or it can't be read.
#[inline(never)]
fn value(ctx: *mut c_void, mark: &Mark, i: usize) -> u64 {
    if i >= ARGUMENTS || i as u64 >= mark.count {
        return 0;
    }
    let operand = &mark.operands[i];
    let mut value = operand.offset as u64;
    if operand.how & BASE != 0 {
        value = value.wrapping_add(register(ctx, operand.base));
    }
    if operand.how & INDEX != 0 {
        value = value.wrapping_add(register(ctx, operand.index) << (operand.scale & 3));
    }
    if operand.how & MEMORY != 0 {
        let mut word = 0u64;
        // SAFETY: 8 bytes of this program's stack; the helper checks the address.
        let r = unsafe { bpf_probe_read_user((&raw mut word).cast(), 8, value as *const c_void) };
        if r != 0 {
            return 0;
        }
        value = word;
    }
    own_bits(value, operand)
}

/// The bits of the value that are the argument's.
#[inline(always)]
fn own_bits(value: u64, operand: &Operand) -> u64 {
    let shift = operand.shift & 63;
    let value = value << shift;
    if operand.how & SIGNED != 0 { (value as i64 >> shift) as u64 } else { value >> shift }
}

/// A register; 0 after them.
#[inline(always)]
fn register(ctx: *mut c_void, at: u32) -> u64 {
    let mut word = 0u64;
    if u64::from(at) + 8 <= u64::from(machine!(register_bytes)) {
        // SAFETY: 8 bytes of this program's stack. The verifier takes no load from its context at
        // an offset that varies, but the helper does.
        unsafe {
            let from = ctx.cast::<u8>().add(at as usize);
            bpf_probe_read_kernel((&raw mut word).cast(), 8, from.cast());
        }
    }
    word
}
