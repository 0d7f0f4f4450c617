//! Tracepoints that the configuration names: what the kernel publishes there, copied.
//!
//! One classic program is attached to all of them; the cookie of its link tells which one it runs
//! for (`bpf_get_attach_cookie`, Linux 5.15). Its context is the record that `perf record` would
//! get (`perf_trace_…`, include/trace/perf.h, Linux 6.1 and 6.18): a fixed part, and after it the
//! parts of variable length, of which the fixed one tells where they are. Of the common fields at
//! its beginning the kernel has made a pointer to registers, so these are left out.
//!
//! The kernel does not run a classic program in the middle of another one on a CPU
//! (`bpf_prog_active` in `trace_call_bpf`, kernel/trace/bpf_trace.c), so the scratch is its own. It
//! may come in the middle of other programs of lane `kernel`, which it then finds claimed.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_get_attach_cookie, bpf_get_stack, bpf_probe_read_kernel};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, PerCpuArray};
use flightrec_format::abi::record::stack::{Status, frame};
use flightrec_format::abi::record::tracepoint::{
    BYTES_MAX, CODE, COMMON, CONTEXT_SHIFT, CUT, DATA, FRAMES_MAX, FRAMES_SHIFT, HEAD, STACK,
    STACK_CUT, is_address, is_code,
};
use flightrec_format::abi::record::{self, kind};
use flightrec_format::abi::state::{CpuState, ENABLE_TRACEPOINTS, LIMIT_SCHED};
use flightrec_format::abi::tracepoint::{
    ADDRESSES, FORM_PART, FORM_SIGNED, FORM_TEXT, FUNCTION, OP_ANY, OP_EQ, OP_GE, OP_GT, OP_LE,
    OP_LT, OP_NE, PARTS, RELATIVE, TESTS, TEXT_MAX, TRACEPOINTS, Test, TracepointCounts,
    TracepointPlan,
};

use crate::cpu::{cpu, now, this_cpu};
use crate::global::given;
use crate::kernel_lane::{Payer, draw, room};
use crate::lane::Writer;
use crate::pages::{UNIT, bounded, load, store};
use crate::pseudonym::pseudonym;
use crate::{budget, context, running, stacks};

/// The tracepoints, by their numbers. Written by the daemon, each before the program is attached.
#[map(name = "tp_plans")]
static EVENTS: Array<TracepointPlan> =
    Array::with_max_entries(TRACEPOINTS as u32, 1 << 10 /* BPF_F_MMAPABLE */);

/// What became of their events, by CPU.
#[map(name = "tp_counts")]
static COUNTS: Array<TracepointCounts> = Array::with_max_entries(1, 1 << 10);

/// Where a record is made.
#[map(name = "tp_scratch")]
static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);

/// Bytes after those that are recorded: a load of a word, or of a text, may reach there.
const SLACK: usize = TEXT_MAX + 8;
/// Bytes of frames.
const FRAMES: usize = FRAMES_MAX * size_of::<u32>();

