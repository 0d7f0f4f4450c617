//! System calls: entry and exit.
//!
//! Two forms of each program. Up to Linux 6.19 `tp_btf`, the cheaper one. From 7.0 on programs of
//! that form on `raw_syscalls` are preemptible, and skipped when they meet (kernel commits
//! f7d327654b88, a46023d5616e), so there the classic tracepoint form, which runs with preemption
//! off. The loader decides (`daemon/src/load.rs`).

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_task_pt_regs;
use aya_ebpf::macros::{btf_tracepoint, map, tracepoint};
use aya_ebpf::maps::Array;
use aya_ebpf::programs::{BtfTracePointContext, TracePointContext};
use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::abi::probe::{ARGS_LOST, CALLS, CallTable, NO_STRING};
use flightrec_format::abi::record::{self, Abi, NR_INVALID, call_aux, counter, fold, kind};
use flightrec_format::abi::state::{CpuState, ENABLE_STRINGS, ENABLE_SYSCALL, entered};

use crate::args;
use crate::kernel::{Regs, Task};
use crate::lane::{BODY, Page, RINGS_SYSCALL, Writer, bounded, now, this_cpu};
use crate::strings;

/// What each native call takes. Filled by the loader.
#[unsafe(no_mangle)]
static NATIVE_CALLS: CallTable = [6; CALLS];
/// What each 32-bit call takes.
#[unsafe(no_mangle)]
static COMPAT_CALLS: CallTable = [6; CALLS];

/// Threads whose call has a string that could not be read at entry: its page was not there. By
/// the id's low bits; a slot that two threads share costs one of them the string, no more.
#[map(name = "cold_strings")]
static COLD: Array<u32> = Array::with_max_entries(COLD_SLOTS, 0);
const COLD_SLOTS: u32 = 1024;

/// A call that takes no string that is recorded.
const NO_STRINGS: u32 = NO_STRING << 8;

/// THREAD, TIME, ENTER with fold slot, arguments.
const ENTER_ROOM: usize = 8 + 16 + 16 + args::ROOM;
/// `__X32_SYSCALL_BIT`, arch/x86/include/uapi/asm/unistd.h.
pub(crate) const X32_BIT: u64 = 0x4000_0000;

/// A call's identity, from the number that the kernel gave.
struct Call {
    nr: u16,
    abi: Abi,
    entry: u32,
}

#[inline(always)]
fn classify(id: u64, compat: bool) -> Call {
    // SAFETY: inside the tables by the checks; volatile because the loader replaces them.
    unsafe {
        if id < CALLS as u64 {
            let (table, abi) =
                if compat { (&raw const COMPAT_CALLS, Abi::Compat) } else { (&raw const NATIVE_CALLS, Abi::Native) };
            let entry = table.cast::<u32>().add(bounded(id as usize, CALLS - 1)).read_volatile();
            Call { nr: id as u16, abi, entry }
        } else if id ^ X32_BIT < u64::from(NR_INVALID) && !compat {
            Call { nr: (id ^ X32_BIT) as u16, abi: Abi::X32, entry: 6 | NO_STRINGS }
        } else {
            let abi = if compat { Abi::Compat } else { Abi::Native };
            Call { nr: NR_INVALID, abi, entry: 1 | NO_STRINGS }
        }
    }
}

#[inline(always)]
fn has_strings(entry: u32) -> bool {
    entry >> 8 & NO_STRING != NO_STRING
}

/// Which parts a call's record has behind its two words.
struct Parts {
    args: bool,
    strings: bool,
}

