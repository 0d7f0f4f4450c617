//! From pages to lines: one pass over the merged lanes, in bounded memory.
//!
//! ```text
//! lanes of each CPU ─> merge ─> pairing, placement ─> delay line ─┬─> run queues, names ─> filter ─┬─> text
//!                     front                                       │           resolve              │  lines
//! ```
//! [`run`] has two threads, where there are two CPUs, from where the window begins; each makes this pass, and renders every other chunk
//! of the lines.
//!
//! The pass starts before the window, so that names, pairs and queues are right where it starts,
//! and goes on behind it, until it is known where the last woken threads ran.

pub mod calls;
pub mod delay;
pub mod entries;
pub mod front;
mod lines;
pub mod merge;
pub mod pairing;
pub mod placement;
mod resolve;
pub mod runq;
pub mod shown;
#[cfg(test)]
pub(crate) mod testing;
pub mod threads;
pub mod wall;

use std::io::{self, Write};
use std::num::NonZero;
use std::sync::mpsc::sync_channel;
use std::thread;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Event;
use flightrec_format::ring::Events;

use self::delay::Item;
use self::front::Front;
use self::lines::{Direct, Lines, Other, Share, Sink, Turns};
use self::merge::Merge;
use self::resolve::Resolver;
pub(crate) use self::resolve::threads_before;
use self::wall::WallClock;
use crate::filter::Filter;
use crate::render::Renderer;
use crate::source::Recording;
use crate::window::Window;

/// How far before the window the lanes are read, ns: calls that began there find their entries, and
/// most CPUs were idle at least once.
pub const LEAD_IN_NS: u64 = 2_000_000_000;
/// How far behind the window they are read, ns: no wakeup waits longer.
pub const LEAD_OUT_NS: u64 = delay::LONGEST_NS;
/// From so many pages on two threads are worth their while: what one renders in some ms.
const PAGES_FOR_TWO: usize = 64;
/// Rendered chunks that may wait for their turn.
const CHUNKS: usize = 4;
/// Boxes that are kept to be used again.
const SPARE: usize = 1024;
/// Bytes that are written at once.
const BUFFER: usize = 256 << 10;
/// Room for one more event's lines beyond [`BUFFER`], so that the buffer hardly ever grows.
const LINE: usize = 8 << 10;

/// The window with what is read around it.
pub fn with_leads(window: Window) -> Window {
    Window { from: window.from.saturating_sub(LEAD_IN_NS), until: window.until.saturating_add(LEAD_OUT_NS) }
}

/// Writes the window's events that the filter wants, and returns how many there were.
pub fn run<W: Write>(
    recording: &Recording,
    window: Window,
    filter: &Filter,
    wall: WallClock,
    renderer: impl Into<Renderer>,
    out: &mut W,
) -> io::Result<u64> {
    let pages: usize = recording.streams.iter().map(|stream| stream.pages().len()).sum();
    let alone = pages < PAGES_FOR_TWO || thread::available_parallelism().map_or(1, NonZero::get) < 2;
    run_on(if alone { 1 } else { 2 }, recording, window, filter, wall, renderer.into(), out)
}

/// The same, on one thread or two.
fn run_on<W: Write>(
    threads: u64,
    recording: &Recording,
    window: Window,
    filter: &Filter,
    wall: WallClock,
    renderer: Renderer,
    out: &mut W,
) -> io::Result<u64> {
    let mut pass = Pass::sharing(Share { index: 0, of: threads }, recording, window, filter, wall, renderer);
    let mut events = pass.events(recording, window);
    if threads < 2 {
        pass.all(events, window, &mut Direct(out))?;
        pass.end(out)?;
        return Ok(pass.printed());
    }
    // Nothing is rendered before the window begins, so there is nothing to share until then.
    pass.lead_in(&mut events, window, &mut Direct(out))?;
    thread::scope(|scope| {
        let (to, others) = sync_channel(CHUNKS);
        let (mut other, again) = (pass.twin(Share { index: 1, of: threads }), events.clone());
        // Where it fails, it is because the first has; that says why.
        scope.spawn(move || other.all(again, window, &mut Other(to)));
        pass.all(events, window, &mut Turns { out, others })?;
        pass.end(out)?;
        Ok(pass.printed())
    })
}

/// The pass: from merged events to lines, on one thread.
pub struct Pass<'a> {
    front: Front,
    resolver: Resolver<'a>,
    lines: Lines,
    /// Boxes of events that are done with, to be used again.
    #[expect(clippy::vec_box, reason = "it is the boxes that are used again")]
    spare: Vec<Box<Event>>,
}

impl<'a> Pass<'a> {
    /// Starts where `recording` does: with its whole task lane still to come. Prints what the filter wants of the
    /// window.
    pub fn new(
        recording: &Recording,
        window: Window,
        filter: &'a Filter,
        wall: WallClock,
        renderer: impl Into<Renderer>,
    ) -> Self {
        Self::sharing(Share::WHOLE, recording, window, filter, wall, renderer.into())
    }

