//! A recording's events out of its files, in the order of time, as far as they are whole.
//!
//! Everything that was recorded before a checkpoint stands in the files before it. So a file that
//! is still being written is read up to its last checkpoint, a slice at a time: as many pages as
//! may be in memory. A block that reaches over the end of a slice is read again for the next.

use std::path::PathBuf;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Event, Page, Summary};
use flightrec_format::merge::Merge;
use flightrec_format::meta::Meta;
use flightrec_format::ring::{Gap, LaneStream, Rings};
use flightrec_store::{BlockRef, Content, FileInfo, FileReader, Kind, slice};

/// Most pages that are in memory at a time, but for one block: 16 MiB.
const PAGES_MOST: usize = 4096;

/// What comes next.
#[derive(Debug)]
pub enum Seen<'a> {
    /// An event.
    Event(&'a Event),
    /// Events are missing from here on.
    Gap(&'a Gap),
}

/// A file that may still hold something new.
#[derive(Debug)]
struct Open {
    path: PathBuf,
    number: u32,
    reader: FileReader,
}

/// The files of one session.
#[derive(Debug)]
pub struct Follower {
    session: u64,
    files: Vec<Open>,
    /// Files with this number, and with lower ones, hold nothing more.
    done: u32,
    /// Where the next slice begins, ns of `CLOCK_MONOTONIC`.
    next: u64,
    /// Up to when the files are whole.
    limit: u64,
    /// Everything before this moment was in files that were read or are there.
    reaches: u64,
    /// The last page of each ring: what is missing after it shows in the next slice.
    last: Vec<Page>,
}

impl Follower {
    /// Of a session, from a moment on.
    pub fn new(session: u64, from: u64) -> Self {
        let (files, last) = (Vec::new(), Vec::new());
        Self { session, files, done: 0, next: from, limit: from, reaches: from, last }
    }

    /// Where the next slice begins.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The number of the first file that may still hold something new.
    pub fn number(&self) -> u32 {
        self.files.first().map_or(self.done, |open| open.number)
    }

    /// Up to when the files are whole.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Looks at the files of the session, which are in order; `ended`: no more will come. What is
    /// damaged is missing, as for any reader.
    pub fn look(&mut self, infos: &[FileInfo], ended: bool) {
        for info in infos.iter().filter(|info| info.number > self.done) {
            let known = self.files.iter().position(|open| open.number == info.number);
            let held = known.and_then(|at| self.files.get(at));
            if held.is_some_and(|open| open.reader.complete() || open.reader.size() == info.bytes) {
                continue;
            }
            let Ok(reader) = FileReader::open(&info.path) else { continue };
            let open = Open { path: info.path.clone(), number: info.number, reader };
            match known.and_then(|at| self.files.get_mut(at)) {
                Some(held) => *held = open,
                None => self.files.push(open),
            }
        }
        // What retention has deleted can't be read.
        self.files.retain(|open| infos.iter().any(|info| info.path == open.path));
        let checkpoint = self.files.iter().rev().find_map(|open| {
            let last = open.reader.of(Kind::Checkpoint).next_back()?;
            match open.reader.read(last) {
                Ok(Content::Checkpoint(checkpoint)) => Some(checkpoint.time),
                _ => None,
            }
        });
        let end = || {
            let blocks = self.files.iter().flat_map(|open| open.reader.of(Kind::Pages));
            blocks.map(|block| block.header.last.saturating_add(1)).max()
        };
        let limit = if ended { end().max(checkpoint) } else { checkpoint };
        self.limit = self.limit.max(limit.unwrap_or(0));
    }

    /// Begins at a moment, with the file that holds it.
    pub fn begin(&mut self, from: u64) {
        while self.files.get(1).is_some_and(|open| begins(&open.reader) <= from) {
            self.done = self.files.remove(0).number;
        }
        self.next = from;
        // What is before the first of them is nothing that was to be given.
        self.reaches = self.files.first().map_or(from, |open| begins(&open.reader).max(from));
    }

    /// Whether files with events that were not given yet have been deleted.
    pub fn is_overtaken(&self) -> bool {
        self.files
            .first()
            .is_some_and(|open| open.reader.header().begins > self.reaches.max(self.next))
    }

    /// Gives the events of task life from the beginning of the first file up to where the next
    /// slice begins, in order: of more than may be in memory, the last.
    pub fn tasks(&self, mut visit: impl FnMut(&Event)) {
        let Some(Open { reader, .. }) = self.files.first() else { return };
        let (since, until) = (reader.header().created_mono, self.next);
        let mut pages: Vec<(Page, Summary)> = Vec::new();
        for block in reader.of(Kind::Pages).rev() {
            let is_task = block.header.lane == Some(Lane::Task);
            if is_task && block.header.first < until && block.header.last >= since {
                pages.extend(reader.pages(block).unwrap_or_default());
            }
            if pages.len() > PAGES_MOST {
                break;
            }
        }
        let mut rings = Rings::new(self.session);
        for (page, sums) in pages {
            rings.add_summed(page, sums);
        }
        let streams = rings.finish();
        let mut events = Merge::new(streams.iter().map(|stream| stream.events_from(since)));
        let mut next = Box::default();
        while let Some(event) = events.read(next) {
            if event.time >= until {
                break;
            }
            if event.time >= since {
                visit(&event);
            }
            next = event;
        }
    }

    /// The earliest moment of which the files hold everything; 0: there are no earlier ones.
    pub fn begins(&self) -> Option<u64> {
        self.files.first().map(|open| open.reader.header().begins)
    }

    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, as it was when the file was begun that holds a
    /// moment.
    pub fn wall_offset(&self, time: u64) -> i64 {
        let headers = self.files.iter().map(|open| open.reader.header());
        let known = headers.clone().rfind(|header| header.created_mono <= time);
        known
            .or_else(|| headers.clone().next())
            .map_or(0, |header| header.created_wall.saturating_sub(header.created_mono as i64))
    }

    /// The newest metadata in the files.
    pub fn meta(&self) -> Option<Box<Meta>> {
        self.files.iter().rev().find_map(|open| {
            let mut blocks = open.reader.of(Kind::Meta);
            blocks.rfind(|_| true).and_then(|block| match open.reader.read(block) {
                Ok(Content::Meta(meta)) => Some(meta),
                _ => None,
            })
        })
    }

    /// The threads that lived when the first of the files was begun.
    pub fn slots(&self) -> Vec<flightrec_format::abi::slot::TaskSlot> {
        let Some(open) = self.files.first() else { return Vec::new() };
        let blocks = open.reader.of(Kind::Slots).filter_map(|block| open.reader.read(block).ok());
        blocks
            .flat_map(|content| match content {
                Content::Slots(slots) => slots,
                _ => Vec::new(),
            })
            .collect()
    }

    /// Gives the events and gaps of the next slice, up to `until` at the latest; whether that is
    /// reached.
    pub fn slice(&mut self, until: u64, mut visit: impl FnMut(Seen<'_>)) -> bool {
        let until = until.min(self.limit);
        let begins = self.next;
        if begins >= until {
            return true;
        }
        let (streams, ends) = self.read(until);
        // So many pages at one moment are no recorder's work.
        let ends = if ends <= begins { until } else { ends };
        let mut gaps: Vec<Gap> = streams.iter().flat_map(LaneStream::gaps).collect();
        gaps.retain(|gap| gap.intersects(begins, ends));
        gaps.sort_by_key(|gap| gap.from);
        let mut gaps = gaps.iter().peekable();
        let mut events = Merge::new(streams.iter().map(|stream| stream.events_from(begins)));
        let mut next = Box::default();
        while let Some(event) = events.read(next) {
            if event.time >= ends {
                break;
            }
            while let Some(gap) = gaps.next_if(|gap| gap.begins_before(event.time)) {
                visit(Seen::Gap(gap));
            }
            if event.time >= begins {
                visit(Seen::Event(&event));
            }
            next = event;
        }
        gaps.for_each(|gap| visit(Seen::Gap(gap)));
        drop(events);
        self.last = streams.into_iter().filter_map(|stream| stream.into_pages().pop()).collect();
        self.next = ends;
        self.forget();
        ends >= until
    }

    /// The rings from `next` on as far as there is room for them, and how far that is.
    fn read(&self, until: u64) -> (Vec<LaneStream>, u64) {
        let begins = self.next;
        let is_ring =
            |block: &BlockRef| block.header.lane.is_some_and(|lane| Lane::RINGS.contains(&lane));
        let mut blocks: Vec<(&FileReader, BlockRef)> = Vec::new();
        for open in &self.files {
            let of = open.reader.of(Kind::Pages).filter(|block| {
                is_ring(block) && block.header.last >= begins && block.header.first < until
            });
            blocks.extend(of.map(|block| (&open.reader, *block)));
        }
        blocks.sort_by_key(|(_, block)| block.header.first);
        let blocks = blocks.iter().map(|(file, block)| (*file, block));
        slice(self.session, blocks, (begins, until), PAGES_MOST, &self.last)
    }

    /// Closes files of which everything was given; the newest stays.
    fn forget(&mut self) {
        while self.files.len() > 1
            && self.files.first().is_some_and(|open| {
                open.reader.complete()
                    && open.reader.of(Kind::Pages).all(|block| block.header.last < self.next)
            })
        {
            self.done = self.files.remove(0).number;
            // The next one follows it: nothing was recorded between the two.
            if let Some(next) = self.files.first()
                && next.number == self.done.saturating_add(1)
            {
                self.reaches = self.reaches.max(begins(&next.reader));
            }
        }
    }
}

/// All that was recorded before this moment is in earlier files, ns of `CLOCK_MONOTONIC`.
fn begins(reader: &FileReader) -> u64 {
    let header = reader.header();
    if header.begins != 0 { header.begins } else { header.created_mono }
}
