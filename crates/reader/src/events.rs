//! The events of a window, one after the other, each with what is known of it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use flightrec_format::decode::Event;
use flightrec_format::merge::Merge;
use flightrec_format::ring::IntoEvents;

use crate::coverage::{self, Coverage};
use crate::holes::Holes;
use crate::known_event::KnownEvent;
use crate::pipeline::front::Front;
use crate::pipeline::{All, EventContext, Resolver, Shown, Since, Sink, Wants};
use crate::session::Session;
use crate::source::history::{Chapter, Chapters};
use crate::source::{PageSet, SourceError};
use crate::wall::WallClock;
use crate::window::{Window, with_leads};
use crate::windows::Windows;

/// The events of a window, in the order of time, each with what is known of it.
///
/// Memory is bounded by the reader's limit ([`crate::memory`]), whatever the window: one stretch of
/// pages at a time, and some thousand events. An error ends the iteration.
///
/// What is missing is in [`Self::coverage`], which is whole once the iteration has ended.
pub struct Events {
    chapters: Chapters,
    wants: Wants,
    everything: bool,
    state: State,
    ready: VecDeque<KnownEvent>,
    reports: Vec<Coverage>,
    failed: bool,
}

/// Where the iteration is.
enum State {
    /// Between chapters; the pass that goes on in the next stretch of the same window.
    Between(Option<Box<Pass>>),
    /// In the middle of a chapter.
    Within(Box<Pass>, Box<Stretch>),
    /// Done, or failed.
    Over,
}

/// What is known so far of one recording.
struct Pass {
    front: Front,
    resolver: Resolver<All>,
    session: Arc<Session>,
    /// It has come from the stretch before.
    goes_on: bool,
}

/// The events of a chapter that are still to come.
struct Stretch {
    events: Merge<Since<IntoEvents>>,
    /// Those before this moment are taken.
    until: u64,
    /// Another stretch of the window comes after it.
    goes_on: bool,
}

impl Events {
    pub(crate) fn new(chapters: Chapters, wants: Wants, everything: bool) -> Self {
        Self {
            chapters,
            wants,
            everything,
            state: State::Between(None),
            ready: VecDeque::new(),
            reports: Vec::new(),
            failed: false,
        }
    }

    /// What the recordings have of the window and what they lack, as far as they have been read:
    /// one report for each recording and stretch of the window, in the order of time.
    pub fn coverage(&self) -> &[Coverage] {
        &self.reports
    }

    /// Whether nothing that was recorded of the window is missing, as far as it has been read.
    pub fn is_complete(&self) -> bool {
        !self.failed && !self.reports.is_empty() && self.reports.iter().all(Coverage::is_complete)
    }

    /// Goes on until an event is ready. `false`: there are no more.
    fn advance(&mut self) -> Result<bool, SourceError> {
        while self.ready.is_empty() {
            self.state = match std::mem::replace(&mut self.state, State::Over) {
                State::Between(pass) => match self.chapters.next() {
                    Some(chapter) => self.begin(pass, chapter?),
                    None => return Ok(false),
                },
                State::Within(mut pass, mut stretch) => {
                    if pass.step(&mut stretch, &mut self.ready) {
                        State::Within(pass, stretch)
                    } else if stretch.goes_on {
                        State::Between(Some(pass))
                    } else {
                        pass.end(&mut self.ready);
                        State::Between(None)
                    }
                }
                State::Over => return Ok(false),
            };
        }
        Ok(true)
    }

