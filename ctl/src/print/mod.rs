//! Events on their way into an output format: one pass, on two threads where there are two CPUs.
//!
//! ```text
//! lanes ─> merge ─> pairing, placement ─> delay line ─┬─> run queues, names ─> filter ─> text
//!           front                                     │               back
//! ```
//! Each thread has one half ([`flightrec_reader::pipeline`] has the parts of both). Complete
//! events go from the first to the second in batches, which go round (`batch`).

mod back;
mod batch;
mod lines;
mod packed;
#[cfg(test)]
pub(crate) mod tests;

use std::io::{self, Write};
use std::num::NonZero;
use std::thread;

use flightrec_format::decode::Event;
use flightrec_format::merge::{Merge, Stream};
use flightrec_reader::coverage;
use flightrec_reader::fds::Naming;
use flightrec_reader::holes::Holes;
use flightrec_reader::pipeline::delay::Item;
use flightrec_reader::pipeline::front::Front;
use flightrec_reader::pipeline::{Doubt, Doubts, Since, events};
use flightrec_reader::source::PageSet;
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::{Window, with_leads};
use flightrec_reader::windows::Windows;

use self::back::Back;
use crate::filter::{Filter, Joined};
use crate::render::{Render, Start};

/// From so many pages on two threads are worth their while: what one renders in some ms.
const PAGES_FOR_TWO: usize = 64;
/// Writes the windows' events that the filter wants, and returns how many there were.
pub fn run<W: Write>(
    recording: &PageSet,
    windows: impl Into<Windows>,
    filter: &Filter,
    wall: WallClock,
    renderer: impl Into<Box<dyn Render>>,
    out: &mut W,
) -> io::Result<u64> {
    run_on(pays(recording), recording, windows.into(), filter, wall, renderer.into(), out)
}

/// Whether two threads are worth their while.
fn pays(recording: &PageSet) -> bool {
    let pages: usize = recording.streams.iter().map(|stream| stream.pages().len()).sum();
    pages >= PAGES_FOR_TWO && thread::available_parallelism().map_or(1, NonZero::get) >= 2
}

/// The same, on two threads or on this one alone.
fn run_on<W: Write>(
    on_two: bool,
    recording: &PageSet,
    windows: Windows,
    filter: &Filter,
    wall: WallClock,
    renderer: Box<dyn Render>,
    out: &mut W,
) -> io::Result<u64> {
    let window = windows.hull();
    let until = with_leads(window).until;
    // Descriptors may have been opened at any time before.
    let all = filter.has_paths() || renderer.wants().naming == Naming::All;
    let holes =
        coverage::holes(recording, Window { from: read_from(window, all), until: u64::MAX });
    let front = Front::new(recording, holes);
    let back = || Back::new(recording, windows, filter, wall, renderer);
    let events = || events(recording, window, all);
    Ok(pass(on_two, (front, back), events, End { until, goes_on: false }, out)?.printed())
}

/// From when on events are read that a window needs; `all`: from the recording's beginning on.
fn read_from(window: Window, all: bool) -> u64 {
    if all { 0 } else { with_leads(window).from }
}

/// A pass that has come to the end of a stretch of its window, and goes on with the next.
pub struct Going {
    front: Front,
    back: Back,
    /// Whether it has begun: the names that hold at its beginning are known.
    begun: bool,
}

impl Going {
    /// Starts where `recording` does; `holes`: when system calls may be missing in what is read of
    /// it.
    pub fn new(
        recording: &PageSet,
        holes: Holes,
        windows: Windows,
        filter: &Filter,
        wall: WallClock,
        renderer: impl Into<Box<dyn Render>>,
    ) -> Self {
        let back = Back::new(recording, windows, filter, wall, renderer.into());
        Self { front: Front::new(recording, holes), back, begun: false }
    }

    /// Goes on where it has come to, at `from`, with what comes next of the same session.
    /// `windows`: what is shown, since the beginning.
    #[must_use]
    pub fn with(
        mut self,
        start: &mut Start<'_>,
        holes: Holes,
        windows: Windows,
        from: u64,
    ) -> Self {
        self.front.go_on(start.recording, holes, from);
        self.back.resolver.go_on(start.recording, windows, from);
        self.back.lines.renderer.expect(start);
        self
    }

    /// Takes the events of a stretch: from `from` on, up to `until`. `goes_on`: another one comes
    /// after it.
    pub fn run<W: Write>(
        self,
        recording: &PageSet,
        (from, until): (u64, u64),
        goes_on: bool,
        out: &mut W,
    ) -> io::Result<Self> {
        let Self { front, back, begun } = self;
        let events = || {
            Merge::new(
                recording
                    .streams
                    .iter()
                    .map(|stream| Since::stretch(stream, from, begun).of(recording)),
            )
        };
        pass(pays(recording), (front, || back), events, End { until, goes_on }, out)
    }

