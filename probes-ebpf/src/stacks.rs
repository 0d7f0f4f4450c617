//! Where in the kernel a thread waited, when it runs again after a long wait; and the names of what
//! it waited in.
//!
//! The stack is taken at the switch *to* the thread: it costs half of what it does at the switch
//! away, where the scheduler's own frames and BPF's would be on it (`stack_trace_save_tsk` leaves
//! those out, kernel/stacktrace.c, Linux 6.1), and it is known by then whether the wait was long.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_get_task_stack, bpf_snprintf};
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use aya_ebpf::programs::RawTracePointContext;
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::probe::{
    FRAME_PAGES, FRAME_WAYS, FRAME_WORDS, SYMBOL_TEXT, frame_place,
};
use flightrec_format::abi::record::stack::{CUT, FRAMES_MAX, SLEPT, Status, address, frame};
use flightrec_format::abi::record::{self, kind};
use flightrec_format::abi::state::{CpuState, ENABLE_SCHED, LIMIT_SCHED};

use crate::budget;
use crate::cpu::now;
use crate::kernel::{Task, machine, peek};
use crate::lane::Writer;
use crate::pages::{NAMES, UNIT, bounded, load};

/// What addresses of the kernel are recorded less of. Random, filled by the loader: a reader of the
/// recording must not learn from it where the kernel is in memory.
#[unsafe(no_mangle)]
static FRAME_BASE: u32 = 0;

/// Not 0: this kernel tells the stack of a thread that does not run. A constant to the verifier.
/// Filled by the loader.
#[unsafe(no_mangle)]
static CAN_TAKE_STACKS: u32 = 0;

/// The frames that stacks have had, for the daemon to look up; after them, whether it is full.
#[map(name = "frames")]
static FRAMES: Array<[u32; FRAME_WORDS]> =
    Array::with_max_entries(FRAME_PAGES as u32 + 1, 1 << 10 /* BPF_F_MMAPABLE */);

/// What [`symbol`] says.
#[map(name = "symbol_text")]
static TEXT: Array<[u8; SYMBOL_TEXT]> = Array::with_max_entries(1, 1 << 10);

/// A return address as the function that makes the call.
#[unsafe(no_mangle)]
static SYMBOL_FORMAT: [u8; 4] = *b"%pB\0";

/// Bytes of the stack as the kernel gives it.
const RAW: usize = FRAMES_MAX * size_of::<u64>();
/// The record's first word, and the body up to the frames.
const HEAD: usize = 8 + SLEPT;
/// THREAD, TIME, and a record of most frames as the kernel gives them.
const ROOM: usize = NAMES + HEAD + RAW;

/// The base, read so that the compiler does not assume its initial value.
#[inline(always)]
pub(crate) fn base() -> u32 {
    // SAFETY: a static of ours.
    unsafe { (&raw const FRAME_BASE).read_volatile() }
}

/// An address in the kernel's image. Read as a number: the verifier knows what the member points
/// to, and would not let it be reckoned with.
#[inline(always)]
pub(crate) fn image() -> u64 {
    peek((Task::current().as_ptr() as u64).wrapping_add(u64::from(machine!(sched_class))))
}

/// Whether stacks can be had here.
#[inline(always)]
pub(crate) fn are_there() -> bool {
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    unsafe { (&raw const CAN_TAKE_STACKS).read_volatile() != 0 }
}