    /// A chapter comes next; `pass` has what was known at the end of the stretch before it.
    fn begin(&mut self, pass: Option<Box<Pass>>, chapter: Chapter) -> State {
        let Chapter { ref recording, clock, joins, .. } = chapter;
        let pass = pass.filter(|_| joins.is_some_and(|joins| joins.before));
        let wall = recording.wall_clock(clock.wall_offset);
        let windows = chapter.windows(&wall);
        // Of a stretch before the window nothing is told.
        if !windows.is_empty() || !joins.is_some_and(|joins| joins.after) {
            let report = |window| Coverage::new(recording, window, clock.now);
            self.reports.extend(coverage::told(&windows).iter().map(report));
        }
        if windows.is_empty() && joins.is_none() {
            return State::Between(None);
        }
        let shown = chapter.windows_so_far(&wall);
        let mut until = with_leads(shown.hull()).until;
        // From when on events are read, and from when on they count.
        let lead = if self.everything { 0 } else { with_leads(shown.hull()).from };
        let mut from = with_leads(shown.hull()).from;
        if let Some(joins) = joins {
            until = if joins.after { joins.until } else { until.min(joins.until) };
            from = joins.from;
        }
        if self.everything && !joins.is_some_and(|joins| joins.before) {
            from = 0;
        }
        let goes_on = joins.is_some_and(|joins| joins.after);
        let end = if goes_on { until } else { u64::MAX };
        let mut holes = coverage::holes(recording, Window { from, until: end });
        holes.begin(lead);
        let pass = match pass {
            Some(mut pass) => {
                pass.go_on(recording, shown, holes, from);
                pass
            }
            None => Box::new(Pass::new(recording, shown, holes, wall, self.wants)),
        };
        let begun = pass.goes_on;
        let streams = chapter.recording.streams.into_iter();
        let events = Merge::new(streams.map(|stream| Since::into_stretch(stream, from, begun)));
        State::Within(pass, Box::new(Stretch { events, until, goes_on }))
    }
}

impl Iterator for Events {
    type Item = Result<KnownEvent, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(true) => self.ready.pop_front().map(Ok),
            Ok(false) => None,
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

impl Pass {
    fn new(
        recording: &PageSet,
        windows: Windows,
        holes: Holes,
        wall: WallClock,
        wants: Wants,
    ) -> Self {
        Self {
            front: Front::new(recording, holes),
            resolver: Resolver::new(recording, windows, All, wall, wants),
            session: Arc::new(Session::new(&recording.meta)),
            goes_on: false,
        }
    }

    fn go_on(&mut self, recording: &PageSet, windows: Windows, holes: Holes, from: u64) {
        self.front.go_on(recording, holes, from);
        self.resolver.go_on(recording, windows, from);
        // Names of control groups may have come.
        self.session = Arc::new(Session::new(&recording.meta));
        self.goes_on = true;
    }

    /// Takes the next event of a stretch. `false`: there are no more.
    fn step(&mut self, stretch: &mut Stretch, ready: &mut VecDeque<KnownEvent>) -> bool {
        let Some(event) = stretch.events.read(self.front.spare()) else { return false };
        if event.time >= stretch.until {
            return false;
        }
        let Self { front, resolver, session, .. } = self;
        let mut to = Ready { session, ready };
        let given = front.take(event, &mut |item, before| {
            resolver.pass(&mut item.event, &item.found, before, &mut to)
        });
        // The queue takes everything.
        given.is_ok()
    }

    /// No more events come.
    fn end(&mut self, ready: &mut VecDeque<KnownEvent>) {
        let Self { front, resolver, session, .. } = self;
        let mut to = Ready { session, ready };
        let given = front
            .end(&mut |item, before| resolver.pass(&mut item.event, &item.found, before, &mut to))
            .and_then(|()| resolver.release(u64::MAX, &mut to));
        debug_assert!(given.is_ok(), "the queue takes everything");
    }
}

/// Where events wait for their turn.
struct Ready<'a> {
    session: &'a Arc<Session>,
    ready: &'a mut VecDeque<KnownEvent>,
}

impl Sink for Ready<'_> {
    fn event(&mut self, event: &Event, known: &EventContext<'_>) -> io::Result<()> {
        let shown = Shown::of(event.clone(), known);
        self.ready.push_back(KnownEvent::new(shown, self.session.clone()));
        Ok(())
    }
}
