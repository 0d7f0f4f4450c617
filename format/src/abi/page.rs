//! The page: 4096 bytes that explain themselves.

use super::layout::Layout;

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;
/// First eight bytes of every page in the kernel's memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FLTRECPG");
/// First eight bytes of a copy, instead. Who looks through a dump of a machine's memory finds the
/// rings alone so, and not what a process, a socket or freed memory still has of them, which may be
/// old, or half of something else by now.
pub const COPY_MAGIC: u64 = u64::from_le_bytes(*b"FLTRECCP");
/// Version of the page and record layout; a reader refuses a page of a greater one. See [`Layout`].
pub const VERSION: u16 = 2;
/// Bytes of [`PageHeader`]; records start here.
pub const HEADER_LEN: usize = 128;
/// Kinds of event that a lane counts apart in its header.
pub const LANE_KINDS: usize = 6;

const _: () = assert!(super::kinds::LANE_KINDS <= LANE_KINDS);

/// Lanes that are rings: `syscall`, `sched`, `task`.
pub const RING_LANES: usize = 3;

/// Binary logarithm of the ns in a unit of [`PageHeader::detached`].
pub const DETACHED_SHIFT: u32 = 20;

/// What a page holds. The first [`RING_LANES`] are per-CPU rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Lane {
    /// System call entries and exits.
    Syscall = 0,
    /// Context switches, wakeups, migrations.
    Sched = 1,
    /// Task life, marks, and the recorder's own acts.
    Task = 2,
    /// Configured tracepoints. Reserved.
    Trace = 3,
    /// Metadata of the recording ([`MetaHeader`] fields inside the common header).
    Meta = 8,
    /// The table of live threads ([`crate::abi::slot::TaskSlot`]).
    Slots = 9,
    /// What the descriptors of processes stand for: a snapshot.
    Descriptors = 10,
}

impl Lane {
    /// The lanes that are rings, in index order.
    pub const RINGS: [Lane; RING_LANES] = [Lane::Syscall, Lane::Sched, Lane::Task];

    /// The lane with this number in a page header, if it is known.
    pub const fn from_u8(v: u8) -> Option<Self> {
        Some(match v {
            0 => Lane::Syscall,
            1 => Lane::Sched,
            2 => Lane::Task,
            3 => Lane::Trace,
            8 => Lane::Meta,
            9 => Lane::Slots,
            10 => Lane::Descriptors,
            _ => return None,
        })
    }

    /// The lane's name in output, configuration and documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Lane::Syscall => "syscall",
            Lane::Sched => "sched",
            Lane::Task => "task",
            Lane::Trace => "trace",
            Lane::Meta => "meta",
            Lane::Slots => "slots",
            Lane::Descriptors => "descriptors",
        }
    }
}

/// Why an event was counted but not recorded: index into [`PageHeader::refused`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// Another program was writing this lane on this CPU (a nested tracepoint).
    Busy = 0,
    /// The budget's token bucket was empty.
    Throttled = 1,
    /// It was the recorder's own doing.
    Own = 2,
}

/// Number of [`Refusal`] reasons.
pub const REFUSALS: usize = 3;

/// The start of every page. All integers little-endian, no padding.
///
/// A page is opened in the order `used` = 0, `seq`, the rest; a record becomes visible by the
/// store of `used`, the last of its group. A page whose `used` is 0 holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PageHeader {
    /// [`MAGIC`], or [`COPY_MAGIC`] in a copy.
    pub magic: u64,
    /// The recording session (one generation of rings); never 0. Behind [`MAGIC`] its secret,
    /// random; behind [`COPY_MAGIC`] its public id, a hash of that (`crate::identity`).
    pub session: u64,
    /// [`VERSION`].
    pub version: u16,
    /// [`Lane`] as a number.
    pub lane: u8,
    /// [`part_flag`]s in stored pages; the probes write 0.
    pub flags: u8,
    /// The CPU whose ring this is; 0 in `meta` and `slots`.
    pub cpu: u16,
    /// Bytes of this header; records start there.
    pub header_len: u16,
    /// Number of this page in its ring, counted from 1, never reused within a session.
    pub seq: u64,
    /// `CLOCK_MONOTONIC` in ns when the page was opened; record times are relative to it.
    pub base_mono: u64,
    /// `CLOCK_TAI` in ns at the same moment: wall time plus the metadata's `tai_offsets`.
    pub base_tai: u64,
    /// [`Layout::unit`]s of the page in use, this header included.
    pub used: u32,
    /// For how long system calls had been detached in this recording when the page was opened, in
    /// units of 2^20 ns ([`DETACHED_SHIFT`]), modulo 2^32: nothing counts what happens
    /// meanwhile.
    pub detached: u32,
    /// Events the lane had recorded on this CPU before this page, by kind (see
    /// [`crate::abi::record`]).
    pub events: [u64; LANE_KINDS],
    /// Events the lane had refused on this CPU before this page, by [`Refusal`].
    pub refused: [u64; REFUSALS],
}

impl PageHeader {
    /// How its records are laid out.
    #[inline(always)]
    pub const fn layout(&self) -> Layout {
        Layout::of(self.version)
    }

    /// Bytes of the page in use, this header included.
    #[inline(always)]
    pub const fn used_bytes(&self) -> usize {
        self.layout().bytes(self.used as usize)
    }
}

const _: () = assert!(size_of::<PageHeader>() == HEADER_LEN);
const _: () = assert!(core::mem::offset_of!(PageHeader, seq) == 24);
const _: () = assert!(core::mem::offset_of!(PageHeader, used) == 48);
const _: () = assert!(core::mem::offset_of!(PageHeader, events) == 56);
const _: () = assert!(core::mem::offset_of!(PageHeader, refused) == 104);

/// [`PageHeader::flags`].
pub mod part_flag {
    /// Words of 8 bytes of THREAD and TIME at the beginning of a part, which are repeated from
    /// before it.
    pub const CONTEXT: u8 = 3;
    /// The rest of a page whose beginning is stored elsewhere (`crate::part`).
    pub const PART: u8 = 4;
    /// The page stands in the quiet ring (`crate::kept`): behind a header of
    /// [`HEADER_LEN`](super::HEADER_LEN) bytes as the probes wrote it, behind a longer one with
    /// what was left out.
    pub const KEPT: u8 = 8;
}

/// Where a page of `meta` or `descriptors` keeps its chunk bookkeeping inside
/// [`PageHeader::events`]. The chunk's bytes follow the header; `used` counts them rounded up.
pub mod meta_field {
    /// Generation of the metadata; the greatest complete one counts.
    pub const GENERATION: usize = 0;
    /// Index of this chunk.
    pub const CHUNK: usize = 1;
    /// Number of chunks.
    pub const CHUNKS: usize = 2;
    /// Bytes of the whole document.
    pub const LENGTH: usize = 3;
    /// CRC-32 (IEEE) of the whole document.
    pub const CRC: usize = 4;
}
