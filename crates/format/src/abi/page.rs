//! The page: 4096 bytes that explain themselves.

use super::counts::Counts;
use super::kinds::kinds_of;

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;
/// First eight bytes of every page in the kernel's memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FLTRECPG");
/// First eight bytes of a copy, instead. Who looks through a dump of a machine's memory finds the
/// rings alone so, and not what a process, a socket or freed memory still has of them, which may be
/// old, or half of something else by now.
pub const COPY_MAGIC: u64 = u64::from_le_bytes(*b"FLTRECCP");
/// Version of the page and record layout; a reader refuses a page of another one.
pub const VERSION: u16 = 1;
/// Bytes that every header has ([`RawHeader`]); a lane of more than [`HEADER_KINDS`] kinds has the
/// counters of the others after them ([`header_len`]).
pub const HEADER_LEN: usize = 128;
/// The unit: bytes that lengths of records, and of what is in use of a page, are counted in. Every
/// record is a multiple of it.
pub const UNIT: usize = 4;
/// Kinds of event that every header counts apart.
pub const HEADER_KINDS: usize = 6;
/// Lanes that are rings: `syscall`, `sched`, `task`, `kernel`.
pub const RING_LANES: usize = 4;

/// Binary logarithm of the ns in a unit of [`PageHeader::detached`].
pub const DETACHED_SHIFT: u32 = 20;

/// Bytes at the end of a thinned page's header, which say what was left out (`crate::kept`).
pub const THINNED_LEN: usize = 8 + LEFT_OUT_MAX * LEFT_OUT_LEN;
/// Most processes that a thinned page can say were left out.
pub const LEFT_OUT_MAX: usize = 32;
/// Bytes of one of them.
pub const LEFT_OUT_LEN: usize = 24;

/// What a page holds. The first [`RING_LANES`] are per-CPU rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Lane {
    /// System call entries and exits.
    Syscall = 0,
    /// Scheduling, and what threads do to one another.
    Sched = 1,
    /// Task life, marks, and recorder events.
    Task = 2,
    /// What the kernel does for threads: requests to disks, memory, interrupts, locks, network,
    /// io_uring; samples, probed functions, configured tracepoints.
    Kernel = 3,
    /// Metadata of the recording (`MetaHeader` fields inside the common header).
    Meta = 8,
    /// The table of live threads ([`crate::abi::slot::TaskSlot`]).
    Slots = 9,
    /// What the descriptors of processes stand for: a snapshot.
    Descriptors = 10,
}

impl Lane {
    /// The lanes that are rings, in index order.
    pub const RINGS: [Lane; RING_LANES] = [Lane::Syscall, Lane::Sched, Lane::Task, Lane::Kernel];

