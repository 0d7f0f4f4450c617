//! The pass's second part: what is known of each event when its turn comes, and whether it is
//! wanted.

use std::io;
use std::mem;

use flightrec_format::abi::kinds::Kind;
use flightrec_format::abi::pointee::Shape;
use flightrec_format::abi::record::Act;
use flightrec_format::decode::{Body, Call, Event, Page};
use flightrec_format::ring::LaneStream;

use super::SPARE;
use super::calls::Calls;
use super::choice::{CallFacts, Choice, Took};
use super::context::{self, EventContext, Shown, Wake};
use super::delay::Findings;
use super::doubts::Doubts;
use super::entries::Entries;
use super::functions::Functions;
use super::operations::{Operation, Operations};
use super::requests::{Known, Requests, holes};
use super::runq::RunQueues;
use super::traces::Traces;
use crate::fds::{FdNames, Fds, Naming, Users};
use crate::left_out::LeftOuts;
use crate::names::Calls as Tables;
use crate::source::PageSet;
use crate::source::sure::Skips;
use crate::threads::Threads;
use crate::wall::WallClock;
use crate::windows::Windows;

/// Whether a call is given as one event, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merging {
    /// Its entry and its exit are given by themselves.
    Never,
    /// One for both, at the time of the entry.
    AtEntry,
    /// One for both, at the time of the exit.
    AtExit,
}

/// How events are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wants {
    /// Which descriptors are given with what they stand for.
    pub naming: Naming,
    /// Whether a call is one event.
    pub merging: Merging,
    /// Whether events are given with the span that their thread works for.
    pub traces: bool,
}

/// What takes the events that are shown.
pub trait Sink {
    /// Takes the next one, with what is known of it.
    ///
    /// # Errors
    /// Its own; no more events are shown then.
    fn event(&mut self, event: &Event, known: &EventContext<'_>) -> io::Result<()>;
}

/// What is known at a moment of calls and descriptors.
#[derive(Debug, Clone, Copy)]
pub struct Ongoing<'a> {
    /// Calls that go on, if their arguments are wanted.
    entries: Option<&'a Entries>,
    /// Descriptors, if they are wanted.
    fds: Option<&'a Fds>,
    /// Spans that threads work for, if they are wanted.
    traces: Option<&'a Traces>,
}

/// Takes events that are complete, in order, and shows those that are wanted.
pub struct Resolver<C> {
    windows: Windows,
    choice: C,
    wants_all: bool,
    /// The wall clock that it goes by.
    pub wall: WallClock,
    users: Users,
    naming: Naming,
    calls: Calls,
    entries: Option<Entries>,
    fds: Fds,
    follows_fds: bool,
    threads: Threads,
    queues: RunQueues,
    requests: Requests,
    operations: Operations,
    functions: Functions,
    /// `None`: nobody asks for them.
    traces: Option<Traces>,
    /// So many events are not shown, then all; `None`: the windows decide.
    pub lead: Option<u64>,
    /// Where events were left unread.
    skips: Skips,
    passed: u64,
    /// Where what is not wanted as far as is known is counted, if it is.
    pub doubts: Option<Doubts>,
    /// Events shown so far that are wanted, with those that still wait for the rest of their
    /// calls.
    pub shown: u64,
    /// Boxes of events that were shown, to be used again.
    #[expect(clippy::vec_box, reason = "it is the boxes that are used again")]
    spare: Vec<Box<Event>>,
}

impl<C: Choice> Resolver<C> {
    /// Starts where `recording` does, and shows what `choice` wants of the windows.
    pub fn new(
        recording: &PageSet,
        windows: Windows,
        choice: C,
        wall: WallClock,
        Wants { naming, merging, traces }: Wants,
    ) -> Self {
        let follows_fds = naming != Naming::Off || choice.has_paths();
        let mut resolver = Self {
            windows,
            wants_all: choice.wants_all(),
            wall,
            users: Users::new(&Tables::new(&recording.meta)),
            naming,
            calls: Calls::new(merging),
            entries: Entries::needed(&choice).then(Entries::default),
            traces: (traces || choice.has_traces()).then(|| Traces::new(&recording.meta)),
            choice,
            fds: Fds::of(recording, follows_fds),
            follows_fds,
            threads: recording.threads(),
            queues: RunQueues::default(),
            functions: Functions::new(holes(recording)),
            requests: Requests::new(holes(recording)),
            operations: Operations::new(holes(recording)),
            lead: None,
            skips: Skips::default(),
            passed: 0,
            doubts: None,
            shown: 0,
            spare: Vec::new(),
        };
        resolver.know(recording);
        resolver
    }

    /// Learns what the quiet ring left out.
    fn know(&mut self, recording: &PageSet) {
        if let Some(left_outs) = LeftOuts::of(recording) {
            self.queues.learn(&left_outs);
        }
    }

