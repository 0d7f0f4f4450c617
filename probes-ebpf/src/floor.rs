//! Programs that record nothing: what it costs to be asked at all, and what a timestamp adds.
//! `cargo xtask bench overhead` holds the probes against them (`daemon/examples/floor.rs`).
//!
//! Each is attached to every tracepoint of the probes. As `raw_tp`, which the kernel runs by the
//! same way as `tp_btf` (`__bpf_trace_run`, kernel/trace/bpf_trace.c, Linux 6.1), and as classic
//! tracepoint program, for the kernels where the probes on system calls are that.

#![no_std]
#![no_main]

use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use aya_ebpf::macros::{raw_tracepoint, tracepoint};
use aya_ebpf::programs::{RawTracePointContext, TracePointContext};

#[raw_tracepoint]
fn empty(_: RawTracePointContext) -> i32 {
    0
}

#[raw_tracepoint]
fn clock(_: RawTracePointContext) -> i32 {
    read_clock();
    0
}

#[tracepoint]
fn empty_classic(_: TracePointContext) -> u32 {
    0
}

#[tracepoint]
fn clock_classic(_: TracePointContext) -> u32 {
    read_clock();
    0
}

#[inline(always)]
fn read_clock() {
    // SAFETY: the helper has no preconditions. The compiler can't tell that it has no effect, so it stays.
    unsafe { bpf_ktime_get_ns() };
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