    /// What is known at the end of the stretch, where the next one begins.
    pub fn joined(&self, from: u64) -> Joined<'_> {
        Joined { front: &self.front, calls: self.back.resolver.ongoing(), from }
    }

    /// Events printed so far.
    pub fn printed(&self) -> u64 {
        self.back.resolver.shown
    }
}

/// Where a pass ends.
struct End {
    /// Events before this moment are taken.
    until: u64,
    /// Another stretch comes after it.
    goes_on: bool,
}

/// The pass, on two threads or on this one alone. What it is made of: the first half, and the
/// second, which it takes a while to make.
fn pass<S: Stream<Item = Event>, W: Write>(
    on_two: bool,
    (mut front, back): (Front, impl FnOnce() -> Back),
    events: impl FnOnce() -> Merge<S> + Send,
    End { until, goes_on }: End,
    out: &mut W,
) -> io::Result<Going> {
    if !on_two {
        let mut back = back();
        let mut each =
            |item: &mut Item, before| back.take(&mut item.event, &item.found, before, out);
        front.all(events(), until, &mut each)?;
        if !goes_on {
            front.end(&mut each)?;
        }
        back.stop(goes_on, out)?;
        return Ok(Going { front, back, begun: true });
    }
    let (to, from) = batch::way();
    thread::scope(|scope| {
        let ahead = scope.spawn(move || batch::fill(front, events(), until, goes_on, &to));
        let mut back = back();
        back.all(from, out)?;
        // Its own message was printed when it panicked.
        let front = ahead
            .join()
            .map_err(|_| io::Error::other("a thread of flightctl failed; please report it"))?;
        back.stop(goes_on, out)?;
        Ok(Going { front, back, begun: true })
    })
}

/// The pass, event by event, for who has them as they come.
pub struct Pass {
    front: Front,
    back: Back,
}

impl Pass {
    /// Starts where `recording` does: with its whole task lane still to come. Prints what the
    /// filter wants of the window.
    pub fn new(
        recording: &PageSet,
        window: Window,
        filter: &Filter,
        wall: WallClock,
        renderer: impl Into<Box<dyn Render>>,
    ) -> Self {
        let read = Window { from: read_from(window, false), until: u64::MAX };
        let front = Front::new(recording, coverage::holes(recording, read));
        let back = Back::new(recording, window.into(), filter, wall, renderer.into());
        Self { front, back }
    }

    /// When events may be missing.
    pub fn holes(&mut self) -> &mut Holes {
        self.front.pairing().holes()
    }

    /// Prints nothing until [`Self::begin`], whatever the window.
    #[must_use]
    pub fn muted(mut self) -> Self {
        self.back.resolver.lead = Some(u64::MAX);
        self
    }

    /// From here on all that is pushed is printed, whatever the window; nothing that was pushed
    /// before.
    pub fn begin(&mut self) {
        self.back.resolver.lead = Some(self.front.next());
    }

    /// The wall clock that it goes by.
    pub fn wall(&mut self) -> &mut WallClock {
        &mut self.back.resolver.wall
    }

    /// Takes the next event.
    pub fn push<W: Write>(&mut self, event: Event, out: &mut W) -> io::Result<()> {
        let now = event.time;
        let mut boxed = self.front.spare();
        *boxed = event;
        let Self { front, back } = self;
        front.take(boxed, &mut |item, before| {
            back.take(&mut item.event, &item.found, before, out)
        })?;
        back.release(now, out)
    }

    /// It is `now`: events that have waited long enough wait no longer.
    pub fn advance<W: Write>(&mut self, now: u64, out: &mut W) -> io::Result<()> {
        let Self { front, back } = self;
        front.advance(now, &mut |item, before| {
            back.take(&mut item.event, &item.found, before, out)
        })?;
        back.release(now, out)
    }

    /// No more events come. Everything is written.
    pub fn finish<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.advance(u64::MAX, out)?;
        self.back.end(out)
    }

    /// Writes what is complete.
    pub fn flush<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.back.lines.flush(out)
    }

    /// From here on counts what is not printed, though it might be what the filter wants.
    pub fn count_doubts(&mut self) {
        self.back.resolver.doubts = Some(Doubts::new([Window::ALL]));
    }

    /// What was counted so far.
    pub fn doubts(&self) -> impl Iterator<Item = &Doubt> {
        self.back.resolver.doubts.iter().flat_map(Doubts::all)
    }

    /// Events printed so far.
    pub fn printed(&self) -> u64 {
        self.back.resolver.shown
    }
}
