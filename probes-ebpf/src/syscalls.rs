//! System calls: entry and exit.
//!
//! Two forms of each program. Up to Linux 6.19 `tp_btf`, the cheaper one. From 7.0 on programs of
//! that form on `raw_syscalls` are preemptible, and skipped when they meet (kernel commits
//! f7d327654b88, a46023d5616e), so there the classic tracepoint form, which runs with preemption
//! off. The loader decides (`daemon/src/load.rs`).

use core::arch::asm;
use core::ffi::c_void;
use core::mem::replace;
use core::ptr::null;

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_task_pt_regs;
use aya_ebpf::macros::{btf_tracepoint, map};
use aya_ebpf::maps::Array;
use aya_ebpf::programs::{BtfTracePointContext, TracePointContext};
use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::abi::pointee;
use flightrec_format::abi::probe::{
    ARGS_LOST, CALLS, CallTable, HAS_POINTEES, IS_BIRTH, NO_STRING, call_strings,
};
use flightrec_format::abi::record::{self, Abi, NR_INVALID, call_aux, counter, fold, kind};
use flightrec_format::abi::state::{
    CpuState, ENABLE_STRINGS, ENABLE_STRUCTURES, ENABLE_SYSCALL, ENABLE_THREAD_CONTEXTS,
    GIVEN_ARGUMENTS, GIVEN_EXIT_TIMES, GIVEN_STRINGS, LIMIT_SYSCALL, REFUSE_SYSCALL, entered,
};

use crate::cpu::{now, this_cpu};
use crate::global::given;
use crate::kernel::{Regs, Task, arg, machine};
use crate::lane::Writer;
use crate::pages::{BODY, NAMES, Page, RINGS_SYSCALL, UNIT, length, store};
use crate::pointees::{self, Wanted};
use crate::values::{Arguments, Compat, First, NO_ARGUMENTS, Native, Values};
use crate::{args, budget, contexts, running, strings};

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

/// THREAD, TIME, EXIT with its value, arguments: an ENTER's slot is shorter.
const ENTER_ROOM: usize = NAMES + 16 + args::ROOM;
/// THREAD, TIME, EXIT with its value alone.
const EXIT_ROOM: usize = NAMES + 16;
/// Bytes of an ENTER's fold slot.
const SLOT: usize = size_of::<u32>();
/// `__X32_SYSCALL_BIT`, arch/x86/include/uapi/asm/unistd.h.
pub(crate) const X32_BIT: u64 = 0x4000_0000;

/// A call's identity, from the number that the kernel gave. `nr` is asked for where it is written:
/// what is at hand in the kernel's own memory needs no register until then.
#[derive(Clone, Copy)]
struct Call<N: Fn() -> u16 + Copy> {
    nr: N,
    abi: Abi,
    entry: u32,
}

/// One of the machine's own calls; nearly all are. Of numbers from [`CALLS`] on, see [`rare`].
#[inline(always)]
fn native(id: impl Fn() -> u64 + Copy) -> Call<impl Fn() -> u16 + Copy> {
    Call { nr: move || id() as u16, abi: Abi::Native, entry: entry(&raw const NATIVE_CALLS, id()) }
}

/// A call's entry in its table; `id` is below [`CALLS`]. The mask is for the verifier of Linux 6.1,
/// which also follows a branch that an earlier one excludes, and takes the number for anything
/// there; written out, as LLVM knows better.
#[inline(always)]
fn entry(table: *const CallTable, id: u64) -> u32 {
    let mut index = id;
    // SAFETY: arithmetic on one register; then inside the table by the mask, and volatile because
    // the loader replaces it.
    unsafe {
        asm!("{i} &= {mask}", i = inout(reg) index, mask = const CALLS - 1,
            options(nomem, nostack));
        table.cast::<u32>().add(index as usize).read_volatile()
    }
}

const _: () = assert!(CALLS.is_power_of_two());

/// The entry of a call below [`CALLS`] in its table.
#[inline(always)]
pub(crate) fn call_entry(is_compat: bool, nr: u64) -> u32 {
    entry(if is_compat { &raw const COMPAT_CALLS } else { &raw const NATIVE_CALLS }, nr)
}

