//! The table of live threads, and of what each blocked one waits in.
//!
//! A slot is written by the CPU on which its thread stops or starts, by fork for a new thread, and
//! once by the task iterator at the start of a recording. Writers of one slot can meet only where a
//! thread is renamed from outside, which changes no more than the name. A new thread takes a free
//! slot by compare-and-swap of its id, the one atomic in these programs, on the rare path.

use core::mem::offset_of;
use core::sync::atomic::{Ordering, compiler_fence};

use aya_ebpf::helpers::generated::bpf_task_pt_regs;
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use flightrec_format::abi::record::{Abi, fold};
use flightrec_format::abi::slot::{
    ARGS_BYTES, BLOCKED, IN_SYSCALL, KTHREAD, PACKED, REFUSED, SLOTS_PER_PAGE, TaskSlot, WAYS,
    place,
};

use crate::atomic;
use crate::cpu::this_cpu;
use crate::kernel::{Regs, Task, comm_bytes, machine};
use crate::pages::{Page, load, store};
use crate::syscalls::X32_BIT;
use crate::values::{Compat, Native, Values};

#[map(name = "slots")]
static SLOTS: Array<Page> = Array::with_max_entries(1, 1 << 10 /* BPF_F_MMAPABLE */);

/// Pages of [`SLOTS`]. Filled by the loader.
#[unsafe(no_mangle)]
static SLOT_PAGES: u32 = 1;

/// What decides which thread has which place. Random, filled by the loader.
#[unsafe(no_mangle)]
static SLOT_SEED: u64 = 0;

/// Where a thread's slots are.
#[inline(always)]
fn place_of(tid: u32) -> (u32, u32) {
    // SAFETY: statics of ours; volatile because the loader replaces their values.
    let (seed, pages) = unsafe {
        ((&raw const SLOT_SEED).read_volatile(), (&raw const SLOT_PAGES).read_volatile())
    };
    place(tid, seed, pages)
}

/// The neighbours among which a thread's slot is.
#[inline(always)]
fn neighbours(tid: u32) -> Option<*mut TaskSlot> {
    let (page, way) = place_of(tid);
    let page = SLOTS.get_ptr_mut(page)?;
    if way as usize > SLOTS_PER_PAGE - WAYS {
        return None; // never, by `place`; the verifier wants to see it
    }
    // SAFETY: `way` and WAYS - 1 neighbours are inside the page by the check above.
    Some(unsafe { Page::body(page).cast::<TaskSlot>().add(way as usize) })
}

/// The thread's slot.
#[inline(always)]
fn find(tid: u32) -> Option<*mut TaskSlot> {
    let first = neighbours(tid)?;
    for way in 0..WAYS {
        // SAFETY: see `neighbours`.
        let slot = unsafe { first.add(way) };
        // SAFETY: as above; volatile since other CPUs write their threads' slots.
        if unsafe { (&raw const (*slot).tid).read_volatile() } == tid {
            return Some(slot);
        }
    }
    None
}

/// Takes a slot for the thread: its own, a free one, or that of a thread that is not blocked. The
/// caller fills it by [`write`].
#[inline(always)]
fn take(tid: u32) -> Option<*mut TaskSlot> {
    if let Some(slot) = find(tid) {
        return Some(slot);
    }
    let first = neighbours(tid)?;
    for evict in [false, true] {
        for way in 0..WAYS {
            // SAFETY: see `neighbours`; `seq` and `tid` are the slot's first, aligned word.
            let (slot, flags, old) = unsafe {
                let slot = first.add(way);
                (
                    slot,
                    (&raw const (*slot).flags).read_volatile(),
                    slot.cast::<u64>().read_volatile(),
                )
            };
            let free = old >> 32 == 0;
            // Its `seq` becomes odd with its new id: what else is in it is still the old thread's.
            let new = old & 0xffff_ffff | 1 | u64::from(tid) << 32;
            let even = old & 1 == 0;
            // SAFETY: as above.
            if even
                && (free || evict && flags & BLOCKED == 0)
                && unsafe { atomic::swap(slot.cast(), old, new) }
            {
                return Some(slot);
            }
        }
    }
    this_cpu().slot_collisions += 1;
    // A dump has the page, and not the CPUs' states. Counts that two CPUs add at a time are lost:
    // it tells at least that.
    if let Some(page) = SLOTS.get_ptr_mut(place_of(tid).0) {
        // SAFETY: the header lies inside the page.
        unsafe {
            let misses = (&raw mut (*Page::header(page)).refused).cast::<u64>();
            misses.write_volatile(misses.read_volatile() + 1);
        }
    }
    None
}