/// Writes a call's record, whose second word is `word`, and the thread's name in front where the page
/// does not have it; publishing is left to the caller. Returns the writer, the record's offset, and
/// whether a string could not be read.
#[inline(always)]
fn put<'a>(
    cpu: u32,
    state: &'a mut CpuState,
    tid: u32,
    kind: u8,
    call: &Call,
    word: u64,
    values: &[u64; 6],
    parts: Parts,
) -> Option<(Writer<'a>, usize, bool)> {
    let i = Lane::Syscall as usize;
    let need = if parts.strings { ENTER_ROOM + strings::room(call.entry) } else { ENTER_ROOM };
    let mut w = Writer::open(&mut state.lanes[i], &mut state.no_ring[i], &RINGS_SYSCALL, Lane::Syscall, cpu, need)?;
    if w.lane.tid != tid {
        w.thread(tid);
        w.lane.tid = tid;
    }
    let since = w.time();
    let start = w.at;
    let n = call.entry & 7;
    w.at = start + 16;
    if parts.args && n > 0 {
        // SAFETY: `open` made room for it.
        w.at = unsafe { args::put(w.body(), start + 16, values, n) };
    }
    let words = (w.at - start) / 8;
    let aux = call_aux(call.nr, call.abi as u8);
    // SAFETY: room made by `open`.
    unsafe {
        let head = w.body().add(start).cast::<u64>();
        head.write_volatile(record::header(kind, words as u8, aux, since));
        head.add(1).write_volatile(word);
    }
    let mut cold = false;
    if parts.strings {
        let end = strings::put_call(w.body(), w.at, values, call.entry);
        w.at = (end & (strings::COLD - 1)) as usize;
        cold = end & strings::COLD != 0;
        if w.at > BODY {
            w.at = BODY; // never; the verifier wants to see it
        }
    }
    Some((w, start, cold))
}

/// An entry.
#[inline(always)]
fn enter(cpu: u32, state: &mut CpuState, task: Task, id: u64, compat: bool, mut values: [u64; 6]) -> Option<()> {
    let tid = task.tid();
    let lane = &mut state.lanes[Lane::Syscall as usize];
    lane.entered = entered::UNKNOWN;
    if task.tgid() == state.own_tgid {
        lane.refused[Refusal::Own as usize] += 1;
        return None;
    }
    let call = classify(id, compat);
    if call.nr == NR_INVALID {
        values[0] = id;
    }
    let strings = has_strings(call.entry) && state.enabled & ENABLE_STRINGS != 0;
    let (w, start, cold) = put(cpu, state, tid, kind::ENTER, &call, 0, &values, Parts { args: true, strings })?;
    w.lane.enter_off = start as u32;
    w.lane.enter_time = w.now;
    w.lane.entered = entered::FOLDABLE;
    if cold {
        w.lane.entered = entered::ALONE;
        if let Some(slot) = COLD.get_ptr_mut(tid % COLD_SLOTS) {
            // SAFETY: an element of the map.
            unsafe { slot.write_volatile(tid) };
        }
    }
    w.publish(kind::ENTER);
    Some(())
}

/// The short way of an exit: into the entry's record, where that is the last thing that happened
/// on this CPU. One aligned store.
#[inline(always)]
fn fold_exit(state: &mut CpuState, ret: i64) -> bool {
    let lane = &mut state.lanes[Lane::Syscall as usize];
    let took = now().wrapping_sub(lane.enter_time);
    // SAFETY: a field of our own, loaded once.
    let at = unsafe { (&raw const lane.enter_off).read_volatile() } as usize;
    if took >= fold::LIMIT_NS || !fold::fits(ret) || at > BODY - 16 {
        return false;
    }
    let Some(page) = RINGS_SYSCALL.get_ptr_mut(lane.ring_base + lane.page) else { return false };
    // SAFETY: the fold slot is the second word of the ENTER record at `at`.
    unsafe { Page::body(page).add(at + 8).cast::<u64>().write_volatile(fold::pack(ret, took)) };
    lane.events[counter(kind::EXIT)] += 1;
    true
}

/// An exit that stands alone.
#[inline(always)]
fn exit(
    cpu: u32,
    state: &mut CpuState,
    task: Task,
    began: u32,
    id: u64,
    compat: bool,
    regs: [u64; 6],
    ret: i64,
) -> Option<()> {
    let tid = task.tid();
    let lane = &mut state.lanes[Lane::Syscall as usize];
    if task.tgid() == state.own_tgid {
        lane.refused[Refusal::Own as usize] += 1;
        return None;
    }
    let call = classify(id, compat);
    // A new program and a signal's return have replaced the registers.
    let lost = call.nr == NR_INVALID || call.entry & ARGS_LOST != 0 && ret == 0;
    let mut cold = false;
    if has_strings(call.entry) && state.enabled & ENABLE_STRINGS != 0 {
        // Where the entry was not recorded, its strings were not either.
        cold = began == entered::UNKNOWN && ret < 0;
        if let Some(slot) = COLD.get_ptr_mut(tid % COLD_SLOTS) {
            // SAFETY: an element of the map.
            unsafe {
                if slot.read_volatile() == tid {
                    slot.write_volatile(0);
                    cold = true;
                }
            }
        }
        cold &= !lost;
    }
    let parts = Parts { args: began == entered::UNKNOWN && !lost, strings: cold };
    let (w, _, _) = put(cpu, state, tid, kind::EXIT, &call, ret as u64, &regs, parts)?;
    w.publish(kind::EXIT);
    Some(())
}

