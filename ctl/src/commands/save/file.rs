//! The file of a chapter, or of the stretches in which a long one is read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, IntoInnerError, Write};

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{
    COPY_MAGIC, HEADER_LEN, Lane, PAGE_SIZE, PageHeader, REFUSALS, UNIT,
};
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::control::Totals;
use flightrec_format::decode::Page;
use flightrec_format::encode::{PageWriter, write_header, write_slot};
use flightrec_format::meta::Meta;
use flightrec_format::part;
use flightrec_format::ring::LaneStream;
use flightrec_reader::source::history::Chapter;
use flightrec_reader::source::{Clock, PageSet};
use flightrec_reader::window::Window;
use flightrec_reader::windows::Windows;
use flightrec_store::block::PAGES_MAX;
use flightrec_store::snapshot::About;
use flightrec_store::{Checkpoint, FileWriter, RingMark};

use crate::frames::{FRAME_MAX, Frames};
use crate::output::OutputError;
use crate::progress::Progress;
use crate::target::{self, Target};

/// Most stretches of a window that a file tells: a clock that is slewed makes many that are near
/// together.
const STRETCHES: usize = 256;

/// Why the file is there: for these windows, whose end was at `wall`, ns since 1970.
fn about(windows: &Windows, wall: i64) -> About {
    let Window { from, until } = windows.hull();
    let reason = "saved by flightctl save".to_owned();
    let stretches = windows.at_most(STRETCHES);
    let stretches = (stretches.count() > 1)
        .then(|| stretches.iter().map(|one| (one.from, one.until)).collect());
    About {
        cause: "save".into(),
        reason,
        time: until,
        wall,
        from,
        until,
        held_from: from,
        stretches: stretches.unwrap_or_default(),
        ..About::default()
    }
}

/// What a file is written by.
enum Out {
    /// As it is.
    Plain(BufWriter<File>),
    /// In frames, for `flightctl collect`.
    Framed(BufWriter<Frames<File>>),
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Framed(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Framed(out) => out.flush(),
        }
    }
}

impl Out {
    fn end(self) -> io::Result<()> {
        match self {
            Self::Plain(mut out) => out.flush(),
            Self::Framed(out) => out.into_inner().map_err(IntoInnerError::into_error)?.end(),
        }
    }
}

/// A file in the making: of a chapter, or of all stretches of one.
pub(super) struct Saving {
    target: Target,
    file: FileWriter<Out>,
    meta: Meta,
    /// The windows that it is saved of.
    windows: Vec<Window>,
    /// Where the last page of each ring ends that is in it: the page, its units, and all events
    /// that were recorded until there.
    ends: BTreeMap<(Lane, u16), End>,
    /// The moment of its last checkpoint, ns of `CLOCK_MONOTONIC`; `None`: it begins without one.
    marked: Option<u64>,
    /// Nothing of it was read from where something was damaged.
    is_sound: bool,
    events: u64,
}

/// Where a ring's last page ends.
struct End {
    seq: u64,
    used: u32,
    events: Counts,
}

impl Saving {
    /// Begins a file at `target`, in frames if it is `framed`. It is one of several chapters' if
    /// `chapter` is a stretch.
    pub(super) fn begin(
        target: Target,
        framed: bool,
        chapter: &Chapter,
    ) -> Result<Self, OutputError> {
        let recording = &chapter.recording;
        // All that comes into the file was recorded before.
        let now = match chapter.joins {
            Some(joins) if joins.after => chapter.present.max(chapter.clock.now),
            _ => chapter.clock.now,
        };
        let begin = || {
            let out = target.out()?;
            let out = if framed {
                let file = out.into_inner().map_err(|e| target.failed(e.into_error()))?;
                Out::Framed(BufWriter::with_capacity(FRAME_MAX, Frames::new(file)))
            } else {
                Out::Plain(out)
            };
            let clock = Clock { now, ..chapter.clock };
            let begun = target::begin(out, &recording.meta, clock).and_then(|mut file| {
                file.slots(now, &slot_pages(&recording.slots, recording.meta.session))?;
                if let Some(before) = &recording.before {
                    file.checkpoint(&Checkpoint {
                        time: before.now,
                        rings: marks(recording, before, counted_before).collect(),
                    })?;
                }
                Ok(file)
            });
            begun.map_err(|source| target.failed(source))
        };
        let file = begin()?;
        Ok(Self {
            target,
            file,
            meta: recording.meta.clone(),
            windows: Vec::new(),
            ends: BTreeMap::new(),
            marked: recording.before.as_ref().map(|before| before.now),
            is_sound: true,
            events: 0,
        })
    }

