//! What the configuration comes to on a machine: pages a ring, bytes in all.

use flightrec_format::abi::function::{CpuCalls, MARKS, Mark};
use flightrec_format::abi::page::{Lane, PAGE_SIZE, RING_LANES};
use flightrec_format::abi::probe::{BINARIES, Binary, FRAME_PAGES};
use flightrec_format::abi::record::sample::FRAMES_MAX;
use flightrec_format::abi::record::tracepoint::BYTES_MAX;
use flightrec_format::abi::slot::{SLOTS_PER_PAGE, WAYS};
use flightrec_format::abi::state::CpuState;
use flightrec_format::abi::tracepoint::{TRACEPOINTS, TracepointCounts, TracepointPlan};
use flightrec_format::meta::PAGES;
use nix::unistd::{SysconfVar, sysconf};
use thiserror::Error;

use super::{Config, Size};

/// Pages of the metadata map: two halves, written in turn.
pub const META_PAGES: u32 = PAGES as u32;
/// Pages of the descriptor snapshot: two halves of 64, written in turn.
const DESCRIPTOR_PAGES: u32 = 128;
/// A CPU's stacks of a sample, before they are recorded (`Scratch`, probes-ebpf/src/samples.rs),
/// with each frame's address in the kernel, its build id and its address in the program, bytes.
const SAMPLE_SCRATCH: u64 = (FRAMES_MAX * (1 + BUILD_ID_WORDS + 1) + 5) as u64 * 8;
/// `struct bpf_stack_build_id`, include/uapi/linux/bpf.h, in words.
const BUILD_ID_WORDS: usize = 4;
/// A CPU's record of a tracepoint before it is recorded (`Scratch`,
/// probes-ebpf/src/tracepoints.rs): addresses, frames, what is published, and a bit more, bytes.
const TRACEPOINT_SCRATCH: u64 = (FRAMES_MAX * 12 + BYTES_MAX + 120) as u64;
/// What threads are in the middle of (`WAITS`, probes-ebpf/src/waits.rs): 2,048 places, bytes.
const WAITS: u64 = 2048 * 128;
/// Smallest ring: one page is written while the other holds history.
pub(super) const RING_LEAST: Size = Size::new(2 * PAGE_SIZE as u64);
/// Smallest quiet ring of a CPU.
pub(super) const QUIET_LEAST: Size = Size::kib(64);
/// Rings are not shrunk below this, unless less was asked for.
const RING_FLOOR: u64 = Size::kib(64).bytes();
/// Least cap that makes sense: tables of the least size, and a few rings.
pub(super) const TOTAL_LEAST: Size = Size::mib(4);
/// A thread has its choice of so many neighbouring slots.
pub(super) const SLOTS_LEAST: u32 = WAYS as u32;
/// `PID_MAX_LIMIT`, include/linux/threads.h.
pub(super) const SLOTS_MOST: u32 = 1 << 22;

const PAGE: u64 = PAGE_SIZE as u64;
/// Rings of a CPU: one for each lane, and the quiet ring.
const RINGS: usize = RING_LANES + 1;

/// Sizes of all maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizing {
    /// By lane: pages of one CPU's ring.
    pub ring_pages: [u32; RING_LANES],
    /// Pages of one CPU's quiet ring.
    pub quiet_pages: u32,
    /// Pages of the thread table, of all CPUs.
    pub slot_pages: u32,
    /// Pages of the metadata.
    pub meta_pages: u32,
    /// Pages of the descriptor snapshot.
    pub descriptor_pages: u32,
    /// Kernel memory of rings and tables, bytes.
    pub total: u64,
    /// Whether the rings are smaller than configured, to stay within the caps.
    pub shrunk: bool,
}

/// The caps leave no room.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SizingError {
    /// The smallest rings exceed the cap.
    #[error(
        "the smallest rings on {cpus} CPUs and the tables take {needed}, more than the {cap} that \
         [rings] allows; raise {key}, or make [threads] slots smaller"
    )]
    NoRoom {
        /// CPUs that get rings.
        cpus: u32,
        /// What is needed, in whole MiB.
        needed: Size,
        /// The cap.
        cap: Size,
        /// Which key sets it.
        key: &'static str,
    },
    /// More pages than a map can count.
    #[error(
        "a ring of {ring} on each of {cpus} CPUs exceeds what one map can hold; make it smaller \
         in [rings]"
    )]
    TooManyPages {
        /// CPUs that get rings.
        cpus: u32,
        /// One CPU's ring.
        ring: Size,
    },
}

