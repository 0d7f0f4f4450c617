//! The tables of who draws from a bucket that runs short, in the probes
//! ([`flightrec_format::abi::share`]).

use core::arch::asm;

use flightrec_format::abi::share::{self, Shares};

use flightrec_format::abi::state::{Bucket, SHARES, Share};

use crate::global::{forget, given};
pub(crate) use flightrec_format::abi::share::{Process, charge, draw, gives, is_quiet, weight};

/// An odd random number. Filled by the loader.
#[unsafe(no_mangle)]
static SHARE_SEED: u32 = 1;

#[inline(always)]
fn seed() -> u32 {
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    unsafe { (&raw const SHARE_SEED).read_volatile() }
}

/// `at`, which is the index of a share, as the verifier sees it.
#[inline(always)]
fn bounded(at: u32) -> usize {
    let mut index = u64::from(at);
    // SAFETY: arithmetic on one register.
    unsafe {
        asm!("{i} &= {mask}", i = inout(reg) index, mask = const SHARES - 1,
            options(nomem, nostack));
    }
    index as usize
}

const _: () = assert!(SHARES.is_power_of_two());

/// A CPU's shares of a bucket.
struct Table<'a>(&'a mut [Share; SHARES]);

impl Shares for Table<'_> {
    #[inline(always)]
    fn at(&mut self, index: u32) -> &mut Share {
        of(self.0, index)
    }

    #[inline(always)]
    fn age(share: &mut Share, bucket: &Bucket) {
        if share::is_old(share, bucket) {
            age_share(share, bucket);
        }
    }
}

/// Once a half-life.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn age_share(share: *mut Share, bucket: *const Bucket) -> u32 {
    if let (Some(share), Some(bucket)) = (given(share), given(bucket.cast_mut())) {
        share::age(share, bucket);
    }
    0
}

/// One of a CPU's shares.
#[inline(always)]
pub(crate) fn of(shares: &mut [Share; SHARES], at: u32) -> &mut Share {
    // SAFETY: inside the table by the mask.
    unsafe { &mut *shares.as_mut_ptr().add(bounded(at)) }
}

/// Finds or makes the process's share; see [`share::find`].
#[inline(always)]
pub(crate) fn find(shares: &mut [Share; SHARES], bucket: &Bucket, process: Process) -> u32 {
    let at = share::find(&mut Table(shares), seed(), bucket, process);
    // Which of the places it is makes no difference.
    forget(at.into(), process.began) as u32
}

/// The process has ended.
#[inline(always)]
pub(crate) fn leave(shares: &mut [Share; SHARES], tgid: u32) {
    share::forget(&mut Table(shares), seed(), tgid);
}
