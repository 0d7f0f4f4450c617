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
            printer.take(&item, out)?;
        }
    }
    while let Some(item) = line.pop(u64::MAX) {
        printer.take(&item, out)?;
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
    fn take<W: Write>(&mut self, item: &Item, out: &mut W) -> io::Result<()> {
        let qlen = self.queues.take(item);
        if self.window.contains(item.event.time) && self.filter.wants(&item.event, &self.threads) {
            self.print(item, qlen);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::FilterPlan;
    use crate::source::Collector;
    use crate::text::Options;
    use flightrec_format::abi::page::PAGE_SIZE;
    use flightrec_format::control::Totals;
    use flightrec_format::encode::{PageWriter, write_header};
    use flightrec_format::meta::Meta;

    /// A page with a plausible header and any records.
    fn page() -> impl Strategy<Value = Vec<u8>> {
        let kinds =
            prop::sample::select(vec![1u8, 2, 3, 0x10, 0x11, 0x20, 0x21, 0x22, 0x23, 0x30, 0x31, 0x32, 0x33, 0x34]);
        let record = (kinds, 1u8..8, any::<u16>(), 0u32..1000, prop::collection::vec(any::<u64>(), 7));
        let lane = prop::sample::select(Lane::RINGS.to_vec());
        (lane, 0u16..3, 1u64..5, any::<[u64; 2]>(), prop::collection::vec(record, 0..60)).prop_map(
            |(lane, cpu, seq, [base_mono, base_tai], records)| {
                let mut body = Vec::new();
                for (kind, words, aux, upper, rest) in records {
                    let head = u64::from(kind) | u64::from(words) << 8 | u64::from(aux) << 16 | u64::from(upper) << 32;
                    body.push(head);
                    body.extend(rest.into_iter().take(usize::from(words) - 1));
                }
                let mut header = PageWriter::new(1, lane, cpu, 0).header();
                (header.seq, header.base_mono, header.base_tai) = (seq, base_mono, base_tai);
                header.used = 16 + body.len() as u32;
                let mut bytes = write_header(&header).to_vec();
                bytes.extend(body.iter().flat_map(|word| word.to_le_bytes()));
                bytes.resize(PAGE_SIZE, 0);
                bytes
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn any_pages_come_through(pages in prop::collection::vec(page(), 0..12)) {
            let meta = Meta { session: 1, cpus: vec![0, 1], ..Meta::default() };
            let mut collector = Collector::new(meta.clone());
            for page in &pages {
                collector.add(page).unwrap();
            }
            let recording = collector.finish(Totals::default());
            let decoded: usize = recording.streams.iter().map(|stream| stream.events().count()).sum();
            let filter = FilterPlan::all().resolve(&meta).unwrap();
            let renderer = Renderer::new(&meta, Options::default());
            let mut out = Vec::new();
            let wall = recording.wall_clock(0);
            let printed = run(&recording, Window::ALL, &filter, wall, renderer, &mut out).unwrap();
            let beyond = recording.streams.iter().flat_map(LaneStream::events).filter(|e| e.time == u64::MAX).count();
            prop_assert_eq!(printed as usize + beyond, decoded, "every event is printed once");
            prop_assert!(out.iter().all(|b| *b == b'\n' || (b' '..=b'~').contains(b)));
        }
    }
}
