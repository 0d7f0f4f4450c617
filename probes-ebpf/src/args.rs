//! Arguments into a page, as `format::abi::args` has them, by unaligned plain stores.

use core::arch::asm;

use flightrec_format::abi::args::{CLASS_BYTES, RAW, magnitude};

use crate::pages::{UNIT, store};
use crate::values::Values;

/// Most bytes that [`put`] touches: a raw group, and what a short one stores beyond its end.
pub(crate) const ROOM: usize = 52;

const _: () = assert!(matches!(CLASS_BYTES, [1, 2, 4, 6]));

/// 1 if `m`, less than 2^63, exceeds `limit`. Without a branch: six arguments would otherwise be
/// 4096 paths to the verifier, and mispredictions to the processor.
#[inline(always)]
fn exceeds(m: u64, limit: u64) -> u64 {
    let mut r = limit;
    // SAFETY: arithmetic on one register. Written out since LLVM would make a branch of it.
    unsafe {
        asm!("{r} -= {m}", "{r} >>= 63", r = inout(reg) r, m = in(reg) m, options(nomem, nostack))
    };
    r
}

/// `to - from`. Written out, as LLVM would add numbers in an order that has a pointer taken from a
/// number, which the verifier refuses.
#[inline(always)]
fn distance(to: *const u8, from: *const u8) -> usize {
    let mut r = to;
    // SAFETY: arithmetic on one register.
    unsafe {
        asm!("{r} -= {from}", r = inout(reg) r, from = in(reg) from, options(nomem, nostack))
    };
    r as usize
}

/// Writes `n` (1 to 6) arguments `AT` bytes after `record`; returns the record's length with them,
/// rounded up to a unit, which the verifier knows nothing of.
///
/// # Safety
/// `record + AT` up to [`ROOM`] bytes is inside a page.
#[inline(always)]
pub(crate) unsafe fn put<const AT: usize>(record: *mut u8, args: impl Values, n: u32) -> usize {
    let mut head = u64::from(n) << 12;
    let mut wide = 0u64;
    // SAFETY: by the contract. A place and not an offset, which would be added to `record` again
    // for each argument.
    let mut to = unsafe { record.add(AT + 2) };
    macro_rules! one {
        ($i:literal) => {
            if n > $i {
                let v = args.get($i);
                let m = magnitude(v);
                let more = exceeds(m, 0x7fff) + exceeds(m, 0x7fff_ffff);
                let class = exceeds(m, 0x7f) + more;
                // SAFETY: `to` grew by at most 6 a step: 2 + 5 * 6 + 8 < ROOM.
                unsafe {
                    store::<0>(to, v);
                    to = to.add((1 + class + more) as usize);
                }
                head |= class << (2 * $i);
                wide |= m;
            }
        };
    }
    one!(0);
    one!(1);
    one!(2);
    one!(3);
    one!(4);
    one!(5);
    // SAFETY: aligned to a unit, inside the page.
    unsafe { record.add(AT).cast::<u16>().write_volatile(head as u16) };
    if wide >> 47 != 0 {
        // SAFETY: by the contract.
        return unsafe { put_raw(record.add(AT), AT, args, n) };
    }
    (distance(to, record) + UNIT - 1) & !(UNIT - 1)
}

/// The same at `first`, `at` bytes after the record, each argument as a whole word.
#[inline(always)]
unsafe fn put_raw(first: *mut u8, at: usize, args: impl Values, n: u32) -> usize {
    // SAFETY: 2 + 6 * 8 <= ROOM.
    unsafe {
        first.cast::<u16>().write_volatile(RAW | (n as u16) << 12);
        store::<2>(first, args.get(0));
        store::<10>(first, args.get(1));
        store::<18>(first, args.get(2));
        store::<26>(first, args.get(3));
        store::<34>(first, args.get(4));
        store::<42>(first, args.get(5));
    }
    (at + 2 + 8 * n as usize + UNIT - 1) & !(UNIT - 1)
}
