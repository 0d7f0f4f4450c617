//! From pages to lines: one pass over the merged lanes, in bounded memory.
//!
//! ```text
//! lanes of each CPU ─> merge ─> pairing, placement ─> delay line ─> run queues, names ─> filter ─> text
//! ```
//! The pass starts before the window, so that names, pairs and queues are right where it starts,
//! and goes on behind it, until it is known where the last woken threads ran.

pub mod calls;
pub mod delay;
pub mod entries;
pub mod front;
pub mod merge;
pub mod pairing;
pub mod placement;
pub mod runq;
#[cfg(test)]
pub(crate) mod testing;
pub mod threads;
pub mod wall;

use std::io::{self, Write};
use std::sync::mpsc::sync_channel;
use std::thread;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Body, Call, Event};
use flightrec_format::ring::LaneStream;

use self::calls::Calls;
use self::delay::Item;
use self::entries::Entries;
use self::front::{BATCHES, Front};
use self::merge::Merge;
use self::runq::RunQueues;
use self::threads::Threads;
use self::wall::WallClock;
use crate::fds::{FdNames, Fds, Naming};
use crate::filter::{CallFacts, Filter};
use crate::render::{Context, Renderer, Wake};
use crate::source::Recording;
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
    renderer: impl Into<Renderer>,
    out: &mut W,
) -> io::Result<u64> {
    let read = with_leads(window);
    let renderer = renderer.into();
    // Descriptors may have been opened long before.
    let from = if filter.has_paths() || renderer.naming() == Naming::All { 0 } else { read.from };
    let mut pass = Pass::new(recording, window, filter, wall, renderer);
    let events = Merge::new(recording.streams.iter().map(|stream| {
        // All of the task lane goes through, as names hold until they change.
        stream.events_from(if stream.lane() == Lane::Task { 0 } else { from })
    }));
    // The two halves of the pass run side by side.
    let Pass { front, printer } = &mut pass;
    let front = std::mem::replace(front, Front::new(&recording.meta));
    let written = thread::scope(|scope| {
        let (to, from) = sync_channel(BATCHES);
        scope.spawn(move || front.run(events.take_while(|event| event.time < read.until), &to));
        for batch in from {
            for item in &batch {
                printer.take(item, out)?;
                printer.release(item.event.time, out)?;
            }
        }
        io::Result::Ok(())
    });
    written?;
    pass.finish(out)?;
    Ok(pass.printed())
}

/// The pass itself, for events that come one by one.
pub struct Pass<'a> {
    front: Front,
    printer: Printer<'a>,
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
        let renderer = renderer.into();
        let follows_fds = renderer.naming() != Naming::Off || filter.has_paths();
        let printer = Printer {
            window,
            filter,
            wall,
            calls: Calls::new(renderer.merge()),
            entries: Entries::needed(filter).then(Entries::default),
            fds: Fds::of(recording, follows_fds),
            follows_fds,
            renderer,
            threads: threads_before(recording),
            queues: RunQueues::default(),
            buffer: Vec::with_capacity(BUFFER + LINE),
            lead: None,
            passed: 0,
            printed: 0,
        };
        Self { front: Front::new(&recording.meta), printer }
    }

    /// Prints nothing until [`Self::begin`], whatever the window.
    #[must_use]
    pub fn muted(mut self) -> Self {
        self.printer.lead = Some(u64::MAX);
        self
    }

    /// From here on all that is pushed is printed, whatever the window; nothing that was pushed before.
    pub fn begin(&mut self) {
        self.printer.lead = Some(self.front.next());
    }

    /// The wall clock that it goes by.
    pub fn wall(&mut self) -> &mut WallClock {
        &mut self.printer.wall
    }

    /// Takes the next event.
    pub fn push<W: Write>(&mut self, event: Event, out: &mut W) -> io::Result<()> {
        let now = event.time;
        if let Some(item) = self.front.push(event) {
            self.printer.take(&item, out)?;
        }
        self.advance(now, out)
    }

    /// It is `now`: events that have waited long enough wait no longer.
    pub fn advance<W: Write>(&mut self, now: u64, out: &mut W) -> io::Result<()> {
        while let Some(item) = self.front.pop(now) {
            self.printer.take(&item, out)?;
        }
        self.printer.release(now, out)
    }

    /// No more events come. Everything is written.
    pub fn finish<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.advance(u64::MAX, out)?;
        self.printer.renderer.end(&mut self.printer.buffer);
        self.flush(out)
    }

    /// Writes what is complete.
    pub fn flush<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(&self.printer.buffer)?;
        self.printer.buffer.clear();
        out.flush()
    }

    /// Events printed so far.
    pub fn printed(&self) -> u64 {
        self.printer.printed
    }
}

