//! What is kept beside threads: requests to disks, interrupts, signals, control groups' limits,
//! operations of io_uring.

use rustc_hash::FxHashMap;

use flightrec_format::abi::ip::Ip;
use flightrec_format::abi::record::Comm;

/// A request to a disk that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestRow {
    /// When it was queued, or issued where it was not.
    pub(super) from: u64,
    /// When its driver got it.
    pub(super) issued: u64,
    /// When it was done.
    pub(super) until: u64,
    pub(super) device: u32,
    /// The thread that made it, if one did.
    pub(super) by: Option<u32>,
}

/// A long interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InterruptRow {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) is_soft: bool,
    pub(super) name: Comm,
}

/// A time in which threads of a control group were kept from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThrottleRow {
    pub(super) from: u64,
    pub(super) until: u64,
    /// The group with the limit; 0: one of cgroup v1.
    pub(super) cgroup: u64,
}

/// A thread that waits for a CPU moved to another one's run queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MoveRow {
    pub(super) time: u64,
    /// The CPU that it left.
    pub(super) from: u16,
    /// The CPU that it went to.
    pub(super) to: u16,
}

/// A signal that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SignalRow {
    pub(super) time: u64,
    pub(super) signal: u32,
    /// Why it was sent (`si_code`): see [`Self::is_by_thread`].
    pub(super) code: i32,
    /// The target got it; else it ignores it, or it was pending already.
    pub(super) is_new: bool,
    /// The thread in whose context it was.
    pub(super) by: u32,
    pub(super) target_tid: u32,
    pub(super) target_pid: u32,
}

impl SignalRow {
    /// Whether the thread in whose context it was sent it by a call. Else the kernel did (a timer,
    /// a terminal, a fault), in the context of whatever thread was running.
    pub(super) fn is_by_thread(&self) -> bool {
        /// `SI_USER`, `SI_QUEUE` and `SI_TKILL` (include/uapi/asm-generic/siginfo.h).
        const SENT: [i32; 3] = [0, -1, -6];
        SENT.contains(&self.code)
    }
}

/// An operation of io_uring that has a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OperationRow {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) submitted_by: u32,
    /// The thread in whose context it had its result.
    pub(super) done_by: u32,
    pub(super) op: u32,
    /// The file that it is about, in words.
    pub(super) told: Option<u32>,
}

/// A packet that was sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RetransmitRow {
    pub(super) time: u64,
    pub(super) remote: Ip,
    pub(super) port: u32,
}

/// A part of a coverage that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GapRow {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) cpu: u16,
    /// Scheduling events are missing; else system calls.
    pub(super) is_sched: bool,
}

/// All of them, each list in the order of the events that told them.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) requests: Vec<RequestRow>,
    /// By the thread that they hit.
    pub(super) interrupts: FxHashMap<u32, Vec<InterruptRow>>,
    /// By the CPU.
    pub(super) throttles: FxHashMap<u16, Vec<ThrottleRow>>,
    /// By the thread.
    pub(super) moves: FxHashMap<u32, Vec<MoveRow>>,
    pub(super) signals: Vec<SignalRow>,
    pub(super) operations: Vec<OperationRow>,
    pub(super) retransmits: Vec<RetransmitRow>,
    /// Threads, and their processes, that were killed as memory was used up.
    pub(super) victims: Vec<(u32, u32)>,
    /// Threads that a signal killed: when, and which.
    pub(super) deaths: FxHashMap<u32, (u64, u32)>,
    /// Which thread began to take TCP connections at a port last.
    pub(super) listeners: FxHashMap<u32, u32>,
    pub(super) gaps: Vec<GapRow>,
    /// Which process created a process.
    pub(super) parents: FxHashMap<u32, u32>,
    /// What a process executed last, in words.
    pub(super) programs: FxHashMap<u32, u32>,
    /// Flags with which a process opened a descriptor last.
    pub(super) open_flags: FxHashMap<(u32, i32), u64>,
    /// Paths of control groups, by id.
    pub(super) groups: FxHashMap<u64, Box<str>>,
}

/// How many rows that begin after a stretch of time may stand before one that begins in it: rows
/// are in the order of their ends, and few overlap.
const OUT_OF_ORDER: usize = 16;

/// The rows, of those in the order of their ends, that touch a stretch of time.
pub(super) fn touching<T>(
    rows: &[T],
    (from, until): (u64, u64),
    span: impl Fn(&T) -> (u64, u64),
) -> impl Iterator<Item = &T> {
    let first = rows.partition_point(|row| span(row).1 <= from);
    let mut after = 0;
    let is_near = move |begin: u64| {
        after = if begin >= until { after + 1 } else { 0 };
        after <= OUT_OF_ORDER
    };
    let mut is_near = is_near;
    rows.get(first..)
        .unwrap_or_default()
        .iter()
        .map(move |row| (row, span(row).0))
        .take_while(move |(_, begin)| is_near(*begin))
        .filter(move |(_, begin)| *begin < until)
        .map(|(row, _)| row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_touch() {
        // By their ends; the third one holds the second.
        let rows = [(0, 10), (22, 25), (20, 30), (30, 40), (50, 60), (35, 70)];
        let of = |from, until| {
            touching(&rows, (from, until), |row| *row).copied().collect::<Vec<(u64, u64)>>()
        };
        assert_eq!(of(10, 20), []);
        assert_eq!(of(9, 21), [(0, 10), (20, 30)]);
        assert_eq!(of(24, 36), [(22, 25), (20, 30), (30, 40), (35, 70)]);
        assert_eq!(of(70, 90), []);
    }

    #[test]
    fn who_sent_a_signal() {
        let row = |code| SignalRow {
            time: 1,
            signal: 14,
            code,
            is_new: true,
            by: 5,
            target_tid: 6,
            target_pid: 6,
        };
        assert!([0, -1, -6].into_iter().all(|code| row(code).is_by_thread()));
        // SI_KERNEL, SI_TIMER, SI_SIGIO, CLD_EXITED, as the kernel sends them.
        assert!([0x80, -2, -5, 1].into_iter().all(|code| !row(code).is_by_thread()));
    }
}
