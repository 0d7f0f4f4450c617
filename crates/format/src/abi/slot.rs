//! The table of live threads, and of what each blocked one waits in.

use super::page::{HEADER_LEN, PAGE_SIZE};
use super::record::Comm;

/// Slots in one page.
pub const SLOTS_PER_PAGE: usize = (PAGE_SIZE - HEADER_LEN) / size_of::<TaskSlot>();
/// Slots that a thread may take: neighbours in one page.
pub const WAYS: usize = 4;

/// The thread is blocked: [`TaskSlot::since`] and what follows tell in what.
pub const BLOCKED: u32 = 1;
/// The blocked thread is inside a system call: [`TaskSlot::nr`], [`TaskSlot::args`].
pub const IN_SYSCALL: u32 = 2;
/// A kernel thread.
pub const KTHREAD: u32 = 4;
/// The call stands here as its ENTER record has it: [`TaskSlot::nr`] is the record's first half
/// word; the bytes of [`TaskSlot::args`] and after them those of [`TaskSlot::abi`] are what
/// follows its fold slot (of a shorter record, those after its end mean nothing).
/// [`crate::slots::parse`] unfolds it.
pub const PACKED: u32 = 8;
/// The budget refused the entry of the call that the thread is in.
pub const REFUSED: u32 = 16;
/// Bytes of a record's arguments in a slot: the longest group, and what makes it a multiple of a
/// unit.
pub const ARGS_BYTES: usize = super::args::MAX_BYTES + 2;

/// One live thread. All zero: free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TaskSlot {
    /// Odd while being written.
    pub seq: u32,
    /// Thread id; 0: the slot is free.
    pub tid: u32,
    /// Process id.
    pub tgid: u32,
    /// [`BLOCKED`], [`IN_SYSCALL`], [`KTHREAD`], [`PACKED`], [`REFUSED`].
    pub flags: u32,
    /// `task_struct.start_time`, ns of `CLOCK_MONOTONIC`.
    pub start_time: u64,
    /// Control group (v2) id at its birth, its last exec, or the start of the recording; 0 where
    /// unknown.
    pub cgroup: u64,
    /// Name.
    pub comm: Comm,
    /// Since when it has been blocked, ns of `CLOCK_MONOTONIC`; 0: since before the recording.
    pub since: u64,
    /// In which state (`task_struct.__state`).
    pub state: u32,
    /// In which system call.
    pub nr: i32,
    /// The call's arguments, from the thread's saved registers.
    pub args: [u64; 6],
    /// Process id of the parent.
    pub ppid: u32,
    /// `task_struct.prio`.
    pub prio: i32,
    /// [`crate::abi::record::Abi`] of the call.
    pub abi: u32,
    /// How many of the call's arguments are known; 0: all that it takes.
    pub known: u32,
}

const _: () = assert!(size_of::<TaskSlot>() == 128);
const _: () = assert!(SLOTS_PER_PAGE == 31);

/// Where a thread's slots are: page, and first of [`WAYS`] neighbours in it. `seed` is random for
/// each recording: who knows a thread's id must not be able to choose ids with the same places, and
/// so keep it out of the table. Readers look at the whole table, and need none of this.
#[inline(always)]
pub const fn place(tid: u32, seed: u64, pages: u32) -> (u32, u32) {
    // Knuth's 2^32 / phi spreads neighbouring ids; multiplying and shifting, unlike `%`, costs
    // nothing. Twice, with what is not known before and between: of a single product by a known
    // number, the difference of two ids tells how far apart their places are.
    let h = (tid ^ seed as u32).wrapping_mul(2_654_435_761);
    let h = (h ^ h >> 15).wrapping_mul((seed >> 32) as u32 | 1);
    let h = h ^ h >> 16;
    // One place less than fits, so that the verifier's bound for the sum stays inside the page.
    let ways = (SLOTS_PER_PAGE - WAYS) as u32;
    (((h as u64 * pages as u64) >> 32) as u32, ((h & 0xffff) * ways) >> 16)
}
