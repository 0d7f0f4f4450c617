//! The search index of a file: what is in each of its blocks of pages, so that a reader who wants
//! little need not read the others.
//!
//! - It is a file of its own beside the recording's, of the same name with the ending
//!   [`EXTENSION`]. It is made once the recording's file is closed ([`make`]), and goes with it.
//! - It never decides anything alone: what it says is that a block can *not* hold something. A
//!   reader without it, or with one that is damaged or of another file, reads every block.
//! - Each entry names the checksum of its block's data, so an index of other data is none.
//! - At most [`SHARE`] of the recording's file. Where it would be larger there is none.
//!
//! `FORMAT.md` is the specification.

mod code;
mod components;
mod file;
mod maker;
mod pairs;

pub use self::code::{RAW_MAX, VERSION};
pub use self::components::{Components, hash, names};
pub use self::file::{
    EXTENSION, SHARE, SearchError, make, of_file, of_pages, path, read, remove, usage, write,
};
pub use self::maker::Missing;

use crate::block::BlockRef;

/// A system call: its table ([`flightrec_format::abi::record::Abi`]) and its number.
pub type CallKey = (u8, u16);

/// What is in a block of pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockEntry {
    /// Where the block begins in its file.
    pub offset: u64,
    /// The checksum of its data.
    pub crc: u32,
    /// Which kinds of its lane it holds: bit `i` is the kind of index `i` in the lane.
    pub kinds: u16,
    /// The threads that any of its events names, in order.
    pub threads: Vec<u32>,
    /// The system calls that begin or end in it, in order.
    pub calls: Vec<CallKey>,
    /// Of the calls that end in it with -1 to -4095: which, and with what, in order.
    pub failures: Vec<(CallKey, u16)>,
    /// The CPUs of which it has a switch, in order.
    pub cpus: Vec<CpuEntry>,
    /// No call that ends in it took longer, ns; `None`: that is not known, as one of them does not
    /// begin in the file.
    pub longest: Option<u64>,
    /// The names in the paths that its calls, and operations of io_uring, were given.
    pub components: Components,
    /// What beginnings of calls in it lack, in order of the calls.
    pub missing: Vec<(CallKey, Missing)>,
    /// The same of ends of calls that do not begin in the file.
    pub unbegun: Vec<(CallKey, Missing)>,
}

impl Default for BlockEntry {
    fn default() -> Self {
        Self {
            offset: 0,
            crc: 0,
            kinds: 0,
            threads: Vec::new(),
            calls: Vec::new(),
            failures: Vec::new(),
            cpus: Vec::new(),
            longest: Some(0),
            components: Components::default(),
            missing: Vec::new(),
            unbegun: Vec::new(),
        }
    }
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

/// Steps in which an index tells how long calls took, ns.
const STEP_NS: u64 = 1024;

impl BlockEntry {
    /// A call that ends in it took so long.
    fn took(&mut self, ns: u64) {
        // As an index tells it, so that one that was read is the same.
        let ns = ns.div_ceil(STEP_NS).saturating_mul(STEP_NS);
        self.longest = self.longest.map(|longest| longest.max(ns));
    }

    /// A call ends in it that does not begin in the file.
    fn unbegun(&mut self, call: CallKey, missing: Missing) {
        match self.unbegun.binary_search_by_key(&call, |(call, _)| *call) {
            Ok(at) => {
                if let Some((_, known)) = self.unbegun.get_mut(at) {
                    *known = known.and(missing);
                }
            }
            Err(at) => self.unbegun.insert(at, (call, missing)),
        }
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

/// The index of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchIndex {
    /// The recording session of the file.
    pub session: u64,
    /// The bytes of the file when the index was made.
    pub size: u64,
    /// An entry for each block of pages, in the order of the file.
    pub blocks: Vec<BlockEntry>,
}

impl SearchIndex {
    /// What it says of a block; `None`: nothing.
    pub fn of(&self, block: &BlockRef) -> Option<&BlockEntry> {
        let at = self.blocks.binary_search_by_key(&block.offset, |entry| entry.offset).ok()?;
        self.blocks.get(at).filter(|entry| entry.crc == block.header.data_crc)
    }
}
