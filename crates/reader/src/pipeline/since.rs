//! A ring's events in a stretch of a window.

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Event;
use flightrec_format::merge::Stream;
use flightrec_format::ring::{Events, IntoEvents, LaneStream};

use crate::source::PageSet;
#[cfg(doc)]
use crate::source::Sure;

/// A ring's events from a moment on.
pub struct Since<S> {
    events: S,
    from: u64,
}

impl<'a> Since<Events<'a>> {
    /// The same of a recording's stretch, as far as that is read: [`Sure::threads`].
    #[must_use]
    pub fn of(self, recording: &'a PageSet) -> Self {
        let threads = recording.sure.as_ref().and_then(|sure| sure.threads.as_deref());
        Self { events: self.events.only(threads), ..self }
    }

    /// Those of a stretch that begins at `from`; `goes_on`: after another one. The first takes
    /// whatever its pages have, and all of the task lane, as names hold until they change.
    pub fn stretch(stream: &'a LaneStream, from: u64, goes_on: bool) -> Self {
        let (pages, from) = begins(stream, from, goes_on);
        Self { events: stream.events_from(pages), from }
    }
}

impl Since<IntoEvents> {
    /// The same of pages that are given away.
    pub fn into_stretch(stream: LaneStream, from: u64, goes_on: bool) -> Self {
        let (pages, from) = begins(&stream, from, goes_on);
        Self { events: stream.into_events_from(pages), from }
    }
}

/// From when on pages are read, and from when on events are taken.
fn begins(stream: &LaneStream, from: u64, goes_on: bool) -> (u64, u64) {
    let all = stream.lane() == Lane::Task && !goes_on;
    (if all { 0 } else { from }, if goes_on { from } else { 0 })
}

impl<S: Stream<Item = Event>> Stream for Since<S> {
    type Item = Event;

    #[inline]
    fn read(&mut self, into: &mut Event) -> bool {
        while self.events.read(into) {
            if into.time >= self.from {
                // Whatever the clock then says: what comes after it is there once.
                self.from = 0;
                return true;
            }
        }
        false
    }
}
