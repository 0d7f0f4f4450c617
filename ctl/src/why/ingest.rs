//! Events of a window into a story.

use std::io;

use rustc_hash::FxHashMap;

use flightrec_analysis::CallId;
use flightrec_analysis::why::{Known, Sleeper, Story, Told, Traced};
use flightrec_format::decode::{Body, Call, Event};
use flightrec_format::merge::Merge;
use flightrec_format::ring::{Gap, LaneStream};
use flightrec_format::trace_context::TraceContext;
use flightrec_reader::coverage;
use flightrec_reader::fds::{Kept, Naming};
use flightrec_reader::memory;
use flightrec_reader::pipeline::front::Front;
use flightrec_reader::pipeline::{Choice, EventContext, Merging, Resolver, Since, Sink, Wants};
use flightrec_reader::source::PageSet;
use flightrec_reader::source::history::Chapter;
use flightrec_reader::window::{Window, with_leads};
use flightrec_reader::windows::Windows;

use super::contexts::Finder;
use super::question::{Found, Question};
use super::words::Dictionary;
use crate::in_flight::blocked::call as in_flight;

/// Calls that threads are in, as they were entered: of so many threads.
const OPEN_MAX: usize = 1 << 16;

/// Everything; the ends of calls with their arguments.
struct EveryCall;

impl Choice for EveryCall {
    fn wants_all(&self) -> bool {
        true
    }

    fn wants_whole_ends(&self) -> bool {
        true
    }
}

/// A window on its way into a story, stretch by stretch.
pub(super) struct Ingest<'a> {
    front: Front,
    resolver: Resolver<EveryCall>,
    into: StorySink<'a>,
    begun: bool,
    /// From when on events are read.
    lead: u64,
}

/// Where events go.
struct StorySink<'a> {
    asked: Question<'a>,
    story: Story,
    dictionary: Dictionary,
    /// Where the story begins anew, so that what was read of long before takes no room, ns.
    near: u64,
    /// The calls that threads are in: since when, and the call.
    open: FxHashMap<u32, (u64, Call, Kept)>,
    /// Threads that are in a call since before all events, and their processes.
    sleepers: FxHashMap<u32, u32>,
    /// Gaps that are still to come, the last one first.
    gaps: Vec<Gap>,
    /// The best answer of the parts so far, and how many they are.
    best: Option<Found>,
    parts: u64,
    /// Trace contexts; `None`: nobody asks for them.
    finder: Option<Finder>,
    traced: Traced,
}

impl<'a> Ingest<'a> {
    /// Starts where a chapter does. `window`: the whole of what is asked about; `before`: how much
    /// before it is read for the names of descriptors, ns.
    pub(super) fn new(chapter: &Chapter, window: Window, before: u64, asked: Question<'a>) -> Self {
        let Chapter { recording, clock, joins, .. } = chapter;
        let wall = recording.wall_clock(clock.wall_offset);
        let lead = with_leads(window).from.min(window.from.saturating_sub(before));
        let until = joins.filter(|joins| joins.after).map_or(u64::MAX, |joins| joins.until);
        let from = joins.map_or(lead, |joins| joins.from);
        let mut holes = coverage::holes(recording, Window { from, until });
        holes.begin(lead);
        // What was shortly before tells what threads are in the middle of.
        let since = lead.max(recording.meta.started);
        let shown = Windows::from(Window { from: since, until: window.until });
        let wants = Wants { naming: Naming::Near, merging: Merging::Never, traces: false };
        let room = usize::try_from(memory::beside()).unwrap_or(usize::MAX);
        let times = (since, window.from, window.until);
        let story = Story::with_room(&recording.meta, times, room);
        let is_complete = coverage::has_switches_from(recording, since);
        let mut ingest = Self {
            front: Front::new(recording, holes),
            resolver: Resolver::new(recording, shown, EveryCall, wall, wants),
            into: StorySink {
                asked,
                story: if is_complete { story.complete() } else { story },
                near: if before == 0 { u64::MAX } else { with_leads(window).from },
                sleepers: FxHashMap::default(),
                dictionary: Dictionary::new(&recording.meta),
                open: FxHashMap::default(),
                gaps: Vec::new(),
                best: None,
                parts: 0,
                finder: (asked.spans() > 0).then(|| Finder::new(&recording.meta)),
                traced: Traced::default(),
            },
            begun: false,
            lead,
        };
        ingest.into.seat(recording, since);
        ingest
    }