    /// Puts a chapter into it, saved for these windows. Of what the stretch before it had already,
    /// nothing is written again.
    pub(super) fn add(&mut self, chapter: &Chapter, windows: &Windows) -> Result<(), OutputError> {
        self.write(&chapter.recording).map_err(|source| self.target.failed(source))?;
        self.windows.extend(windows.iter());
        self.is_sound &= chapter.recording.copied != 0;
        Ok(())
    }

    fn write(&mut self, recording: &PageSet) -> io::Result<()> {
        let progress = Progress::start("writing the file");
        for snapshot in &recording.descriptors {
            self.file.descriptors(snapshot.end, &snapshot.encode())?;
        }
        for lane in Lane::RINGS {
            let of_lane = recording.streams.iter().filter(|stream| stream.lane() == lane);
            let mut pages: Vec<&Page> = of_lane.flat_map(LaneStream::pages).collect();
            // By time, so that a window of the file is a few of its blocks.
            pages.sort_by_key(|page| page.header().base_mono);
            let mut block = Vec::with_capacity(PAGES_MAX);
            for page in pages {
                block.extend(self.new_of(page));
                if block.len() == PAGES_MAX {
                    self.file.pages(&block)?;
                    progress.add((block.len() * PAGE_SIZE) as u64);
                    block.clear();
                }
            }
            if !block.is_empty() {
                self.file.pages(&block)?;
                progress.add((block.len() * PAGE_SIZE) as u64);
            }
        }
        for stream in &recording.streams {
            let Some(last) = stream.pages().last() else { continue };
            let header = last.header();
            let (seq, used) = (header.seq, header.used);
            let events = header.events.plus(&last.summary().counts);
            let end = self.ends.entry((stream.lane(), stream.cpu())).or_insert(End {
                seq: 0,
                used: 0,
                events,
            });
            if (end.seq, end.used) < (seq, used) {
                *end = End { seq, used, events };
            }
        }
        self.mark(recording)
    }

    /// Writes the checkpoints within a chapter, so that the file's gaps are as short as those of its
    /// source. Leaves out a checkpoint that counts events which the file does not hold, before its
    /// first pages or after its last.
    ///
    /// A file that begins without a checkpoint has none before its last one either, as its first
    /// one says that all that was counted until then is in the file before it.
    fn mark(&mut self, recording: &PageSet) -> io::Result<()> {
        // Of what was damaged, as of the last checkpoint: a reader would vouch for it.
        if !self.is_sound || recording.copied == 0 {
            return Ok(());
        }
        let is_held = |stream: &LaneStream, events: &Counts| {
            let end = self.ends.get(&(stream.lane(), stream.cpu()));
            stream.pages().first().zip(end).is_none_or(|(first, end)| {
                first.header().events.less(events).is_zero() && events.less(&end.events).is_zero()
            })
        };
        for totals in &recording.marks {
            if self.marked.is_none_or(|marked| marked >= totals.now) {
                continue;
            }
            let all = marks(recording, totals, |_, known| Some(known)).count();
            let held =
                |stream: &LaneStream, known: Counters| is_held(stream, &known.0).then_some(known);
            let rings: Vec<RingMark> = marks(recording, totals, held).collect();
            if rings.len() == all {
                self.file.checkpoint(&Checkpoint { time: totals.now, rings })?;
                self.marked = Some(totals.now);
            }
        }
        Ok(())
    }