/// Records the stack of thread `next`, which runs again having slept for `slept` ns, after the
/// switch to it; nothing, if that was not recorded.
#[inline(never)]
pub(crate) fn take(state: &mut CpuState, next: *const u8, slept: u64) -> u32 {
    let task = Task::from_arg(next);
    let i = Lane::Sched as usize;
    let tid = task.tid();
    if state.enabled & ENABLE_SCHED == 0 || state.lanes[i].tid != tid {
        return 0;
    }
    let mut status = Status::Taken as u16;
    if task.has_unreadable_stack() {
        status = Status::Unreadable as u16;
    } else if state.enabled & LIMIT_SCHED != 0 && !budget::draw_stack(state, task) {
        status = Status::Refused as u16;
    }
    let room = state.frames;
    let writer = Writer::open::<ROOM, false>(
        &mut state.lanes[i],
        &mut state.no_ring[i],
        Lane::Sched,
        ROOM,
        Some(tid),
    );
    let Some(mut w) = writer else { return 0 };
    let (began, since) = (w.now, w.time());
    let mut frames = 0;
    if status == Status::Taken as u16 {
        let size = bounded::<0, RAW>(room as usize * size_of::<u64>());
        // SAFETY: as many bytes are in the page after the record's head by the bounds.
        let to = unsafe { w.body().add(w.at + HEAD) };
        // SAFETY: the helper takes any thread that the verifier knows.
        let bytes = unsafe { bpf_get_task_stack(next as *mut _, to.cast(), size as u32, 0) } as i64;
        if bytes > 0 {
            frames = bounded::<0, RAW>(bytes as usize) / size_of::<u64>();
            put_frames(to.cast(), to.cast_const().cast(), frames as u32);
            if bytes as usize == size {
                status |= CUT;
            }
        } else {
            status = Status::Unreadable as u16;
        }
    }
    let length = ((HEAD + frames * size_of::<u32>()) / UNIT) as u8;
    w.words(record::header(kind::STACK, length, status, since), slept);
    w.at += frames * size_of::<u32>();
    w.publish(kind::STACK);
    if status & record::stack::STATUS == Status::Taken as u16 {
        let took = now().wrapping_sub(began);
        state.stack_time += took;
        state.stack_cost = budget::mean(state.stack_cost, took);
    }
    0
}

/// Addresses of a stack as the kernel gives them.
pub(crate) type Addresses = [u64; FRAMES_MAX];
/// They as frames.
pub(crate) type Frames = [u32; FRAMES_MAX];

/// Makes frames of so many addresses, and notes each. The frames may begin where the addresses do.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn put_frames(
    frames: *mut Frames,
    addresses: *const Addresses,
    count: u32,
) -> u32 {
    if frames.is_null() || addresses.is_null() {
        return 0;
    }
    let base = base();
    for i in 0..FRAMES_MAX {
        if i as u32 >= count {
            break;
        }
        // SAFETY: inside both, which the verifier holds against their types at each call. A frame
        // is stored where addresses were that have been loaded. In a page, neither need be aligned.
        let frame = unsafe {
            let address = load::<0>(addresses.cast::<u8>().add(i * size_of::<u64>()));
            let frame = frame(address, base);
            frames.cast::<u32>().add(i).write_unaligned(frame);
            frame
        };
        note_frame(frame);
    }
    0
}

/// Enters a frame into the table, where there is room. Two CPUs may take one place at once: the
/// frame that is lost comes again.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn note_frame(frame: u32) -> u32 {
    let (page, first) = frame_place(frame);
    let Some(words) = FRAMES.get_ptr_mut(page) else { return 0 };
    let first = bounded::<FRAME_WAYS, FRAME_WORDS>(first);
    for way in 0..FRAME_WAYS {
        // SAFETY: inside the page by the bound.
        unsafe {
            let word = words.cast::<u32>().add(first + way);
            let there = word.read_volatile();
            if there == frame {
                return 0;
            }
            if there == 0 {
                word.write_volatile(frame);
                return 0;
            }
        }
    }
    if let Some(full) = FRAMES.get_ptr_mut(FRAME_PAGES as u32) {
        // SAFETY: the first word of the page. It is read first, so that CPUs can share it.
        unsafe {
            if (*full)[0] == 0 {
                (*full)[0] = 1;
            }
        }
    }
    0
}

/// Says what a frame is in, for the daemon, which runs this: into [`TEXT`]. The kernel's own words,
/// so that no right to read its symbols is needed, and no module's are missed.
#[unsafe(no_mangle)]
#[unsafe(link_section = "raw_tp/symbol")]
fn symbol(ctx: *mut c_void) -> i32 {
    let frame: u64 = RawTracePointContext::new(ctx).arg(0);
    let mut address = address(frame as u32, base(), image());
    let Some(text) = TEXT.get_ptr_mut(0) else { return 0 };
    // SAFETY: as many bytes of each.
    unsafe {
        bpf_snprintf(
            text.cast(),
            SYMBOL_TEXT as u32,
            (&raw const SYMBOL_FORMAT).cast(),
            (&raw mut address).cast(),
            size_of::<u64>() as u32,
        ) as i32
    }
}