/// 32-bit calls, x32 calls, and numbers that are no call, which stand for their first argument then.
/// Apart, so that the usual call pays nothing for them.
#[inline(always)]
fn rare(id: u64, is_compat: bool, args: &mut Arguments) -> Call<impl Fn() -> u16 + Copy + use<>> {
    let (nr, abi, entry) = if is_compat && id < CALLS as u64 {
        (id as u16, Abi::Compat, entry(&raw const COMPAT_CALLS, id))
    } else if machine!(has_x32) != 0 && id ^ X32_BIT < u64::from(NR_INVALID) && !is_compat {
        ((id ^ X32_BIT) as u16, Abi::X32, 6 | NO_STRINGS)
    } else {
        args[0] = id;
        let abi = if is_compat { Abi::Compat } else { Abi::Native };
        (NR_INVALID, abi, 1 | NO_STRINGS)
    };
    Call { nr: move || nr, abi, entry }
}

/// Whether what this call's arguments point to is recorded: strings, or what else.
#[inline(always)]
fn reads_memory(state: &mut CpuState, entry: u32) -> bool {
    let enabled = state.enabled;
    (call_strings(entry) != 0 && enabled & ENABLE_STRINGS != 0
        || entry & HAS_POINTEES != 0 && enabled & ENABLE_STRUCTURES != 0)
        && (enabled & GIVEN_STRINGS == 0 || !leaves_out(state))
}

/// What of a call's memory is read.
#[derive(Clone, Copy)]
struct Memory {
    /// How many strings; none where strings are not recorded.
    strings: u32,
    /// The call's [items](pointee::PointeeTable), and which of them are read; 0: none.
    items: u64,
    /// Bytes of a page that these take at most.
    room: u32,
    /// How many of them there are, at most.
    count: u32,
}

impl Memory {
    const NONE: Self = Self { strings: 0, items: 0, room: 0, count: 0 };

    /// Of a call that [`reads_memory`]: what its program gives; and what of it the kernel will
    /// tell, `false` standing for nothing.
    #[inline(always)]
    fn of_entry(
        state: &CpuState,
        call: Call<impl Fn() -> u16 + Copy>,
        args: &Arguments,
    ) -> (Self, bool) {
        let enabled = state.enabled;
        let strings = if enabled & ENABLE_STRINGS != 0 { call_strings(call.entry) } else { 0 };
        if call.entry & HAS_POINTEES == 0 || enabled & ENABLE_STRUCTURES == 0 {
            return (Self { strings, ..Self::NONE }, false);
        }
        let items = pointees::items(call.abi, (call.nr)());
        let wanted = Wanted::of(args, items);
        let mut memory = Self { strings, ..Self::NONE };
        if wanted.given != 0 {
            memory.read(items, pointees::GIVEN, wanted.given);
        }
        (memory, wanted.told != 0)
    }

    /// Of its end: what the kernel has told; where what its program gave is still to be read
    /// (`cold`), that as well.
    #[inline(always)]
    fn of_exit(
        state: &CpuState,
        call: Call<impl Fn() -> u16 + Copy>,
        args: &Arguments,
        ret: i64,
        cold: bool,
    ) -> Self {
        let (given, tells) = Self::of_entry(state, call, args);
        let mut memory = if cold { given } else { Self::NONE };
        if tells && pointees::tells(ret) {
            memory.read(pointees::items(call.abi, (call.nr)()), pointees::TOLD, 1);
        }
        memory
    }

    /// Adds items: of all of a call's, those of one `side`.
    #[inline(always)]
    fn read(&mut self, items: u64, side: u64, which: u32) {
        self.room = pointee::room(items) as u32;
        self.items |= items & (pointees::GIVEN - 1) | side;
        self.count += (which & 1) + (which >> 1 & 1) + (which >> 2 & 1);
    }

    /// The same, of which the verifier knows nothing: what follows is the same whatever it is.
    #[inline(always)]
    fn forgotten(self, args: &Arguments) -> Self {
        let forget = |value| pointees::forget(value, args);
        Self {
            strings: forget(self.strings.into()) as u32,
            items: forget(self.items),
            room: forget(self.room.into()) as u32 & 0x3ff,
            count: forget(self.count.into()) as u32,
        }
    }

    /// Whether nothing is read.
    #[inline(always)]
    fn is_none(self) -> bool {
        self.strings == 0 && self.items == 0
    }