    /// What of a page is not in the file yet.
    fn new_of(&mut self, page: &Page) -> Option<Page> {
        let header = page.header();
        let new = match self.ends.get(&(page.lane(), header.cpu)) {
            Some(end) if (header.seq, header.used) <= (end.seq, end.used) => return None,
            // A page that was still being filled.
            Some(end) if header.seq == end.seq => {
                part::tail(page, end.used).unwrap_or_else(|| page.clone())
            }
            _ => page.clone(),
        };
        self.events = self.events.saturating_add(new.summary().counts.total());
        Some(new)
    }

    /// Whether no event is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.events == 0
    }

    /// Closes the file after its last chapter; its size, and how many events it holds.
    pub(super) fn finish(mut self, last: &Chapter) -> Result<(u64, u64), OutputError> {
        self.close(last).map_err(|source| self.target.failed(source))?;
        let Self { target, file, events, .. } = self;
        let out = file.finish().map_err(|source| target.failed(source))?;
        out.end().map_err(|source| target.failed(source))?;
        Ok((target.name()?, events))
    }

    fn close(&mut self, last: &Chapter) -> io::Result<()> {
        let (recording, clock) = (&last.recording, last.clock);
        // What was damaged where this was read from is not made whole by being saved: without a
        // checkpoint, a reader vouches for no more than the pages themselves do.
        if self.is_sound {
            let ends = &self.ends;
            self.file.checkpoint(&Checkpoint {
                time: clock.now,
                // What they hold themselves, as all of it is in the file.
                rings: marks(recording, &recording.totals, |stream, (events, refused)| {
                    let end = ends.get(&(stream.lane(), stream.cpu()));
                    Some((end.map_or(events, |end| end.events), refused))
                })
                .collect(),
            })?;
        }
        // It knows more functions than the first stretch did.
        if self.meta != recording.meta {
            self.file.meta(&recording.meta, clock.now)?;
        }
        let windows = Windows::new(self.windows.drain(..), 0);
        let at = || Window { from: clock.now, until: clock.now }.into();
        let windows = windows.unwrap_or_else(at);
        let wall = recording.wall_clock(clock.wall_offset).wall(windows.hull().until);
        self.file.snapshot(&about(&windows, wall))
    }
}

/// A ring's counters at a moment.
type Counters = (Counts, [u64; REFUSALS]);

/// The rings' counters for a checkpoint: what `choose` makes of those that are known and of the
/// ring's pages.
fn marks<'a>(
    recording: &'a PageSet,
    totals: &'a Totals,
    choose: impl Fn(&LaneStream, Counters) -> Option<Counters> + 'a,
) -> impl Iterator<Item = RingMark> + 'a {
    recording.streams.iter().filter_map(move |stream| {
        let (lane, cpu) = (stream.lane(), stream.cpu());
        let of_cpu = totals.cpus.iter().find(|totals| totals.cpu == cpu)?;
        let known = (*of_cpu.events.get(lane as usize)?, *of_cpu.refused.get(lane as usize)?);
        let (events, refused) = choose(stream, known)?;
        Some(RingMark { events, refused, ..RingMark::new(lane, cpu) })
    })
}

/// Before the pages: only where nothing came between. What did is not in the file, and would be
/// taken for lost.
fn counted_before(stream: &LaneStream, known: Counters) -> Option<Counters> {
    let first = stream.pages().first().map(Page::header);
    first.is_none_or(|first| first.events == known.0).then_some(known)
}

/// The thread table as pages.
fn slot_pages(slots: &[TaskSlot], session: u64) -> Vec<[u8; PAGE_SIZE]> {
    let fit = (PAGE_SIZE - HEADER_LEN) / size_of::<TaskSlot>();
    let page = |(seq, slots): (u64, &[TaskSlot])| {
        let header = PageWriter::new(session, Lane::Slots, 0, 0).header();
        let used = (PAGE_SIZE / UNIT) as u32;
        let header = PageHeader { magic: COPY_MAGIC, seq, used, ..header };
        let mut out = [0; PAGE_SIZE];
        let (head, body) = out.split_at_mut(HEADER_LEN);
        head.copy_from_slice(&write_header(&header));
        for (to, slot) in body.chunks_exact_mut(size_of::<TaskSlot>()).zip(slots) {
            to.copy_from_slice(&write_slot(slot));
        }
        out
    };
    (1..).zip(slots.chunks(fit)).map(page).collect()
}
