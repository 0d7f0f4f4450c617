//! What is in a block of pages, so that a reader who wants little need not read the others.
//!
//! - It stands after the block's data, in a frame of its own that its CRC ends, and is written with
//!   it: whatever becomes of the file, open, cut, closed or copied, a block has its summary.
//! - It never decides anything alone: what it says is that a block can *not* hold something. One
//!   without a summary, or with a damaged one or that of another block, may hold anything.
//! - It names the checksum of its block's data, so that of another block it is none.
//!
//! `FORMAT.md` is the specification.

mod code;
mod frame;
mod maker;

pub use self::frame::SUMMARY_MAX;
pub(crate) use self::frame::{parse, put};
pub use self::maker::Summarizer;
pub(crate) use self::maker::summary;
pub use crate::components::{Components, hash, names};
pub use crate::missing::Missing;

/// A system call: its table ([`flightrec_format::abi::record::Abi`]) and its number.
pub type CallKey = (u8, u16);

/// What is in a block of pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockSummary {
    /// Which kinds of its lane it holds: bit `i` is the kind of index `i` in the lane.
    pub kinds: u16,
    /// The threads that any of its events names, in order.
    pub threads: Vec<u32>,
    /// The system calls that begin or end in it, in order.
    pub calls: Vec<CallSummary>,
    /// The CPUs of which it has a switch, in order.
    pub cpus: Vec<CpuEntry>,
    /// The names in the paths that its calls, and operations of io_uring, were given.
    pub components: Components,
}

/// What is in a block of a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSummary {
    /// Which call.
    pub call: CallKey,
    /// How many of it end in the block.
    pub ended: u32,
    /// The errors that these end with (1 to 4095), in order.
    pub errors: Vec<u16>,
    /// None of these took longer, ns; `None`: that is not known, as of one of them the beginning
    /// was not seen.
    pub longest: Option<u64>,
    /// What beginnings of it in the block lack.
    pub missing: Missing,
    /// The same of ends whose beginnings the file does not have; `None`: there are none.
    pub unbegun: Option<Missing>,
}

/// What a block says of a CPU's schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuEntry {
    /// The CPU.
    pub cpu: u16,
    /// Whether it goes idle in the block.
    pub idles: bool,
    /// Whether the last of its switches is to idle.
    pub ends_idle: bool,
}

/// Steps in which a summary says how long calls took, ns.
const STEP_NS: u64 = 1024;

impl CallSummary {
    /// As [`BlockSummary::holds`].
    fn holds(&self, made: &Self) -> bool {
        self.call == made.call
            && self.ended == made.ended
            && self.errors == made.errors
            && made.longest.is_none_or(|least| self.longest.is_none_or(|most| most >= least))
            && self.missing.holds(made.missing)
    }
}

/// A duration as a summary says it, so that one that was read is the same.
fn in_steps(ns: u64) -> u64 {
    ns.div_ceil(STEP_NS).saturating_mul(STEP_NS)
}

impl BlockSummary {
    /// Whether it is of a block of which this is another summary, made of the block alone and, it
    /// may be, without knowing which arguments are paths.
    pub(crate) fn holds(&self, made: &Self) -> bool {
        let call = |of: &CallSummary| self.calls.iter().any(|own| own.holds(of));
        self.kinds & made.kinds == made.kinds
            && made.threads.iter().all(|tid| self.has_thread(*tid))
            && made.calls.iter().all(call)
            && self.cpus == made.cpus
            && self.components.holds(&made.components)
    }

    /// The same where the block stands in another file, which may lack beginnings of calls that
    /// end in it: what the calls are on is not known.
    pub(crate) fn elsewhere(mut self) -> Self {
        for call in &mut self.calls {
            call.missing = Missing::ALL;
        }
        self
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        let errors: usize = self.calls.iter().map(|of| size_of_val(of.errors.as_slice())).sum();
        size_of_val(self.threads.as_slice())
            + size_of_val(self.calls.as_slice())
            + errors
            + size_of_val(self.cpus.as_slice())
            + self.components.bits.len()
    }

    /// Whether an event of the block may name a thread.
    pub fn has_thread(&self, tid: u32) -> bool {
        self.threads.binary_search(&tid).is_ok()
    }

    /// Whether an event of the block may name one of these threads, which are in order.
    pub fn has_any_thread(&self, tids: &[u32]) -> bool {
        // The shorter list is looked up in the longer one.
        if tids.len() < self.threads.len() {
            tids.iter().any(|tid| self.has_thread(*tid))
        } else {
            self.threads.iter().any(|tid| tids.binary_search(tid).is_ok())
        }
    }
}