/// What the verifier knows of what is loaded from here is nothing (as in [`crate::samples`]).
#[repr(C)]
struct Scratch {
    /// Frames as the kernel gives them.
    stack: [u64; FRAMES_MAX],
    /// Address of the context.
    ctx: u64,
    /// Bytes that are recorded of what is published.
    length: u64,
    /// Number of the next comparison.
    next: u64,
    /// `aux` of the record.
    aux: u64,
    /// Bytes of the record's body.
    body: u64,
    unused: u32,
    /// The first word of the body, with what follows.
    head: u32,
    data: [u8; BYTES_MAX + FRAMES + SLACK],
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

/// What a record may take, so that a small one needs no more room in its page than it takes.
const SMALL: usize = HEAD + 60;
const MIDDLE: usize = HEAD + 188;
const LARGE: usize = HEAD + BYTES_MAX + FRAMES;

/// A tracepoint was passed. Who returns 0 keeps the event from those who have opened perf events of
/// their own on it (`perf_trace_run_bpf_submit`, kernel/events/core.c, Linux 6.1); aya's macro for
/// such a program always does.
#[unsafe(no_mangle)]
#[unsafe(link_section = "tracepoint")]
fn tp_configured(ctx: *mut c_void) -> u32 {
    let state = this_cpu();
    if state.enabled & ENABLE_TRACEPOINTS == 0 {
        return 1;
    }
    // SAFETY: the helper has no preconditions but the context.
    let id = unsafe { bpf_get_attach_cookie(ctx) };
    let Some(event) = EVENTS.get_ptr(id as u32) else { return 1 };
    let is_measured = recorded(id as u32) % MEASURED == 0;
    let began = if is_measured { now() } else { 0 };
    let Some(scratch) = SCRATCH.get_ptr_mut(0) else { return 1 };
    // SAFETY: a word of the entry, which the daemon writes.
    if unsafe { (&raw const (*event).there).read_volatile() } == 0 {
        return 1;
    }
    // SAFETY: a word of our own. The address of the context, as a number.
    unsafe { word!(scratch, ctx = ctx as u64) };
    take_published(event, scratch);
    if condition_holds(event, scratch) == 0 {
        count(id as u32, Fate::LeftOut);
        return 1;
    }
    hide_addresses(event, scratch);
    let context = context::now(state.preempt_count);
    // SAFETY: words of our own.
    unsafe {
        word!(scratch, aux = word!(scratch, aux) | u64::from(context) << CONTEXT_SHIFT);
        word!(scratch, head = id as u32 & 0xffff | (word!(scratch, length) as u32) << 16);
    }
    let cost = state.disk[1] + state.tracepoint_cost as u32;
    if !draw(state, kind::TRACEPOINT, Payer::of(context), cost) {
        count(id as u32, Fate::Refused);
        return 1;
    }
    // SAFETY: a word of the entry.
    let has_stack = unsafe { (&raw const (*event).stack).read_volatile() } != 0;
    if has_stack {
        take_stack(ctx, state, scratch);
    }
    let is_written = write_tracepoint(state, scratch);
    count(id as u32, if is_written != 0 { Fate::Recorded } else { Fate::Refused });
    if is_measured && !has_stack {
        measure(state, now().wrapping_sub(began));
    }
    1
}

/// Of so many events of a tracepoint on a CPU one is measured: the clock is read twice for it.
const MEASURED: u64 = 16;

/// Notes what an event took, for those like it.
#[inline(never)]
fn measure(state: &mut CpuState, took: u64) -> u32 {
    state.tracepoint_cost = budget::mean(state.tracepoint_cost, took);
    let whole = u64::from(state.disk[1]) + took;
    let counted = u64::from(state.disk[0]);
    if whole > counted {
        state.stack_time += (whole - counted) * MEASURED;
    }
    0
}

/// What becomes of an event.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Fate {
    Recorded = 0,
    Refused = 1,
    LeftOut = 2,
}

/// Events of a tracepoint that this CPU has recorded.
#[inline(always)]
fn recorded(id: u32) -> u64 {
    let Some(counts) = COUNTS.get_ptr(cpu()) else { return 0 };
    // SAFETY: inside the value by the bound.
    unsafe {
        let place = bounded::<1, TRACEPOINTS>(id as usize);
        counts.cast::<u64>().add(place * 3 + Fate::Recorded as usize).read_volatile()
    }
}

#[inline(always)]
fn count(id: u32, fate: Fate) {
    let Some(counts) = COUNTS.get_ptr_mut(cpu()) else { return };
    // SAFETY: inside the value by the bound; this CPU's own.
    unsafe {
        let place = bounded::<1, TRACEPOINTS>(id as usize);
        let counter = counts.cast::<u64>().add(place * 3 + fate as usize);
        counter.write_volatile(counter.read_volatile() + 1);
    }
}

