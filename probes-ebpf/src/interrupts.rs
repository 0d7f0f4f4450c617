//! Interrupts whose handling takes long. The programs run at each interrupt, and record few: those
//! of its beginning read the clock and store it.
//!
//! A handler of a device runs with interrupts off, so one at a time on a CPU
//! (`__handle_irq_event_percpu`, kernel/irq/handle.c, Linux 6.1), and so does a softirq
//! (`__do_softirq`, kernel/softirq.c), which a handler may interrupt. Where PREEMPT_RT has threads
//! run softirqs, others may run in the middle: the loader leaves those programs out there.

use core::ffi::c_void;
use core::mem::take;

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use flightrec_format::abi::kinds::Interrupt;
use flightrec_format::abi::probe::HandlerOffsets;
use flightrec_format::abi::record::{Comm, kind};
use flightrec_format::abi::state::{CpuState, ENABLE_INTERRUPTS};

use crate::cpu::{now, this_cpu};
use crate::kernel::{address_at, arg};
use crate::kernel_lane::{Payer, open, room};

/// Filled by the loader.
#[unsafe(no_mangle)]
static HANDLER_OFFSETS: HandlerOffsets = HandlerOffsets { name: 0 };

/// Not 0: nothing but interrupts runs in the middle of a softirq. Filled by the loader, which
/// leaves the programs on softirqs out where it is not so.
#[unsafe(no_mangle)]
static SOFTIRQS_ARE_WHOLE: u32 = 0;

/// [`Interrupt::class`]
const HARDIRQ: u32 = 0;
const SOFTIRQ: u32 = 1;

/// Names of softirqs (include/linux/interrupt.h, Linux 6.1 and 6.18), as /proc/softirqs has them.
fn softirq_name(number: u32) -> Comm {
    *match number {
        0 => b"HI\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        1 => b"TIMER\0\0\0\0\0\0\0\0\0\0\0",
        2 => b"NET_TX\0\0\0\0\0\0\0\0\0\0",
        3 => b"NET_RX\0\0\0\0\0\0\0\0\0\0",
        4 => b"BLOCK\0\0\0\0\0\0\0\0\0\0\0",
        5 => b"IRQ_POLL\0\0\0\0\0\0\0\0",
        6 => b"TASKLET\0\0\0\0\0\0\0\0\0",
        7 => b"SCHED\0\0\0\0\0\0\0\0\0\0\0",
        8 => b"HRTIMER\0\0\0\0\0\0\0\0\0",
        9 => b"RCU\0\0\0\0\0\0\0\0\0\0\0\0\0",
        _ => b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    }
}

/// `irq_handler_entry(irq, action)`
#[btf_tracepoint(function = "irq_handler_entry")]
fn irq_handler_entry(_: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_INTERRUPTS != 0 {
        state.hardirq_since = now();
    }
    Some(())
}

/// `irq_handler_exit(irq, action, ret)`
#[btf_tracepoint(function = "irq_handler_exit")]
fn irq_handler_exit(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_INTERRUPTS == 0 {
        return None;
    }
    let began = take(&mut state.hardirq_since);
    let duration = took(state, began)?;
    hardirq(state, ctx.as_ptr(), duration);
    Some(())
}

/// `softirq_entry(vec_nr)`
#[btf_tracepoint(function = "softirq_entry")]
fn softirq_entry(_: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_INTERRUPTS != 0 {
        state.softirq_since = now();
    }
    Some(())
}

/// `softirq_exit(vec_nr)`
#[btf_tracepoint(function = "softirq_exit")]
fn softirq_exit(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    let are_whole = unsafe { (&raw const SOFTIRQS_ARE_WHOLE).read_volatile() } != 0;
    if state.enabled & ENABLE_INTERRUPTS == 0 || !are_whole {
        return None;
    }
    let began = take(&mut state.softirq_since);
    let duration = took(state, began)?;
    let number = arg::<0>(ctx.as_ptr()) as u32;
    record(state, Interrupt { duration, class: SOFTIRQ, number, name: softirq_name(number) })
}

/// How long it was since `began`, if that is long; else it is counted.
#[inline(always)]
fn took(state: &mut CpuState, began: u64) -> Option<u64> {
    let duration = now().wrapping_sub(began);
    if began != 0 && duration >= state.long_interrupt {
        return Some(duration);
    }
    // An interrupt in the middle of this may be missing in the sum.
    state.looked += 1;
    None
}

#[inline(always)]
fn hardirq(state: &mut CpuState, ctx: *mut c_void, duration: u64) -> Option<()> {
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    let at = unsafe { (&raw const HANDLER_OFFSETS.name).read_volatile() };
    let text = address_at(arg::<1>(ctx) as *const u8, at);
    let mut name: Comm = [0; 16];
    // SAFETY: as many bytes of our own; the address may be any.
    unsafe {
        let bytes = size_of::<Comm>() as u32;
        bpf_probe_read_kernel_str(name.as_mut_ptr().cast(), bytes, text as *const c_void)
    };
    record(state, Interrupt { duration, class: HARDIRQ, number: arg::<0>(ctx) as u32, name })
}

#[inline(always)]
fn record(state: &mut CpuState, body: Interrupt) -> Option<()> {
    let mut w = open::<{ room(size_of::<Interrupt>()) }>(state, kind::INTERRUPT, Payer::Nobody)?;
    w.record(kind::INTERRUPT, body);
    w.publish(kind::INTERRUPT);
    Some(())
}
