//! The probes' bookkeeping of each CPU ([`CpuState`]), read from its map.

use std::mem::offset_of;

use super::map::ArrayMap;
use crate::abi::page::{LANE_KINDS, Lane, REFUSALS, RING_LANES};
use crate::abi::state::{BUCKETS, Bucket, CpuState, LaneState};
use crate::control::Budget;

/// One ring's place and counters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LaneView {
    pub(super) ring_base: u32,
    pub(super) ring_pages: u32,
    /// Sequence number of the newest page.
    pub(super) seq: u64,
    pub(super) events: [u64; LANE_KINDS],
    pub(super) refused: [u64; REFUSALS],
}

/// One CPU's counters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CpuView {
    pub(super) no_ring: [u64; RING_LANES],
    pub(super) slot_collisions: u64,
    pub(super) lanes: [LaneView; RING_LANES],
    /// Events that the budget refused, by lane and kind.
    pub(super) throttled: [[u64; LANE_KINDS]; RING_LANES],
}

/// What the map says of a CPU; all zero for one that it does not have. Every counter is read
/// whole, but one after the other.
pub(super) fn cpu(map: &ArrayMap, cpu: usize) -> CpuView {
    let pair = |at: usize| {
        let word = map.load(cpu, at);
        (word as u32, (word >> 32) as u32)
    };
    let mut view =
        CpuView { slot_collisions: map.load(cpu, offset_of!(CpuState, slot_collisions)), ..CpuView::default() };
    words(map, cpu, offset_of!(CpuState, no_ring), &mut view.no_ring);
    for (i, throttled) in view.throttled.iter_mut().enumerate().take(BUCKETS) {
        words(map, cpu, offset_of!(CpuState, throttled) + i * LANE_KINDS * 8, throttled);
    }
    for (i, lane) in view.lanes.iter_mut().enumerate() {
        let at = offset_of!(CpuState, lanes) + i * size_of::<LaneState>();
        (lane.ring_base, lane.ring_pages) = pair(at + offset_of!(LaneState, ring_base));
        lane.seq = map.load(cpu, at + offset_of!(LaneState, seq));
        words(map, cpu, at + offset_of!(LaneState, events), &mut lane.events);
        words(map, cpu, at + offset_of!(LaneState, refused), &mut lane.refused);
    }
    view
}

/// What the map says of the budget. It is the same on every CPU.
pub(super) fn budget(map: &ArrayMap) -> Budget {
    let pair = |at: usize| {
        let word = map.load(0, at);
        [word as u32, (word >> 32) as u32]
    };
    let costs =
        |lane: usize| pair(offset_of!(CpuState, buckets) + lane * size_of::<Bucket>() + offset_of!(Bucket, cost));
    let ([call, string], [sched, _]) = (costs(0), costs(1));
    let limits = pair(offset_of!(CpuState, limits));
    Budget { limits, call, string, sched, measured: map.load(0, offset_of!(CpuState, measured)) != 0 }
}

/// Sequence number of the newest page of a CPU's ring; 0 for what is no ring.
pub(super) fn newest(map: &ArrayMap, lane: Lane, cpu: usize) -> u64 {
    let i = lane as usize;
    if i >= RING_LANES {
        return 0;
    }
    map.load(cpu, offset_of!(CpuState, lanes) + i * size_of::<LaneState>() + offset_of!(LaneState, seq))
}

fn words(map: &ArrayMap, cpu: usize, at: usize, out: &mut [u64]) {
    for (i, word) in out.iter_mut().enumerate() {
        *word = map.load(cpu, at + i * 8);
    }
}

const _: () = assert!(offset_of!(LaneState, ring_base).is_multiple_of(8));
const _: () = assert!(offset_of!(LaneState, ring_pages) == offset_of!(LaneState, ring_base) + 4);
const _: () = assert!(offset_of!(LaneState, seq).is_multiple_of(8));
const _: () = assert!(offset_of!(LaneState, events).is_multiple_of(8));
const _: () = assert!(offset_of!(LaneState, refused).is_multiple_of(8));
const _: () = assert!(offset_of!(CpuState, no_ring).is_multiple_of(8));
const _: () = assert!(offset_of!(CpuState, slot_collisions).is_multiple_of(8));
const _: () = assert!(offset_of!(CpuState, throttled).is_multiple_of(8));
const _: () =
    assert!(offset_of!(CpuState, limits).is_multiple_of(8) && offset_of!(CpuState, buckets).is_multiple_of(8));
const _: () = assert!(
    offset_of!(Bucket, cost).is_multiple_of(8) && offset_of!(Bucket, string_cost) == offset_of!(Bucket, cost) + 4
);
