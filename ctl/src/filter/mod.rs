//! Which events are wanted. Different kinds of filter must all agree; of the values of one, any
//! will do.

mod calls;
mod choice;
mod class;
mod devices;
mod doubt;
mod doubts;
mod ends;
mod errors;
mod groups;
mod hints;
mod lacking;
mod limits;
mod names;
mod paths;
mod plan;
mod process;
mod seeker;
mod spec;
mod stretch;
#[cfg(test)]
mod tests;
mod tracepoints;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashSet;

use flightrec_analysis::{Failures, is_restart};
use flightrec_format::abi::kinds::{IoSubmit, Unit};
use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Body, Call, Event, Text};
use flightrec_reader::fds::FdNames;
use flightrec_reader::kind::{Kind, Kinds};
use flightrec_reader::pipeline::ends::CallEnd;
use flightrec_reader::pipeline::{CallFacts, Part};
use flightrec_reader::threads::Threads;

use self::calls::CallSet;
pub use self::doubts::{Joined, Reading, doubts};
pub use self::hints::Seen;
pub use self::limits::Limits;
pub use self::names::{Names, comm};
use self::paths::Paths;
pub use self::plan::{FilterError, FilterPlan};
pub use self::seeker::Seeker;
pub use self::spec::FilterSpec;
pub use self::stretch::StretchFacts;

/// A filter whose names are looked up. Empty sets want everything.
#[derive(Debug, Clone)]
pub struct Filter {
    pids: FxHashSet<u32>,
    tids: FxHashSet<u32>,
    trees: FxHashSet<u32>,
    comms: Names,
    cpus: FxHashSet<u16>,
    /// Control groups: what each of `--cgroup`, `--unit`, `--container` and `--pod` that is given
    /// lets through.
    groups: Vec<FxHashSet<u64>>,
    calls: Option<CallSet>,
    paths: Option<Paths>,
    undecided: Arc<AtomicU64>,
    errors: bool,
    errnos: FxHashSet<i32>,
    failures: Failures,
    slower_than: Option<u64>,
    faster_than: Option<u64>,
    devices: FxHashSet<u32>,
    tracepoints: FxHashSet<u16>,
    traces: Vec<[u8; 16]>,
    kinds: Kinds,
    limits: Limits,
}

