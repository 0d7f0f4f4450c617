//! The few atomic operations, all off the hot paths, and the stores that publish. Rust's own are
//! missing for the BPF target.
//!
//! Where stores become visible in the order of the program (x86_64), the stores that publish are
//! plain ones. Elsewhere (aarch64) the loader makes other instructions of them
//! (`daemon/src/relocation.rs` says which, and on which kernels).

use core::arch::asm;

use flightrec_format::abi::probe::{BARRIER, RELEASE};

/// A function that stores a value `AT` bytes after an address, by an instruction that the loader
/// knows by its offset.
macro_rules! store {
    ($(#[$doc:meta])* $name:ident, $value:ty, $width:literal, $mark:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// An aligned word of a map's value.
        #[inline(always)]
        pub(crate) unsafe fn $name<const AT: usize>(p: *mut u8, v: $value) {
            // SAFETY: by the contract. What becomes of the value's register depends on the
            // instruction.
            unsafe {
                asm!(concat!("*(", $width, " *)({p} + {at}) = {v}"), p = in(reg) p,
                    v = inout(reg) u64::from(v) => _, at = const $mark as usize + AT,
                    options(nostack))
            };
        }
    };
}

store! {
    /// Stores 32 bits: a reader on another CPU that sees them sees what was stored before.
    publish, u32, "u32", RELEASE
}
store! {
    /// As [`publish`], of 64 bits.
    publish_long, u64, "u64", RELEASE
}
store! {
    /// As [`publish`], and a reader that sees what is stored later sees this as well.
    separate, u32, "u32", BARRIER
}
store! {
    /// As [`separate`], of 64 bits.
    separate_long, u64, "u64", BARRIER
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
