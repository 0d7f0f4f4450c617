//! The lane `kernel`: for programs that run in threads with interrupts on, and in interrupts as
//! well. Two of them may meet on a CPU, so each claims the lane by an atomic; the one that comes
//! second writes aside (`aside.rs`).

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::WakeContext;
use flightrec_format::abi::state::{CpuState, LIMIT_SCHED};

use crate::lane::Writer;
use crate::pages::NAMES;
use crate::{budget, running};

/// THREAD, TIME, header, and a body.
pub(crate) const fn room(body: usize) -> usize {
    NAMES + 8 + body
}

/// At whose expense an event is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payer {
    /// The running thread's process.
    Thread,
    /// Nobody's who runs here.
    Nobody,
}

impl Payer {
    /// In a context ([`WakeContext`]).
    #[inline(always)]
    pub(crate) fn of(context: u8) -> Self {
        if context == WakeContext::Thread as u8 { Self::Thread } else { Self::Nobody }
    }
}

/// Whether the budget allows an event of this cost; one that it refuses is counted.
#[inline(always)]
pub(crate) fn draw(state: &mut CpuState, kind: u8, payer: Payer, cost: u32) -> bool {
    if state.enabled & LIMIT_SCHED == 0 {
        return true;
    }
    let gives = match payer {
        Payer::Thread => budget::draw_kernel(state, cost),
        Payer::Nobody => budget::draw_unowned(state, cost),
    };
    if !gives {
        budget::refuse_kernel(state, kind);
    }
    gives
}

/// Opens the lane for an event, if the budget allows it, and names the thread that runs.
#[inline(always)]
pub(crate) fn open<const NEED: usize>(
    state: &mut CpuState,
    kind: u8,
    payer: Payer,
) -> Option<Writer<'_>> {
    open_with_strings::<NEED>(state, kind, payer, 0)
}

/// The same of an event that so many strings belong to.
#[inline(always)]
pub(crate) fn open_with_strings<const NEED: usize>(
    state: &mut CpuState,
    kind: u8,
    payer: Payer,
    strings: u32,
) -> Option<Writer<'_>> {
    // As of those of system calls, whose bucket says what one costs.
    let cost = strings * state.buckets[Lane::Syscall as usize].string_cost;
    if !draw(state, kind, payer, state.disk[0] + cost) {
        return None;
    }
    let current = running::tid(state);
    let recorded = &raw mut state.strings;
    let w = Writer::open_kernel::<NEED>(state, current)?;
    // SAFETY: a word of this CPU's state, which the lane is no part of.
    unsafe { *recorded += u64::from(strings) };
    Some(w)
}
