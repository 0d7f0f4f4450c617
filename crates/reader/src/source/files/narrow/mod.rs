//! Which blocks a narrow question needs, by what their summaries say.
//!
//! What is chosen is every block that may hold a wanted event, and with each event all that its
//! line depends on: the beginning of its call, the requests to disks in the call, what its
//! descriptors stand for (`family`), and for events of scheduling all that happened around it
//! (`spans`). Where that is not known, or not much less than everything, nothing is chosen, and
//! everything is read.

mod calls;
mod family;
mod map;
mod paths;
mod scan;
mod slow;
mod spans;

use std::path::PathBuf;
use std::sync::Arc;

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::Abi;
use flightrec_format::meta::Meta;
use flightrec_store::FileReader;
use flightrec_store::summary::Missing;
use rustc_hash::{FxHashMap, FxHashSet};

use self::map::{At, Map};
use super::decoded::Decoded;
use super::load::Job;
use super::name_index::Names;
use crate::source::PageSet;
use crate::source::sure::Skip;

/// What is asked for, as far as a summary can tell.
pub trait Sought: Sync {
    /// The threads one of which an event has to name, in order; `None`: any.
    fn threads(&self) -> Option<&[u32]>;

    /// Whether events that name a control group are wanted, whatever threads they name.
    fn names_groups(&self) -> bool;

    /// Whether only system calls are wanted.
    fn is_of_calls(&self) -> bool;

    /// Whether the beginnings of calls are wanted.
    fn wants_entries(&self) -> bool;

    /// Whether a call of this number may be wanted, as its beginning or its end is recorded.
    fn may_want_call(&self, abi: Abi, nr: u16) -> bool;

    /// Whether only calls are wanted that fail.
    fn is_of_failures(&self) -> bool;

    /// Whether a call is wanted that ends with an error, a positive number.
    fn may_want_error(&self, abi: Abi, nr: u16, error: i32) -> bool;

    /// Whether it is shown what descriptors stand for.
    fn names_descriptors(&self) -> bool;

    /// How long wanted calls take at least, ns, if only the ends of such are wanted.
    fn slower_than(&self) -> Option<u64>;

    /// Names one of which every wanted path has among its components, if only calls on paths are
    /// wanted. With them, [`Self::slower_than`] does not count.
    fn names_in_paths(&self) -> Option<&[Vec<u8>]>;

    /// Whether it is not known of a call on which paths it is, if its record lacks so much.
    fn lacks_path(&self, abi: Abi, nr: u16, missing: Missing) -> bool;
}

/// Blocks of pages that are read, and where others before them are not.
#[derive(Debug, Default)]
pub struct Chosen {
    /// By file: where they begin.
    blocks: FxHashMap<PathBuf, FxHashSet<u64>>,
    /// Where all is there again.
    pub(crate) skips: Arc<[Skip]>,
    /// The threads whose system calls are needed, in order; `None`: all.
    pub(crate) threads: Option<Arc<[u32]>>,
    /// The events that may be wanted, where of others that are read it is not known.
    only: Option<Arc<Only>>,
    /// Those of the blocks that were decoded.
    decoded: Decoded,
}

/// What a question needs.
struct Picked {
    blocks: FxHashSet<At>,
    /// The threads whose system calls are needed; `None`: all.
    threads: Option<FxHashSet<u32>>,
    only: Option<Only>,
}

/// The events of system calls that may be wanted of what is read of a window. Of others, what is
/// read does not tell all that is asked for.
#[derive(Debug, Default)]
pub struct Only {
    /// Earlier ones may be wanted whatever this says.
    from: u64,
    /// By thread and time.
    moments: FxHashSet<(u32, u64)>,
    /// All of threads.
    threads: FxHashSet<u32>,
}

impl Only {
    /// Whether an event of a thread may be wanted.
    pub fn has(&self, tid: u32, time: u64) -> bool {
        time < self.from || self.threads.contains(&tid) || self.moments.contains(&(tid, time))
    }
}

impl Chosen {
    /// The events that may be wanted; `None`: any.
    pub fn only(&self) -> Option<&Arc<Only>> {
        self.only.as_ref()
    }

    pub(super) fn decoded(&self) -> &Decoded {
        &self.decoded
    }

    /// Whether a block is read. Those of the task lane always are.
    pub(super) fn has(&self, job: &Job<'_>) -> bool {
        let of_file = || self.blocks.get(job.reader.path());
        job.block.header.lane == Some(Lane::Task)
            || of_file().is_some_and(|blocks| blocks.contains(&job.block.offset))
    }
}

/// The rings that follow a window in files. All of them is read, in any case.
#[derive(Debug, Clone, Copy)]
pub struct Tail<'a> {
    /// Their pages.
    pub recording: &'a PageSet,
    /// From when on events are theirs, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
}

/// What the choice is made of.
pub(super) struct Place<'a> {
    pub(super) opened: &'a [&'a FileReader],
    pub(super) meta: &'a Meta,
    /// All of what begins before this moment is read in any case.
    pub(super) from: u64,
    /// The rings after the files.
    pub(super) rings: Option<Tail<'a>>,
    /// Who threads were.
    pub(super) names: &'a Names,
}

/// Chooses blocks. `None`: everything is to be read.
pub(super) fn choose(place: &Place<'_>, sought: &dyn Sought) -> Option<Chosen> {
    let names = sought.names_in_paths();
    let map = Map::new(place)?;
    let (picked, skips) = if let Some(names) = names {
        (paths::choose(&map, place, sought, names)?, Vec::new())
    } else if sought.is_of_calls() {
        (calls::choose(&map, place, sought)?, Vec::new())
    } else {
        spans::choose(&map, place, sought)?
    };
    let Picked { blocks: picked, threads, only } = picked;
    let only = only.map(Arc::new);
    let threads = threads.map(|threads| {
        let mut threads: Vec<u32> = threads.into_iter().collect();
        threads.sort_unstable();
        threads.into()
    });
    let mut blocks = FxHashMap::<PathBuf, FxHashSet<u64>>::default();
    for job in picked.iter().filter_map(|at| map.get(*at)?.job()) {
        blocks.entry(job.reader.path().into()).or_default().insert(job.block.offset);
    }
    let decoded = map.into_decoded();
    decoded.retain(|path, at| blocks.get(path).is_some_and(|of_file| of_file.contains(&at)));
    Some(Chosen { blocks, skips: skips.into(), threads, only, decoded })
}
