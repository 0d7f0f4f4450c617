//! The writing position of each CPU's rings, shared by the probes (which own it) and the daemon
//! (which reads the totals and sets the switches). It is bookkeeping, not recording: the pages
//! alone are enough to read a recording.

use super::kinds::LANE_KINDS;
use super::page::{REFUSALS, RING_LANES};

/// Bit of [`CpuState::enabled`]: record system calls.
pub const ENABLE_SYSCALL: u32 = 1;
/// Record scheduling.
pub const ENABLE_SCHED: u32 = 2;
/// Record task life.
pub const ENABLE_TASK: u32 = 4;
/// Record strings of system calls.
pub const ENABLE_STRINGS: u32 = 8;
/// Record the file of a program that is executed.
pub const ENABLE_EXEC_FILE: u32 = 16;
/// Record its arguments.
pub const ENABLE_EXEC_ARGS: u32 = 32;
/// Mask its arguments, by the table in the map `exec_masks`.
pub const ENABLE_EXEC_MASK: u32 = 64;
/// Record requests to disks.
pub const ENABLE_DISK: u32 = 128;
/// Everything.
pub const ENABLE_ALL: u32 = 255
    | ENABLE_SIGNALS
    | ENABLE_MEMORY
    | ENABLE_INTERRUPTS
    | ENABLE_LOCKS
    | ENABLE_SAMPLES
    | ENABLE_NETWORK
    | ENABLE_THROTTLING
    | ENABLE_STRUCTURES
    | ENABLE_IO_URING
    | ENABLE_TRACEPOINTS
    | ENABLE_THREAD_CONTEXTS;
/// Record signals.
pub const ENABLE_SIGNALS: u32 = 1 << 11;
/// Record what lacks memory.
pub const ENABLE_MEMORY: u32 = 1 << 12;
/// Record long interrupts.
pub const ENABLE_INTERRUPTS: u32 = 1 << 13;
/// Record long waits for locks of the kernel.
pub const ENABLE_LOCKS: u32 = 1 << 14;
/// Record samples of what runs, where there are clocks that make them.
pub const ENABLE_SAMPLES: u32 = 1 << 15;
/// Record connections.
pub const ENABLE_NETWORK: u32 = 1 << 21;
/// Record what waits as its CPU time is used up.
pub const ENABLE_THROTTLING: u32 = 1 << 22;
/// Record structures that arguments of system calls point to.
pub const ENABLE_STRUCTURES: u32 = 1 << 25;
/// Record operations of io_uring.
pub const ENABLE_IO_URING: u32 = 1 << 23;
/// Record tracepoints that the configuration names, where the program is attached to them.
pub const ENABLE_TRACEPOINTS: u32 = 1 << 26;
/// Record for which span of a distributed trace threads work, where their processes publish it.
pub const ENABLE_THREAD_CONTEXTS: u32 = 1 << 27;
/// System calls draw from their [`Bucket`].
pub const LIMIT_SYSCALL: u32 = 1 << 8;
/// Scheduling draws from its [`Bucket`], and requests to disks do.
pub const LIMIT_SCHED: u32 = 1 << 9;
/// Every system call is refused, so that what that costs can be measured.
pub const REFUSE_SYSCALL: u32 = 1 << 10;

/// What the budget had this CPU leave out, a bit a step, beside the switches above. Strings of
/// system calls are not recorded.
pub const GIVEN_STRINGS: u32 = 1 << 16;
/// An exit that folds is not timed (see [`super::record::fold`]).
pub const GIVEN_EXIT_TIMES: u32 = 1 << 17;
/// Of a system call's arguments the first alone is recorded.
pub const GIVEN_ARGUMENTS: u32 = 1 << 18;
/// System calls of loud processes are recorded in stretches ([`Bucket::resume`]).
pub const GIVEN_SAMPLING: u32 = 1 << 19;
/// System calls of loud processes are refused until the bucket is full ([`Bucket::resume`]).
pub const GIVEN_SYSCALLS: u32 = 1 << 20;
/// Neither stacks of long waits nor functions of samples are taken; these say so.
pub const GIVEN_STACKS: u32 = 1 << 24;
/// All of these.
pub const GIVEN_ALL: u32 = GIVEN_STRINGS
    | GIVEN_EXIT_TIMES
    | GIVEN_ARGUMENTS
    | GIVEN_SAMPLING
    | GIVEN_SYSCALLS
    | GIVEN_STACKS;

// A bit has one meaning.
const _: () = {
    let others = LIMIT_SYSCALL | LIMIT_SCHED | REFUSE_SYSCALL;
    assert!(ENABLE_ALL & GIVEN_ALL == 0 && (ENABLE_ALL | GIVEN_ALL) & others == 0);
    assert!(ENABLE_ALL.count_ones() == 19 && GIVEN_ALL.count_ones() == 6);
    assert!(others.count_ones() == 3);
};

