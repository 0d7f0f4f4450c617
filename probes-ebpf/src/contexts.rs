//! For which span of a distributed trace the running thread works, as its process publishes it
//! (`format::abi::publisher`).
//!
//! It is read when the thread is switched out, and at the end of a call that took long without a
//! switch: its address space is the present one, and it can't be in the middle of a change that it
//! does not see itself (OTEP 4947 counts on that: a reader sees what a signal's handler would).
//! Recorded is what differs from what was recorded of the thread last, before the switch, so that
//! the switch and the wait that begins have it, or before the call's EXIT.
//!
//! All that is read is the process's word: any address, which `bpf_probe_read_user` refuses outside
//! of user space, and where a page is not there. Then nothing is recorded.

use core::ffi::c_void;
use core::mem::MaybeUninit;

use aya_ebpf::helpers::generated::{bpf_copy_from_user_task, bpf_probe_read_user};
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use flightrec_format::abi::id::{SpanId, TraceId};
use flightrec_format::abi::kinds::ThreadContext;
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::publisher::{
    AGAIN_SHIFT, CONTEXT_RECORD, ContextRecord, DTV_ENTRY, MODULES_MAX, PEEK_MAX, PUBLISHER_WAYS,
    PUBLISHERS, Peek, Publisher, Publishers, SEEN, SEEN_SETS, SEEN_WAYS, ThreadPointerOffsets,
    VALID, publisher_place,
};
use flightrec_format::abi::record::{fold, kind};
use flightrec_format::abi::state::{CpuState, entered};

use crate::budget;
use crate::cpu::now;
use crate::files::IterMeta;
use crate::global::given;
use crate::kernel::Task;
use crate::pages::{NAMES, bounded};
use crate::sched_lane;

/// Who publishes. Written by the daemon alone.
#[map(name = "publishers")]
static PUBLISHERS_TABLE: Array<Publishers> =
    Array::with_max_entries(1, 1 << 10 /* BPF_F_MMAPABLE */);

/// What each thread was seen to work for last: its id, and a hash of the span, 0 of none. Two
/// threads that take a place from one another are recorded more often than they need be.
#[map(name = "seen_contexts")]
static SEEN_CONTEXTS: Array<[u64; SEEN]> = Array::with_max_entries(1, 0);

/// What the daemon asks of a process's memory.
#[map(name = "peeked")]
static PEEKED: Array<Peek> = Array::with_max_entries(1, 1 << 10);

/// Filled by the loader, where the kernel tells.
#[unsafe(no_mangle)]
static THREAD_POINTER_OFFSETS: ThreadPointerOffsets =
    ThreadPointerOffsets { thread_pointer: 0, vector: 0 };

/// THREAD, TIME, and the record.
const ROOM: usize = NAMES + 8 + size_of::<ThreadContext>();

/// The member's offset; 0: this kernel does not tell, and the verifier sees nothing of what depends
/// on it.
#[inline(always)]
fn thread_pointer() -> u32 {
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    unsafe { (&raw const THREAD_POINTER_OFFSETS.thread_pointer).read_volatile() }
}

/// The running thread `task` is about to be switched out.
#[inline(always)]
pub(crate) fn leave(state: &mut CpuState, task: Task) {
    if has_publishers() {
        see(state, task.as_ptr());
    }
}

/// The running thread's call ends that began as [`entered`] says, and does not fold. Where it took
/// so long that it never would, and without a switch, at which the span would have been read, it is
/// read now.
///
/// Interrupts are on, and those that wake a thread while the record is written find the lane busy
/// (`lane.rs`). That is some 100 ns of a call of 1 ms.
#[inline(always)]
pub(crate) fn end_call(state: &mut CpuState, began: u32) {
    // Else it is a call that slept, or was not recorded.
    let is_here = matches!(began, entered::FOLDABLE | entered::ALONE | entered::UNTIMED);
    if is_here && has_publishers() {
        see_slow(state, began);
    }
}

/// Whether anybody publishes.
#[inline(always)]
fn has_publishers() -> bool {
    if thread_pointer() == 0 {
        return false;
    }
    let Some(table) = PUBLISHERS_TABLE.get_ptr_mut(0) else { return false };
    // SAFETY: a word of the map's value; volatile since the daemon writes it.
    unsafe { (&raw const (*table).count).read_volatile() != 0 }
}