/// Changes a slot so that a reader notices that it caught the middle.
#[inline(always)]
fn write(slot: *mut TaskSlot, change: impl FnOnce(*mut TaskSlot)) {
    // SAFETY: `slot` is inside a page of the table. A reader that sees any of the change sees the
    // odd `seq`, and one that sees the even one sees all of it.
    unsafe {
        let seq = (&raw const (*slot).seq).read_volatile() | 1;
        atomic::separate::<{ offset_of!(TaskSlot, seq) }>(slot.cast(), seq);
        compiler_fence(Ordering::Release);
        change(slot);
        compiler_fence(Ordering::Release);
        atomic::publish::<{ offset_of!(TaskSlot, seq) }>(slot.cast(), seq.wrapping_add(1));
    }
}

/// What does not change while a thread runs, but for its group, which few change: ids, start, name.
#[inline(always)]
fn identity(slot: *mut TaskSlot, task: Task) {
    let comm = comm_bytes(task.comm());
    // SAFETY: see `write`.
    unsafe {
        (*slot).tgid = task.tgid();
        (*slot).start_time = task.start_time();
        (*slot).comm = comm;
        (*slot).ppid = task.ppid();
        (*slot).cgroup = task.cgroup();
    }
}

/// A new thread, or one that runs a new program.
#[inline(never)]
pub(crate) fn insert(task: *const u8) -> u32 {
    let task = Task::from_arg(task);
    let Some(slot) = take(task.tid()) else { return 0 };
    write(slot, |slot| {
        identity(slot, task);
        // SAFETY: see `write`.
        unsafe {
            (*slot).flags = if task.is_kthread() { KTHREAD } else { 0 };
        }
    });
    0
}

/// The thread that began at `start_time` is no more. Its id may have a new owner already.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn free_slot(tid: u32, start_time: u64) -> u32 {
    let Some(first) = neighbours(tid) else { return 0 };
    for way in 0..WAYS {
        // SAFETY: see `neighbours`.
        let (slot, owner, began) = unsafe {
            let slot = first.add(way);
            (
                slot,
                (&raw const (*slot).tid).read_volatile(),
                (&raw const (*slot).start_time).read_volatile(),
            )
        };
        if owner == tid && began == start_time {
            write(slot, |slot| {
                // SAFETY: see `write`.
                unsafe {
                    (*slot).flags = 0;
                    (&raw mut (*slot).tid).write_volatile(0);
                }
            });
        }
    }
    0
}

/// The thread has a new name. One that is being written at this moment keeps its old name here;
/// the task lane has the new one.
#[inline(always)]
pub(crate) fn rename(tid: u32, comm: [u64; 2]) {
    if let Some(slot) = find(tid) {
        // SAFETY: inside a page of the table.
        if unsafe { (&raw const (*slot).seq).read_volatile() } & 1 != 0 {
            return;
        }
        write(slot, |slot| {
            // SAFETY: see `write`.
            unsafe { (*slot).comm = comm_bytes(comm) };
        });
    }
}

/// Bytes of an ENTER record from its beginning that [`waiting`] reads.
pub(crate) const ENTRY: usize = ARGS + ARGS_BYTES;
/// Where an ENTER's arguments begin.
const ARGS: usize = 8 + fold::SLOT;

/// What a blocked thread waits in, `since` when (0: since before the recording). `entry`: the ENTER
/// record of the call that it is in, of which [`ENTRY`] bytes are inside the page; null: not known,
/// or `refused`.
#[inline(always)]
fn waiting(
    slot: *mut TaskSlot,
    task: Task,
    state: u32,
    since: u64,
    entry: *const u8,
    refused: bool,
) {
    // SAFETY: see `write`.
    unsafe {
        (*slot).since = since;
        (*slot).state = state;
        (*slot).prio = task.prio() as i32;
        (*slot).flags = if entry.is_null() {
            in_call(slot, task.as_ptr()) | if refused { REFUSED } else { 0 }
        } else {
            (*slot).nr = load::<0>(entry) as i32;
            let args = (&raw mut (*slot).args).cast::<u8>();
            store::<0>(args, load::<ARGS>(entry));
            store::<8>(args, load::<{ ARGS + 8 }>(entry));
            store::<16>(args, load::<{ ARGS + 16 }>(entry));
            store::<24>(args, load::<{ ARGS + 24 }>(entry));
            store::<32>(args, load::<{ ARGS + 32 }>(entry));
            store::<40>(args, load::<{ ARGS + 40 }>(entry));
            (*slot).abi = entry.add(ARGS + 48).cast::<u32>().read_volatile();
            BLOCKED | IN_SYSCALL | PACKED
        };
    }
}

