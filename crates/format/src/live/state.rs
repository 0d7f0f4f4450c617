//! The probes' bookkeeping of each CPU ([`CpuState`]), read from its map.

use std::mem::offset_of;

use super::map::ArrayMap;
use crate::abi::counts::Counts;
use crate::abi::kinds::LANE_KINDS;
use crate::abi::page::{Lane, REFUSALS, RING_LANES};
use crate::abi::state::{Bucket, CpuState, GIVEN_ALL, LaneState};
use crate::control::Budget;

/// One ring's size and counters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LaneView {
    pub(super) ring_pages: u32,
    pub(super) events: Counts,
    pub(super) refused: [u64; REFUSALS],
}

/// One CPU's counters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CpuView {
    pub(super) no_ring: [u64; RING_LANES],
    pub(super) slot_collisions: u64,
    pub(super) lanes: [LaneView; RING_LANES],
    /// What the budget had it leave out, `GIVEN_…` bits.
    pub(super) given: u32,
    /// Strings of system calls recorded.
    pub(super) strings: u64,
    /// What taking stacks has cost, ns.
    pub(super) stack_time: u64,
    /// Interrupts and waits for locks that were too short to be recorded.
    pub(super) looked: u64,
    /// Events that the budget refused, by lane and kind.
    pub(super) throttled: [Counts; RING_LANES],
}

/// What the map says of a CPU; all zero for one that it does not have. Every counter is read
/// whole, but one after the other.
pub(super) fn cpu(map: &ArrayMap, cpu: usize) -> CpuView {
    let pair = |at: usize| {
        let word = map.load(cpu, at);
        (word as u32, (word >> 32) as u32)
    };
    let mut view = CpuView {
        slot_collisions: map.load(cpu, offset_of!(CpuState, slot_collisions)),
        given: pair(offset_of!(CpuState, enabled)).0 & GIVEN_ALL,
        strings: map.load(cpu, offset_of!(CpuState, strings)),
        stack_time: map.load(cpu, offset_of!(CpuState, stack_time)),
        looked: map.load(cpu, offset_of!(CpuState, looked)),
        ..CpuView::default()
    };
    words(map, cpu, offset_of!(CpuState, no_ring), &mut view.no_ring);
    for (i, throttled) in view.throttled.iter_mut().enumerate() {
        let at = offset_of!(CpuState, throttled) + i * LANE_KINDS * 8;
        words(map, cpu, at, throttled.iter_mut().take(LANE_KINDS));
    }
    for (i, lane) in view.lanes.iter_mut().enumerate() {
        let at = offset_of!(CpuState, lanes) + i * size_of::<LaneState>();
        (_, lane.ring_pages) = pair(at + offset_of!(LaneState, ring_base));
        let kinds = lane.events.iter_mut().take(LANE_KINDS);
        words(map, cpu, at + offset_of!(LaneState, events), kinds);
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
    let [_, string] = pair(offset_of!(CpuState, buckets) + offset_of!(Bucket, cost));
    let [call, sched] = pair(offset_of!(CpuState, full));
    let [call_floor, sched_floor] = pair(offset_of!(CpuState, floor));
    let [disk, disk_floor] = pair(offset_of!(CpuState, disk));
    let [exit_time, arguments] = pair(offset_of!(CpuState, savings));
    Budget {
        limits: pair(offset_of!(CpuState, limits)),
        total: map.load(0, offset_of!(CpuState, total)) as u32,
        call,
        string,
        sched,
        disk,
        call_floor,
        sched_floor,
        disk_floor,
        exit_time,
        arguments,
        measured: map.load(0, offset_of!(CpuState, measured)) != 0,
        detached: map.load(0, offset_of!(CpuState, detached)) != 0,
    }
}

/// Sequence number of the newest page of a CPU's ring; 0 for what is no ring.
pub(super) fn newest(map: &ArrayMap, lane: Lane, cpu: usize) -> u64 {
    lane_at(lane).map_or(0, |at| map.load(cpu, at + offset_of!(LaneState, seq)))
}

/// First page of a CPU's ring in the lane's map, and its pages; zero for what is no ring. One load:
/// who only looks for a ring need not read all counters ([`cpu`]).
pub(super) fn place(map: &ArrayMap, lane: Lane, cpu: usize) -> (u32, u32) {
    let word = lane_at(lane).map_or(0, |at| map.load(cpu, at + offset_of!(LaneState, ring_base)));
    (word as u32, (word >> 32) as u32)
}

/// Where the state of a lane with rings begins in a CPU's state.
fn lane_at(lane: Lane) -> Option<usize> {
    let i = lane as usize;
    (i < RING_LANES).then(|| offset_of!(CpuState, lanes) + i * size_of::<LaneState>())
}

fn words<'a>(map: &ArrayMap, cpu: usize, at: usize, out: impl IntoIterator<Item = &'a mut u64>) {
    for (i, word) in out.into_iter().enumerate() {
        *word = map.load(cpu, at + i * 8);
    }
}

const _: () = assert!(offset_of!(LaneState, ring_base).is_multiple_of(8));
const _: () = assert!(offset_of!(LaneState, ring_pages) == offset_of!(LaneState, ring_base) + 4);
const _: () = assert!(offset_of!(LaneState, seq).is_multiple_of(8));
const _: () = assert!(offset_of!(LaneState, events).is_multiple_of(8));
const _: () = assert!(offset_of!(LaneState, refused).is_multiple_of(8));
const _: () = assert!(offset_of!(CpuState, no_ring).is_multiple_of(8));
const _: () = assert!(offset_of!(CpuState, stack_time).is_multiple_of(8));
const _: () = assert!(offset_of!(CpuState, looked).is_multiple_of(8));
const _: () = assert!(offset_of!(CpuState, slot_collisions).is_multiple_of(8));
const _: () = assert!(offset_of!(CpuState, throttled).is_multiple_of(8));
const _: () = assert!(
    offset_of!(CpuState, limits).is_multiple_of(8)
        && offset_of!(CpuState, buckets).is_multiple_of(8)
);
const _: () = assert!(
    offset_of!(Bucket, cost).is_multiple_of(8)
        && offset_of!(Bucket, string_cost) == offset_of!(Bucket, cost) + 4
);
const _: () = assert!(
    offset_of!(CpuState, full).is_multiple_of(8) && offset_of!(CpuState, floor).is_multiple_of(8)
);
const _: () = assert!(offset_of!(CpuState, disk).is_multiple_of(8));
const _: () =
    assert!(offset_of!(CpuState, savings).is_multiple_of(8) && offset_of!(CpuState, enabled) == 0);