/// [`see`] of the running thread, if its call was slow. Verified by itself, as what calls it has
/// many ways.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn see_slow(state: *mut CpuState, began: u32) -> u32 {
    let Some(state) = given(state) else { return 0 };
    let since = state.lanes[Lane::Syscall as usize].enter_time;
    let is_slow = if began == entered::UNTIMED {
        budget::jiffies() != since
    } else {
        now().wrapping_sub(since) >= fold::LIMIT_NS
    };
    if is_slow {
        see(state, Task::current().as_ptr());
    }
    0
}

/// Records for which span the running thread works, where that has changed.
#[inline(never)]
fn see(state: &mut CpuState, task: *const u8) -> u32 {
    let task = Task::from_arg(task);
    let Some(publisher) = publisher(task.tgid(), task.mm()) else { return 0 };
    let pointer = task.address(thread_pointer() as usize);
    let mut record = MaybeUninit::<ContextRecord>::uninit();
    // SAFETY: of the table's value.
    let (module, offset) = unsafe { ((*publisher).module, (*publisher).offset) };
    if read(module, offset, pointer, record.as_mut_ptr()) == 0 {
        return 0;
    }
    // SAFETY: filled, but for what is after the record, which is not looked at.
    let ContextRecord { trace, span, flags, valid, .. } = unsafe { record.assume_init_read() };
    // One without the other is none.
    let is_none = valid != VALID || trace[0] | trace[1] == 0 || span == 0;
    let tid = task.tid();
    let seen = u64::from(tid) << 32 | if is_none { 0 } else { hash(trace, span) };
    let Some(place) = seen_place(tid) else { return 0 };
    // SAFETY: inside the map's value.
    if unsafe { place.read_volatile() } == seen {
        return 0;
    }
    let writer = sched_lane::open::<ROOM, false>(state, kind::THREAD_CONTEXT, tid, |state| {
        budget::draw_sched(state, task, task)
    });
    let Some(mut w) = writer else { return 0 };
    let body = if is_none {
        ThreadContext { trace: TraceId([0; 16]), span: SpanId([0; 8]), flags: 0, reserved: 0 }
    } else {
        // SAFETY: bytes of the same number.
        let (trace, span) = unsafe {
            (
                core::mem::transmute::<[u64; 2], [u8; 16]>(trace),
                core::mem::transmute::<u64, [u8; 8]>(span),
            )
        };
        ThreadContext {
            trace: TraceId(trace),
            span: SpanId(span),
            flags: u32::from(flags),
            reserved: 0,
        }
    };
    w.record(kind::THREAD_CONTEXT, body);
    w.publish(kind::THREAD_CONTEXT);
    // SAFETY: as above.
    unsafe { place.write_volatile(seen) };
    0
}

/// Where the process is in the table, if it is the program that was found to publish.
#[inline(always)]
fn publisher(tgid: u32, mm: u64) -> Option<*const Publisher> {
    if tgid == 0 || mm == 0 {
        return None;
    }
    let table = PUBLISHERS_TABLE.get_ptr_mut(0)?;
    let first = bounded::<PUBLISHER_WAYS, PUBLISHERS>(publisher_place(tgid));
    for way in 0..PUBLISHER_WAYS {
        // SAFETY: so many are in the table from there on; volatile since the daemon writes them.
        unsafe {
            let place = (&raw const (*table).places).cast::<Publisher>().add(first + way);
            if (&raw const (*place).tgid).read_volatile() == tgid
                && (&raw const (*place).mm).read_volatile() == mm
            {
                return Some(place);
            }
        }
    }
    None
}

/// Reads what a thread of this process publishes; 0: it can't be read. A record that is not valid
/// where it has none.
#[inline(always)]
fn read(module: u32, offset: i64, pointer: u64, record: *mut ContextRecord) -> u32 {
    let mut base = pointer;
    if module != 0 {
        // The thread has no part of this module before it uses it first, and its vector need not be
        // long enough: then it has published nothing.
        let Some(part) = part(module, pointer) else { return 0 };
        if part == 0 {
            return none(record);
        }
        base = part;
    }
    let Some(at) = word(base.wrapping_add(offset as u64)) else { return 0 };
    if at == 0 {
        return none(record);
    }
    // SAFETY: so many bytes of our own; the address may be any.
    let result =
        unsafe { bpf_probe_read_user(record.cast(), CONTEXT_RECORD as u32, at as *const _) };
    u32::from(result == 0)
}

