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
mod ordered;
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
use std::thread;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Event;

use self::front::Front;
use self::merge::Merge;
use self::delay::Item;
use self::ordered::{Gone, Sender, ordered};
pub(crate) use self::resolve::threads_before;
use self::resolve::Resolver;
use self::shown::Shown;
use self::wall::WallClock;
use crate::fds::Naming;
use crate::filter::Filter;
use crate::render::Renderer;
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
    let events = Merge::new(recording.streams.iter().map(|stream| {
        // All of the task lane goes through, as names hold until they change.
        stream.events_from(if stream.lane() == Lane::Task { 0 } else { from })
    }));
    let resolver = Resolver::new(recording, window, filter, wall, &renderer);
    let front = Front::new(&recording.meta);
    let (sender, writer) = ordered(renderer);
    thread::scope(|scope| {
        let events = events.take_while(|event| event.time < read.until);
        let pass = scope.spawn(move || pass(events, front, resolver, sender));
        writer.run(out)?;
        pass.join().map_err(|_| io::Error::other("a thread of flightctl failed; please report it"))
    })
}

/// All of the pass but the writing; returns how many events are shown. Ends early where nobody takes them.
fn pass(events: impl Iterator<Item = Event>, front: Front, mut resolver: Resolver<'_>, sender: Sender) -> u64 {
    // Whoever takes no more has said why.
    let (Ok(()) | Err(Gone)) = send_all(events, front, &mut resolver, sender);
    resolver.shown()
}

fn send_all(
    events: impl Iterator<Item = Event>,
    mut front: Front,
    resolver: &mut Resolver<'_>,
    mut sender: Sender,
) -> Result<(), Gone> {
    let mut take = |item: Item, sender: &mut Sender| {
        let time = item.event.time;
        resolver.take(item, &mut sender.batch);
        resolver.release(time, &mut sender.batch);
        sender.send_full()
    };
    for event in events {
        let now = event.time;
        let mut next = front.push(sender.boxed(event)).or_else(|| front.pop(now));
        while let Some(item) = next {
            take(item, &mut sender)?;
            next = front.pop(now);
        }
    }
    while let Some(item) = front.pop(u64::MAX) {
        take(item, &mut sender)?;
    }
    resolver.release(u64::MAX, &mut sender.batch);
    sender.finish()
}

/// The pass on one thread, for events that come one by one.
pub struct Pass<'a> {
    front: Front,
    resolver: Resolver<'a>,
    renderer: Renderer,
    ready: Vec<Shown>,
    buffer: Vec<u8>,
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
        Self {
            front: Front::new(&recording.meta),
            resolver: Resolver::new(recording, window, filter, wall, &renderer),
            renderer,
            ready: Vec::new(),
            buffer: Vec::with_capacity(BUFFER + LINE),
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
        let now = event.time;
        if let Some(item) = self.front.push(event.into()) {
            self.resolver.take(item, &mut self.ready);
        }
        self.advance(now, out)
    }

    /// It is `now`: events that have waited long enough wait no longer.
    pub fn advance<W: Write>(&mut self, now: u64, out: &mut W) -> io::Result<()> {
        while let Some(item) = self.front.pop(now) {
            self.resolver.take(item, &mut self.ready);
        }
        self.resolver.release(now, &mut self.ready);
        for shown in self.ready.drain(..) {
            self.renderer.event(&shown.event, &shown.context(), &mut self.buffer);
            if self.buffer.len() >= BUFFER {
                out.write_all(&self.buffer)?;
                self.buffer.clear();
            }
        }
        Ok(())
    }

    /// No more events come. Everything is written.
    pub fn finish<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.advance(u64::MAX, out)?;
        self.renderer.end(&mut self.buffer);
        self.flush(out)
    }

    /// Writes what is complete.
    pub fn flush<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(&self.buffer)?;
        self.buffer.clear();
        out.flush()
    }

    /// Events printed so far.
    pub fn printed(&self) -> u64 {
        self.resolver.shown()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::FilterPlan;
    use crate::source::Collector;
    use flightrec_format::ring::LaneStream;
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
