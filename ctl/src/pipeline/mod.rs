//! From pages to lines: one pass over the merged lanes, in bounded memory.
//!
//! ```text
//! lanes of each CPU ─> merge ─> pairing, placement ─> delay line ─> run queues, names ─> filter ─> text
//! ```
//! The pass starts before the window, so that names, pairs and queues are right where it starts,
//! and goes on behind it, until it is known where the last woken threads ran.

pub mod delay;
pub mod merge;
pub mod pairing;
pub mod placement;
pub mod runq;
#[cfg(test)]
pub(crate) mod testing;
pub mod threads;
pub mod wall;

use std::io::{self, Write};

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Body, Event};
use flightrec_format::ring::LaneStream;

use self::delay::{DelayLine, Item};
use self::merge::Merge;
use self::pairing::Pairing;
use self::placement::Placement;
use self::runq::RunQueues;
use self::threads::Threads;
use self::wall::WallClock;
use crate::filter::Filter;
use crate::source::Recording;
use crate::text::{Context, Renderer, Wake};
use crate::window::Window;

/// How far before the window the lanes are read, ns: calls that began there find their entries, and
/// most CPUs were idle at least once.
pub const LEAD_IN_NS: u64 = 2_000_000_000;
/// How far behind the window they are read, ns: no wakeup waits longer.
pub const LEAD_OUT_NS: u64 = delay::LONGEST_NS;
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
    renderer: Renderer,
    out: &mut W,
) -> io::Result<u64> {
    let read = with_leads(window);
    let mut printer = Printer {
        window,
        filter,
        wall,
        renderer,
        threads: threads_before(recording),
        queues: RunQueues::default(),
        buffer: Vec::with_capacity(BUFFER + LINE),
        printed: 0,
    };
    let mut pairing = Pairing::new(&recording.meta);
    let mut placement = Placement::default();
    let mut line = DelayLine::default();
    let events = Merge::new(recording.streams.iter().map(|stream| {
        // All of the task lane goes through, as names hold until they change.
        stream.events_from(if stream.lane() == Lane::Task { 0 } else { read.from })
    }));
    for event in events {
        let now = event.time;
        if now >= read.until {
            break;
        }
        let mut item = Item::new(event);
        pairing.take(&mut item, &mut line);
        placement.take(&mut item, &mut line);
        line.push(item);
        while let Some(item) = line.pop(now) {
            printer.take(item, out)?;
        }
    }
    while let Some(item) = line.pop(u64::MAX) {
        printer.take(item, out)?;
    }
    out.write_all(&printer.buffer)?;
    out.flush()?;
    Ok(printer.printed)
}

/// The names as they are when the pass starts.
fn threads_before(recording: &Recording) -> Threads {
    let task = recording.streams.iter().filter(|stream| stream.lane() == Lane::Task).map(LaneStream::events);
    let cpus = recording.streams.iter().map(|stream| usize::from(stream.cpu()) + 1).max().unwrap_or(0);
    Threads::before(Merge::new(task), recording.slots.iter().copied(), cpus)
}

/// Takes events that are complete, in order.
struct Printer<'a> {
    window: Window,
    filter: &'a Filter,
    wall: WallClock,
    renderer: Renderer,
    threads: Threads,
    queues: RunQueues,
    buffer: Vec<u8>,
    printed: u64,
}

impl Printer<'_> {
    fn take<W: Write>(&mut self, item: Item, out: &mut W) -> io::Result<()> {
        let qlen = self.queues.take(&item);
        if self.window.contains(item.event.time) && self.filter.wants(&item.event, &self.threads) {
            self.print(&item, qlen);
            if self.buffer.len() >= BUFFER {
                out.write_all(&self.buffer)?;
                self.buffer.clear();
            }
        }
        self.threads.apply(&item.event);
        Ok(())
    }

    fn print(&mut self, item: &Item, qlen: Option<u32>) {
        let Event { time, cpu, tid, ref body } = item.event;
        let wake = matches!(body, Body::Waking { .. });
        let other = match body {
            Body::Switch { next, .. } => Some(*next),
            Body::Waking { wakee, .. } => Some(*wakee),
            Body::Migrate { thread, .. } => Some(*thread),
            _ => None,
        };
        let context = Context {
            wall_ns: self.wall.wall(time),
            comm: self.threads.comm(tid, cpu, time),
            duration_ns: item.entered.map(|entered| time.saturating_sub(entered)),
            entry_seen: self.filter.wants_entries() && item.entered.is_some_and(|at| self.window.contains(at)),
            next_comm: other.map_or(&[], |tid| self.threads.comm(tid, cpu, time)),
            wake: wake.then_some(Wake { queued_on: item.queued_on, runs_on: item.runs_on, qlen }),
        };
        self.renderer.line(&item.event, &context, &mut self.buffer);
        self.printed += 1;
    }
}
