//! A filter as what a summary of a block is asked: which blocks may have something that it wants.

use flightrec_analysis::is_restart;
use flightrec_format::abi::record::Abi;
use flightrec_format::meta::Meta;
use flightrec_reader::kind::{Kind, Kinds};
use flightrec_reader::pipeline::choice::UNTIMED_NS;
use flightrec_reader::source::history::{Names, Sought};
use flightrec_store::summary::Missing;
use rustc_hash::FxHashSet;

use super::{Filter, FilterPlan, Names as CommNames, paths};

/// What a filter asks, looked up in one recording.
#[derive(Debug)]
pub struct Seeker {
    filter: Filter,
    threads: Option<Vec<u32>>,
    /// Calls whose ends may stand under another number than their beginnings.
    renumbered: FxHashSet<u16>,
    names_descriptors: bool,
    names_in_paths: Option<Vec<Vec<u8>>>,
}

impl FilterPlan {
    /// Names one of which is in every path that is wanted; `None`: not known.
    fn paths(&self) -> Option<Vec<Vec<u8>>> {
        paths::names(&self.paths)
    }

    /// Whether it may want so little that searching for it is worth its while.
    pub fn is_narrow(&self) -> bool {
        if !self.traces.is_empty() {
            // Marks of other calls and threads tell.
            return false;
        }
        let asks_for_threads =
            [&self.pids, &self.tids, &self.trees].iter().any(|of| !of.is_empty())
                || [&self.comms, &self.cgroups, &self.units, &self.containers, &self.pods]
                    .iter()
                    .any(|of| !of.is_empty());
        let asks_for_calls = !self.calls.is_empty() || self.errors || !self.errnos.is_empty();
        if self.can_doubt() {
            // Where something may be missing that tells, all that is there is read.
            let is_long = self.slower_than.is_some_and(|least| least > UNTIMED_NS);
            let only_ends = self.kinds == Kinds::NONE.with(Kind::SysExit);
            return if self.calls.needs_entries() {
                false
            } else if self.paths.is_empty() {
                is_long && only_ends
            } else {
                // The search for paths looks for operations of io_uring itself.
                let is_of_paths = self.kinds.and(Kinds::OF_PATHS) == self.kinds;
                !self.is_timed() && is_of_paths && self.paths().is_some()
            };
        }
        asks_for_threads || asks_for_calls && is_of_calls(self.kinds)
    }
}

fn is_of_calls(kinds: Kinds) -> bool {
    Kind::ALL
        .into_iter()
        .all(|kind| !kinds.has(kind) || matches!(kind, Kind::SysEnter | Kind::SysExit))
}

impl Seeker {
    /// Of a filter. `names`: who threads may be.
    pub fn new(
        plan: &FilterPlan,
        (filter, meta): (&Filter, &Meta),
        names: &Names,
        names_descriptors: bool,
    ) -> Self {
        let calls = meta.native.iter().chain(&meta.compat);
        let executes = calls.filter(|call| matches!(call.name.as_str(), "execve" | "execveat"));
        Self {
            threads: threads(filter, names),
            names_in_paths: filter.has_paths().then(|| plan.paths()).flatten(),
            filter: filter.clone(),
            renumbered: executes.map(|call| call.nr).collect(),
            names_descriptors,
        }
    }
}

/// Threads one of which every wanted event has to name, in order; `None`: any thread may be.
fn threads(filter: &Filter, names: &Names) -> Option<Vec<u32>> {
    let mut all: Vec<FxHashSet<u32>> = Vec::new();
    if !filter.tids.is_empty() {
        all.push(filter.tids.clone());
    }
    if !filter.pids.is_empty() {
        all.push(names.threads_of(&filter.pids));
    }
    if !filter.trees.is_empty() {
        all.push(names.threads_of(&names.descendants(&filter.trees)));
    }
    if !filter.comms.is_empty() && !is_of_anyone(&filter.comms) {
        all.push(names.threads_named(|name| filter.comms.has(name)));
    }
    // Threads of which the group is not known are in group 0.
    let groups = filter.groups.iter().filter(|groups| !groups.contains(&0));
    all.extend(groups.map(|groups| names.threads_in(groups)));
    // An event has to match them all; by the fewest threads is the least read.
    let fewest = all.into_iter().min_by_key(FxHashSet::len)?;
    let mut threads: Vec<u32> = fewest.into_iter().collect();
    threads.sort_unstable();
    Some(threads)
}

/// Whether threads of which nothing is known, or idle ones, are asked for by their names.
fn is_of_anyone(comms: &CommNames) -> bool {
    comms.has(b"")
        || comms.has(b"swapper")
        || (0..8192).any(|cpu| {
            let name = format!("swapper/{cpu}");
            comms.has(name.as_bytes())
        })
}

impl Sought for Seeker {
    fn threads(&self) -> Option<&[u32]> {
        self.threads.as_deref()
    }

    fn names_groups(&self) -> bool {
        !self.filter.groups.is_empty() && self.filter.kinds.has(Kind::Throttle)
    }

    fn is_of_calls(&self) -> bool {
        is_of_calls(self.filter.kinds)
    }

    fn wants_entries(&self) -> bool {
        self.filter.wants_entries()
    }

    fn may_want_call(&self, abi: Abi, nr: u16) -> bool {
        self.filter.wants_number(abi, nr) || self.renumbered.contains(&nr)
    }

    fn is_of_failures(&self) -> bool {
        self.filter.errors || !self.filter.errnos.is_empty()
    }

    fn may_want_error(&self, abi: Abi, nr: u16, error: i32) -> bool {
        let failed = self.filter.failures.error(abi, nr, -i64::from(error));
        self.renumbered.contains(&nr)
            || failed.is_some_and(|error| {
                !(self.filter.errors && is_restart(error))
                    && (self.filter.errnos.is_empty() || self.filter.errnos.contains(&error))
            })
    }

    fn names_descriptors(&self) -> bool {
        self.names_descriptors
    }

    fn slower_than(&self) -> Option<u64> {
        self.filter.slower_than
    }

    fn names_in_paths(&self) -> Option<&[Vec<u8>]> {
        self.names_in_paths.as_deref()
    }

    fn lacks_path(&self, abi: Abi, nr: u16, missing: Missing) -> bool {
        self.filter.paths.as_ref().is_some_and(|paths| paths.lacks_of(abi, nr, missing))
    }
}