/// Copies what is published.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_published(event: *const TracepointPlan, scratch: *mut Scratch) -> u32 {
    if event.is_null() || scratch.is_null() {
        return 0;
    }
    // SAFETY: words of the entry and of our own; the rest is inside the scratch by the bounds.
    unsafe {
        let data = (&raw mut (*scratch).data).cast::<u8>();
        let fixed = u64::from((&raw const (*event).fixed).read_volatile());
        let parts = (&raw const (*event).parts).read_volatile();
        // Kept there, so that the verifier follows what is after each part once.
        word!(scratch, length = fixed);
        copy(scratch, fixed);
        for i in 0..PARTS {
            if i as u32 >= parts {
                break;
            }
            let (offset, length) = part((&raw const (*event).part[i]).read_volatile(), data);
            if offset + length > word!(scratch, length) {
                word!(scratch, length = offset + length);
            }
        }
        let end = word!(scratch, length);
        if end > fixed {
            copy(scratch, end);
        }
        let is_cut = end > BYTES_MAX as u64;
        let length = if is_cut { BYTES_MAX as u64 } else { end };
        let unit = UNIT as u64;
        let padded = (length + unit - 1) / unit * unit;
        // What stands after is of another event; it pads the record.
        let end = data.add(bounded::<0, BYTES_MAX>(length as usize));
        end.cast::<u32>().write_unaligned(0);
        word!(scratch, length = length);
        word!(scratch, body = HEAD as u64 + padded);
        word!(scratch, aux = if is_cut { u64::from(CUT) } else { 0 });
    }
    0
}

/// Copies so many bytes, as far as they are recorded.
///
/// # Safety
/// The scratch has the context.
#[inline(always)]
unsafe fn copy(scratch: *mut Scratch, bytes: u64) {
    let bytes = if bytes > BYTES_MAX as u64 { BYTES_MAX as u64 } else { bytes };
    let size = bounded::<0, BYTES_MAX>(bytes as usize);
    // SAFETY: as many bytes are there by the bound; the helper takes any address.
    unsafe {
        let from = word!(scratch, ctx) + COMMON as u64;
        let to = (&raw mut (*scratch).data).cast();
        bpf_probe_read_kernel(to, size as u32, from as *const c_void);
    }
}

/// Where a part of variable length is, and its bytes; `at`: where that stands.
///
/// # Safety
/// `data` is that of the scratch.
#[inline(always)]
unsafe fn part(at: u32, data: *const u8) -> (u64, u64) {
    let place = bounded::<4, BYTES_MAX>((at & !RELATIVE) as usize);
    // SAFETY: inside the scratch by the bound, and what is after it.
    let word = unsafe { load::<0>(data.add(place)) } as u32;
    let offset = u64::from(word & 0xffff);
    let offset = if at & RELATIVE != 0 {
        offset + place as u64 + 4
    } else if offset >= COMMON as u64 {
        offset - COMMON as u64
    } else {
        0
    };
    (offset, u64::from(word >> 16))
}

/// Hides addresses of the kernel.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn hide_addresses(event: *const TracepointPlan, scratch: *mut Scratch) -> u32 {
    if event.is_null() || scratch.is_null() {
        return 0;
    }
    // SAFETY: words of the entry and of our own; the rest is inside the scratch by the bounds.
    unsafe {
        let data = (&raw mut (*scratch).data).cast::<u8>();
        let count = (&raw const (*event).addresses).read_volatile();
        let length = word!(scratch, length);
        for i in 0..ADDRESSES {
            if i as u32 >= count {
                break;
            }
            let at = (&raw const (*event).address[i]).read_volatile();
            let is_function = at & FUNCTION;
            let at = at & !FUNCTION;
            if u64::from(at) + 8 > length {
                continue;
            }
            let place = data.add(bounded::<8, BYTES_MAX>(at as usize));
            let word = load::<0>(place);
            if is_address(word) {
                hide_address(place.cast(), is_function);
            }
        }
    }
    0
}

