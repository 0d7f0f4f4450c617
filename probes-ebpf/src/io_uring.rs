//! Operations of io_uring: handed to the kernel, done.
//!
//! Both tracepoints run in threads with interrupts on: in whoever calls io_uring_enter, in the
//! kernel's thread that polls a ring, and in the kernel's workers of the process
//! (io_uring/io-wq.c). The first comes when all arguments of the operation have been taken over
//! from the program (`io_submit_sqe`, io_uring/io_uring.c, Linux 6.1 and 6.18), so that what is
//! read here is what the kernel goes by.

use core::ffi::c_void;

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use flightrec_format::abi::kinds::{IoComplete, IoSubmit};
use flightrec_format::abi::probe::{ABSENT, OpOffsets, RING_OPS, RingOffsets};
use flightrec_format::abi::record::kind;
use flightrec_format::abi::state::{CpuState, ENABLE_IO_URING, ENABLE_STRINGS, GIVEN_STRINGS};
use flightrec_format::abi::value_names::IO_DIRECT;

use crate::context;
use crate::cpu::this_cpu;
use crate::files::{load, peek};
use crate::kernel::{arg, number};
use crate::kernel_lane::{Payer, open, open_with_strings, room};
use crate::lane::Writer;
use crate::pages::bounded;
use crate::pseudonym::pseudonym;
use crate::strings::{self, Source};

/// Filled by the loader, where the kernel tells.
#[unsafe(no_mangle)]
static RING_OFFSETS: RingOffsets = RingOffsets {
    ctx: 0,
    opcode: 0,
    flags: 0,
    user_data: 0,
    setup: 0,
    name: 0,
    has_cqe: 0,
    reserved: 0,
    ops: [OpOffsets { fd: ABSENT, slot: ABSENT, paths: [ABSENT; 2] }; RING_OPS],
};

/// The member of [`RING_OFFSETS`], read so that the compiler does not assume its initial value.
macro_rules! offset {
    ($($member:tt)+) => {
        // SAFETY: a static of ours.
        unsafe { (&raw const RING_OFFSETS.$($member)+).read_volatile() }
    };
}

/// `IORING_SETUP_SQPOLL`, include/uapi/linux/io_uring.h.
const SQPOLL: u32 = 1 << 1;
/// The flags of a `struct io_uring_sqe` in those of a request (`REQ_F_FIXED_FILE` to
/// `REQ_F_CQE_SKIP`, include/linux/io_uring_types.h, Linux 6.1 and 6.18).
const SQE_FLAGS: u32 = 0x7f;
/// [`IoSubmit::fd`]: there is none.
const NO_DESCRIPTOR: i32 = -1;
/// [`IoComplete::op`]: it is not known.
const UNKNOWN: u32 = u32::MAX;
/// `struct io_uring_cqe`, include/uapi/linux/io_uring.h.
const CQE_RES: u32 = 8;
const CQE_FLAGS: u32 = 12;

/// Addresses of a request's paths; 0: it has none there.
type Paths = [u64; 2];

/// `io_uring_submit_req(req)`
#[btf_tracepoint(function = "io_uring_submit_req")]
fn io_uring_submit_req(ctx: BtfTracePointContext) -> Option<()> {
    submit(ctx.as_ptr())
}

/// `io_uring_submit_sqe(req, force_nonblock)`: its name in Linux 6.1.
#[btf_tracepoint(function = "io_uring_submit_sqe")]
fn io_uring_submit_sqe(ctx: BtfTracePointContext) -> Option<()> {
    submit(ctx.as_ptr())
}

