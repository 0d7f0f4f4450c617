//! The lane `trace`: for programs that run in threads with interrupts on, and in interrupts as
//! well. Two of them may meet on a CPU, so each claims the lane by an atomic: the one that comes
//! second is refused, and counted.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::WakeContext;
use flightrec_format::abi::state::{CpuState, LIMIT_SCHED};

use crate::lane::{RINGS_TRACE, Writer};
use crate::{budget, running};

/// THREAD, TIME, header, and a body.
pub(crate) const fn room(body: usize) -> usize {
    8 + 16 + 8 + body
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

/// Opens the lane for an event, if the budget allows it, and names the thread that runs.
#[inline(always)]
pub(crate) fn open<const NEED: usize>(
    state: &mut CpuState,
    kind: u8,
    payer: Payer,
) -> Option<Writer<'_>> {
    let i = Lane::Trace as usize;
    if state.enabled & LIMIT_SCHED != 0 {
        let gives = match payer {
            Payer::Thread => budget::draw_trace(state),
            Payer::Nobody => budget::draw_unowned(state),
        };
        if !gives {
            budget::refuse_trace(state, kind);
            return None;
        }
    }
    let current = running::tid(state);
    let mut w = Writer::open::<NEED, true>(
        &mut state.lanes[i],
        &mut state.no_ring[i],
        &RINGS_TRACE,
        Lane::Trace,
        NEED,
    )?;
    w.of_thread(current);
    Some(w)
}
