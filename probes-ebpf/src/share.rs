//! Who draws from a bucket that runs short: what each process took lately ([`Share`]), on this CPU.
//!
//! Looked at only while a bucket holds less than [`Bucket::fair`], so that it costs nothing where there is enough. A
//! process is found in a set of [`SHARE_WAYS`] places by a hash of its id that is seeded at the start, so that nobody can
//! choose ids that meet a victim's. What is forgotten for want of places is the largest, and whoever takes its place
//! begins with what it had spent: so nobody gets rid of what it spent by making others come.

use core::arch::asm;

use flightrec_format::abi::state::{
    Bucket, HALF_LIFE_SHIFT, LOUD, NEW, SHARE_SETS, SHARE_SHIFT, SHARE_WAYS, SHARES, Share,
};

/// What of [`Share::spent`] is a number.
const SPENT: u64 = !(LOUD | NEW);

/// An odd random number. Filled by the loader.
#[unsafe(no_mangle)]
static SHARE_SEED: u32 = 1;

/// A process as its programs know it.
#[derive(Clone, Copy)]
pub(crate) struct Process {
    pub(crate) tgid: u32,
    /// `task_struct.start_time` of a thread of it, ns of `CLOCK_MONOTONIC`.
    pub(crate) began: u64,
}

/// `at`, which is the index of a share, as the verifier sees it.
#[inline(always)]
fn bounded(at: u32) -> usize {
    let mut index = u64::from(at);
    // SAFETY: arithmetic on one register.
    unsafe {
        asm!("{i} &= {mask}", i = inout(reg) index, mask = const SHARES - 1, options(nomem, nostack));
    }
    index as usize
}

const _: () = assert!(SHARES.is_power_of_two());

/// One of a CPU's shares.
#[inline(always)]
pub(crate) fn of(shares: &mut [Share; SHARES], at: u32) -> &mut Share {
    // SAFETY: inside the table by the mask.
    unsafe { &mut *shares.as_mut_ptr().add(bounded(at)) }
}

/// Half-lives until the bucket was filled last.
#[inline(always)]
fn half_lives(bucket: &Bucket) -> u32 {
    (bucket.time >> HALF_LIFE_SHIFT) as u32
}

/// Halves what was spent for each half-life since it was halved last.
#[inline(always)]
fn age(share: &mut Share, bucket: &Bucket) {
    let half_lives = half_lives(bucket);
    let passed = half_lives.wrapping_sub(share.halved);
    if passed != 0 {
        let spent = if passed < 64 { spent(share) >> passed } else { 0 };
        // What a newcomer began with is gone by then.
        let new = if spent > bucket.newcomer >> 4 { NEW } else { 0 };
        share.spent = spent | share.spent & (LOUD | new);
        share.halved = half_lives;
    }
}

/// The first of the places where the process's share may stand.
#[inline(always)]
fn first_place(tgid: u32) -> u32 {
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    let seed = unsafe { (&raw const SHARE_SEED).read_volatile() };
    (tgid.wrapping_mul(seed) >> (32 - SHARE_SETS.trailing_zeros())) * SHARE_WAYS as u32
}

/// Finds or makes the process's share, and brings it up to date; its index. `shares` are those of the bucket.
#[inline(always)]
pub(crate) fn find(shares: &mut [Share; SHARES], bucket: &Bucket, process: Process) -> u32 {
    let first = first_place(process.tgid);
    let (mut largest, mut most) = (first, 0);
    for way in 0..SHARE_WAYS as u32 {
        let share = of(shares, first + way);
        age(share, bucket);
        if share.tgid == process.tgid {
            return first + way;
        }
        let spent = self::spent(share);
        // Whose last spending has been forgotten leaves its place first.
        let rank = if share.tgid == 0 || spent == 0 { u64::MAX } else { spent };
        if rank > most {
            (largest, most) = (first + way, rank);
        }
    }
    let share = of(shares, largest);
    // A new process may be one of a storm of them: it begins as if it had spent something when it was made.
    let age = if bucket.time > process.began { (bucket.time - process.began) >> HALF_LIFE_SHIFT } else { 0 };
    let began = if age < 64 { bucket.newcomer >> age } else { 0 };
    let inherited = if most == u64::MAX { 0 } else { most };
    share.tgid = process.tgid;
    share.halved = half_lives(bucket);
    share.spent = if began > inherited { began | NEW } else { inherited };
    largest
}

/// Whether the share is the process's; then brings it up to date.
#[inline(always)]
pub(crate) fn is_still(share: &mut Share, bucket: &Bucket, tgid: u32) -> bool {
    if share.tgid != tgid {
        return false;
    }
    age(share, bucket);
    true
}

/// Whether the bucket gives `cost` to who has this share; then both have it taken down.
#[inline(always)]
pub(crate) fn draw(share: &mut Share, bucket: &mut Bucket, cost: u32) -> bool {
    let left = bucket.tokens - i64::from(cost);
    let mut needed = spent(share) >> SHARE_SHIFT;
    if share.spent & LOUD != 0 {
        needed += bucket.resume;
    }
    if left < needed as i64 {
        if share.spent & NEW == 0 {
            share.spent |= LOUD;
        }
        return false;
    }
    let mut kept = share.spent & !LOUD;
    if kept & NEW != 0 && spent(share) > bucket.newcomer << 1 {
        kept &= !NEW;
    }
    share.spent = kept + u64::from(cost);
    bucket.tokens = left;
    true
}

/// What was spent lately.
#[inline(always)]
pub(crate) fn spent(share: &Share) -> u64 {
    share.spent & SPENT
}

/// Whether who has this share has spent so little that nothing of its events is given up.
#[inline(always)]
pub(crate) fn is_quiet(share: &Share, bucket: &Bucket) -> bool {
    // Half of what would have it refused.
    share.spent & LOUD == 0 && (spent(share) >> (SHARE_SHIFT - 1)) as i64 <= bucket.tokens
}

/// The process has ended.
#[inline(always)]
pub(crate) fn forget(shares: &mut [Share; SHARES], tgid: u32) {
    let first = first_place(tgid);
    for way in 0..SHARE_WAYS as u32 {
        let share = of(shares, first + way);
        if share.tgid == tgid {
            share.tgid = 0;
        }
    }
}