    /// How many strings and items: what it costs, in strings.
    #[inline(always)]
    fn cost(self) -> u32 {
        self.strings + self.count
    }

    /// Bytes of a page that it takes at most.
    #[inline(always)]
    fn room(self) -> usize {
        strings::ROOM * self.strings as usize + self.room as usize
    }
}

/// Whether what the CPU leaves out is left out of the running process's calls: not where it makes
/// few.
#[inline(always)]
fn leaves_out(state: &mut CpuState) -> bool {
    state.enabled & LIMIT_SYSCALL == 0 || budget::see_drawer(state) == 0
}

/// The same of a call that has drawn from the bucket: it was seen then.
#[inline(always)]
fn was_loud(state: &CpuState) -> bool {
    state.enabled & LIMIT_SYSCALL == 0 || state.drawer.quiet == 0
}

/// 0, of which the compiler does not know that. It would clear what is next to it as well by a call
/// of `memset`, a loop of single bytes here.
#[inline(always)]
fn zero() -> u64 {
    let r;
    // SAFETY: a constant into one register.
    unsafe { asm!("{r} = 0", r = out(reg) r, options(nomem, nostack)) };
    r
}

/// A call's arguments in the form that [`pointees`] takes.
#[inline(always)]
fn eight(values: impl Values) -> Arguments {
    let [a, b, c, d, e, f] = values.all();
    [a, b, c, d, e, f, zero(), zero()]
}

/// Writes a call's record, an EXIT's return value in it being `value`, and the thread's name in
/// front where the page does not have it; with what its arguments point to, if `MEMORY`: they are
/// `all` then. Publishing is left to the caller. Returns the writer, and the upper half of what
/// [`strings::put_strings`] returned.
#[inline(always)]
fn put<'a, const MEMORY: bool>(
    state: &'a mut CpuState,
    kind: u8,
    call: Call<impl Fn() -> u16 + Copy>,
    value: u64,
    values: impl Values,
    args: bool,
    memory: Memory,
    all: &Arguments,
) -> Option<(Writer<'a>, u32)> {
    let i = Lane::Syscall as usize;
    let tid = state.running.tid;
    let first_alone = state.enabled & GIVEN_ARGUMENTS != 0 && was_loud(state);
    let need = if MEMORY { ENTER_ROOM + memory.room() } else { ENTER_ROOM };
    let lane = &mut state.lanes[i];
    let mut w = Writer::open::<ENTER_ROOM, false>(
        lane,
        &mut state.no_ring[i],
        Lane::Syscall,
        need,
        Some(tid),
    )?;
    let since = w.time();
    let start = w.at;
    w.lane.enter_off = start as u32;
    // SAFETY: room made by `open`.
    let record = unsafe { w.body().add(start) };
    // Its length is not known yet.
    let header = record::header(kind, 0, call_aux((call.nr)(), call.abi as u8), since);
    let mut n = if args { call.entry & 7 } else { 0 };
    if first_alone {
        n = only_first(n);
    }
    // SAFETY: as above.
    let length = unsafe {
        store::<0>(record, header);
        if kind == kind::EXIT {
            store::<8>(record, value);
            if n > 0 { args::put::<16>(record, values, n) } else { 16 }
        } else {
            record.add(8).cast::<u32>().write_volatile(0);
            if n > 0 { args::put::<{ 8 + SLOT }>(record, values, n) } else { 8 + SLOT }
        }
    };
    // SAFETY: the header's second byte. What was stored of `start` is loaded again: nothing else
    // needs a register for it.
    unsafe {
        record.add(1).write_volatile((length / UNIT) as u8);
        w.at = (&raw const w.lane.enter_off).read_volatile() as usize + length;
    }
    let mut rare = 0;
    if MEMORY {
        state.strings += u64::from(memory.cost());
        if w.at > BODY {
            w.at = BODY; // never; the verifier wants to see it
        }
        let mut end = w.at as u64;
        if memory.strings != 0 {
            end = strings::put_strings(w.page(), end, all, call.entry);
        }
        rare = (end >> 32) as u32;
        if memory.items != 0 {
            let at = end & (strings::COLD - 1);
            end = pointees::put_call(&w, at, all, memory.items, value);
            rare |= (end >> 32) as u32;
        }
        w.at = (end & (strings::COLD - 1)) as usize;
        if w.at > BODY {
            w.at = BODY; // never; the verifier wants to see it
        }
    }
    Some((w, rare))
}

