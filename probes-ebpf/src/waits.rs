//! Waits of threads and CPUs that have begun and not ended: their end says how long they took.
//!
//! A thread may sleep in it and go on elsewhere, so its beginning is kept by thread, in a place
//! that only this thread writes. Places are found by a hash of the thread's id, and taken by an
//! atomic. No map that has a lock inside would do: the programs on locks run inside of locks, those
//! of maps as well (`raw_res_spin_lock` of kernel/bpf/hashtab.c, Linux 6.15).

use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::abi::state::{LOCK_WAITS, LockWait};

use crate::atomic;
use crate::cpu::this_cpu;
use crate::pages::bounded;

/// Places among which a thread's is.
const WAYS: usize = 4;
/// Places in one value of the map.
const PLACES: usize = 32;
/// Values of the map, a power of two: 2,048 threads at a time.
const VALUES: u32 = 64;

/// What a thread is in the middle of.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Its id, with [`TAKEN`]; 0: free.
    owner: u64,
    /// When it began to free memory, ns of `CLOCK_MONOTONIC`; 0: it does not.
    pub(crate) reclaim: u64,
    /// For how many pages in a row, as their binary logarithm.
    pub(crate) order: u64,
    /// When it began to move pages.
    pub(crate) compaction: u64,
    /// The locks for which it sleeps.
    pub(crate) locks: [LockWait; LOCK_WAITS],
}

const SIZE: usize = size_of::<Place>();
const _: () = assert!(SIZE == 128);

#[map(name = "waits")]
static WAITS: Array<[Place; PLACES]> = Array::with_max_entries(VALUES, 0);

/// In [`Place::owner`], so that a thread whose id is 0 is somebody.
const TAKEN: u64 = 1 << 32;

/// The places among which a thread's is.
#[inline(always)]
fn neighbours(tid: u32) -> Option<*mut Place> {
    // Knuth's 2^64 / phi spreads neighbouring ids.
    let hash = u64::from(tid).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let value = WAITS.get_ptr_mut(hash as u32 & (VALUES - 1))?;
    let at = bounded::<{ WAYS * SIZE }, { PLACES * SIZE }>((hash >> 16) as usize % 29 * SIZE);
    // SAFETY: WAYS places are in the value from there on.
    Some(unsafe { value.cast::<u8>().add(at).cast() })
}

/// The thread's place, if it has one.
#[inline(always)]
pub(crate) fn find(tid: u32) -> Option<*mut Place> {
    let first = neighbours(tid)?;
    for way in 0..WAYS {
        // SAFETY: see `neighbours`; volatile since other CPUs take and leave places.
        unsafe {
            let place = first.add(way);
            if (&raw const (*place).owner).read_volatile() == TAKEN | u64::from(tid) {
                return Some(place);
            }
        }
    }
    None
}

/// The running thread's place, or a free one. Where there is none, an event may be missing, which
/// is counted.
#[inline(always)]
pub(crate) fn take(tid: u32) -> Option<*mut Place> {
    if let Some(place) = find(tid) {
        return Some(place);
    }
    let first = neighbours(tid)?;
    for way in 0..WAYS {
        // SAFETY: see `neighbours`; `owner` is an aligned word.
        unsafe {
            let place = first.add(way);
            let owner = &raw mut (*place).owner;
            if owner.read_volatile() == 0 && atomic::swap(owner, 0, TAKEN | u64::from(tid)) {
                return Some(place);
            }
        }
    }
    let refused = &raw mut this_cpu().lanes[Lane::Kernel as usize].refused[Refusal::Busy as usize];
    // SAFETY: an aligned word of this CPU's state.
    unsafe { atomic::increment(refused) };
    None
}

/// The running thread's place is free, if it is in the middle of nothing else.
#[inline(always)]
pub(crate) fn leave(place: *mut Place) {
    // SAFETY: the place is inside the map by [`neighbours`], and this thread's own.
    unsafe {
        let Place { reclaim, compaction, locks: [a, b, c, d], .. } = *place;
        if reclaim | compaction | a.lock | b.lock | c.lock | d.lock == 0 {
            atomic::publish_long::<0>((&raw mut (*place).owner).cast(), 0);
        }
    }
}

/// The thread is no more: what it was in the middle of has no end. That happens only where the
/// kernel skipped a program at the end.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn forget_waits(tid: u32) -> u32 {
    if let Some(place) = find(tid) {
        // SAFETY: as above; the thread will never run again.
        unsafe {
            (*place).reclaim = 0;
            (*place).compaction = 0;
            for i in 0..LOCK_WAITS {
                let wait = (&raw mut (*place).locks).cast::<LockWait>().add(i);
                (&raw mut (*wait).lock).write_volatile(0);
            }
            atomic::publish_long::<0>((&raw mut (*place).owner).cast(), 0);
        }
    }
    0
}

/// A wait for a lock begins. `may_go_on`: one for the same lock that has begun goes on in another
/// way; else the end of that was not seen.
#[inline(always)]
pub(crate) fn lock_begins(
    waits: *mut LockWait,
    lock: u64,
    flags: u64,
    may_go_on: bool,
    now: impl FnOnce() -> u64,
) {
    // SAFETY: LOCK_WAITS of them are there.
    unsafe {
        for i in 0..LOCK_WAITS {
            let wait = waits.add(i);
            if (&raw const (*wait).lock).read_volatile() == lock {
                if may_go_on {
                    (*wait).flags = flags;
                } else {
                    put(wait, lock, flags, now());
                }
                return;
            }
        }
        for i in 0..LOCK_WAITS {
            let wait = waits.add(i);
            if (&raw const (*wait).lock).read_volatile() == 0 {
                put(wait, lock, flags, now());
                return;
            }
        }
        // More than there can be: their ends were not seen.
        for i in 1..LOCK_WAITS {
            (&raw mut (*waits.add(i)).lock).write_volatile(0);
        }
        put(waits, lock, flags, now());
    }
}

/// # Safety
/// `wait` is inside a map's value.
#[inline(always)]
unsafe fn put(wait: *mut LockWait, lock: u64, flags: u64, now: u64) {
    // SAFETY: by the contract.
    unsafe {
        (*wait).began = now;
        (*wait).flags = flags;
        (&raw mut (*wait).lock).write_volatile(lock);
    }
}

/// The wait for a lock ends: when it began, and its flags.
#[inline(always)]
pub(crate) fn lock_ends(waits: *mut LockWait, lock: u64) -> Option<(u64, u64)> {
    for i in 0..LOCK_WAITS {
        // SAFETY: LOCK_WAITS of them are there.
        unsafe {
            let wait = waits.add(i);
            if (&raw const (*wait).lock).read_volatile() == lock {
                let found = ((*wait).began, (*wait).flags);
                (&raw mut (*wait).lock).write_volatile(0);
                return Some(found);
            }
        }
    }
    None
}