/// [`LaneState::off`] before the first page.
pub const CLOSED: u32 = u32::MAX;
/// [`LaneState::tid`] when the current page names no thread yet.
pub const NO_THREAD: u32 = u32::MAX;

/// One ring's writing position and totals.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaneState {
    /// Byte after the current page's first [`HEADER_LEN`](super::page::HEADER_LEN) where the next
    /// record goes; [`CLOSED`]: no page is open yet.
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
    /// A value of [`busy`]. Syscall lane: not used, as its programs can't meet.
    pub busy: u32,
    /// Syscall lane: thread that the page's last THREAD record names; sched lane: thread that runs
    /// on this CPU. [`NO_THREAD`]: not known.
    pub tid: u32,
    /// Syscall lane: how the call that this CPU entered last began ([`entered`]).
    pub entered: u32,
    /// Syscall lane: body offset of that call's ENTER record; of one in which its thread slept,
    /// the record's `aux`.
    pub enter_off: u32,
    /// Syscall lane: its time, ns; in jiffies where its exit is not to be timed. Of one in which
    /// its thread slept, that thread's id. Lane `kernel`: the time of its last event, ns.
    pub enter_time: u64,
    /// Events recorded, by kind.
    pub events: [u64; LANE_KINDS],
    /// Events refused, by reason.
    pub refused: [u64; REFUSALS],
}

/// Values of [`LaneState::busy`].
pub mod busy {
    /// No program writes.
    pub const IDLE: u32 = 0;
    /// A program writes.
    pub const WRITING: u32 = 1;
    /// [`CpuState::aside`](super::CpuState::aside), and what is greater: records wait there to be
    /// copied. With each that comes it is another number.
    pub const WAITING: u32 = 2;
}

/// Values of [`LaneState::entered`].
pub mod entered {
    /// Unknown: not seen, or the thread was switched out since.
    pub const UNKNOWN: u32 = 0;
    /// Recorded, and its exit may fold.
    pub const FOLDABLE: u32 = 1;
    /// Recorded, its exit stands alone (a string is still to be read).
    pub const ALONE: u32 = 2;
    /// As [`FOLDABLE`]; its exit is not to be timed.
    pub const UNTIMED: u32 = 5;
    /// Refused by the budget, and so is its exit.
    pub const REFUSED: u32 = 3;
    /// Recorded, on any CPU, a moment before its thread slept in it; the thread runs again, and its
    /// exit stands alone.
    pub const SLEPT: u32 = 4;
}

/// Lanes that have a [`Bucket`]. Those of `syscall` and `sched` hold CPU time, ns; that of `task`
/// holds bytes of its ring, and what one process can make without end draws from it: renames, and
/// births and ends of threads. What is in `kernel` draws from the bucket of `sched`, by a cost of
/// its own ([`CpuState::disk`]).
pub const BUCKETS: usize = 3;
/// Buckets that hold CPU time.
pub const TIMED_BUCKETS: usize = 2;

/// What recording a lane may take of one CPU: a token bucket. The daemon sets how it fills and what
/// an event costs, the probes draw; it holds with no daemon alive.
///
/// While it holds less than [`Bucket::fair`], it gives to each process (of one CPU) by what that
/// process took lately ([`Share::spent`]): an event is refused where a quarter of that is more than
/// the bucket holds. So the loud are refused first, and what is left serves the quiet. (Choudhury
/// and Hahne's dynamic thresholds, IEEE/ACM Transactions on Networking 6:2, 1998, for shared packet
/// buffers.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Bucket {
    /// What may still be spent, ns. Below 0 after what must be recorded all the same.
    pub tokens: i64,
    /// `jiffies_64` when it was last filled.
    pub filled: u64,
    /// The same, ns of `CLOCK_MONOTONIC`: what is refused tells the time by it.
    pub time: u64,
    /// What each jiffy adds, ns.
    pub rate: u64,
    /// Most that it holds, ns.
    pub depth: u64,
    /// What an event costs, ns: a system call with its exit; a switch, wakeup or migration.
    pub cost: u32,
    /// What a string of it costs in addition, ns.
    pub string_cost: u32,
    /// A process that was refused gets nothing until the bucket holds so much more than a quarter
    /// of what it took, so that what is recorded of it comes in whole stretches. 0: at once.
    /// At most [`Bucket::depth`].
    pub resume: u64,
    /// While it holds less than this, it looks at who draws.
    pub fair: u64,
    /// What young processes have spent together, halved every half-life ([`super::share`]); with
    /// [`LOUD`]. The probes' own.
    pub newcomers: u64,
}

