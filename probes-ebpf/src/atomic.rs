//! The few atomic operations, all off the hot paths, and the stores that publish. Rust's own are
//! missing for the BPF target.
//!
//! Where stores become visible in the order of the program (x86_64), the stores that publish are
//! plain ones. Elsewhere (aarch64) the loader makes other instructions of them
//! (`daemon/src/relocation.rs` says which, and on which kernels).

use core::arch::asm;

use flightrec_format::abi::probe::{BARRIER, RELEASE};

/// Stores 32 bits, `AT` bytes behind an address, of which a reader on another CPU that sees them
/// sees what was stored before.
///
/// # Safety
/// An aligned word of a map's value.
#[inline(always)]
pub(crate) unsafe fn publish<const AT: usize>(p: *mut u8, v: u32) {
    // SAFETY: by the contract. What becomes of the value's register depends on the instruction.
    unsafe {
        asm!("*(u32 *)({p} + {at}) = {v}", p = in(reg) p, v = inout(reg) u64::from(v) => _,
            at = const RELEASE as usize + AT, options(nostack))
    };
}

/// The same of 64 bits.
///
/// # Safety
/// As [`publish`].
#[inline(always)]
pub(crate) unsafe fn publish_long<const AT: usize>(p: *mut u8, v: u64) {
    // SAFETY: as above.
    unsafe {
        asm!("*(u64 *)({p} + {at}) = {v}", p = in(reg) p, v = inout(reg) v => _,
            at = const RELEASE as usize + AT, options(nostack))
    };
}

/// As [`publish`], and a reader that sees what is stored later sees this as well.
///
/// # Safety
/// As [`publish`].
#[inline(always)]
pub(crate) unsafe fn separate<const AT: usize>(p: *mut u8, v: u32) {
    // SAFETY: as above.
    unsafe {
        asm!("*(u32 *)({p} + {at}) = {v}", p = in(reg) p, v = inout(reg) u64::from(v) => _,
            at = const BARRIER as usize + AT, options(nostack))
    };
}

/// The same of 64 bits.
///
/// # Safety
/// As [`publish`].
#[inline(always)]
pub(crate) unsafe fn separate_long<const AT: usize>(p: *mut u8, v: u64) {
    // SAFETY: as above.
    unsafe {
        asm!("*(u64 *)({p} + {at}) = {v}", p = in(reg) p, v = inout(reg) v => _,
            at = const BARRIER as usize + AT, options(nostack))
    };
}

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