    /// The same, for a share of the lines.
    fn sharing(
        share: Share,
        recording: &Recording,
        window: Window,
        filter: &'a Filter,
        wall: WallClock,
        renderer: Renderer,
    ) -> Self {
        Self {
            front: Front::new(&recording.meta),
            resolver: Resolver::new(recording, window, filter, wall, &renderer),
            lines: Lines::new(renderer, share),
            spare: Vec::new(),
        }
    }

    /// Prints nothing until [`Self::begin`], whatever the window.
    #[must_use]
    pub fn muted(mut self) -> Self {
        self.resolver.lead = Some(u64::MAX);
        self
    }

    /// From here on all that is pushed is printed, whatever the window; nothing that was pushed before.
    pub fn begin(&mut self) {
        self.resolver.lead = Some(self.front.next());
    }

    /// The wall clock that it goes by.
    pub fn wall(&mut self) -> &mut WallClock {
        &mut self.resolver.wall
    }

    /// Takes the next event.
    pub fn push<W: Write>(&mut self, event: Event, out: &mut W) -> io::Result<()> {
        let mut boxed = self.spare.pop().unwrap_or_default();
        *boxed = event;
        self.take(boxed, &mut Direct(out))
    }

    /// It is `now`: events that have waited long enough wait no longer.
    pub fn advance<W: Write>(&mut self, now: u64, out: &mut W) -> io::Result<()> {
        self.advance_to(now, &mut Direct(out))
    }

    /// No more events come. Everything is written.
    pub fn finish<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.advance(u64::MAX, out)?;
        self.end(out)
    }

    /// Writes what is complete.
    pub fn flush<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(&self.lines.buffer)?;
        self.lines.buffer.clear();
        out.flush()
    }

    /// Events printed so far, by all that share the lines.
    pub fn printed(&self) -> u64 {
        self.resolver.shown
    }

    /// The same pass at the same place, for another share of the lines. Nothing may have been printed.
    fn twin(&self, share: Share) -> Self {
        Self {
            front: self.front.clone(),
            resolver: self.resolver.clone(),
            lines: self.lines.of_another(share),
            spare: Vec::new(),
        }
    }

    /// The events that the window needs.
    fn events<'r>(&self, recording: &'r Recording, window: Window) -> Merge<Events<'r>> {
        // Descriptors may have been opened long before.
        let from = if self.resolver.needs_all() { 0 } else { with_leads(window).from };
        Merge::new(recording.streams.iter().map(|stream| {
            // All of the task lane goes through, as names hold until they change.
            stream.events_from(if stream.lane() == Lane::Task { 0 } else { from })
        }))
    }

    /// Takes the events before the window.
    fn lead_in<S: Sink>(&mut self, events: &mut Merge<Events<'_>>, window: Window, sink: &mut S) -> io::Result<()> {
        while events.time().is_some_and(|time| time < window.from) {
            let Some(event) = events.read(self.spare.pop().unwrap_or_default()) else { break };
            self.take(event, sink)?;
        }
        Ok(())
    }

    /// Takes all events that there are for the window.
    fn all<S: Sink>(&mut self, mut events: Merge<Events<'_>>, window: Window, sink: &mut S) -> io::Result<()> {
        let until = with_leads(window).until;
        while let Some(event) = events.read(self.spare.pop().unwrap_or_default()) {
            if event.time >= until {
                break;
            }
            self.take(event, sink)?;
        }
        self.advance_to(u64::MAX, sink)?;
        self.lines.finish(sink)
    }

    /// Writes what is left to say behind all lines.
    fn end<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.lines.renderer.end(&mut self.lines.buffer);
        self.flush(out)
    }

    fn take<S: Sink>(&mut self, event: Box<Event>, sink: &mut S) -> io::Result<()> {
        let now = event.time;
        if let Some(item) = self.front.push(event) {
            self.resolve(item, sink)?;
        }
        self.advance_to(now, sink)
    }

    fn advance_to<S: Sink>(&mut self, now: u64, sink: &mut S) -> io::Result<()> {
        while let Some(item) = self.front.pop(now) {
            self.resolve(item, sink)?;
        }
        self.resolver.release(now, &mut self.lines, sink)
    }

    fn resolve<S: Sink>(&mut self, item: Item, sink: &mut S) -> io::Result<()> {
        let time = item.event.time;
        let spare = self.resolver.take(item, &mut self.lines, sink)?;
        // Those that waited together come back together; they are not all kept.
        self.spare.extend(spare.filter(|_| self.spare.len() < SPARE));
        self.resolver.release(time, &mut self.lines, sink)
    }
}

#[cfg(test)]
mod tests;
