//! Arguments into a page, as `format::abi::args` has them, by unaligned plain stores.

use core::arch::asm;

use flightrec_format::abi::args::{CLASS_BYTES, RAW, magnitude};

use crate::values::Values;

/// Most bytes that [`put`] touches: a raw group, and what a short one stores beyond its end.
pub(crate) const ROOM: usize = 56;

const _: () = assert!(matches!(CLASS_BYTES, [1, 2, 4, 6]));

/// Stores 8 bytes at any address. The BPF machine has no alignment of its own here: the kernel
/// takes such stores to map values where the machine does (`check_ptr_alignment`, Linux 6.1).
#[inline(always)]
unsafe fn store(p: *mut u8, v: u64) {
    // SAFETY: one store of 8 bytes at `p`, which the verifier checks.
    unsafe { asm!("*(u64 *)({p} + 0) = {v}", p = in(reg) p, v = in(reg) v, options(nostack)) };
}

/// 1 if `m`, less than 2^63, exceeds `limit`. Without a branch: six arguments would otherwise be 4096
/// paths to the verifier, and mispredictions to the processor.
#[inline(always)]
fn exceeds(m: u64, limit: u64) -> u64 {
    let mut r = limit;
    // SAFETY: arithmetic on one register. Written out since LLVM would make a branch of it.
    unsafe { asm!("{r} -= {m}", "{r} >>= 63", r = inout(reg) r, m = in(reg) m, options(nomem, nostack)) };
    r
}

/// Writes `n` (1 to 6) arguments at `body + at`; returns the offset behind them, rounded up to 8.
///
/// # Safety
/// `body + at` up to [`ROOM`] bytes is inside a page.
#[inline(always)]
pub(crate) unsafe fn put(body: *mut u8, at: usize, args: impl Values, n: u32) -> usize {
    let mut head = 0u64;
    let mut wide = 0u64;
    let mut end = at + 2;
    macro_rules! one {
        ($i:literal) => {
            if n > $i {
                let v = args.get($i);
                let m = magnitude(v);
                let more = exceeds(m, 0x7fff) + exceeds(m, 0x7fff_ffff);
                let class = exceeds(m, 0x7f) + more;
                // SAFETY: `end` grew by at most 6 a step: 2 + 5 * 6 + 8 < ROOM.
                unsafe { store(body.add(end), v) };
                end += (1 + class + more) as usize;
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
    let mut head = head as u16 | (n as u16) << 12;
    if wide >> 47 != 0 {
        head = RAW | (n as u16) << 12;
        // SAFETY: 2 + 6 * 8 <= ROOM.
        unsafe {
            store(body.add(at + 2), args.get(0));
            store(body.add(at + 10), args.get(1));
            store(body.add(at + 18), args.get(2));
            store(body.add(at + 26), args.get(3));
            store(body.add(at + 34), args.get(4));
            store(body.add(at + 42), args.get(5));
        }
        end = at + 2 + 8 * n as usize;
    }
    // SAFETY: `at` is a multiple of 8, inside the page.
    unsafe { body.add(at).cast::<u16>().write_volatile(head) };
    (end + 7) & !7
}