    /// Goes on with the next stretch of the same window.
    pub(super) fn go_on(&mut self, chapter: &Chapter, window: Window, asked: Question<'a>) {
        self.into.asked = asked;
        let Chapter { recording, joins, .. } = chapter;
        let from = joins.map_or(0, |joins| joins.from);
        let until = joins.filter(|joins| joins.after).map_or(u64::MAX, |joins| joins.until);
        let mut holes = coverage::holes(recording, Window { from, until });
        holes.begin(self.lead);
        self.front.go_on(recording, holes, from);
        let since = self.lead.max(recording.meta.started);
        let shown = Windows::from(Window { from: since, until: window.until });
        self.resolver.go_on(recording, shown, from);
        self.into.dictionary = Dictionary::new(&recording.meta);
        self.into.story.know(&recording.meta);
        self.into.seat(recording, since);
    }

    /// Takes the events of a chapter.
    ///
    /// # Errors
    /// None but the pipeline's, which has none of its own.
    pub(super) fn take(&mut self, chapter: &Chapter, window: Window) -> io::Result<()> {
        let Chapter { recording, joins, .. } = chapter;
        let goes_on = joins.is_some_and(|joins| joins.after);
        let end = with_leads(window).until;
        let (from, until) = match joins {
            Some(joins) => {
                (joins.from, if joins.after { joins.until } else { end.min(joins.until) })
            }
            None => (self.lead, end),
        };
        self.into.expect(recording, from);
        let Self { front, resolver, into, begun, .. } = self;
        let streams = recording.streams.iter();
        let events = Merge::new(streams.map(|stream| Since::stretch(stream, from, *begun)));
        front.all(events, until, &mut |item, before| {
            resolver.pass(&mut item.event, &item.found, before, into)
        })?;
        if !goes_on {
            front.end(&mut |item, before| {
                resolver.pass(&mut item.event, &item.found, before, into)
            })?;
            resolver.release(u64::MAX, into)?;
        }
        *begun = true;
        Ok(())
    }

    /// No more events come, as the window ends at `until`: asks.
    pub(super) fn finish(self, until: u64) -> (Found, Traced) {
        let mut into = self.into;
        // Who still sleeps: what is known by now of the descriptors of its call.
        for (tid, pid) in &into.sleepers {
            if let Some((_, call, names)) = into.open.get_mut(tid) {
                *names = self.resolver.descriptors(*tid, *pid).keep(call, None);
            }
        }
        into.story.end_at(until);
        while let Some(gap) = into.gaps.pop() {
            into.story.miss(&gap);
        }
        let StorySink {
            asked, mut story, dictionary, open, best, parts, finder, mut traced, ..
        } = into;
        story.finish(|tid, from| call_since(&open, &dictionary, tid, from));
        if let Some(finder) = &finder {
            let more = story.traced(finder.contexts(), asked.spans(), &dictionary);
            traced.add(more, asked.spans());
            traced.left_out += finder.contexts().left_out();
        }
        let last = asked.ask(&mut story, &dictionary);
        let mut found = better(best, last);
        found.say_parts(parts + 1);
        let subject = found.answer.subject.as_ref().map(|of| of.tid);
        let moment = found.answer.chain.first().map(|link| link.from);
        found.context = finder.zip(subject.zip(moment)).and_then(|(finder, (tid, moment))| {
            finder.contexts().at(tid, moment).filter(TraceContext::is_sampled)
        });
        (found, traced)
    }
}

/// The call that a thread is in since then, in words.
fn call_since(
    open: &FxHashMap<u32, (u64, Call, Kept)>,
    dictionary: &Dictionary,
    tid: u32,
    from: u64,
) -> Option<Told> {
    let (since, call, names) = open.get(&tid)?;
    (*since == from).then(|| dictionary.call(call, names.names()))
}

