//! Samples of what runs: a clock of each CPU strikes some times a second, and the thread that it
//! interrupts is recorded, with the functions that it is in.
//!
//! The clock is a perf event `cpu-clock`, a timer of high resolution whose handler runs the program
//! with interrupts off (`perf_swevent_hrtimer`, kernel/events/core.c, Linux 6.1 and 6.18). It may
//! come in the middle of another program of lane `kernel`, which has claimed that then: the sample
//! is left out, and counted, but not among what the lane lacks: its other events are all there.
//! Where nothing runs there is none: the event leaves out idle threads.

use core::ffi::c_void;
use core::sync::atomic::{Ordering, compiler_fence};

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_get_stack;
use aya_ebpf::macros::{map, perf_event};
use aya_ebpf::maps::{Array, PerCpuArray};
use aya_ebpf::programs::PerfEventContext;
use flightrec_format::abi::probe::{BINARIES, BINARY_WAYS, Binary, binary_place};
use flightrec_format::abi::record::sample::{
    BINARY_SHIFT, FRAMES_MAX, KERNEL_CUT, KERNEL_SHIFT, UNKNOWN, USER_CUT, USER_MODE,
};
use flightrec_format::abi::record::stack::{Status, frame};
use flightrec_format::abi::record::{self, kind};
use flightrec_format::abi::state::{CpuState, ENABLE_SAMPLES, LIMIT_SCHED};

use crate::aside::kernel_has_place;
use crate::cpu::{now, this_cpu};
use crate::global::given;
use crate::kernel::{Task, machine, member};
use crate::lane::Writer;
use crate::pages::{BODY, NAMES, UNIT, bounded, load, store};
use crate::{atomic, budget, stacks};

/// Binaries that samples have frames in.
#[map(name = "binaries")]
static TABLE: Array<Binary> =
    Array::with_max_entries(BINARIES as u32, 1 << 10 /* BPF_F_MMAPABLE */);

/// Where stacks are as the kernel gives them. No other sample comes on the CPU meanwhile.
#[map(name = "sample_scratch")]
static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);

/// What the verifier knows of what is loaded from here is nothing, so that it sees no difference
/// between the ways by which a number came to be, and has not to follow each.
#[repr(C)]
struct Scratch {
    kernel: [u64; FRAMES_MAX],
    user: [[u64; BUILD_ID_WORDS]; FRAMES_MAX],
    /// The program's frames by their addresses, where those are needed.
    addresses: [u64; FRAMES_MAX],
    /// How many there are of either.
    kernel_frames: u64,
    user_frames: u64,
    /// `aux` of the record, but for the number of frames.
    aux: u64,
    /// Number of a binary without a name, and the frame that is in it; 0: none.
    unnamed: u64,
    unnamed_frame: u64,
}

/// A word of the scratch, for use inside `unsafe`: volatile, so that the compiler, too, knows
/// nothing of it.
macro_rules! word {
    ($scratch:expr, $member:ident) => {
        (&raw const (*$scratch).$member).read_volatile()
    };
    ($scratch:expr, $member:ident = $value:expr) => {
        (&raw mut (*$scratch).$member).write_volatile($value)
    };
}

/// `struct bpf_stack_build_id`, include/uapi/linux/bpf.h: status (`s32`), build id (20 bytes), byte
/// of the file or address (`u64`).
const BUILD_ID_WORDS: usize = 4;
/// `BPF_STACK_BUILD_ID_VALID`; else there is an address.
const VALID: u32 = 1;
/// Byte of the build id, and of what stands after it.
const ID: usize = 4;
const AT: usize = 24;

/// `BPF_F_USER_STACK` and `BPF_F_USER_BUILD_ID`, include/uapi/linux/bpf.h.
const USER_STACK: u64 = 1 << 8;
const USER_BUILD_ID: u64 = 1 << 11;

/// The record with most frames, and with THREAD and TIME.
const RECORD: usize = 8 + KERNEL + USER;
const ROOM: usize = NAMES + RECORD;
/// Most bytes of frames of the kernel, and of the program.
const KERNEL: usize = FRAMES_MAX * size_of::<u32>();
const USER: usize = FRAMES_MAX * size_of::<u64>();

/// The clock has struck.
#[perf_event]
fn sample(ctx: PerfEventContext) -> u32 {
    let ctx = ctx.as_ptr();
    let state = this_cpu();
    if state.enabled & ENABLE_SAMPLES == 0 {
        return 0;
    }
    let task = Task::current();
    let tid = task.tid();
    if tid == 0 {
        return 0;
    }
    if !kernel_has_place(state) {
        // Nothing else comes in the middle of this program that would claim the lane.
        budget::count_refused_sample(state);
        return 0;
    }
    let Some(scratch) = SCRATCH.get_ptr_mut(0) else { return 0 };
    let mode = member!(ctx, mode, u64) & u64::from(machine!(user_mode_mask));
    let mode = if mode == u64::from(machine!(user_mode)) { USER_MODE } else { 0 };
    let began = now();
    // SAFETY: words of our own.
    unsafe {
        word!(scratch, kernel_frames = 0);
        word!(scratch, user_frames = 0);
        word!(scratch, aux = u64::from(mode | Status::Refused as u16));
    }
    let is_given = state.enabled & LIMIT_SCHED == 0 || budget::draw_sample(state, task);
    if is_given {
        let [kernel, user] = state.sample_frames;
        take_kernel(ctx, kernel, mode, scratch);
        take_user(ctx, user, scratch);
    }
    write_sample(state, tid, scratch);
    if is_given {
        let took = now().wrapping_sub(began);
        state.stack_time += took;
        state.sample_cost = budget::mean(state.sample_cost, took);
    }
    0
}