#[btf_tracepoint(function = "sys_enter")]
fn sys_enter(ctx: BtfTracePointContext) -> Option<()> {
    let (cpu, state) = this_cpu()?;
    if state.enabled & ENABLE_SYSCALL == 0 {
        state.lanes[Lane::Syscall as usize].entered = entered::UNKNOWN;
        return None;
    }
    let task = Task::current();
    let compat = task.is_compat();
    let regs = Regs::from_arg(ctx.arg(0));
    let values = if compat { regs.compat_args() } else { regs.args() };
    enter(cpu, state, task, ctx.arg(1), compat, values)
}

/// How the call that ends now began; `None` where no exits are recorded.
#[inline(always)]
fn began(state: &mut CpuState) -> Option<u32> {
    let lane = &mut state.lanes[Lane::Syscall as usize];
    let began = lane.entered;
    lane.entered = entered::UNKNOWN;
    (state.enabled & ENABLE_SYSCALL != 0).then_some(began)
}

#[btf_tracepoint(function = "sys_exit")]
fn sys_exit(ctx: BtfTracePointContext) -> Option<()> {
    let (cpu, state) = this_cpu()?;
    let began = began(state)?;
    let ret: i64 = ctx.arg(1);
    if began == entered::FOLDABLE && fold_exit(state, ret) {
        return None;
    }
    let task = Task::current();
    let compat = task.is_compat();
    let regs = Regs::from_arg(ctx.arg(0));
    let values = if compat { regs.compat_args() } else { regs.args() };
    exit(cpu, state, task, began, regs.nr() as u64, compat, values, ret)
}

/// `struct syscall_trace_enter` / `_exit` as the tracepoint's `format` publishes them.
const FIELD_ID: usize = 8;
const FIELD_ARGS: usize = 16;

#[inline(always)]
fn field(ctx: &TracePointContext, at: usize) -> u64 {
    // SAFETY: inside the tracepoint's record; the verifier checks it (`tp_prog_is_valid_access`).
    unsafe { ctx.as_ptr().cast::<u8>().add(at).cast::<u64>().read_volatile() }
}

#[tracepoint]
fn sys_enter_classic(ctx: TracePointContext) -> u32 {
    classic_enter(&ctx);
    0
}

#[inline(always)]
fn classic_enter(ctx: &TracePointContext) -> Option<()> {
    let (cpu, state) = this_cpu()?;
    if state.enabled & ENABLE_SYSCALL == 0 {
        state.lanes[Lane::Syscall as usize].entered = entered::UNKNOWN;
        return None;
    }
    let task = Task::current();
    // The record holds the arguments of either kind of call (`syscall_get_arguments`).
    let values = [
        field(ctx, FIELD_ARGS),
        field(ctx, FIELD_ARGS + 8),
        field(ctx, FIELD_ARGS + 16),
        field(ctx, FIELD_ARGS + 24),
        field(ctx, FIELD_ARGS + 32),
        field(ctx, FIELD_ARGS + 40),
    ];
    enter(cpu, state, task, field(ctx, FIELD_ID), task.is_compat(), values)
}

#[tracepoint]
fn sys_exit_classic(ctx: TracePointContext) -> u32 {
    classic_exit(&ctx);
    0
}

#[inline(always)]
fn classic_exit(ctx: &TracePointContext) -> Option<()> {
    let (cpu, state) = this_cpu()?;
    let began = began(state)?;
    let ret = field(ctx, FIELD_ARGS) as i64; // `ret` stands where `args` begins
    if began == entered::FOLDABLE && fold_exit(state, ret) {
        return None;
    }
    let task = Task::current();
    let compat = task.is_compat();
    // SAFETY: the running thread's own registers; it is in a system call, so it has them.
    let regs = Regs::from_arg(unsafe { bpf_task_pt_regs(task.as_ptr() as *mut _) } as *const u8);
    let values = if compat { regs.compat_args() } else { regs.args() };
    exit(cpu, state, task, began, regs.nr() as u64, compat, values, ret)
}