    /// What a thread's descriptors stand for where this pass has come to.
    pub fn descriptors(&self, tid: u32, pid: u32) -> FdNames<'_> {
        self.fds.names(tid, pid)
    }

    /// What another pass needs that begins where this one has come to.
    pub fn ongoing(&self) -> Ongoing<'_> {
        let fds = self.follows_fds.then_some(&self.fds);
        Ongoing { entries: self.entries.as_ref(), fds, traces: self.traces.as_ref() }
    }

    /// Takes over what is known where another pass had come to, at `from`, as far as it is needed.
    pub fn resume(&mut self, before: Ongoing<'_>, recording: &PageSet, from: u64) {
        if let (Some(own), Some(entries)) = (&mut self.entries, before.entries) {
            own.clone_from(entries);
        }
        if let (Some(own), Some(traces)) = (&mut self.traces, before.traces) {
            own.clone_from(traces);
        }
        if let Some(fds) = before.fds.filter(|_| self.follows_fds) {
            self.fds.clone_from(fds);
            self.fds.go_on(recording, from);
        }
    }

    /// Goes on with what comes next of the same recording, from `from` on.
    pub fn go_on(&mut self, recording: &PageSet, windows: Windows, from: u64) {
        self.windows = windows;
        self.know(recording);
        self.skips = Skips::of(recording, from);
        self.requests.go_on(holes(recording), from);
        self.operations.go_on(holes(recording), from);
        self.functions.go_on(holes(recording), from);
        let headers = recording.streams.iter().flat_map(LaneStream::pages).map(Page::header);
        self.wall.learn(headers, &recording.meta);
        if self.follows_fds {
            self.fds.go_on(recording, from);
        }
    }

    /// Takes the next event, and shows it, with those that wait no longer for the rest of their
    /// calls; moment `before` had come before it was complete. What it leaves in its place is done
    /// with.
    ///
    /// # Errors
    /// That of `to`.
    #[inline]
    pub fn pass(
        &mut self,
        event: &mut Event,
        found: &Findings,
        before: u64,
        to: &mut impl Sink,
    ) -> io::Result<()> {
        let time = event.time;
        // Its moment comes before it does, whatever was read in between.
        self.release(before.max(time.saturating_sub(1)), to)?;
        self.take(event, found, to)?;
        self.release(time, to)
    }

    /// Takes the next event, and shows it or keeps it. What it leaves in its place is done with.
    ///
    /// # Errors
    /// That of `to`.
    pub fn take(
        &mut self,
        event: &mut Event,
        found: &Findings,
        to: &mut impl Sink,
    ) -> io::Result<()> {
        if let Some(skip) = self.skips.pass(event.time) {
            self.queues.skip(&skip.idle);
            self.requests.skip();
        }
        let qlen = self.queues.take(event, found);
        let known = self.requests.take(event, found);
        let operation = self.operations.take(event);
        let function = self.functions.take(event);
        self.fds.advance(event.time.saturating_sub(1));
        self.passed += 1;
        let within =
            self.lead.map_or_else(|| self.windows.contains(event.time), |lead| self.passed > lead);
        let (mut facts, entry) = if let Some(entries) = &mut self.entries {
            entries.take(event, found, &self.choice, &self.fds, &self.threads)
        } else {
            (CallFacts { took: Took::of(found, event.time), ..CallFacts::default() }, None)
        };
        if let Some(Known::Request(request)) = known {
            facts.issued_by = request.issued_by;
        }
        if let Some(operation) = operation {
            facts.issued_by = Some(operation.submitted_by);
        }
        if let Some(traces) = &mut self.traces {
            traces.take(event);
            if self.choice.has_traces() {
                let other = other_thread(event).or(facts.issued_by);
                facts.traces = [Some(event.tid), other]
                    .map(|tid| tid.and_then(|tid| traces.of(tid, event.time)).map(|of| of.trace));
            }
        }
        // What ends is shown with the descriptors as they are after it, anything else as they are
        // before.
        let is_exit = match &event.body {
            Body::Exit { .. } => true,
            Body::Plain(plain) => plain.kind() == Kind::IoComplete,
            _ => false,
        };
        if self.follows_fds && is_exit {
            self.fds.apply(event, &self.threads);
        }
        // What the socket of a descriptor is, the descriptor's name says.
        if let Body::Exit { call, .. } = &mut event.body
            && !call.strings.is_empty()
        {
            call.strings.retain(|text| !matches!(text.pointee(), Some((Shape::Socket, ..))));
        }
        let wanted = within && (self.wants_all || self.choice.wants(event, facts, &self.threads));
        if within
            && !wanted
            && let Some(doubts) = &mut self.doubts
            && let Some(part) = self.choice.doubt(event, facts, &self.threads)
        {
            doubts.add(event, part);
        }
        let mut kept = None;
        if wanted || within && tells_of_recording(event) {
            self.shown += u64::from(wanted);
            // Where doubts are counted nothing is shown.
            if wanted && self.doubts.is_none() {
                self.choice.note_shown(event);
            }
            let whole = entry.and_then(|call| self.whole(event, call));
            let merges = self.calls.merges();
            let shown = whole.as_ref().unwrap_or(event);
            let mut cx = self.context(shown, found, operation, qlen, whole.is_some());
            cx.function = function;
            match known {
                Some(Known::Request(request)) => cx.request = Some(request),
                Some(Known::Call(of) | Known::Wait(of)) => cx.disk = Some(of),
                None => {}
            }
            if merges {
                kept = Some((context::keep(shown, &cx), whole));
            } else {
                to.event(shown, &cx)?;
            }
        }
        if self.follows_fds && !is_exit {
            self.fds.apply(event, &self.threads);
        }
        self.threads.apply(event);
        if let Some(((known, names), mut whole)) = kept {
            let mut boxed = self.spare.pop().unwrap_or_default();
            mem::swap(&mut *boxed, whole.as_mut().unwrap_or(event));
            self.calls.push(Shown::new(boxed, known, names), found.entered);
        }
        Ok(())
    }

    /// It is `now`: shows the events that wait no longer for the rest of their calls.
    ///
    /// # Errors
    /// That of `to`.
    #[inline]
    pub fn release(&mut self, now: u64, to: &mut impl Sink) -> io::Result<()> {
        if self.calls.merges() { self.release_held(now, to) } else { Ok(()) }
    }

    fn release_held(&mut self, now: u64, to: &mut impl Sink) -> io::Result<()> {
        while let Some(shown) = self.calls.pop(now) {
            to.event(&shown.event, &shown.known())?;
            if self.spare.len() < SPARE {
                self.spare.push(shown.event);
            }
        }
        Ok(())
    }

    /// An exit that is shown alone, with its entry's arguments.
    fn whole(&self, event: &Event, call: Call) -> Option<Event> {
        match &event.body {
            Body::Exit { ret, entered, .. } if self.choice.wants_whole_ends() => {
                Some(Event { body: Body::Exit { call, ret: *ret, entered: *entered }, ..*event })
            }
            _ => None,
        }
    }

    /// All that is known of an event; `whole`: it has its entry's arguments.
    #[inline]
    fn context(
        &mut self,
        event: &Event,
        found: &Findings,
        operation: Option<Operation>,
        qlen: Option<u32>,
        whole: bool,
    ) -> EventContext<'_> {
        let Event { time, cpu, tid, ref body } = *event;
        let wall = &mut self.wall;
        let mut cx = EventContext { wall_ns: wall.wall(time), ..EventContext::default() };
        cx.trace = self.traces.as_ref().and_then(|traces| traces.of(tid, time));
        if let Body::Exit { .. } = body {
            cx.duration_ns = found.duration_ns(time);
            cx.at_least_ns = found.at_least_ns(time);
            cx.entry_seen = self.choice.wants_entries()
                && found.entered.is_some_and(|at| self.windows.contains(at));
            // Shown at its exit, it is as whole as one whose entry was held back.
            cx.merged =
                found.entered.filter(|_| whole && self.calls.at_exit()).map(|at| wall.wall(at));
        }
        let (pid, comm, cgroup) = self.threads.who_and_where(tid, cpu, time);
        (cx.pid, cx.comm, cx.cgroup) = (pid, *comm, cgroup);
        match body {
            // Most calls have nothing to do with descriptors.
            Body::Enter(call) | Body::Exit { call, .. }
                if self.users.has(call.abi, call.nr) && self.naming != Naming::Off =>
            {
                cx.fds = self.fds.names(tid, pid);
            }
            Body::IoSubmit { .. } if self.naming != Naming::Off => {
                cx.fds = self.fds.names(tid, pid);
            }
            Body::Plain(_) => {
                cx.operation = operation;
                if let Some(of) = operation.filter(|_| self.naming != Naming::Off) {
                    // Those of who handed it over: a worker of the kernel may tell of the result.
                    cx.fds = self.fds.names(tid, self.threads.tgid(of.submitted_by, time));
                }
            }
            Body::Switch { next, .. } => cx.next_comm = *self.threads.who(*next, cpu, time).1,
            Body::Waking { wakee, .. } => {
                cx.next_comm = *self.threads.who(*wakee, cpu, time).1;
                cx.wake = Some(Wake { queued_on: found.queued_on, runs_on: found.runs_on, qlen });
            }
            Body::Migrate { thread, .. } => cx.next_comm = *self.threads.who(*thread, cpu, time).1,
            _ => {}
        }
        cx
    }
}

/// The other thread that an event is about: who comes next, who is woken, moved or born.
fn other_thread(event: &Event) -> Option<u32> {
    match &event.body {
        Body::Switch { next, .. } => Some(*next),
        Body::Waking { wakee, .. } => Some(*wakee),
        Body::Migrate { thread, .. } => Some(*thread),
        Body::Fork(fork) => Some(fork.tid),
        _ => None,
    }
}

/// Whether it is the recorder's own line about what is recorded and what not, which is shown
/// whatever the filter.
fn tells_of_recording(event: &Event) -> bool {
    let acts = [Act::Level, Act::Detached, Act::Attached];
    matches!(event.body, Body::Act(act, _) if acts.into_iter().any(|of| of as u16 == act))
}
