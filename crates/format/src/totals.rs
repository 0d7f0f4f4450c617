//! The recorder's counters at one moment, and how far a reader has got in a ring.

use crate::abi::counts::Counts;
use crate::abi::page::{Lane, REFUSALS, RING_LANES};

/// How far a client has got in one ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "control", derive(bincode::Encode, bincode::Decode))]
pub struct Position {
    /// [`crate::abi::page::Lane`] as a number.
    pub lane: u8,
    /// CPU.
    pub cpu: u16,
    /// Sequence number of the page that it is in; it is done with all before. 0: with none.
    pub seq: u64,
    /// Words in use of that page when it was done with them, the header included. The page is sent
    /// again only when it has more.
    pub used: u32,
}

/// Counters, as the probes and the kernel keep them, of one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "control", derive(bincode::Encode, bincode::Decode))]
pub struct CpuTotals {
    /// CPU number.
    pub cpu: u16,
    /// Whether it has rings.
    pub recorded: bool,
    /// Events recorded, by lane and kind.
    pub events: [Counts; RING_LANES],
    /// Events refused, by lane and [`crate::abi::page::Refusal`].
    pub refused: [[u64; REFUSALS]; RING_LANES],
    /// Events not recorded for want of a ring, by lane.
    pub no_ring: [u64; RING_LANES],
    /// Events that the budget refused, by lane and kind.
    pub throttled: [Counts; RING_LANES],
    /// Strings of system calls recorded.
    pub strings: u64,
    /// What taking stacks of long waits has cost, ns.
    pub stack_time: u64,
    /// Interrupts and waits for locks that were too short to be recorded.
    pub looked: u64,
    /// What the budget has left out here, `GIVEN_…` bits ([`crate::abi::state`]).
    pub given: u32,
}

/// Counters of the whole recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "control", derive(bincode::Encode, bincode::Decode))]
pub struct Totals {
    /// When they were read, ns of `CLOCK_MONOTONIC`.
    pub now: u64,
    /// By CPU.
    pub cpus: Vec<CpuTotals>,
    /// Program runs that the kernel skipped (`recursion_misses`), by the name of the program's pin
    /// ([`lane_of`]).
    pub misses: Vec<(String, u64)>,
    /// Thread-table insertions that found no free slot.
    pub slot_collisions: u64,
}

/// The one lane whose events a skipped run of a program can lack, by the name of its pin: its
/// tracepoint's, if it has one. `None`: a run of it may matter to the events of every lane, as
/// where it says which thread runs or whose an event is; so also for programs of other releases.
pub fn lane_of(program: &str) -> Option<Lane> {
    Some(match program {
        "sys_enter" | "sys_exit" => Lane::Syscall,
        "sched_waking" | "sched_wakeup_new" | "sched_migrate_task" | "signal_generate"
        | "signal_deliver" => Lane::Sched,
        "block_rq_insert"
        | "block_rq_issue"
        | "block_rq_complete"
        | "mark_victim"
        | "mm_vmscan_direct_reclaim_end"
        | "mm_vmscan_direct_reclaim_begin"
        | "mm_vmscan_memcg_reclaim_end"
        | "mm_vmscan_memcg_reclaim_begin"
        | "mm_compaction_end"
        | "mm_compaction_begin"
        | "irq_handler_exit"
        | "irq_handler_entry"
        | "softirq_exit"
        | "softirq_entry"
        | "contention_end"
        | "contention_begin"
        | "tcp_retransmit_skb"
        | "inet_sock_set_state"
        | "unthrottle_return"
        | "unthrottle_entry"
        | "io_uring_complete"
        | "io_uring_submit_req"
        | "io_uring_submit_sqe" => Lane::Kernel,
        _ => return None,
    })
}
