//! The writing position of each CPU's rings, shared by the probes (which own it) and the daemon
//! (which reads the totals and sets the switches). It is bookkeeping, not recording: the pages
//! alone are enough to read a recording.

use super::page::{LANE_KINDS, REFUSALS, RING_LANES};

/// Bit of [`CpuState::enabled`]: record system calls.
pub const ENABLE_SYSCALL: u32 = 1;
/// Record scheduling.
pub const ENABLE_SCHED: u32 = 2;
/// Record task life.
pub const ENABLE_TASK: u32 = 4;
/// Record strings of system calls.
pub const ENABLE_STRINGS: u32 = 8;
/// Everything.
pub const ENABLE_ALL: u32 = 15;

/// [`LaneState::off`] before the first page.
pub const CLOSED: u32 = u32::MAX;
/// [`LaneState::tid`] when the current page names no thread yet.
pub const NO_THREAD: u32 = u32::MAX;

/// One ring's writing position and totals.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaneState {
    /// Byte offset in the current page's body where the next record goes; [`CLOSED`]: no page is
    /// open yet.
    pub off: u32,
    /// Index of the current page within the ring.
    pub page: u32,
    /// First page of this CPU's ring in the lane's map.
    pub ring_base: u32,
    /// Pages of this CPU's ring; 0: this CPU has none.
    pub ring_pages: u32,
    /// Sequence number of the current page.
    pub seq: u64,
    /// Time base of the next record, ns of `CLOCK_MONOTONIC`.
    pub base: u64,
    /// Non-zero while a program writes this lane.
    pub busy: u32,
    /// Syscall lane: thread that the page's last THREAD record names; sched lane: thread that runs
    /// on this CPU. [`NO_THREAD`]: not known.
    pub tid: u32,
    /// Syscall lane: how the call that this CPU entered last began ([`entered`]).
    pub entered: u32,
    /// Syscall lane: body offset of that call's ENTER record.
    pub enter_off: u32,
    /// Syscall lane: its time, ns.
    pub enter_time: u64,
    /// Events recorded, by kind.
    pub events: [u64; LANE_KINDS],
    /// Events refused, by reason.
    pub refused: [u64; REFUSALS],
}

/// Values of [`LaneState::entered`].
pub mod entered {
    /// Unknown: not seen, or the thread was switched out since.
    pub const UNKNOWN: u32 = 0;
    /// Recorded, and its exit may fold.
    pub const FOLDABLE: u32 = 1;
    /// Recorded, its exit stands alone (a string is still to be read).
    pub const ALONE: u32 = 2;
}

/// What belongs to one CPU.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct CpuState {
    /// `ENABLE_…` bits, set by the daemon.
    pub enabled: u32,
    /// The daemon's process id, whose system calls are left out; 0: none.
    pub own_tgid: u32,
    /// Events that were not recorded because this CPU has no ring, by lane.
    pub no_ring: [u64; RING_LANES],
    /// Thread-table insertions that found no free slot.
    pub slot_collisions: u64,
    /// Reserved, 0.
    pub reserved: [u64; 3],
    /// The rings, by [`crate::abi::page::Lane`].
    pub lanes: [LaneState; RING_LANES],
}

const _: () = assert!(size_of::<LaneState>() == 128);
const _: () = assert!(size_of::<CpuState>() == 448);
