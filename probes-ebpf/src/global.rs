//! Functions that the kernel's verifier goes through once, whoever calls them: global ones (those
//! with `no_mangle`; `btf_check_subprog_call`, kernel/bpf/verifier.c, Linux 6.1 and 6.18). Any other
//! function it follows again on each path that leads to a call of it, with all that it knows there,
//! and so a few branches before and after the call make thousands of ways out of it.
//!
//! A global function is given numbers, of which the verifier knows nothing then, and pointers to
//! memory that are as long as their type says. Those it wants to see compared with null. What it
//! returns is a number, of which the caller's verifier knows nothing either.

use core::arch::asm;

/// What a pointer is to that a global function was given.
#[inline(always)]
pub(crate) fn given<'a, T>(p: *mut T) -> Option<&'a mut T> {
    // SAFETY: the kernel's verifier holds it against its type at each call.
    unsafe { p.as_mut() }
}

/// Has the verifier forget what it knows of a value: paths that differ in it alone are then
/// followed once. `unknown` is any number that nothing is known of.
#[inline(always)]
pub(crate) fn forget(value: u64, unknown: u64) -> u64 {
    let mut r = value;
    // SAFETY: arithmetic on one register, which comes to nothing.
    unsafe {
        asm!("{r} ^= {u}", "{r} ^= {u}", r = inout(reg) r, u = in(reg) unknown,
            options(nomem, nostack))
    };
    r
}