/// Binary logarithm of the ns after which what a process spent counts half: 0.54 s.
pub const HALF_LIFE_SHIFT: u32 = 29;
/// Processes whose [`Share`] may stand in the same places.
pub const SHARE_WAYS: usize = 4;
/// Such sets of places, a power of two.
pub const SHARE_SETS: usize = 64;
/// Places for the [`Share`]s of a lane on one CPU.
pub const SHARES: usize = SHARE_WAYS * SHARE_SETS;
/// Shift that takes a part of the bucket for what a process may have spent: a quarter.
pub const SHARE_SHIFT: u32 = 2;

/// What one process has taken out of a [`Bucket`] while that held less than [`Bucket::fair`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Share {
    /// Process id; 0: free.
    pub tgid: u32,
    /// Half-lives (2^[`HALF_LIFE_SHIFT`] ns of `CLOCK_MONOTONIC`) until `spent` was last halved.
    pub halved: u32,
    /// What it has spent, halved every half-life; with [`LOUD`] and [`YOUNG`].
    pub spent: u64,
}

/// Bit of [`Share::spent`]: it was refused, and waits for [`Bucket::resume`].
pub const LOUD: u64 = 1 << 63;
/// Bits of [`Share::spent`]: for how many half-lives what all the young have spent
/// ([`Bucket::newcomers`]) weighs on it.
pub const YOUNG: u64 = 7 << YOUNG_SHIFT;
/// The first of these.
pub const YOUNG_SHIFT: u32 = 60;

/// The [`Share`] of the process whose call came last, so that it need not be looked for again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Drawer {
    /// Its process id; 0: none.
    pub tgid: u32,
    /// Index of its share in the lane's.
    pub at: u32,
    /// `jiffies_64` when it was refused last: in the same jiffy it is refused again.
    pub refused: u64,
    /// Not 0: nothing is left out of its calls ([`super::share::is_quiet`]), as of when it was
    /// looked at last.
    pub quiet: u64,
    /// What it may still draw before it is looked at again, ns; its share is charged with it.
    pub left: i64,
}

/// The thread that runs on a CPU, as far as its programs know: right where they find themselves on
/// its stack.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Running {
    /// Address of its kernel stack; 0: the kernel is to be asked each time.
    pub stack: u64,
    /// Address of its `task_struct`.
    pub task: u64,
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub tgid: u32,
}