    /// The lane with this number in a page header, if it is known.
    pub const fn from_u8(v: u8) -> Option<Self> {
        Some(match v {
            0 => Lane::Syscall,
            1 => Lane::Sched,
            2 => Lane::Task,
            3 => Lane::Kernel,
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
            Lane::Kernel => "kernel",
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

/// Bytes of the header of a lane's pages, as the probes write it; records start there.
#[inline(always)]
pub const fn header_len(lane: Lane) -> usize {
    // Worked out here: the table is not compiled into the probes.
    const LENGTHS: [usize; RING_LANES] = {
        let mut lengths = [HEADER_LEN; RING_LANES];
        let mut i = 0;
        while i < RING_LANES {
            lengths[i] += 8 * kinds_of(Lane::RINGS[i]).saturating_sub(HEADER_KINDS);
            i += 1;
        }
        lengths
    };
    match lane {
        Lane::Syscall => LENGTHS[0],
        Lane::Sched => LENGTHS[1],
        Lane::Task => LENGTHS[2],
        Lane::Kernel => LENGTHS[3],
        Lane::Meta | Lane::Slots | Lane::Descriptors => HEADER_LEN,
    }
}

/// The first [`HEADER_LEN`] bytes of a page. All integers little-endian, no padding.
///
/// A page is opened in the order `used` = 0, `seq`, the rest; a record becomes visible by the
/// store of `used`, the last of its group. A page whose `used` is 0 holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RawHeader {
    /// See [`PageHeader::magic`]; so of the other fields.
    pub magic: u64,
    /// The session.
    pub session: u64,
    /// Version of the layout.
    pub version: u16,
    /// Lane.
    pub lane: u8,
    /// Flags.
    pub flags: u8,
    /// CPU.
    pub cpu: u16,
    /// Bytes of the header.
    pub header_len: u16,
    /// Number of the page.
    pub seq: u64,
    /// `CLOCK_MONOTONIC`, ns.
    pub base_mono: u64,
    /// `CLOCK_TAI`, ns.
    pub base_tai: u64,
    /// Units in use.
    pub used: u32,
    /// Time without system calls.
    pub detached: u32,
    /// Events by kind: the first [`HEADER_KINDS`]. Those of further kinds stand after this struct.
    pub events: [u64; HEADER_KINDS],
    /// Events refused.
    pub refused: [u64; REFUSALS],
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_LEN);
const _: () = assert!(core::mem::offset_of!(RawHeader, seq) == 24);
const _: () = assert!(core::mem::offset_of!(RawHeader, used) == 48);
const _: () = assert!(core::mem::offset_of!(RawHeader, events) == 56);
const _: () = assert!(core::mem::offset_of!(RawHeader, refused) == 104);

/// What a page's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// [`MAGIC`], or [`COPY_MAGIC`] in a copy.
    pub magic: u64,
    /// The recording session (one generation of rings); never 0. After [`MAGIC`] its secret,
    /// random; after [`COPY_MAGIC`] its public id, a hash of that (`crate::identity`).
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
    /// [`UNIT`]s of the page in use, this header included.
    pub used: u32,
    /// For how long system calls had been detached in this recording when the page was opened, in
    /// units of 2^20 ns ([`DETACHED_SHIFT`]), modulo 2^32: nothing counts what happens
    /// meanwhile.
    pub detached: u32,
    /// Events the lane had recorded on this CPU before this page, by kind (see
    /// [`crate::abi::record`]); 0 for kinds that the header does not count.
    pub events: Counts,
    /// Events the lane had refused on this CPU before this page, by [`Refusal`].
    pub refused: [u64; REFUSALS],
}

impl PageHeader {
    /// Bytes of the page in use, this header included.
    #[inline(always)]
    pub const fn used_bytes(&self) -> usize {
        self.used as usize * UNIT
    }

    /// Whether it is of a page of the quiet ring from which events are left out: then its last
    /// [`THINNED_LEN`] bytes tell which.
    pub const fn is_thinned(&self) -> bool {
        const KEPT: u8 = part_flag::KEPT;
        self.flags & (KEPT | part_flag::PART) == KEPT
            && self.header_len as usize >= HEADER_LEN + THINNED_LEN
    }

    /// Byte of the page after the counters: what is from [`HEADER_LEN`] up to there are those of
    /// the kinds after the first [`HEADER_KINDS`]. Of a part, whose header ends where it begins,
    /// those that the page does not have are 0.
    pub fn counters_end(&self) -> usize {
        HEADER_LEN + 8 * (self.kinds() - HEADER_KINDS)
    }

    /// How many kinds the header counts apart; of a part, as many as there may be.
    pub fn kinds(&self) -> usize {
        let own = usize::from(self.header_len);
        let own = if self.is_thinned() { own - THINNED_LEN } else { own };
        HEADER_KINDS + (own.saturating_sub(HEADER_LEN) / 8).min(Counts::LEN - HEADER_KINDS)
    }
}

/// [`PageHeader::flags`].
pub mod part_flag {
    /// Words of 8 bytes of THREAD and TIME at the beginning of a part, which are repeated from
    /// before it.
    pub const CONTEXT: u8 = 3;
    /// The rest of a page whose beginning is stored elsewhere (`crate::part`).
    pub const PART: u8 = 4;
    /// The page stands in the quiet ring (`crate::kept`): as the probes wrote it, or, where its
    /// header is longer by [`THINNED_LEN`](super::THINNED_LEN), with what was left out.
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
