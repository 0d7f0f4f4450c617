//! The few atomic operations, all off the hot paths. Rust's own are missing for the BPF target.

use core::arch::asm;

/// Stores `new` where `old` stands, at once; says whether it did.
///
/// # Safety
/// `p` is an aligned word of a map's value.
#[inline(always)]
pub(crate) unsafe fn swap(p: *mut u64, old: u64, new: u64) -> bool {
    let found: u64;
    // SAFETY: by the contract; the instruction takes the expected value in r0 and leaves there what
    // it found.
    unsafe {
        asm!("r0 = cmpxchg_64({p} + 0, r0, {new})", p = in(reg) p, new = in(reg) new,
            inout("r0") old => found, options(nostack));
    }
    found == old
}

/// Adds one.
///
/// # Safety
/// As [`swap`].
#[inline(always)]
pub(crate) unsafe fn increment(p: *mut u64) {
    // SAFETY: by the contract.
    unsafe { add(p, 1) };
}

/// Adds `n`.
///
/// # Safety
/// As [`swap`].
#[inline(always)]
pub(crate) unsafe fn add(p: *mut u64, n: u64) {
    // SAFETY: by the contract.
    unsafe {
        asm!("lock *(u64 *)({p} + 0) += {n}", p = in(reg) p, n = in(reg) n, options(nostack))
    };
}