/// Puts in place of an address, a word of the scratch, what stands for it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn hide_address(place: *mut u64, is_function: u32) -> u32 {
    if place.is_null() {
        return 0;
    }
    // SAFETY: a whole word, as the verifier sees to at each call.
    unsafe {
        let place = place.cast::<u8>();
        let address = load::<0>(place);
        let (upper, lower) = if is_function != 0 && is_code(address, stacks::image()) {
            let frame = frame(address, stacks::base());
            // A name is looked up as of a return address, which is after what is called there.
            stacks::note_frame(frame.wrapping_add(1));
            (CODE, frame)
        } else {
            (DATA, pseudonym(address))
        };
        store::<0>(place, u64::from(upper) << 32 | u64::from(lower));
    }
    0
}

/// Whether the condition holds; 0: it does not.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn condition_holds(event: *const TracepointPlan, scratch: *mut Scratch) -> u32 {
    if event.is_null() || scratch.is_null() {
        return 0;
    }
    // SAFETY: words of the entry and of our own.
    unsafe {
        let tests = (&raw const (*event).tests).read_volatile();
        if tests == 0 {
            return 1;
        }
        word!(scratch, next = 0);
        for i in 0..TESTS {
            if i as u32 >= tests {
                break;
            }
            if word!(scratch, next) != i as u64 {
                continue;
            }
            let test = (&raw const (*event).test).cast::<Test>().add(i);
            let next = if test_holds(test, scratch) != 0 {
                (&raw const (*test).then).read_volatile()
            } else {
                (&raw const (*test).otherwise).read_volatile()
            };
            word!(scratch, next = u64::from(next));
        }
        u32::from(word!(scratch, next) == u64::from(Test::YES))
    }
}

/// Whether a comparison of an entry's holds.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn test_holds(test: *const Test, scratch: *mut Scratch) -> u32 {
    if test.is_null() || scratch.is_null() {
        return 0;
    }
    // SAFETY: words of the entry and of our own; the rest is inside the scratch by the bounds.
    unsafe {
        let form = (&raw const (*test).form).read_volatile();
        let op = (&raw const (*test).op).read_volatile();
        let at = (&raw const (*test).at).read_volatile();
        let data = (&raw const (*scratch).data).cast::<u8>();
        if form == FORM_TEXT || form == FORM_PART {
            let is_equal = text_matches(test, scratch) != 0;
            return u32::from(is_equal == (op == OP_EQ));
        }
        let shift = u64::from((&raw const (*test).shift).read_volatile()) & 63;
        let other = (&raw const (*test).value).read_volatile();
        let word = load::<0>(data.add(bounded::<1, BYTES_MAX>(at as usize))) << shift;
        if form == FORM_SIGNED {
            let (value, other) = (word as i64 >> shift, other as i64);
            return u32::from(match op {
                OP_EQ => value == other,
                OP_NE => value != other,
                OP_LT => value < other,
                OP_LE => value <= other,
                OP_GT => value > other,
                OP_GE => value >= other,
                OP_ANY => value & other != 0,
                _ => false,
            });
        }
        let value = word >> shift;
        u32::from(match op {
            OP_EQ => value == other,
            OP_NE => value != other,
            OP_LT => value < other,
            OP_LE => value <= other,
            OP_GT => value > other,
            OP_GE => value >= other,
            OP_ANY => value & other != 0,
            _ => false,
        })
    }
}

/// Whether a text is that of an entry's comparison.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn text_matches(test: *const Test, scratch: *mut Scratch) -> u32 {
    if test.is_null() || scratch.is_null() {
        return 0;
    }
    // SAFETY: words of the entry and of our own; the rest is inside the scratch by the bounds.
    unsafe {
        let data = (&raw const (*scratch).data).cast::<u8>();
        let at = (&raw const (*test).at).read_volatile();
        let wanted = u64::from((&raw const (*test).length).read_volatile());
        let (offset, size) = if (&raw const (*test).form).read_volatile() == FORM_PART {
            part(at, data)
        } else {
            (u64::from(at), u64::from((&raw const (*test).size).read_volatile()))
        };
        if size < wanted || offset + wanted > word!(scratch, length) {
            return 0;
        }
        let text = data.add(bounded::<0, BYTES_MAX>(offset as usize));
        let mut differs = 0;
        for i in 0..TEXT_MAX / 8 {
            let there = load::<0>(text.add(i * 8));
            let expected = (&raw const (*test).text[i]).read_volatile();
            differs |= (there ^ expected) & (&raw const (*test).mask[i]).read_volatile();
        }
        if differs != 0 {
            return 0;
        }
        // It is no longer than that.
        let end = load::<0>(text.add(bounded::<0, TEXT_MAX>(wanted as usize)));
        u32::from(size == wanted || end & 0xff == 0)
    }
}