/// The module's part of a thread's dynamic storage; 0: there is none. `None`: it can't be read.
#[inline(always)]
fn part(module: u32, pointer: u64) -> Option<u64> {
    if module >= MODULES_MAX {
        return None;
    }
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    let at = unsafe { (&raw const THREAD_POINTER_OFFSETS.vector).read_volatile() };
    let vector = word(pointer.wrapping_add(u64::from(at)))?;
    // How many modules it has room for stands before it (`dtv[-1].counter`).
    let room = word(vector.wrapping_sub(DTV_ENTRY))?;
    if u64::from(module) > room {
        return Some(0);
    }
    let part = word(vector.wrapping_add(u64::from(module) * DTV_ENTRY))?;
    // `TLS_DTV_UNALLOCATED`
    Some(if part == u64::MAX { 0 } else { part })
}

/// A word of the running process's memory.
#[inline(always)]
fn word(address: u64) -> Option<u64> {
    let mut value = MaybeUninit::<u64>::uninit();
    // SAFETY: so many bytes of our own; the address may be any.
    unsafe {
        let result = bpf_probe_read_user(value.as_mut_ptr().cast(), 8, address as *const _);
        (result == 0).then(|| value.assume_init())
    }
}

/// A record of no span.
#[inline(always)]
fn none(record: *mut ContextRecord) -> u32 {
    // SAFETY: our own; by words, and volatile, so that no call of `memset` comes of it.
    unsafe {
        let words = record.cast::<u64>();
        words.write_volatile(0);
        words.add(1).write_volatile(0);
        words.add(2).write_volatile(0);
        words.add(3).write_volatile(0);
    }
    1
}

/// A hash of a span, of 32 bits and not 0, another one every [`AGAIN_SHIFT`]: so a span that goes
/// on is recorded again, and a reader need not begin where it began.
#[inline(always)]
fn hash(trace: [u64; 2], span: u64) -> u64 {
    // Knuth's 2^64 / phi, and two primes of xxHash.
    let mixed = (trace[0] ^ budget::jiffies() >> AGAIN_SHIFT).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ trace[1].wrapping_mul(0xc2b2_ae3d_27d4_eb4f)
        ^ span.wrapping_mul(0x1656_67b1_9e37_79f9);
    (mixed ^ mixed >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 | 1
}

/// Where it stands what a thread was seen to work for last; where that is nowhere, a place that is
/// free, or another thread's.
#[inline(always)]
fn seen_place(tid: u32) -> Option<*mut u64> {
    const SHIFT: u32 = 32 - SEEN_SETS.trailing_zeros();
    let table = SEEN_CONTEXTS.get_ptr_mut(0)?.cast::<u64>();
    let mixed = tid.wrapping_mul(2_654_435_761);
    let first = bounded::<SEEN_WAYS, SEEN>((mixed >> SHIFT) as usize * SEEN_WAYS);
    let mut chosen = first + (mixed as usize & (SEEN_WAYS - 1));
    for way in 0..SEEN_WAYS {
        // SAFETY: so many are in the table from there on.
        let owner = (unsafe { table.add(first + way).read_volatile() } >> 32) as u32;
        if owner == tid {
            chosen = first + way;
            break;
        }
        if owner == 0 {
            chosen = first + way;
        }
    }
    // SAFETY: inside the value by the bound.
    Some(unsafe { table.add(bounded::<1, SEEN>(chosen)) })
}

/// `struct bpf_iter__task`, kernel/bpf/task_iter.c, Linux 6.1.
#[repr(C)]
struct IterTask {
    meta: *const IterMeta,
    task: *const u8,
}

/// Reads a process's memory for the daemon, which runs this for one process, and finds in it where
/// the process publishes. It may sleep, so pages that are not there are fetched.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter.s/task")]
fn peek_memory(ctx: *mut c_void) -> i32 {
    let ctx = ctx.cast::<IterTask>();
    // SAFETY: the context of this program type.
    let task = unsafe { (&raw const (*ctx).task).read_volatile() };
    if task.is_null() {
        return 0;
    }
    let Some(peek) = PEEKED.get_ptr_mut(0) else { return 0 };
    // SAFETY: the one value, which the daemon writes before it runs this; as many bytes as the
    // bound says; the address may be any.
    unsafe {
        let length = bounded::<0, PEEK_MAX>((&raw const (*peek).length).read_volatile() as usize);
        let address = (&raw const (*peek).address).read_volatile();
        let to = (&raw mut (*peek).bytes).cast::<c_void>();
        let result =
            bpf_copy_from_user_task(to, length as u32, address as *const _, task as *mut _, 0);
        (&raw mut (*peek).found).write_volatile(u64::from(result == 0));
    }
    0
}