/// Of the answers of two parts the one that is worth more.
fn better(so_far: Option<Found>, next: Found) -> Found {
    let Some(so_far) = so_far else { return next };
    let lacks_any = so_far.lacks_any && next.lacks_any;
    let better = if so_far.worth >= next.worth { so_far } else { next };
    Found { lacks_any, ..better }
}

impl StorySink<'_> {
    /// The story is full: what it tells so far is asked about, and another one goes on.
    #[cold]
    fn turn(&mut self, time: u64) {
        let Self { asked, story, dictionary, open, best, parts, finder, traced, .. } = self;
        let mut part = story.part(time, |tid, from| call_since(open, dictionary, tid, from));
        if part.is_before() {
            return;
        }
        *parts += 1;
        if let Some(finder) = finder {
            // Before the question narrows it.
            let more = part.traced(finder.contexts(), asked.spans(), dictionary);
            traced.add(more, asked.spans());
        }
        *best = Some(better(best.take(), asked.ask(&mut part, dictionary)));
    }

    /// Learns of the threads that were blocked all the time from before `since`.
    fn seat(&mut self, recording: &PageSet, since: u64) {
        for slot in recording.asleep(since) {
            let began = slot.since.max(recording.meta.started);
            let call = in_flight(slot, &recording.meta);
            let Ok(state) = u16::try_from(slot.state) else { continue };
            self.story.asleep(&Sleeper {
                tid: slot.tid,
                pid: slot.tgid,
                comm: slot.comm,
                cgroup: slot.cgroup,
                since: began,
                state,
                call: call.as_ref().map(|call| CallId { nr: call.nr, abi: call.abi }),
            });
            if let Some(call) = call
                && self.open.len() < OPEN_MAX / 2
                && !self.open.contains_key(&slot.tid)
            {
                self.open.insert(slot.tid, (began, call, Kept::default()));
                self.sleepers.insert(slot.tid, slot.tgid);
            }
        }
    }

    /// Gaps of a stretch are told when their time comes.
    fn expect(&mut self, recording: &PageSet, from: u64) {
        let gaps = recording.streams.iter().flat_map(LaneStream::gaps);
        self.gaps.extend(gaps.filter(|gap| gap.until > from));
        self.gaps.sort_by_key(|gap| std::cmp::Reverse(gap.from));
    }
}

impl Sink for StorySink<'_> {
    fn event(&mut self, event: &Event, known: &EventContext<'_>) -> io::Result<()> {
        while let Some(gap) = self.gaps.pop_if(|gap| gap.begins_before(event.time)) {
            self.story.miss(&gap);
        }
        if event.time >= self.near {
            // Not at the event, which may lie in the window: the time before it would be a part.
            let near = std::mem::replace(&mut self.near, u64::MAX);
            self.turn(near);
        } else if self.story.is_full() {
            self.turn(event.time);
        }
        if let Some(finder) = &mut self.finder {
            finder.take(event);
        }
        if let Body::Enter(call) = &event.body
            && (self.open.len() < OPEN_MAX || self.open.contains_key(&event.tid))
        {
            self.open.insert(event.tid, (event.time, call.clone(), known.fds.keep(call, None)));
        } else if let Body::Exit { .. } = &event.body {
            self.open.remove(&event.tid);
            self.sleepers.remove(&event.tid);
        }
        let ago = |ns: u64| event.time.saturating_sub(ns);
        let of = Known {
            pid: known.pid,
            comm: known.comm,
            other: known.next_comm,
            cgroup: known.cgroup,
            entered: known.duration_ns.or(known.at_least_ns).map(ago),
            request: known
                .request
                .and_then(|of| Some((of.issued_by, of.queue_ns.unwrap_or(0), of.service_ns?))),
            operation: known.operation.map(|of| (of.submitted_by, of.duration_ns)),
        };
        let Self { story, dictionary, .. } = self;
        story.take(event, &of, &mut || dictionary.told(event, known));
        Ok(())
    }
}
