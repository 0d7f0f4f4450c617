//! Requests to disks: queued in an I/O scheduler, handed to a driver, done.
//!
//! The three tracepoints run in threads with interrupts on, and in softirqs and interrupts
//! (`blk_update_request` in the handler of a disk's interrupt, block/blk-mq.c, Linux 6.1), so two
//! of their programs may meet on a CPU. They have a lane without other programs, claimed by an
//! atomic: the one that comes second is refused, and counted.
//!
//! The kernel's own tracepoints read the same members (`block_rq`, `block_rq_completion`,
//! include/trace/events/block.h, Linux 6.1 and 6.18).

use core::ffi::c_void;

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use flightrec_format::abi::kinds::{BlockComplete, BlockInsert, BlockIssue};
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::probe::DiskOffsets;
use flightrec_format::abi::record::{WakeContext, kind};
use flightrec_format::abi::state::{CpuState, ENABLE_DISK, LIMIT_SCHED};

use crate::kernel::{Request, arg, number};
use crate::lane::{RINGS_TRACE, Writer, this_cpu};
use crate::{budget, context, running};

/// Filled by the loader, where the kernel tells.
#[unsafe(no_mangle)]
static DISK_OFFSETS: DiskOffsets =
    DiskOffsets { q: 0, disk: 0, major: 0, first_minor: 0, cmd_flags: 0, data_len: 0, sector: 0 };

/// Of the hash that names requests. Filled by the loader.
#[unsafe(no_mangle)]
static REQUEST_KEYS: [u64; 2] = [0; 2];

/// THREAD, TIME, header, and a body of the lane.
const fn room(body: usize) -> usize {
    8 + 16 + 8 + body
}

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
            request: name(number::<0>(ctx)),
            device: disk.word(at.major) << MINOR_BITS | disk.word(at.first_minor),
            sector: if has_none { 0 } else { sector },
            bytes: request.word(at.data_len),
            op,
            flags: command & !OP_MASK,
        }
    }
}

/// A request's name: its address, by a hash with a secret key (SipHash-1-3 of one word), so that
/// nobody who reads the recording learns where the kernel's memory is.
#[inline(always)]
fn name(address: u64) -> u32 {
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    let [k0, k1] = unsafe { (&raw const REQUEST_KEYS).read_volatile() };
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573 ^ address,
    ];
    round(&mut v);
    v[0] ^= address;
    v[2] ^= 0xff;
    round(&mut v);
    round(&mut v);
    round(&mut v);
    (v[0] ^ v[1] ^ v[2] ^ v[3]) as u32
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

/// Opens the lane for an event in `context`, if the budget allows it, and names the thread that
/// runs.
#[inline(always)]
fn open<const NEED: usize>(state: &mut CpuState, kind: u8, context: u8) -> Option<Writer<'_>> {
    let i = Lane::Trace as usize;
    if state.enabled & LIMIT_SCHED != 0 {
        let is_somebodys = kind != kind::BLOCK_COMPLETE && context == WakeContext::Thread as u8;
        let gives = if is_somebodys { budget::draw_disk(state) } else { budget::draw_done(state) };
        if !gives {
            budget::refuse_disk(state, kind);
            return None;
        }
    }
    let current = running::tid(state);
    let mut w = Writer::open::<NEED, true>(
        &mut state.lanes[i],
        &mut state.no_ring[i],
        &RINGS_TRACE,
        Lane::Trace,
        NEED,
    )?;
    w.of_thread(current);
    Some(w)
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
    let mut w = open::<{ room(size_of::<BlockInsert>()) }>(state, kind::BLOCK_INSERT, context)?;
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
    let mut w = open::<{ room(size_of::<BlockIssue>()) }>(state, kind::BLOCK_ISSUE, context)?;
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
    let mut w = open::<{ room(size_of::<BlockComplete>()) }>(state, kind::BLOCK_COMPLETE, context)?;
    w.record(kind::BLOCK_COMPLETE, body);
    w.publish(kind::BLOCK_COMPLETE);
    Some(())
}