/// In the upper half of what [`strings::put_strings`] returns: a string could not be read.
const COLD_STRING: u32 = (strings::COLD >> 32) as u32;

/// Long strings cost more than was drawn for them: what was read to find their ends.
#[inline(never)]
fn pay_for_ends(state: &mut CpuState, rare: u32, entry: u32) -> u32 {
    if state.enabled & LIMIT_SYSCALL != 0 {
        let cost = state.buckets[Lane::Syscall as usize].string_cost;
        budget::owe(state, (rare >> (strings::SOUGHT - 32)) * call_strings(entry) * cost);
    }
    0
}

/// What is read at a call's end was not drawn for.
#[inline(never)]
fn pay_for_memory(state: &mut CpuState, memory: Memory) -> u32 {
    if state.enabled & LIMIT_SYSCALL != 0 {
        let cost = state.buckets[Lane::Syscall as usize].string_cost;
        budget::owe(state, memory.cost() * cost);
    }
    0
}

/// How many of `n` arguments are recorded where the others are left out. Apart, as that is rare.
#[inline(never)]
fn only_first(n: u32) -> u32 {
    n.min(1)
}

/// An entry. What is rare is apart, so that the usual call pays nothing for it: strings, and what
/// is none of the machine's own calls.
#[inline(always)]
fn enter<V: Values>(
    state: &mut CpuState,
    id: impl Fn() -> u64 + Copy,
    values: impl Values,
    compat: impl FnOnce() -> V,
) -> Option<()> {
    state.lanes[Lane::Syscall as usize].entered = entered::UNKNOWN;
    if state.enabled & ENABLE_SYSCALL == 0 {
        return None;
    }
    running::see(state);
    if state.running.tgid == state.own_tgid {
        state.lanes[Lane::Syscall as usize].refused[Refusal::Own as usize] += 1;
        return None;
    }
    let is_compat = Task::cast(state.running.task).is_compat();
    if is_compat || id() >= CALLS as u64 {
        enter_rare(state, is_compat, id(), values, compat());
        return None;
    }
    let call = native(id);
    if reads_memory(state, call.entry) {
        enter_with_memory(state, id(), values);
        return None;
    }
    put_enter::<false>(state, call, values, &NO_ARGUMENTS)
}