/// Writes the record.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn write_sample(state: *mut CpuState, tid: u32, scratch: *mut Scratch) -> u32 {
    let Some(state) = given(state) else { return 0 };
    if scratch.is_null() {
        return 0;
    }
    let writer = Writer::open_kernel::<ROOM>(state, tid);
    let Some(mut w) = writer else { return 0 };
    let since = w.time();
    // SAFETY: words of our own.
    let (kernel, user, aux) = unsafe {
        (word!(scratch, kernel_frames), word!(scratch, user_frames), word!(scratch, aux))
    };
    let bytes = kernel * size_of::<u32>() as u64 + user * size_of::<u64>() as u64;
    let aux = aux as u16 | (kernel as u16) << KERNEL_SHIFT;
    w.word(record::header(kind::SAMPLE, ((8 + bytes) / UNIT as u64) as u8, aux, since));
    // SAFETY: inside the page by the bound.
    let to = unsafe { w.body().add(w.at) };
    for i in 0..FRAMES_MAX {
        if i as u64 >= kernel {
            break;
        }
        // SAFETY: as many bytes are in the scratch, and in the page by the bound.
        unsafe {
            let frame = (&raw const (*scratch).kernel).cast::<u64>().add(i).read_volatile();
            to.cast::<u32>().add(i).write_unaligned(frame as u32);
            stacks::note_frame(frame as u32);
        }
    }
    // SAFETY: a word of our own.
    let kernel = unsafe { word!(scratch, kernel_frames) } as usize;
    w.at = bounded::<USER, BODY>(w.at + bounded::<0, KERNEL>(kernel * size_of::<u32>()));
    // SAFETY: as above.
    let to = unsafe { w.body().add(w.at) };
    for i in 0..FRAMES_MAX {
        if i as u64 >= user {
            break;
        }
        // SAFETY: as above; `take_user` has put the frame there.
        unsafe {
            let frame = (&raw const (*scratch).user).cast::<u64>().add(i * BUILD_ID_WORDS);
            to.cast::<u64>().add(i).write_unaligned(frame.read_volatile());
        }
    }
    // SAFETY: a word of our own.
    let user = unsafe { word!(scratch, user_frames) } as usize;
    w.at += bounded::<0, USER>(user * size_of::<u64>());
    w.publish(kind::SAMPLE);
    0
}

/// Takes the kernel's frames, as they are recorded.
#[inline(never)]
fn take_kernel(ctx: *mut c_void, most: u32, mode: u16, scratch: *mut Scratch) -> u32 {
    const ENTRY: usize = size_of::<u64>();
    let mut aux = mode | Status::Taken as u16;
    let mut count = 0;
    if mode != USER_MODE {
        let size = bounded::<0, { FRAMES_MAX * ENTRY }>(most as usize * ENTRY);
        // SAFETY: as many bytes are there by the bound.
        let bytes = unsafe {
            let to = (&raw mut (*scratch).kernel).cast();
            bpf_get_stack(ctx, to, size as u32, 0)
        } as i64;
        if bytes > 0 {
            count = bounded::<0, { FRAMES_MAX * ENTRY }>(bytes as usize) / ENTRY;
            if bytes as usize == size {
                aux |= KERNEL_CUT;
            }
        }
    }
    // SAFETY: words of our own.
    let count = unsafe {
        word!(scratch, aux = u64::from(aux));
        word!(scratch, kernel_frames = count as u64);
        word!(scratch, kernel_frames)
    };
    let base = stacks::base();
    for i in 0..FRAMES_MAX {
        if i as u64 >= count {
            break;
        }
        // The instruction that ran begins where a return address is after the call.
        let ran = u64::from(i == 0);
        // SAFETY: inside the scratch by the loop's bound.
        unsafe {
            let entry = (&raw mut (*scratch).kernel).cast::<u64>().add(i);
            let frame = frame(entry.read_volatile().wrapping_add(ran), base);
            entry.write_volatile(u64::from(frame));
        }
    }
    0
}