/// The call that a thread is in goes into its slot from its saved registers. Returns the slot's
/// flags. Apart, since mostly the call's entry is at hand, and this is long.
#[inline(never)]
fn in_call(slot: *mut TaskSlot, task: *const u8) -> u32 {
    let task = Task::from_arg(task);
    if task.is_kthread() {
        return BLOCKED | KTHREAD;
    }
    if !task.makes_calls() {
        return BLOCKED;
    }
    // SAFETY: see `write`; a thread that makes calls has saved registers.
    unsafe {
        let regs = Regs::from_arg(bpf_task_pt_regs(task.as_ptr() as *mut _) as *const u8);
        let nr = regs.nr();
        // Interrupts and exceptions leave a negative number there (entry_64.S).
        if nr < 0 {
            return BLOCKED;
        }
        let compat = task.is_compat();
        let x32 = machine!(has_x32) != 0 && !compat && nr as u64 & X32_BIT != 0;
        (*slot).nr = if x32 { nr ^ X32_BIT as i64 } else { nr } as i32;
        let abi = if compat {
            Abi::Compat
        } else if x32 {
            Abi::X32
        } else {
            Abi::Native
        };
        (*slot).abi = abi as u32;
        (*slot).args = if compat { Compat(regs).all() } else { Native(regs).all() };
    }
    BLOCKED | IN_SYSCALL
}

/// The thread stops running and waits; `entry` as for [`waiting`].
#[inline(always)]
pub(crate) fn block(task: Task, state: u32, time: u64, entry: *const u8, refused: bool) {
    let tid = task.tid();
    if let Some(slot) = find(tid) {
        write(slot, |slot| waiting(slot, task, state, time, entry, refused));
    } else {
        adopt(task.as_ptr(), state, time);
    }
}

/// Enters a thread that the table does not know: it began before the recording, or its slot was
/// taken from it. One that waits (`state` is not 0) has been waiting `since` then (0: not known).
#[inline(never)]
pub(crate) fn adopt(task: *const u8, state: u32, since: u64) -> u32 {
    let task = Task::from_arg(task);
    let Some(slot) = take(task.tid()) else { return 0 };
    write(slot, |slot| {
        identity(slot, task);
        // SAFETY: see `write`.
        unsafe {
            (*slot).flags = if task.is_kthread() { KTHREAD } else { 0 };
        }
        if state != 0 {
            waiting(slot, task, state, since, core::ptr::null(), false);
        }
    });
    0
}

/// One of the threads that exist when the recording begins.
#[inline(always)]
pub(crate) fn walk(task: Task) {
    let tid = task.tid();
    // A zombie has run for the last time: nothing would ever free its slot.
    if find(tid).is_some() || task.is_exiting() {
        return;
    }
    let state = task.state();
    adopt(task.as_ptr(), state, 0);
    // It may have changed since, before its slot was there to be changed.
    if task.is_exiting() {
        free_slot(tid, task.start_time());
    } else if state != 0 && task.state() == 0 {
        run(tid, 0, &mut 0);
    }
}

/// A call that is not longer ago than this, ns, has its entry in the rings still, or in the files.
const RECENT: u64 = 1 << 24;

/// What [`run`] returns of a call whose entry the budget refused a moment before. No call has such
/// an `aux`.
pub(crate) const WAS_REFUSED: u16 = u16::MAX;

/// The thread runs, from `time` on. The `aux` of the ENTER record of the call that it slept in,
/// where that was recorded a moment before, or [`WAS_REFUSED`]. If it slept, for how long is put
/// into `slept`, ns; where that is since before the recording, it is all of `time`.
#[inline(always)]
pub(crate) fn run(tid: u32, time: u64, slept: &mut u64) -> Option<u16> {
    let slot = find(tid)?;
    // SAFETY: inside a page of the table.
    let (flags, since) = unsafe { ((&raw const (*slot).flags).read_volatile(), (*slot).since) };
    if flags & BLOCKED == 0 {
        return None;
    }
    *slept = time.saturating_sub(since);
    // One store: whoever reads the slot meanwhile has it as it was, or as it is.
    // SAFETY: as above.
    unsafe {
        (&raw mut (*slot).flags).write_volatile(flags & !(BLOCKED | IN_SYSCALL | PACKED | REFUSED))
    };
    if flags & (PACKED | REFUSED) == 0 || time.wrapping_sub(since) >= RECENT {
        return None;
    }
    if flags & REFUSED != 0 {
        return Some(WAS_REFUSED);
    }
    // SAFETY: as above.
    Some(unsafe { ((*slot).nr as u32 >> 16) as u16 })
}
