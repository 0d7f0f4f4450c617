//! Memory that runs out: victims of the OOM killer, and threads that have to free or move pages
//! before they get any. All of it happens in threads, which may sleep in the middle.

use core::ffi::c_void;

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use flightrec_format::abi::kinds::{Compaction, OomVictim, Reclaim};
use flightrec_format::abi::probe::{CompactionOffsets, ReclaimShape, VictimShape};
use flightrec_format::abi::record::kind;
use flightrec_format::abi::state::ENABLE_MEMORY;

use crate::cpu::{now, this_cpu};
use crate::kernel::{Task, arg, comm_bytes, word_at};
use crate::kernel_lane::{Payer, open, room};
use crate::{running, waits};

/// Filled by the loader, as the next two are.
#[unsafe(no_mangle)]
static VICTIM_SHAPE: VictimShape = VictimShape { is_task: 0 };

#[unsafe(no_mangle)]
static RECLAIM_SHAPE: ReclaimShape = ReclaimShape { order_is_second: 0 };

#[unsafe(no_mangle)]
static COMPACTION_OFFSETS: CompactionOffsets = CompactionOffsets { order: 0 };

/// [`Reclaim::limit`]
const MACHINE: u32 = 0;
const CGROUP: u32 = 1;

/// `mark_victim(task, uid)`, before Linux 6.8 `mark_victim(pid)`: `mark_oom_victim`,
/// mm/oom_kill.c.
#[btf_tracepoint(function = "mark_victim")]
fn mark_victim(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    let state = this_cpu();
    if state.enabled & ENABLE_MEMORY == 0 {
        return None;
    }
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    let is_task = unsafe { (&raw const VICTIM_SHAPE.is_task).read_volatile() } != 0;
    let body = if is_task {
        let task = Task::from_arg(arg::<0>(ctx) as *const u8);
        OomVictim {
            target_tid: task.tid(),
            target_pid: task.tgid(),
            target_comm: comm_bytes(task.comm()),
        }
    } else {
        OomVictim { target_tid: arg::<0>(ctx) as u32, target_pid: 0, target_comm: [0; 16] }
    };
    let mut w = open::<{ room(size_of::<OomVictim>()) }>(state, kind::OOM_VICTIM, Payer::Thread)?;
    w.record(kind::OOM_VICTIM, body);
    w.publish(kind::OOM_VICTIM);
    Some(())
}

/// `mm_vmscan_direct_reclaim_begin(order, gfp_flags)`: `try_to_free_pages`, mm/vmscan.c, Linux 6.1.
#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_begin")]
fn mm_vmscan_direct_reclaim_begin(ctx: BtfTracePointContext) -> Option<()> {
    reclaim_begins(ctx.as_ptr())
}

/// `mm_vmscan_direct_reclaim_end(nr_reclaimed)`
#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_end")]
fn mm_vmscan_direct_reclaim_end(ctx: BtfTracePointContext) -> Option<()> {
    reclaimed(ctx.as_ptr(), MACHINE)
}

/// `mm_vmscan_memcg_reclaim_begin(order, gfp_flags)`: `try_to_free_mem_cgroup_pages`, mm/vmscan.c,
/// Linux 6.1.
#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_begin")]
fn mm_vmscan_memcg_reclaim_begin(ctx: BtfTracePointContext) -> Option<()> {
    reclaim_begins(ctx.as_ptr())
}

/// `mm_vmscan_memcg_reclaim_end(nr_reclaimed)`
#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_end")]
fn mm_vmscan_memcg_reclaim_end(ctx: BtfTracePointContext) -> Option<()> {
    reclaimed(ctx.as_ptr(), CGROUP)
}

/// A thread is in one reclaim at a time: either makes it one that may not (`PF_MEMALLOC`,
/// `__alloc_pages_slowpath`, mm/page_alloc.c, Linux 6.1).
#[inline(always)]
fn reclaim_begins(ctx: *mut c_void) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_MEMORY == 0 {
        return None;
    }
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    let is_second = unsafe { (&raw const RECLAIM_SHAPE.order_is_second).read_volatile() } != 0;
    let order = if is_second { arg::<1>(ctx) } else { arg::<0>(ctx) };
    let place = waits::take(running::tid(state))?;
    // SAFETY: a place of this thread's own.
    unsafe {
        (*place).order = u64::from(order as u32);
        (*place).reclaim = now();
    }
    Some(())
}

#[inline(always)]
fn reclaimed(ctx: *mut c_void, limit: u32) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_MEMORY == 0 {
        return None;
    }
    let place = waits::find(running::tid(state))?;
    // SAFETY: a place of this thread's own.
    let (began, order) = unsafe { (core::mem::take(&mut (*place).reclaim), (*place).order) };
    waits::leave(place);
    // It began before the recording did.
    if began == 0 {
        return None;
    }
    let mut w = open::<{ room(size_of::<Reclaim>()) }>(state, kind::RECLAIM, Payer::Thread)?;
    let duration = w.now.wrapping_sub(began);
    let body = Reclaim { duration, pages: arg::<0>(ctx), limit, order: order as u32 };
    w.record(kind::RECLAIM, body);
    w.publish(kind::RECLAIM);
    Some(())
}

/// `mm_compaction_begin(cc, zone_start, zone_end, sync)`: `compact_zone`, mm/compaction.c, Linux
/// 6.1.
#[btf_tracepoint(function = "mm_compaction_begin")]
fn mm_compaction_begin(_: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_MEMORY == 0 {
        return None;
    }
    let place = waits::take(running::tid(state))?;
    // SAFETY: a place of this thread's own.
    unsafe { (*place).compaction = now() };
    Some(())
}

/// `mm_compaction_end(cc, zone_start, zone_end, sync, status)`
#[btf_tracepoint(function = "mm_compaction_end")]
fn mm_compaction_end(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    let state = this_cpu();
    if state.enabled & ENABLE_MEMORY == 0 {
        return None;
    }
    let place = waits::find(running::tid(state))?;
    // SAFETY: a place of this thread's own.
    let began = unsafe { core::mem::take(&mut (*place).compaction) };
    waits::leave(place);
    if began == 0 {
        return None;
    }
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    let at = unsafe { (&raw const COMPACTION_OFFSETS.order).read_volatile() };
    let order = word_at(arg::<0>(ctx) as *const u8, at) as i32;
    let mut w = open::<{ room(size_of::<Compaction>()) }>(state, kind::COMPACTION, Payer::Thread)?;
    let body = Compaction {
        duration: w.now.wrapping_sub(began),
        order,
        mode: u32::from(arg::<3>(ctx) & 0xff != 0),
        result: arg::<4>(ctx) as u32,
        reserved: 0,
    };
    w.record(kind::COMPACTION, body);
    w.publish(kind::COMPACTION);
    Some(())
}