/// Takes the program's frames. As they are recorded, they are then in the first words of their
/// entries.
#[inline(never)]
fn take_user(ctx: *mut c_void, most: u32, scratch: *mut Scratch) -> u32 {
    const ENTRY: usize = BUILD_ID_WORDS * size_of::<u64>();
    let size = bounded::<0, { FRAMES_MAX * ENTRY }>(most as usize * ENTRY);
    // SAFETY: as many bytes are there by the bound.
    let bytes = unsafe {
        let to = (&raw mut (*scratch).user).cast();
        bpf_get_stack(ctx, to, size as u32, USER_STACK | USER_BUILD_ID)
    } as i64;
    if bytes <= 0 {
        return 0;
    }
    let count = bounded::<0, { FRAMES_MAX * ENTRY }>(bytes as usize) / ENTRY;
    // SAFETY: words of our own.
    let count = unsafe {
        if bytes as usize == size {
            word!(scratch, aux = word!(scratch, aux) | u64::from(USER_CUT));
        }
        word!(scratch, unnamed = 0);
        word!(scratch, user_frames = count as u64);
        word!(scratch, user_frames)
    };
    for i in 0..FRAMES_MAX {
        if i as u64 >= count {
            break;
        }
        // SAFETY: inside the scratch by the loop's bound.
        unsafe {
            let entry = (&raw mut (*scratch).user).cast::<u64>().add(i * BUILD_ID_WORDS);
            let bytes = entry.cast::<u8>();
            let at = load::<AT>(bytes);
            // What is no address of a program's is what a walk comes to that has left the frames,
            // and ends the stack. So is a byte of a file from before its beginning, which Linux
            // 6.1 makes of an address below a mapping (`find_vma` in
            // `stack_map_get_build_id_offset`).
            if at >> machine!(user_bits) != 0 {
                word!(scratch, user_frames = i as u64);
                break;
            }
            let mut binary = 0;
            if load::<0>(bytes) as u32 == VALID {
                let end = load::<{ ID + 12 }>(bytes) >> 32;
                let found = binary_number(load::<ID>(bytes), load::<{ ID + 8 }>(bytes), end as u32);
                binary = u64::from(found & 0xffff);
                if found & UNNAMED != 0 {
                    word!(scratch, unnamed = binary);
                    word!(scratch, unnamed_frame = i as u64);
                }
            }
            entry.write_volatile(binary << BINARY_SHIFT | at);
        }
    }
    // SAFETY: a word of our own.
    if unsafe { word!(scratch, unnamed) } != 0 {
        see(ctx, scratch);
    }
    0
}

/// What [`binary_number`] adds where the binary's name is not known.
const UNNAMED: u32 = 1 << 16;

/// The number of the binary with a build id, which is entered where it is new; with [`UNNAMED`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn binary_number(a: u64, b: u64, c: u32) -> u32 {
    let first = binary_place(a as u32);
    for way in 0..BINARY_WAYS as u32 {
        let Some(entry) = TABLE.get_ptr_mut(first + way) else { break };
        // SAFETY: words of our own; the daemon writes `named` alone.
        unsafe {
            let version = (&raw mut (*entry).version).cast::<u64>();
            let id = (&raw mut (*entry).id).cast::<u8>();
            let there = version.read_volatile();
            if there == 0 && atomic::swap(version, 0, 1) {
                store::<0>(id, a);
                store::<8>(id, b);
                id.add(16).cast::<u32>().write_volatile(c);
                compiler_fence(Ordering::Release);
                atomic::publish_long::<0>(version.cast(), 2);
                return first + way + 1 | UNNAMED;
            }
            let is_it = load::<0>(id) == a
                && load::<8>(id) == b
                && id.add(16).cast::<u32>().read_volatile() == c;
            if there > 1 && is_it {
                let named = (&raw const (*entry).named).read_volatile();
                return first + way + 1 | if named == 0 { UNNAMED } else { 0 };
            }
        }
    }
    u32::from(UNKNOWN)
}

/// Notes where the binary without a name was seen, so that the daemon can ask for it: in which
/// process, and at which address.
#[inline(never)]
fn see(ctx: *mut c_void, scratch: *mut Scratch) -> u32 {
    // SAFETY: words of our own.
    let (binary, frame) = unsafe { (word!(scratch, unnamed), word!(scratch, unnamed_frame)) };
    let Some(entry) = TABLE.get_ptr_mut((binary as u32).wrapping_sub(1)) else { return 0 };
    // SAFETY: as many bytes are there; then words of our own, of which the one that says that the
    // entry is there is claimed.
    unsafe {
        let addresses = (&raw mut (*scratch).addresses).cast::<u64>();
        let size = size_of::<[u64; FRAMES_MAX]>() as u32;
        let bytes = bpf_get_stack(ctx, addresses.cast(), size, USER_STACK) as i64;
        let frame = bounded::<1, FRAMES_MAX>(frame as usize);
        if bytes <= (frame * size_of::<u64>()) as i64 {
            return 0;
        }
        let version = (&raw mut (*entry).version).cast::<u64>();
        let there = version.read_volatile();
        if there & 1 != 0 || !atomic::swap(version, there, there + 1) {
            return 0;
        }
        let task = Task::current();
        (&raw mut (*entry).tgid).write_volatile(task.tgid());
        (&raw mut (*entry).address).write_volatile(addresses.add(frame).read_volatile());
        (&raw mut (*entry).mm).write_volatile(task.mm());
        compiler_fence(Ordering::Release);
        atomic::publish_long::<0>(version.cast(), there + 2);
    }
    0
}