#[inline(never)]
fn enter_with_memory(state: &mut CpuState, id: u64, values: impl Values) -> u32 {
    put_enter_with_memory(state, id, &eight(values))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn put_enter_with_memory(state: *mut CpuState, id: u64, args: *const Arguments) -> u32 {
    if let (Some(state), Some(args)) = (given(state), given(args.cast_mut())) {
        put_enter::<true>(state, native(|| id), &*args, args);
    }
    0
}

#[inline(never)]
fn enter_rare(
    state: &mut CpuState,
    is_compat: bool,
    id: u64,
    values: impl Values,
    compat: impl Values,
) -> u32 {
    if is_compat {
        put_rare_enter(state, id, 1, &mut eight(compat))
    } else {
        put_rare_enter(state, id, 0, &mut eight(values))
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn put_rare_enter(
    state: *mut CpuState,
    id: u64,
    is_compat: u32,
    args: *mut Arguments,
) -> u32 {
    let (Some(state), Some(args)) = (given(state), given(args)) else { return 0 };
    let call = rare(id, is_compat != 0, args);
    if reads_memory(state, call.entry) {
        put_enter::<true>(state, call, &*args, args);
    } else {
        put_enter::<false>(state, call, &*args, args);
    }
    0
}

#[inline(always)]
fn put_enter<const MEMORY: bool>(
    state: &mut CpuState,
    call: Call<impl Fn() -> u16 + Copy>,
    values: impl Values,
    all: &Arguments,
) -> Option<()> {
    let i = Lane::Syscall as usize;
    let (memory, tells) = if MEMORY {
        let (memory, tells) = Memory::of_entry(state, call, all);
        (memory.forgotten(all), pointees::forget(tells.into(), all) != 0)
    } else {
        (Memory::NONE, false)
    };
    if state.enabled & (LIMIT_SYSCALL | REFUSE_SYSCALL) != 0 {
        let bucket = &mut state.buckets[i];
        let cost = bucket.cost + if MEMORY { bucket.string_cost * memory.cost() } else { 0 };
        if !budget::draw_call(state, cost) {
            state.lanes[i].entered = entered::REFUSED;
            budget::refuse_call(state, kind::ENTER);
            return None;
        }
    }
    let tid = state.running.tid;
    let (w, rare) = put::<MEMORY>(state, kind::ENTER, call, 0, values, true, memory, all)?;
    let cold = rare & COLD_STRING != 0;
    w.lane.enter_time = w.now;
    w.lane.entered = entered::FOLDABLE;
    if MEMORY && tells {
        w.lane.entered = entered::ALONE;
    }
    if cold {
        w.lane.entered = entered::ALONE;
        if let Some(slot) = COLD.get_ptr_mut(tid % COLD_SLOTS) {
            // SAFETY: an element of the map.
            unsafe { slot.write_volatile(tid) };
        }
    }
    w.publish(kind::ENTER);
    if MEMORY && rare > COLD_STRING {
        pay_for_ends(state, rare, call.entry);
    }
    if state.enabled & GIVEN_EXIT_TIMES != 0 && was_loud(state) {
        let lane = &mut state.lanes[i];
        lane.enter_time = budget::jiffies();
        if !cold && !tells {
            lane.entered = entered::UNTIMED;
        }
    }
    Some(())
}

/// The short way of an exit: into the entry's record, where that is the last thing that happened
/// on this CPU. One aligned store. Where it is not to be timed, it folds within a jiffy, at most 10
/// ms.
#[inline(always)]
fn fold_exit(state: &mut CpuState, ret: i64, untimed: bool) -> bool {
    let lane = &mut state.lanes[Lane::Syscall as usize];
    let mut took = (if untimed { budget::jiffies() } else { now() }).wrapping_sub(lane.enter_time);
    if untimed && took != 0 {
        took = fold::LIMIT_NS;
    }
    // SAFETY: a field of our own, loaded once.
    let at = unsafe { (&raw const lane.enter_off).read_volatile() } as usize;
    if took >= fold::LIMIT_NS || !fold::fits(ret) || at > BODY - 8 - SLOT {
        return false;
    }
    let Some(page) = RINGS_SYSCALL.get_ptr_mut(lane.ring_base + lane.page) else { return false };
    // SAFETY: the fold slot is the first of the body of the ENTER record at `at`.
    unsafe { Page::body(page).add(at + 8).cast::<u32>().write_volatile(fold::pack(ret, took)) };
    lane.events[counter(kind::EXIT)] += 1;
    true
}

/// [`fold_exit`] where the time is left out; apart, since that is rare.
#[inline(never)]
fn fold_untimed(state: &mut CpuState, ret: i64) -> u32 {
    u32::from(fold_exit(state, ret, true))
}

/// An exit of a call whose entry was recorded a moment before the thread slept in it: all but its
/// value is known. Another call's number is a signal's return.
#[inline(always)]
fn exit_slept(state: &mut CpuState, nr: u64, ret: i64) -> bool {
    let i = Lane::Syscall as usize;
    let enabled = state.enabled;
    if enabled & ENABLE_SYSCALL == 0 || nr as u32 & 0xfff != state.lanes[i].enter_off & 0xfff {
        return false;
    }
    if enabled & LIMIT_SYSCALL != 0 {
        budget::owe_call(state);
    }
    let lane = &mut state.lanes[i];
    let tid = lane.enter_time as u32;
    if let Some(mut w) = Writer::open::<EXIT_ROOM, false>(
        lane,
        &mut state.no_ring[i],
        Lane::Syscall,
        EXIT_ROOM,
        Some(tid),
    ) {
        let since = w.time();
        w.words(record::header(kind::EXIT, length(8), w.lane.enter_off as u16, since), ret as u64);
        w.publish(kind::EXIT);
    }
    true
}

/// An exit; `ret` is what the call returned, `nr` its number, `regs` the caller's registers, null
/// where the tracepoint does not give them.
#[inline(always)]
fn exit<const CLASSIC: bool>(
    state: &mut CpuState,
    ret: i64,
    nr: impl FnOnce() -> u64,
    regs: impl FnOnce() -> *const u8,
) {
    let began = replace(&mut state.lanes[Lane::Syscall as usize].entered, entered::UNKNOWN);
    if began == entered::FOLDABLE && fold_exit(state, ret, false)
        || began == entered::UNTIMED && fold_untimed(state, ret) != 0
        || began == entered::SLEPT && exit_slept(state, nr(), ret)
    {
        return;
    }
    let regs = regs();
    exit_alone::<CLASSIC>(state, ret, regs, began);
}

/// An exit that did not fold. Apart, so that those that do pay nothing for it.
#[inline(never)]
fn exit_alone<const CLASSIC: bool>(
    state: &mut CpuState,
    ret: i64,
    regs: *const u8,
    began: u32,
) -> u32 {
    if began == entered::REFUSED {
        budget::refuse_call(state, kind::EXIT);
        return 0;
    }
    if state.enabled & ENABLE_SYSCALL == 0 {
        return 0;
    }
    let task = Task::current();
    running::note(state, task);
    if state.running.tgid == state.own_tgid {
        state.lanes[Lane::Syscall as usize].refused[Refusal::Own as usize] += 1;
        return 0;
    }
    if state.enabled & ENABLE_THREAD_CONTEXTS != 0 {
        contexts::end_call(state, began);
    }
    let regs = if CLASSIC {
        // SAFETY: the running thread's own registers; it is in a system call, so it has them.
        Regs::from_arg(unsafe { bpf_task_pt_regs(task.as_ptr() as *mut _) } as *const u8)
    } else {
        Regs::from_arg(regs)
    };
    let id = regs.nr() as u64;
    if task.is_compat() || id >= CALLS as u64 {
        exit_rare(state, task.as_ptr(), began, regs, ret);
        return 0;
    }
    let call = native(|| id);
    if reads_memory(state, call.entry) {
        exit_with_memory(state, began, regs, ret);
        return 0;
    }
    put_exit::<false>(state, began, call, Native(regs), ret, Memory::NONE, &NO_ARGUMENTS);
    0
}

/// Whether something else happened on this CPU since the call's entry.
#[inline(always)]
fn went_on(began: u32) -> bool {
    began == entered::UNKNOWN || began == entered::SLEPT
}

#[inline(never)]
fn exit_with_memory(state: &mut CpuState, began: u32, regs: Regs, ret: i64) -> u32 {
    put_exit_with_memory(state, began, regs.nr() as u64, &eight(Native(regs)), ret)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn put_exit_with_memory(
    state: *mut CpuState,
    began: u32,
    id: u64,
    args: *const Arguments,
    ret: i64,
) -> u32 {
    if let (Some(state), Some(args)) = (given(state), given(args.cast_mut())) {
        put_exit_of(state, began, native(|| id), args, ret);
    }
    0
}

/// With how a call began, as a function takes five arguments at most: it came by the 32-bit entry.
const COMPAT: u32 = 1 << 31;

#[inline(never)]
fn exit_rare(state: &mut CpuState, task: *const u8, began: u32, regs: Regs, ret: i64) -> u32 {
    let id = regs.nr() as u64;
    if Task::from_arg(task).is_compat() {
        put_rare_exit(state, began | COMPAT, id, &mut eight(Compat(regs)), ret)
    } else {
        put_rare_exit(state, began, id, &mut eight(Native(regs)), ret)
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn put_rare_exit(
    state: *mut CpuState,
    began: u32,
    id: u64,
    args: *mut Arguments,
    ret: i64,
) -> u32 {
    if let (Some(state), Some(args)) = (given(state), given(args)) {
        let call = rare(id, began & COMPAT != 0, args);
        put_exit_of(state, began & !COMPAT, call, args, ret);
    }
    0
}

/// An exit that stands alone, of a call that may have strings: those that could not be read at its
/// entry, or that no entry was recorded of, are read now.
#[inline(always)]
fn put_exit_of(
    state: &mut CpuState,
    began: u32,
    call: Call<impl Fn() -> u16 + Copy>,
    args: &Arguments,
    ret: i64,
) {
    let mut cold = false;
    let tid = state.running.tid;
    let lost = loses_arguments(call, ret);
    let mut memory = Memory::NONE;
    if !lost && reads_memory(state, call.entry) {
        // Where the entry was not recorded, what it points to was not either.
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
        memory = Memory::of_exit(state, call, args, ret, cold).forgotten(args);
    }
    if memory.is_none() {
        put_exit::<false>(state, began, call, args, ret, memory, args);
    } else {
        put_exit::<true>(state, began, call, args, ret, memory, args);
    }
}

/// A new program and a signal's return have replaced the registers.
#[inline(always)]
fn loses_arguments(call: Call<impl Fn() -> u16 + Copy>, ret: i64) -> bool {
    (call.nr)() == NR_INVALID || call.entry & ARGS_LOST != 0 && ret == 0
}

/// An exit that stands alone. Where the thread slept in the call it is recorded whatever the budget
/// says: its entry may have been, and a reader must never find another call's exit in its place.
/// Sleeping bounds how many there are.
#[inline(always)]
fn put_exit<const MEMORY: bool>(
    state: &mut CpuState,
    began: u32,
    call: Call<impl Fn() -> u16 + Copy>,
    values: impl Values,
    ret: i64,
    memory: Memory,
    all: &Arguments,
) -> Option<()> {
    if state.enabled & LIMIT_SYSCALL != 0 && went_on(began) {
        // One that may have made the thread that runs, as a child sees it.
        if ret == 0 && call.entry & IS_BIRTH != 0 {
            // A new thread's first return: no entry of its own that a reader could take a later
            // exit for.
            if !budget::draw_call(state, state.buckets[Lane::Syscall as usize].cost) {
                budget::refuse_call(state, kind::EXIT);
                return None;
            }
        } else {
            budget::owe_call(state);
        }
    }
    let args = began == entered::UNKNOWN && !loses_arguments(call, ret);
    let (w, rare) = put::<MEMORY>(state, kind::EXIT, call, ret as u64, values, args, memory, all)?;
    w.publish(kind::EXIT);
    if MEMORY {
        pay_for_memory(state, memory);
        if rare > COLD_STRING {
            pay_for_ends(state, rare, call.entry);
        }
    }
    Some(())
}

#[btf_tracepoint(function = "sys_enter")]
fn sys_enter(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    enter(
        this_cpu(),
        || arg::<1>(ctx),
        First(ctx),
        || Compat(Regs::from_arg(arg::<0>(ctx) as *const u8)),
    )
}

#[btf_tracepoint(function = "sys_exit")]
fn sys_exit(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    let regs = || arg::<0>(ctx) as *const u8;
    exit::<false>(this_cpu(), arg::<1>(ctx) as i64, || Regs::from_arg(regs()).nr() as u64, regs);
    Some(())
}

/// `struct syscall_trace_enter` / `_exit` as the tracepoint's `format` publishes them.
const FIELD_ID: usize = 8;
const FIELD_ARGS: usize = 16;

#[inline(always)]
fn field(ctx: &TracePointContext, at: usize) -> u64 {
    // SAFETY: inside the tracepoint's record; the verifier checks it (`tp_prog_is_valid_access`).
    unsafe { ctx.as_ptr().cast::<u8>().add(at).cast::<u64>().read_volatile() }
}

/// The arguments in the tracepoint's record: of either kind of call (`syscall_get_arguments`).
#[derive(Clone, Copy)]
struct Fields<'a>(&'a TracePointContext);

impl Values for Fields<'_> {
    #[inline(always)]
    fn get(self, i: usize) -> u64 {
        field(self.0, FIELD_ARGS + 8 * i)
    }
}

/// Who returns 0 keeps the event from those who have opened perf events of their own on the
/// tracepoint (`perf_trace_run_bpf_submit`, kernel/events/core.c, Linux 6.1); aya's macro for such
/// a program always does.
#[unsafe(no_mangle)]
#[unsafe(link_section = "tracepoint")]
fn sys_enter_classic(ctx: *mut c_void) -> u32 {
    let ctx = TracePointContext::new(ctx);
    enter(this_cpu(), || field(&ctx, FIELD_ID), Fields(&ctx), || Fields(&ctx));
    1
}

/// As [`sys_enter_classic`].
#[unsafe(no_mangle)]
#[unsafe(link_section = "tracepoint")]
fn sys_exit_classic(ctx: *mut c_void) -> u32 {
    let ctx = TracePointContext::new(ctx);
    // `ret` stands where `args` begins.
    exit::<true>(this_cpu(), field(&ctx, FIELD_ARGS) as i64, || field(&ctx, FIELD_ID), null);
    1
}