#[inline(always)]
fn submit(ctx: *mut c_void) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_IO_URING == 0 {
        return None;
    }
    let request = number::<0>(ctx);
    let pointer = arg::<0>(ctx) as *const u8;
    // SAFETY: the tracepoint's request, which the verifier knows.
    let (op, flags, user_data) = unsafe {
        (
            load::<u8>(pointer, offset!(opcode)),
            load::<u32>(pointer, offset!(flags)) & SQE_FLAGS,
            load::<u64>(pointer, offset!(user_data)),
        )
    };
    // As a number: the verifier does not reckon with pointers.
    let ring: u64 = peek(request, offset!(ctx));
    let setup: u32 = peek(ring, offset!(setup));
    // One that is too new counts as the first one, IORING_OP_NOP, which has nothing.
    let place = bounded::<1, RING_OPS>(usize::from(op));
    // SAFETY: a static of ours, of so many; volatile because the loader replaces its value.
    let at =
        unsafe { (&raw const RING_OFFSETS.ops).cast::<OpOffsets>().add(place).read_volatile() };
    let is_direct = at.slot != ABSENT && peek::<u32>(request, at.slot) != 0;
    let body = IoSubmit {
        ring: pseudonym(ring),
        operation: pseudonym(request),
        user_data,
        op: u32::from(op),
        fd: if at.fd == ABSENT { NO_DESCRIPTOR } else { peek(request, at.fd) },
        flags: flags | if is_direct { IO_DIRECT } else { 0 },
        submitter: u32::from(setup & SQPOLL != 0),
    };
    let strings = state.enabled & (ENABLE_STRINGS | GIVEN_STRINGS) == ENABLE_STRINGS;
    if strings && at.paths[0] != ABSENT {
        let paths = [path(request, at.paths[0]), path(request, at.paths[1])];
        record_with_paths(state, &body, &paths);
        return Some(());
    }
    let mut w = open::<{ room(size_of::<IoSubmit>()) }>(state, kind::IO_SUBMIT, Payer::Thread)?;
    w.record(kind::IO_SUBMIT, body);
    w.publish(kind::IO_SUBMIT);
    Some(())
}

/// The address of a path whose `struct filename` a member of the request points to.
#[inline(always)]
fn path(request: u64, at: u32) -> u64 {
    if at == ABSENT {
        return 0;
    }
    let filename: u64 = peek(request, at);
    if filename == 0 { 0 } else { peek(filename, offset!(name)) }
}

/// Of its own, as it takes more room in a page.
#[inline(never)]
fn record_with_paths(state: &mut CpuState, body: &IoSubmit, paths: &Paths) -> u32 {
    const ROOM: usize = room(size_of::<IoSubmit>()) + 2 * strings::ROOM;
    let count = 1 + u32::from(paths[1] != 0);
    let Some(mut w) = open_with_strings::<ROOM>(state, kind::IO_SUBMIT, Payer::Thread, count)
    else {
        return 0;
    };
    w.record(kind::IO_SUBMIT, *body);
    put(&mut w, 0, paths[0]);
    if paths[1] != 0 {
        put(&mut w, 1, paths[1]);
    }
    w.publish(kind::IO_SUBMIT);
    1
}

/// What can't be read stands there as such.
#[inline(always)]
fn put(w: &mut Writer<'_>, index: u16, from: u64) {
    let end = strings::put(w.page(), w.at, index, from, Source::Kernel);
    w.at = (end & (strings::COLD - 1)) as usize;
}

/// `io_uring_complete(ctx, req, cqe)`, or with what is in the `struct io_uring_cqe` in its place:
/// [`RingOffsets::has_cqe`].
#[btf_tracepoint(function = "io_uring_complete")]
fn io_uring_complete(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    let state = this_cpu();
    if state.enabled & ENABLE_IO_URING == 0 {
        return None;
    }
    let (ring, request) = (number::<0>(ctx), number::<1>(ctx));
    let (user_data, result, flags) = if offset!(has_cqe) != 0 {
        let cqe = number::<2>(ctx);
        (peek::<u64>(cqe, 0), peek::<i32>(cqe, CQE_RES), peek::<u32>(cqe, CQE_FLAGS))
    } else {
        (number::<2>(ctx), number::<3>(ctx) as i32, number::<4>(ctx) as u32)
    };
    let context = context::now(state.preempt_count);
    let body = IoComplete {
        ring: pseudonym(ring),
        operation: if request == 0 { 0 } else { pseudonym(request) },
        user_data,
        op: if request == 0 { UNKNOWN } else { u32::from(peek::<u8>(request, offset!(opcode))) },
        result,
        flags,
        context: u32::from(context),
    };
    let payer = Payer::of(context);
    let mut w = open::<{ room(size_of::<IoComplete>()) }>(state, kind::IO_COMPLETE, payer)?;
    w.record(kind::IO_COMPLETE, body);
    w.publish(kind::IO_COMPLETE);
    Some(())
}
