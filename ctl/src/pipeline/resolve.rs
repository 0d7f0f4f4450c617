//! The pass's second half: what is known of each event when its turn comes, and whether it is wanted.

use std::sync::Arc;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Body, Call, Event};
use flightrec_format::ring::LaneStream;

use super::calls::Calls;
use super::delay::Item;
use super::entries::Entries;
use super::merge::Merge;
use super::runq::RunQueues;
use super::shown::{Known, Shown};
use super::threads::Threads;
use super::wall::WallClock;
use crate::fds::{Fds, Kept, Naming};
use crate::filter::{CallFacts, Filter};
use crate::render::{Renderer, Wake};
use crate::source::Recording;
use crate::text::plan::Plans;
use crate::window::Window;

/// Takes events that are complete, in order, and gives those that are to be shown.
pub(super) struct Resolver<'a> {
    window: Window,
    filter: &'a Filter,
    pub(super) wall: WallClock,
    plans: Arc<Plans>,
    naming: Naming,
    calls: Calls,
    entries: Option<Entries>,
    fds: Fds,
    follows_fds: bool,
    threads: Threads,
    queues: RunQueues,
    /// So many events are not shown, then all; `None`: the window decides.
    pub(super) lead: Option<u64>,
    passed: u64,
    shown: u64,
}

impl<'a> Resolver<'a> {
    /// Starts where `recording` does. `renderer` is what the events are for.
    pub(super) fn new(
        recording: &Recording,
        window: Window,
        filter: &'a Filter,
        wall: WallClock,
        renderer: &Renderer,
    ) -> Self {
        let naming = renderer.naming();
        Self {
            window,
            filter,
            wall,
            plans: renderer.plans().clone(),
            naming,
            calls: Calls::new(renderer.merge()),
            entries: Entries::needed(filter).then(Entries::default),
            fds: Fds::new(&recording.meta),
            follows_fds: naming != Naming::Off || filter.has_paths(),
            threads: threads_before(recording),
            queues: RunQueues::default(),
            lead: None,
            passed: 0,
            shown: 0,
        }
    }

    /// Events given so far, with those that still wait for the rest of their calls.
    pub(super) fn shown(&self) -> u64 {
        self.shown
    }

    /// Takes the next event, and appends what can be shown now.
    pub(super) fn take(&mut self, mut item: Item, to: &mut Vec<Shown>) {
        let qlen = self.queues.take(&item);
        self.passed += 1;
        let within = self.lead.map_or_else(|| self.window.contains(item.event.time), |lead| self.passed > lead);
        let (facts, entry) = match &mut self.entries {
            Some(entries) => entries.take(&item, self.filter, &self.fds, &self.threads),
            None => (CallFacts { duration_ns: item.duration_ns(), path: false }, None),
        };
        // An exit is shown with the descriptors as they are behind it, anything else as they are before.
        let is_exit = matches!(item.event.body, Body::Exit { .. });
        if self.follows_fds && is_exit {
            self.fds.apply(&item.event, &self.threads);
        }
        let wanted = within && self.filter.wants(&item.event, facts, &self.threads);
        let whole = entry.filter(|_| wanted && self.filter.wants_whole_ends());
        let known = wanted.then(|| self.known(&item, qlen, whole.as_ref()));
        if self.follows_fds && !is_exit {
            self.fds.apply(&item.event, &self.threads);
        }
        self.threads.apply(&item.event);
        let Some(known) = known else { return };
        self.shown += 1;
        // Shown alone, an exit has its entry's arguments.
        if let (Body::Exit { call, .. }, Some(whole)) = (&mut item.event.body, whole) {
            *call = whole;
        }
        let shown = Shown { event: item.event, known };
        if self.calls.merges() {
            self.calls.push(shown, item.entered);
        } else {
            to.push(shown);
        }
    }

    /// It is `now`: appends the events that wait no longer for the rest of their calls.
    pub(super) fn release(&mut self, now: u64, to: &mut Vec<Shown>) {
        while let Some(shown) = self.calls.pop(now) {
            to.push(shown);
        }
    }

    /// `whole`: of an exit that is shown alone, its call as it was entered.
    fn known(&mut self, item: &Item, qlen: Option<u32>, whole: Option<&Call>) -> Known {
        let Event { time, cpu, tid, ref body } = *item.event;
        let (pid, comm) = self.threads.who(tid, cpu, time);
        let other = |tid| *self.threads.who(tid, cpu, time).1;
        let mut known = Known { wall_ns: self.wall.wall(time), pid, comm: *comm, ..Known::default() };
        match body {
            Body::Enter(call) => known.fds = self.names(call, None, tid, pid),
            Body::Exit { call, ret, .. } => {
                known.duration_ns = item.duration_ns();
                known.entry_seen =
                    self.filter.wants_entries() && item.entered.is_some_and(|at| self.window.contains(at));
                // Shown at its exit, it is as whole as one whose entry was held back.
                if whole.is_some() && self.calls.at_exit() {
                    known.merged = item.entered.map(|at| self.wall.wall(at));
                }
                known.fds = self.names(whole.unwrap_or(call), Some(*ret), tid, pid);
            }
            Body::Switch { next, .. } => known.next_comm = other(*next),
            Body::Waking { wakee, .. } => {
                known.next_comm = other(*wakee);
                known.wake = Some(Wake { queued_on: item.queued_on, runs_on: item.runs_on, qlen });
            }
            Body::Migrate { thread, .. } => known.next_comm = other(*thread),
            _ => {}
        }
        known
    }

    /// What a call's descriptors stand for.
    fn names(&self, call: &Call, ret: Option<i64>, tid: u32, pid: u32) -> Kept {
        let Some(plan) = self.plans.get(call.abi, call.nr) else { return Kept::default() };
        let returned = ret.filter(|_| plan.returns_descriptor());
        if self.naming == Naming::Off || plan.descriptors == 0 && returned.is_none() {
            return Kept::default();
        }
        let recorded = call.args.iter().take(usize::from(call.nargs)).enumerate();
        let args = recorded.filter(|(index, _)| plan.descriptors >> index & 1 != 0).map(|(_, arg)| *arg as i32);
        self.fds.names(tid, pid).keep(args.chain(returned.map(|fd| fd as i32)))
    }
}

/// The names as they are when the pass starts.
pub(crate) fn threads_before(recording: &Recording) -> Threads {
    let task = recording.streams.iter().filter(|stream| stream.lane() == Lane::Task).map(LaneStream::events);
    let cpus = recording.streams.iter().map(|stream| usize::from(stream.cpu()) + 1).max().unwrap_or(0);
    Threads::before(Merge::new(task), recording.slots.iter().copied(), cpus)
}
