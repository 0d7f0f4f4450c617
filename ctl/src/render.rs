//! What an output format is, and what it is given.
//!
//! A format has two parts. [`Format`] is what the user chose: it says what stands before events and
//! between them, as text or as any other bytes. [`Render`] writes the events of one recording, and
//! may remember whatever it likes from one to the next. Commands know no more of a format than
//! this; [`crate::formats`] knows which there are.

use flightrec_format::decode::Event;
use flightrec_format::meta::Meta;
use flightrec_format::ring::Gap;

use flightrec_reader::coverage::Coverage;
use flightrec_reader::pipeline::{EventContext, Wants};
use flightrec_reader::source::PageSet;
use flightrec_reader::wall::WallClock;
use flightrec_reader::windows::Windows;

/// A recording, or a stretch of one, whose events come next.
pub struct Start<'a> {
    /// The recording.
    pub recording: &'a PageSet,
    /// What it has of each window, and what it lacks.
    pub reports: &'a [Coverage],
    /// The same in words, with what else is to be said of it; a line each.
    pub coverage: &'a [String],
    /// Where the events are.
    pub windows: &'a Windows,
    /// The recording's wall clock.
    pub wall: &'a mut WallClock,
}

/// A recording that is followed, whose events come next.
pub struct Following<'a> {
    /// Its description.
    pub meta: &'a Meta,
    /// From when on, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// The same by the recording's wall clock, UNIX time in ns.
    pub wall_ns: i64,
}

/// An output format, as the user wants it.
pub trait Format {
    /// What stands before the events of a recording. It may be asked before they are read, and
    /// again after: it must say the same of the same coverage.
    fn begin(&self, start: &mut Start<'_>) -> Vec<u8>;

    /// What stands before the events of a recording that is followed: what it covers is not known
    /// yet.
    fn follow(&self, following: &Following<'_>) -> Vec<u8>;

    /// What stands between events for some that are missing, where they are told as they come.
    fn gap(&self, gap: &Gap, wall: &mut WallClock) -> Vec<u8>;

    /// What stands there for a line to who reads the output; nothing where the format has no place
    /// for it.
    fn remark(&self, line: &str) -> Vec<u8>;

    /// What writes the events of a recording.
    fn events(&self, meta: &Meta) -> Box<dyn Render>;
}

/// Writes the events of a recording.
pub trait Render: Send {
    /// How the events are wanted.
    fn wants(&self) -> Wants;

    /// A stretch begins: what is missing of it stands between its events.
    fn expect(&mut self, start: &mut Start<'_>);

    /// Appends an event.
    fn event(&mut self, event: &Event, known: &EventContext<'_>, out: &mut Vec<u8>);

    /// Appends what is left to say after the last event.
    fn end(&mut self, out: &mut Vec<u8>);
}

impl<R: Render + 'static> From<R> for Box<dyn Render> {
    fn from(renderer: R) -> Self {
        Box::new(renderer)
    }
}