/// What belongs to one CPU.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct CpuState {
    /// `ENABLE_…` bits, set by the daemon.
    pub enabled: u32,
    /// The daemon's process id, whose system calls are left out; 0: none.
    pub own_tgid: u32,
    /// The thread that runs.
    pub running: Running,
    /// Address of the CPU's preemption count, by which a wakeup tells its context; 0: not yet
    /// known, [`NO_PREEMPT_COUNT`]: not to be had. The probes' own.
    pub preempt_count: u64,
    /// A thread that slept for so long, ns, has the stack of its wait recorded when it runs again;
    /// [`NO_STACKS`]: none has.
    pub long_wait: u64,
    /// Most frames of a stack; at most [`FRAMES_MAX`](super::record::stack::FRAMES_MAX).
    pub frames: u64,
    /// What a stack costs, ns: the mean of those taken last. The probes' own; the daemon assumes a
    /// first one.
    pub stack_cost: u64,
    /// What taking stacks has cost since the recording began, ns, those of samples included, and
    /// what configured tracepoints have beyond other events of their lane. The probes' own.
    pub stack_time: u64,
    /// Most frames of a sample: of the kernel, of the program; at most
    /// [`FRAMES_MAX`](super::record::sample::FRAMES_MAX).
    pub sample_frames: [u32; 2],
    /// What the frames of a sample cost, ns: as [`Self::stack_cost`].
    pub sample_cost: u64,
    /// What an event of a configured tracepoint takes, ns, a stack not included: as
    /// [`Self::stack_cost`].
    pub tracepoint_cost: u64,
    /// An interrupt that took so long, ns, is recorded.
    pub long_interrupt: u64,
    /// A wait for a lock of the kernel that took so long, ns, is recorded.
    pub long_lock: u64,
    /// When the handler of a device began that runs, ns of `CLOCK_MONOTONIC`; 0: none does. The
    /// probes' own, as the next two.
    pub hardirq_since: u64,
    /// The same of a softirq.
    pub softirq_since: u64,
    /// Of the control group that this CPU lets run again: when its threads began to wait, ns of the
    /// scheduler's clock; 0: none did. The probes' own.
    pub throttled_since: u64,
    /// The locks that this CPU waits for without sleeping.
    pub spins: [LockWait; LOCK_WAITS],
    /// Events that were not recorded because this CPU has no ring, by lane.
    pub no_ring: [u64; RING_LANES],
    /// Strings of system calls recorded.
    pub strings: u64,
    /// The rings, by [`crate::abi::page::Lane`].
    pub lanes: [LaneState; RING_LANES],
    /// Where an event of lane `kernel` waits that came while another was being written: a page of
    /// its own, [`LaneState::ring_base`]. After the state of lane `kernel`, so that one can stand
    /// for the other. [`LaneState::ring_pages`]: 1, or 0 where this CPU has no ring.
    pub aside: LaneState,
    /// The events of [`Self::aside`] by kind, as they are while it is copied.
    pub copied: [u64; LANE_KINDS],
    /// The budget, by lane.
    pub buckets: [Bucket; BUCKETS],
    /// Who draws from the bucket of system calls.
    pub drawer: Drawer,
    /// Events that the budget refused, by lane and kind. The lane's `refused` has their sum, for
    /// the pages, but for stacks and samples: their records say themselves what was refused.
    pub throttled: [[u64; LANE_KINDS]; RING_LANES],
    /// Thread-table insertions that found no free slot.
    pub slot_collisions: u64,
    /// The budget's limits by lane, millionths of a CPU; 0: none. For status; what the probes keep
    /// is in the buckets.
    pub limits: [u32; TIMED_BUCKETS],
    /// 1: the buckets' costs were measured on this machine; 0: they are assumed.
    pub measured: u64,
    /// Not 0: the daemon has detached the system call programs for a time, and counted that time
    /// until this moment, ns of `CLOCK_MONOTONIC`. The same on every CPU.
    pub detached: u64,
    /// What an event costs when nothing is left out, by lane, ns. For status and the next daemon,
    /// as are the fields below; the same on every CPU.
    pub full: [u32; TIMED_BUCKETS],
    /// What an event costs that is not recorded, by lane, ns: the probe overhead.
    pub floor: [u32; TIMED_BUCKETS],
    /// What an event of a request to a disk costs, recorded and not recorded, ns; and any other one
    /// of lane `kernel`.
    pub disk: [u32; 2],
    /// What a call costs less without its exit's time, and with its first argument alone, ns.
    pub savings: [u32; 2],
    /// The budget's total, millionths of the machine's CPU time; 0: none.
    pub total: u64,
    /// What reading the clock took when these were measured, thousandths of a ns; 0: not known.
    pub clock: u64,
    /// Interrupts, and waits for locks of the kernel, that were too short to be recorded: what
    /// looking at them costs is spent all the same. The probes' own.
    pub looked: u64,
    /// For how long they have been detached in this recording, ns: for the pages' headers. The
    /// same on every CPU.
    pub detached_time: u64,
    /// 0: what comes next begins a cache line.
    pub reserved: [u64; RESERVED],
    /// What processes have taken out of the buckets, by lane.
    pub shares: [[Share; SHARES]; BUCKETS],
}

/// Locks that a thread, or a CPU, may be seen to wait for at a time: an interrupt may wait for
/// another one than the thread that it hit, and a lock's own code for a lock inside it.
pub const LOCK_WAITS: usize = 4;

/// A wait for a lock of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LockWait {
    /// Address of the lock; 0: no wait.
    pub lock: u64,
    /// When it began, ns of `CLOCK_MONOTONIC`.
    pub began: u64,
    /// `LCB_F_…` flags of the tracepoint.
    pub flags: u64,
}

/// [`CpuState::long_wait`] where no stacks are recorded.
pub const NO_STACKS: u64 = u64::MAX;

/// In [`CpuState::preempt_count`]: what was found where it should be is no preemption count.
pub const NO_PREEMPT_COUNT: u64 = 1;

/// Words of [`CpuState::reserved`]. Before it are 34 words, those of each lane (`no_ring`,
/// [`LaneState`], `throttled`), of `aside`, of each bucket ([`Bucket`]), and of each wait
/// ([`LockWait`]).
pub const RESERVED: usize = {
    let words =
        34 + RING_LANES * (11 + 2 * LANE_KINDS) + (10 + LANE_KINDS) + BUCKETS * 9 + LOCK_WAITS * 3;
    (8 - words % 8) % 8
};

const _: () = assert!(size_of::<LaneState>() == 8 * (10 + LANE_KINDS));
const _: () = assert!(size_of::<Bucket>() == 72);
const _: () = assert!(
    core::mem::offset_of!(CpuState, aside)
        == core::mem::offset_of!(CpuState, lanes) + RING_LANES * size_of::<LaneState>()
        && super::page::Lane::Kernel as usize + 1 == RING_LANES
);
const _: () = assert!(size_of::<Share>() == 16 && SHARE_SETS.is_power_of_two());
const _: () = assert!(core::mem::offset_of!(CpuState, shares).is_multiple_of(64));
const _: () = assert!(
    size_of::<CpuState>() == core::mem::offset_of!(CpuState, shares) + BUCKETS * 16 * SHARES
);