/// The names as they are when the pass starts.
pub(crate) fn threads_before(recording: &Recording) -> Threads {
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
    calls: Calls,
    entries: Option<Entries>,
    fds: Fds,
    follows_fds: bool,
    threads: Threads,
    queues: RunQueues,
    buffer: Vec<u8>,
    /// So many events are not printed, then all; `None`: the window decides.
    lead: Option<u64>,
    passed: u64,
    printed: u64,
}

impl Printer<'_> {
    fn take<W: Write>(&mut self, item: &Item, out: &mut W) -> io::Result<()> {
        let qlen = self.queues.take(item);
        self.fds.advance(item.event.time.saturating_sub(1));
        self.passed += 1;
        let within = self.lead.map_or_else(|| self.window.contains(item.event.time), |lead| self.passed > lead);
        let (facts, entry) = match &mut self.entries {
            Some(entries) => entries.take(item, self.filter, &self.fds, &self.threads),
            None => (CallFacts { duration_ns: item.duration_ns(), path: false }, None),
        };
        // An exit is shown with the descriptors as they are behind it, anything else as they are before.
        let is_exit = matches!(item.event.body, Body::Exit { .. });
        if self.follows_fds && is_exit {
            self.fds.apply(&item.event, &self.threads);
        }
        if within && self.filter.wants(&item.event, facts, &self.threads) {
            self.print(item, qlen, entry);
            self.spill(out)?;
        }
        if self.follows_fds && !is_exit {
            self.fds.apply(&item.event, &self.threads);
        }
        self.threads.apply(&item.event);
        Ok(())
    }

    /// It is `now`: prints the events that wait no longer for the rest of their calls.
    fn release<W: Write>(&mut self, now: u64, out: &mut W) -> io::Result<()> {
        while let Some(held) = self.calls.pop(now) {
            self.renderer.event(held.event(), &held.context(), &mut self.buffer);
            self.spill(out)?;
        }
        Ok(())
    }

    fn spill<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.buffer.len() >= BUFFER {
            out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// `entry`: of an exit that may be shown alone, its call as it was entered.
    fn print(&mut self, item: &Item, qlen: Option<u32>, entry: Option<Call>) {
        let Event { time, cpu, tid, ref body } = item.event;
        let wake = matches!(body, Body::Waking { .. });
        let other = match body {
            Body::Switch { next, .. } => Some(*next),
            Body::Waking { wakee, .. } => Some(*wakee),
            Body::Migrate { thread, .. } => Some(*thread),
            _ => None,
        };
        let pid = self.threads.tgid(tid, time);
        let is_call = matches!(body, Body::Enter(_) | Body::Exit { .. });
        let named = is_call && self.renderer.naming() != Naming::Off;
        let whole = match (body, entry) {
            (Body::Exit { ret, entered, .. }, Some(call)) if self.filter.wants_whole_ends() => {
                Some(Event { body: Body::Exit { call, ret: *ret, entered: *entered }, ..item.event })
            }
            _ => None,
        };
        let event = whole.as_ref().unwrap_or(&item.event);
        let context = Context {
            wall_ns: self.wall.wall(time),
            pid,
            comm: self.threads.comm(tid, cpu, time),
            duration_ns: item.duration_ns(),
            entry_seen: self.filter.wants_entries() && item.entered.is_some_and(|at| self.window.contains(at)),
            // Shown at its exit, it is as whole as one whose entry was held back.
            merged: item.entered.filter(|_| whole.is_some() && self.calls.at_exit()).map(|at| self.wall.wall(at)),
            next_comm: other.map_or(&[], |tid| self.threads.comm(tid, cpu, time)),
            wake: wake.then_some(Wake { queued_on: item.queued_on, runs_on: item.runs_on, qlen }),
            fds: if named { self.fds.names(tid, pid) } else { FdNames::default() },
        };
        if self.calls.merges() {
            self.calls.push(event, &context, item.entered);
        } else {
            self.renderer.event(event, &context, &mut self.buffer);
        }
        self.printed += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::FilterPlan;
    use crate::source::Collector;
    use crate::text::{self, Options};
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
            let renderer = text::Renderer::new(&meta, Options::default());
            let mut out = Vec::new();
            let wall = recording.wall_clock(0);
            let printed = run(&recording, Window::ALL, &filter, wall, renderer, &mut out).unwrap();
            let beyond = recording.streams.iter().flat_map(LaneStream::events).filter(|e| e.time == u64::MAX).count();
            prop_assert_eq!(printed as usize + beyond, decoded, "every event is printed once");
            prop_assert!(out.iter().all(|b| *b == b'\n' || (b' '..=b'~').contains(b)));
        }
    }
}