impl Sizing {
    /// Fits the rings of `online` CPUs, and the tables, into the caps. Rings shrink in proportion,
    /// but none below 64 KiB, or what was asked for where that is less.
    pub fn compute(
        config: &Config,
        online: u32,
        possible: u32,
        ram: u64,
    ) -> Result<Self, SizingError> {
        let rings = &config.rings;
        let cpus = u64::from(online.max(1));
        let slot_pages = config.threads.slots.div_ceil(SLOTS_PER_PAGE as u32);
        let state = (u64::from(possible) * size_of::<CpuState>() as u64).next_multiple_of(PAGE);
        let samples = (BINARIES * size_of::<Binary>()) as u64
            + (u64::from(possible) * SAMPLE_SCRATCH).next_multiple_of(PAGE);
        let functions = u64::from(possible) * size_of::<CpuCalls>() as u64
            + (MARKS * size_of::<Mark>()).next_multiple_of(PAGE as usize) as u64;
        let plans = (TRACEPOINTS * size_of::<TracepointPlan>()) as u64
            + u64::from(possible) * (size_of::<TracepointCounts>() as u64 + TRACEPOINT_SCRATCH);
        let frames = FRAME_PAGES as u32 + 1;
        let tables = u64::from(slot_pages + META_PAGES + DESCRIPTOR_PAGES + frames) * PAGE
            + state
            + samples
            + functions
            + plans.next_multiple_of(PAGE)
            + WAITS;

        let percent = ram / 100 * u64::from(rings.max_ram_percent);
        let (cap, key) = if percent < rings.max_total.bytes() {
            (percent, "max_ram_percent")
        } else {
            (rings.max_total.bytes(), "max_total")
        };

        // A lane that is switched off needs no room. The task lane still holds marks and recorder
        // events.
        let ring = |recorded: bool, ring: Size| if recorded { ring } else { RING_LEAST };
        let record = &config.record;
        let asked = [
            ring(record.has_any(Lane::Syscall), rings.syscall),
            ring(record.has_any(Lane::Sched), rings.sched),
            rings.task,
            ring(config.uses_kernel_lane(), rings.kernel),
        ];
        let [a, b, c, d] = asked.map(|ring| (ring.bytes() / PAGE).max(2));
        let asked = [a, b, c, d, rings.quiet.bytes() / PAGE];
        let floor = asked.map(|pages| pages.min(RING_FLOOR / PAGE));
        let least = (floor.iter().sum::<u64>() * PAGE).saturating_mul(cpus).saturating_add(tables);
        if least > cap {
            let needed = Size::mib(least.div_ceil(1 << 20));
            return Err(SizingError::NoRoom {
                cpus: online,
                needed,
                cap: Size::new(cap >> 20 << 20),
                key,
            });
        }
        let pages = shrink(asked, floor, (cap - tables) / cpus / PAGE);

        let mut counts = [0; RINGS];
        for (out, pages) in counts.iter_mut().zip(pages) {
            // The map has the pages of all CPUs, and counts them in 32 bits.
            let all = u32::try_from(pages.saturating_mul(cpus));
            let ring = Size::new(pages.saturating_mul(PAGE));
            *out = all.map_err(|_| SizingError::TooManyPages { cpus: online, ring })? / cpus as u32;
        }
        let total = tables + pages.iter().sum::<u64>() * PAGE * cpus;
        let [syscall, sched, task, kernel, quiet_pages] = counts;
        Ok(Self {
            ring_pages: [syscall, sched, task, kernel],
            quiet_pages,
            slot_pages,
            meta_pages: META_PAGES,
            descriptor_pages: DESCRIPTOR_PAGES,
            total,
            shrunk: pages != asked,
        })
    }

    /// By lane: bytes of one CPU's ring.
    pub fn ring_bytes(&self) -> [u64; RING_LANES] {
        self.ring_pages.map(|pages| u64::from(pages) * PAGE)
    }
}

/// Shrinks `asked` to `room` in proportion, a floor under each; the floors together fit.
fn shrink(asked: [u64; RINGS], floor: [u64; RINGS], room: u64) -> [u64; RINGS] {
    if asked.iter().sum::<u64>() <= room {
        return asked;
    }
    // A ring that would fall below its floor stays there, and the others share what is left; that
    // can put a further one below its floor, hence as many rounds as there are rings.
    let mut fixed = [false; RINGS];
    let mut pages = floor;
    for _ in 0..RINGS {
        let taken: u64 = (0..RINGS).filter(|i| fixed[*i]).map(|i| floor[i]).sum();
        let free: u64 = (0..RINGS).filter(|i| !fixed[*i]).map(|i| asked[i]).sum();
        let mut settled = true;
        for i in (0..RINGS).filter(|i| !fixed[*i]).collect::<Vec<_>>() {
            let share = u128::from(asked[i]) * u128::from(room.saturating_sub(taken))
                / u128::from(free.max(1));
            pages[i] = share as u64; // at most `room`
            if pages[i] < floor[i] {
                pages[i] = floor[i];
                fixed[i] = true;
                settled = false;
            }
        }
        if settled {
            break;
        }
    }
    pages
}

/// This machine's memory in bytes.
pub fn ram_bytes() -> u64 {
    let ask = |var| sysconf(var).ok().flatten().and_then(|v| u64::try_from(v).ok());
    // Linux always answers these two; were it not to, no limit by memory would be known.
    match (ask(SysconfVar::_PHYS_PAGES), ask(SysconfVar::PAGE_SIZE)) {
        (Some(pages), Some(size)) => pages.saturating_mul(size),
        _ => u64::MAX,
    }
}
