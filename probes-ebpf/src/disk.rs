//! Requests to disks: queued in an I/O scheduler, handed to a driver, done.
//!
//! The three tracepoints run in threads with interrupts on, and in softirqs and interrupts
//! (`blk_update_request` in the handler of a disk's interrupt, block/blk-mq.c, Linux 6.1), so two
//! of their programs may meet on a CPU: see [`crate::aside`].
//!
//! The kernel's own tracepoints read the same members (`block_rq`, `block_rq_completion`,
//! include/trace/events/block.h, Linux 6.1 and 6.18).

use core::ffi::c_void;

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use flightrec_format::abi::kinds::{BlockComplete, BlockInsert, BlockIssue};
use flightrec_format::abi::probe::DiskOffsets;
use flightrec_format::abi::record::kind;
use flightrec_format::abi::state::ENABLE_DISK;

use crate::context;
use crate::cpu::this_cpu;
use crate::kernel::{Request, arg, number};
use crate::kernel_lane::{Payer, open, room};
use crate::pseudonym::pseudonym;

/// Filled by the loader, where the kernel tells.
#[unsafe(no_mangle)]
static DISK_OFFSETS: DiskOffsets =
    DiskOffsets { q: 0, disk: 0, major: 0, first_minor: 0, cmd_flags: 0, data_len: 0, sector: 0 };

/// `MINORBITS`, include/linux/kdev_t.h: a device's number is its major and so many bits of minor.
const MINOR_BITS: u32 = 20;
/// `REQ_OP_MASK`, include/linux/blk_types.h, Linux 6.1 and 6.18.
const OP_MASK: u32 = 0xff;
/// `REQ_OP_DRV_IN` and `_OUT`: commands of the driver, which have no sector
/// (`blk_rq_is_passthrough`, include/linux/blk-mq.h).
const DRV_IN: u32 = 34;
const DRV_OUT: u32 = 35;

/// What is recorded of a request at any of its events.
struct Facts {
    request: u32,
    device: u32,
    sector: u64,
    bytes: u32,
    op: u32,
    flags: u32,
}

impl Facts {
    #[inline(always)]
    fn of(ctx: *mut c_void) -> Self {
        // The first argument of all three.
        let request = Request::from_arg(arg::<0>(ctx) as *const u8);
        // SAFETY: a static of ours; volatile because the loader replaces its values.
        let at = unsafe { (&raw const DISK_OFFSETS).read_volatile() };
        let disk = request.disk(at.q, at.disk);
        let command = request.word(at.cmd_flags);
        let op = command & OP_MASK;
        let sector = request.long(at.sector);
        // As the kernel's own events have it (`blk_rq_trace_sector`).
        let has_none = op == DRV_IN || op == DRV_OUT || sector == u64::MAX;
        Self {
            request: pseudonym(number::<0>(ctx)),
            device: disk.word(at.major) << MINOR_BITS | disk.word(at.first_minor),
            sector: if has_none { 0 } else { sector },
            bytes: request.word(at.data_len),
            op,
            flags: command & !OP_MASK,
        }
    }
}

/// `block_rq_insert(rq)`
#[btf_tracepoint(function = "block_rq_insert")]
fn block_rq_insert(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_DISK == 0 {
        return None;
    }
    let Facts { request, device, sector, bytes, op, flags } = Facts::of(ctx.as_ptr());
    let context = context::now(state.preempt_count);
    let body =
        BlockInsert { request, device, sector, bytes, op, flags, context: u32::from(context) };
    let mut w =
        open::<{ room(size_of::<BlockInsert>()) }>(state, kind::BLOCK_INSERT, Payer::of(context))?;
    w.record(kind::BLOCK_INSERT, body);
    w.publish(kind::BLOCK_INSERT);
    Some(())
}

/// `block_rq_issue(rq)`
#[btf_tracepoint(function = "block_rq_issue")]
fn block_rq_issue(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_DISK == 0 {
        return None;
    }
    let Facts { request, device, sector, bytes, op, flags } = Facts::of(ctx.as_ptr());
    let context = context::now(state.preempt_count);
    let body =
        BlockIssue { request, device, sector, bytes, op, flags, context: u32::from(context) };
    let mut w =
        open::<{ room(size_of::<BlockIssue>()) }>(state, kind::BLOCK_ISSUE, Payer::of(context))?;
    w.record(kind::BLOCK_ISSUE, body);
    w.publish(kind::BLOCK_ISSUE);
    Some(())
}

/// `block_rq_complete(rq, error, nr_bytes)`: before what is done is taken off the request
/// (`blk_update_request`, block/blk-mq.c, Linux 6.1).
#[btf_tracepoint(function = "block_rq_complete")]
fn block_rq_complete(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    let state = this_cpu();
    if state.enabled & ENABLE_DISK == 0 {
        return None;
    }
    let Facts { request, device, sector, bytes: of, op, flags } = Facts::of(ctx);
    let context = context::now(state.preempt_count);
    let bytes = arg::<2>(ctx) as u32;
    let body = BlockComplete {
        request,
        device,
        sector,
        bytes,
        op,
        flags,
        context: u32::from(context),
        left: of.saturating_sub(bytes),
        // `blk_status_t` is a byte.
        error: arg::<1>(ctx) as u32 & 0xff,
    };
    let mut w =
        open::<{ room(size_of::<BlockComplete>()) }>(state, kind::BLOCK_COMPLETE, Payer::Nobody)?;
    w.record(kind::BLOCK_COMPLETE, body);
    w.publish(kind::BLOCK_COMPLETE);
    Some(())
}
