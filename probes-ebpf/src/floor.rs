//! Programs that record nothing: what it costs to be asked at all, what a timestamp adds, and what
//! storing it does. `cargo xtask bench overhead` holds the probes against them
//! (`daemon/examples/floor.rs`).
//!
//! Each is attached to every tracepoint of the probes. As `raw_tp`, which the kernel runs by the
//! same way as `tp_btf` (`__bpf_trace_run`, kernel/trace/bpf_trace.c, Linux 6.1), and as classic
//! tracepoint program, for the kernels where the probes on system calls are that.

#![no_std]
#![no_main]

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use aya_ebpf::macros::{map, raw_tracepoint, tracepoint};
use aya_ebpf::maps::Array;
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

/// The least that a recorder of every event does: the clock, and two words into a page of the CPU's
/// own.
#[raw_tracepoint]
fn store(ctx: RawTracePointContext) -> i32 {
    store_words(ctx.as_ptr() as u64);
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

#[tracepoint]
fn store_classic(ctx: TracePointContext) -> u32 {
    store_words(ctx.as_ptr() as u64);
    0
}

/// CPUs that [`store`] knows.
const CPUS: u32 = 1024;
/// Words of a page; the first counts those in use.
const WORDS: usize = 512;

#[map(name = "pages")]
static PAGES: Array<[u64; WORDS]> =
    Array::with_max_entries(CPUS, 1 << 10 /* BPF_F_MMAPABLE */);

#[inline(always)]
fn store_words(word: u64) {
    // SAFETY: the helpers have no preconditions.
    let (now, cpu) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id()) };
    let Some(page) = PAGES.get_ptr_mut(cpu) else { return };
    let words = page.cast::<u64>();
    // SAFETY: within the page by the mask: 2 to WORDS - 1.
    unsafe {
        let at = words.read_volatile() as usize & (WORDS - 2);
        let at = if at == 0 { 2 } else { at };
        words.add(at).write_volatile(now);
        words.add(at + 1).write_volatile(word);
        words.write_volatile(at as u64 + 2);
    }
}

#[inline(always)]
fn read_clock() {
    // SAFETY: the helper has no preconditions. The compiler can't tell that it has no effect, so it
    // stays.
    unsafe { bpf_ktime_get_ns() };
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