impl Filter {
    /// One that wants nothing else of what is read in part.
    #[must_use]
    pub fn limited(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Whether every event is wanted.
    pub fn wants_all(&self) -> bool {
        let Self {
            pids,
            tids,
            trees,
            comms,
            cpus,
            groups,
            calls,
            paths,
            errors,
            errnos,
            devices,
            ..
        } = self;
        [pids, tids, trees, devices].iter().all(|set| set.is_empty())
            && comms.is_empty()
            && cpus.is_empty()
            && errnos.is_empty()
            && groups.is_empty()
            && calls.is_none()
            && paths.is_none()
            && !errors
            && !self.is_timed()
            && self.traces.is_empty()
            && self.kinds == Kinds::ALL
    }

    /// Whether events of a kind are wanted at all.
    pub fn wants_kind(&self, kind: Kind) -> bool {
        self.kinds.has(kind)
    }

    /// Whether events of any kind of a lane are wanted.
    pub fn wants_lane(&self, lane: Lane) -> bool {
        Kind::ALL.into_iter().any(|kind| kind.lane() == lane && self.wants_kind(kind))
    }

    /// Whether entries of system calls are wanted at all.
    pub fn wants_entries(&self) -> bool {
        self.kinds.has(Kind::SysEnter)
    }

    /// Whether the ends of calls are wanted without their beginnings, and so with their arguments.
    pub fn wants_whole_ends(&self) -> bool {
        self.kinds.has(Kind::SysExit) && !self.wants_entries()
    }

    /// Whether calls are wanted by the paths they have to do with.
    pub fn has_paths(&self) -> bool {
        self.paths.is_some()
    }

    /// Whether a call has to do with a path that is wanted.
    pub fn wants_path(&self, call: &Call, fds: FdNames<'_>) -> bool {
        self.paths.as_ref().is_some_and(|paths| paths.has(call, fds))
    }

    /// Whether an operation of io_uring has to do with a path that is wanted; and what it lacks, if
    /// that can't be decided.
    pub fn wants_operation(
        &self,
        submit: &IoSubmit,
        paths: &[Text],
        fds: FdNames<'_>,
    ) -> (bool, Option<Part>) {
        self.paths.as_ref().map_or((false, None), |of| of.has_operation(submit, paths, fds))
    }

    /// Notes an event that is shown: whether its path is wanted may not be known.
    pub fn note_shown(&self, event: &Event) {
        if let (Some(_), Body::Enter(call) | Body::Exit { call, .. }) = (&self.paths, &event.body)
            && call.strings.iter().any(|text| text.is_string() && text.is_cut())
        {
            self.undecided.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many events were shown whose path is not recorded whole, where paths are asked for.
    pub fn undecided(&self) -> u64 {
        self.undecided.load(Ordering::Relaxed)
    }

    /// What is missing of a call that, as far as is known, has nothing to do with a path that is
    /// wanted. `alone`: it is known by its end alone.
    pub fn lacks(&self, call: &Call, fds: FdNames<'_>, alone: bool) -> Option<Part> {
        let lacks = self.paths.as_ref()?.lacks(call, fds)?;
        Some(if alone && lacks != Part::Descriptors { Part::Entries } else { lacks })
    }

    /// Whether the ends of calls alone tell which of them are wanted.
    pub fn is_of_ends(&self) -> bool {
        let Self { pids, trees, comms, groups, paths, traces, .. } = self;
        traces.is_empty()
            && !self.needs_entries()
            && pids.is_empty()
            && trees.is_empty()
            && comms.is_empty()
            && groups.is_empty()
            && paths.is_none()
            && !self.is_timed()
    }

    /// Whether the end of a call is wanted, if [ends alone tell](Self::is_of_ends).
    pub fn wants_end(&self, end: &CallEnd) -> bool {
        let CallEnd { tid, cpu, abi, nr, ret, .. } = *end;
        let call = Call { nr, abi, nargs: 0, args: [0; 6], strings: Vec::new() };
        self.kinds.has(Kind::SysExit)
            && (self.cpus.is_empty() || self.cpus.contains(&cpu))
            && (self.tids.is_empty() || self.tids.contains(&tid))
            && self.calls.as_ref().is_none_or(|calls| calls.has(&call) == Some(true))
            && self.wants_error(&call, Some(ret))
    }

    /// Whether the event is wanted, given the threads as they are when it happens.
    pub fn wants(&self, event: &Event, facts: CallFacts, threads: &Threads) -> bool {
        self.kinds.has(event.body.kind())
            && (self.cpus.is_empty() || self.cpus.contains(&event.cpu))
            && self.wants_call(event, facts)
            && self.wants_device(event)
            && self.wants_tracepoint(event)
            && self.wants_trace(facts)
            && self.wants_thread(event, facts.issued_by, threads)
    }

    fn wants_call(&self, event: &Event, facts: CallFacts) -> bool {
        let (call, ret) = match &event.body {
            Body::Enter(call) => (call, None),
            Body::Exit { call, ret, .. } => (call, Some(*ret)),
            other => {
                let is_operation = Kinds::OPERATIONS.has(other.kind());
                return !is_operation || self.paths.is_none() || facts.path;
            }
        };
        self.calls.as_ref().is_none_or(|calls| calls.has(call) == Some(true))
            && (self.paths.is_none() || facts.path)
            && self.takes(facts.took) == Some(true)
            && self.wants_error(call, ret)
            && (!self.can_doubt() || self.limits.has(event.tid, event.time))
    }

    fn wants_device(&self, event: &Event) -> bool {
        let Body::Plain(plain) = &event.body else { return true };
        let mut devices = plain.ids(Unit::Device);
        self.devices.is_empty() || devices.all(|device| self.devices.contains(&device))
    }

    fn wants_tracepoint(&self, event: &Event) -> bool {
        let Body::Tracepoint(of) = &event.body else { return true };
        self.tracepoints.is_empty() || self.tracepoints.contains(&of.id)
    }

    /// Whether events are wanted by the distributed traces that threads work for.
    pub fn has_traces(&self) -> bool {
        !self.traces.is_empty()
    }

    fn wants_trace(&self, facts: CallFacts) -> bool {
        let mut traces = facts.traces.iter().flatten();
        self.traces.is_empty() || traces.any(|trace| self.traces.contains(trace))
    }

    fn wants_error(&self, call: &Call, ret: Option<i64>) -> bool {
        if !self.errors && self.errnos.is_empty() {
            return true;
        }
        let error = ret.and_then(|ret| self.failures.error(call.abi, call.nr, ret));
        error.is_some_and(|error| {
            !(self.errors && is_restart(error))
                && (self.errnos.is_empty() || self.errnos.contains(&error))
        })
    }

    fn wants_thread(&self, event: &Event, issued_by: Option<u32>, threads: &Threads) -> bool {
        let other = match &event.body {
            Body::Switch { next, .. } => Some(*next),
            Body::Waking { wakee, .. } => Some(*wakee),
            Body::Migrate { thread, .. } => Some(*thread),
            Body::Fork(fork) => Some(fork.tid),
            // The end of a request is told by an interrupt: it is of who made it.
            _ => issued_by,
        };
        let time = event.time;
        let any = |matches: &dyn Fn(u32) -> bool| {
            matches(event.tid)
                || other.is_some_and(matches)
                || matches!(&event.body, Body::Plain(plain) if plain.ids(Unit::Thread).any(matches))
        };
        let in_group = |groups: &FxHashSet<u64>| {
            let own = match &event.body {
                Body::Fork(fork) => fork.cgroup,
                Body::Exec { exec, .. } => exec.cgroup,
                Body::Plain(plain) => plain.cgroup(),
                _ => 0,
            };
            groups.contains(&own) || any(&|tid| groups.contains(&threads.cgroup(tid, time)))
        };
        (self.tids.is_empty() || any(&|tid| self.tids.contains(&tid)))
            && (self.pids.is_empty()
                || self.named_pid(event)
                || any(&|tid| self.pids.contains(&threads.tgid(tid, time))))
            && (self.comms.is_empty()
                || self.named_comm(event)
                || any(&|tid| self.comms.has(threads.comm(tid, event.cpu, time))))
            && (self.trees.is_empty() || any(&|tid| threads.descends(tid, time, &self.trees)))
            && self.groups.iter().all(in_group)
    }

    /// Events of a task's life name its process themselves.
    fn named_pid(&self, event: &Event) -> bool {
        match &event.body {
            Body::Fork(fork) => {
                self.pids.contains(&fork.parent_tgid) || self.pids.contains(&fork.tgid)
            }
            Body::Exec { exec, .. } => self.pids.contains(&exec.tgid),
            Body::Rename(rename) => self.pids.contains(&rename.tgid),
            Body::TaskExit(exit) => self.pids.contains(&exit.tgid),
            Body::Plain(plain) => plain.ids(Unit::Process).any(|pid| self.pids.contains(&pid)),
            _ => false,
        }
    }

    /// A name that begins or ends with this event counts as well.
    fn named_comm(&self, event: &Event) -> bool {
        let has = |comm| self.comms.has(flightrec_reader::threads::trim(comm));
        match &event.body {
            Body::Fork(fork) => has(&fork.comm),
            Body::Exec { exec, .. } => has(&exec.comm),
            Body::Rename(rename) => has(&rename.old) || has(&rename.new),
            Body::TaskExit(exit) => has(&exit.comm),
            _ => false,
        }
    }
}