/// Takes the kernel's stack, after what is published.
#[inline(never)]
fn take_stack(ctx: *mut c_void, state: &mut CpuState, scratch: *mut Scratch) -> u32 {
    const ENTRY: usize = size_of::<u64>();
    let began = now();
    let is_given = state.enabled & LIMIT_SCHED == 0 || budget::draw_own_stack(state);
    let mut aux = u64::from(STACK | Status::Refused as u16);
    let mut count = 0;
    if is_given {
        let size = bounded::<0, { FRAMES_MAX * ENTRY }>(state.frames as usize * ENTRY);
        // SAFETY: as many bytes are there by the bound.
        let bytes = unsafe {
            let to = (&raw mut (*scratch).stack).cast();
            bpf_get_stack(ctx, to, size as u32, 0)
        } as i64;
        aux = u64::from(STACK | Status::Unreadable as u16);
        if bytes > 0 {
            count = bounded::<0, { FRAMES_MAX * ENTRY }>(bytes as usize) / ENTRY;
            let cut = if bytes as usize == size { STACK_CUT } else { 0 };
            aux = u64::from(STACK | cut | Status::Taken as u16);
        }
    }
    // SAFETY: words of our own; the rest is inside the scratch by the bounds.
    unsafe {
        let body = word!(scratch, body);
        word!(scratch, body = body + (count * size_of::<u32>()) as u64);
        word!(scratch, aux = word!(scratch, aux) | aux | (count as u64) << FRAMES_SHIFT);
        let data = (&raw mut (*scratch).data).cast::<u8>();
        let to = data.add(bounded::<0, BYTES_MAX>(body as usize - HEAD));
        stacks::put_frames(to.cast(), (&raw const (*scratch).stack).cast(), count as u32);
    }
    if is_given {
        let took = now().wrapping_sub(began);
        state.stack_time += took;
        state.stack_cost = budget::mean(state.stack_cost, took);
    }
    0
}

/// Writes the record; 0: it could not.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn write_tracepoint(state: *mut CpuState, scratch: *mut Scratch) -> u32 {
    let Some(state) = given(state) else { return 0 };
    if scratch.is_null() {
        return 0;
    }
    // SAFETY: a word of our own.
    let body = unsafe { word!(scratch, body) };
    if body <= SMALL as u64 {
        write::<SMALL, { room(SMALL) }>(state, scratch)
    } else if body <= MIDDLE as u64 {
        write::<MIDDLE, { room(MIDDLE) }>(state, scratch)
    } else {
        write::<LARGE, { room(LARGE) }>(state, scratch)
    }
}

/// The same of one that has at most `MOST` bytes after its header.
#[inline(always)]
fn write<const MOST: usize, const ROOM: usize>(state: &mut CpuState, scratch: *mut Scratch) -> u32 {
    let tid = running::tid(state);
    let writer = Writer::open_kernel::<ROOM>(state, tid);
    let Some(mut w) = writer else { return 0 };
    let since = w.time();
    // SAFETY: words of our own.
    let (body, aux) = unsafe { (word!(scratch, body), word!(scratch, aux)) };
    w.word(record::header(kind::TRACEPOINT, ((8 + body) / UNIT as u64) as u8, aux as u16, since));
    let size = bounded::<0, MOST>(body as usize);
    // SAFETY: inside the page, and the scratch, by the bounds.
    unsafe {
        let to = w.body().add(w.at);
        bpf_probe_read_kernel(to.cast(), size as u32, (&raw const (*scratch).head).cast());
    }
    w.at += size;
    w.publish(kind::TRACEPOINT);
    1
}
