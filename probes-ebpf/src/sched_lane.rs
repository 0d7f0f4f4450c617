//! Room for records in the lane of scheduling.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::state::{CpuState, LIMIT_SCHED};

use crate::budget;
use crate::lane::Writer;

/// Opens the lane for an event of thread `current`, if the budget allows it, and names the thread
/// where the lane's last switch did not: in a fresh page, and where a switch was refused, or the
/// kernel ran no program for it. `draw` takes the event's cost; `NEED` is the room for THREAD, TIME
/// and the record; `PREEMPTIBLE` as in [`Writer::open`].
#[inline(always)]
pub(crate) fn open<const NEED: usize, const PREEMPTIBLE: bool>(
    state: &mut CpuState,
    kind: u8,
    current: u32,
    draw: impl FnOnce(&mut CpuState) -> bool,
) -> Option<Writer<'_>> {
    let i = Lane::Sched as usize;
    if state.enabled & LIMIT_SCHED != 0 && !draw(state) {
        budget::refuse_sched(state, kind);
        return None;
    }
    Writer::open::<NEED, PREEMPTIBLE>(
        &mut state.lanes[i],
        &mut state.no_ring[i],
        Lane::Sched,
        NEED,
        Some(current),
    )
}
