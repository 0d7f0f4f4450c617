//! One recording session, read from its files.

use std::path::Path;
use std::sync::{Arc, Mutex};

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::decode::{Page, Summary};
use flightrec_format::descriptors::Snapshot;
use flightrec_format::meta::{Meta, WALL_STEP_NS};
use flightrec_format::totals::Totals;
use flightrec_store::columns::Contents;
use flightrec_store::{Clocks, Content, Damage, FileReader, Kind, What};

use super::anchor::{self, Anchor, SLACK_NS, Stretch, Told};
use super::catalog::{SessionFiles, StoredFile};
use super::decoded::{Decoded, Decoding};
use super::marks::{self, between, marks, to_the_marks};
use super::named::Named;
use super::names::Superseded;
use super::narrow::{self, Chosen, Sought, Tail};
use super::pages::{most_blocks, read_pages, streams, weight};
use super::proof::Proof;
use super::rims::{self, Need};
use super::stretch::{Weights, with_ends};
use super::tables::{descriptors, threads};
use super::who::Names;
use super::{FilesError, load, select};
use crate::amount::counted;
use crate::memory;
use crate::observe;
use crate::source::{Clock, Recording};
use crate::window::{Edge, LEAD_IN_NS, Window};
use crate::windows::Windows;

/// By how much [`SessionSource::around`] is too wide at either end, where an edge is a time of day
/// and the clock ran evenly.
pub const AROUND_NS: u64 = 2 * SLACK_NS as u64;

/// Most lines about damage in one chapter.
const REMARKS: usize = 10;

/// A session's files, opened one by one as they are needed.
pub struct SessionSource {
    files: Vec<OpenFile>,
    /// When the session's last moment was.
    end: End,
    /// What the user is told beside the coverage.
    remarks: Vec<String>,
    /// What need not be read for names.
    superseded: Arc<Mutex<Superseded>>,
    /// What one stretch decoded for the next.
    shared: Arc<Decoded>,
    /// The names of functions and binaries that all of it has, and of what was probed, once they
    /// were read.
    names: Option<Named>,
}

/// A file, and its reader once it was needed.
struct OpenFile {
    file: StoredFile,
    reader: Option<FileReader>,
    /// It was tried, and could not be opened.
    failed: bool,
}

/// Where a session's files end.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Everything that they hold was recorded before, ns of `CLOCK_MONOTONIC`.
    now: u64,
    /// Whether the last was closed in order.
    closed: bool,
}

/// Which blocks of pages are read.
#[derive(Debug, Clone, Copy)]
pub enum Pick<'a> {
    /// All of these lanes.
    Lanes(&'a [Lane]),
    /// Those of system calls, without the contents of arguments and strings, and of the task lane.
    CallEnds {
        /// It is known that nothing is missing.
        is_sure: bool,
        /// Whoever reads on does so from here: the blocks that reach it are held decoded.
        until: u64,
    },
    /// Those that were chosen. Nothing is missing.
    Chosen(&'a Chosen),
}

impl<'a> Pick<'a> {
    pub(super) fn lanes(self) -> &'a [Lane] {
        match self {
            Self::Lanes(lanes) => lanes,
            Self::CallEnds { .. } => &[Lane::Syscall, Lane::Task],
            Self::Chosen(_) => &Lane::RINGS,
        }
    }

    pub(super) fn has(self, job: &load::Job<'_>) -> bool {
        match self {
            Self::Lanes(_) | Self::CallEnds { .. } => true,
            Self::Chosen(chosen) => chosen.has(job),
        }
    }

    /// How they are decoded; `shared`: what other stretches decoded for this one.
    pub(super) fn decoding(self, shared: &'a Decoded) -> Decoding<'a> {
        match self {
            Self::Lanes(_) => Decoding::ALL,
            Self::CallEnds { until, .. } => {
                Decoding { held: Some(shared), contents: Contents::None, hold_from: until }
            }
            Self::Chosen(chosen) => Decoding { held: Some(chosen.decoded()), ..Decoding::ALL },
        }
    }

    /// Whether what a lane lacks is still to be told.
    pub(super) fn is_whole(self) -> bool {
        !matches!(self, Self::Chosen(_) | Self::CallEnds { is_sure: true, .. })
    }
}

/// A stretch of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Where it begins.
    pub from: u64,
    /// Where it ends.
    pub until: u64,
    /// What is read for it.
    pub read: Window,
    /// Bytes of memory that the pages of that take.
    pub weight: u64,
}

/// What a window's files gave.
#[derive(Debug)]
pub struct FoundWindow {
    /// The session's description.
    pub meta: Meta,
    /// Pages and parts of pages, in no order, and what each comes to.
    pub pages: Vec<(Page, Summary)>,
    /// Threads that lived at some moment; where they contradict, the last one counts.
    pub slots: Vec<TaskSlot>,
    /// As of [`Recording::tables`].
    pub tables: Vec<(usize, u64)>,
    /// What descriptors stood for at moments of the window, in order.
    pub descriptors: Vec<Snapshot>,
    /// The counters at a moment before the window, if it is known.
    pub before: Option<Totals>,
    /// The counters at a moment behind it, or the last that there are.
    pub after: Totals,
    /// The counters at moments between.
    pub marks: Vec<Totals>,
    /// Nothing that was recorded until `after` is missing in the files by damage.
    pub whole: bool,
}

impl SessionSource {
    /// Opens the last of the files, for when it all ended.
    ///
    /// # Errors
    /// None of the files can be opened.
    pub fn open(session: SessionFiles) -> Result<Self, FilesError> {
        let open = |file| OpenFile { file, reader: None, failed: false };
        let mut source = Self {
            files: session.files.into_iter().map(open).collect(),
            end: End { now: 0, closed: false },
            remarks: Vec::new(),
            superseded: session.superseded,
            shared: session.decoded,
            names: None,
        };
        source.end = source.find_end()?;
        Ok(source)
    }

    /// The same where the recording itself tells more than its files do yet.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn beside(session: SessionFiles, recording: &Meta) -> Result<Self, FilesError> {
        let mut source = Self::open(session)?;
        source.names = Some(Named::of(recording));
        Ok(source)
    }

    /// The session's last moment, and the wall clock as the file that was begun last has it.
    pub fn clock(&self) -> Clock {
        let last = self.files.iter().max_by_key(|open| open.file.header.created_mono);
        let offset = last.map_or(0, |open| anchor_of(&open.file).offset);
        Clock { now: self.end.now, wall_offset: offset }
    }

    /// When the first file was made.
    fn begins(&self) -> u64 {
        self.files.iter().map(|open| open.file.header.created_mono).min().unwrap_or(0)
    }

    /// The first moment that its files have, and the wall clock as the first of them has it.
    pub fn first(&mut self) -> Clock {
        let offset = self.files.first().map_or(0, |open| anchor_of(&open.file).offset);
        let begins = self.begins();
        let first = self
            .reader(0)
            .ok()
            .and_then(|reader| reader.of(Kind::Pages).map(|block| block.header.first).min());
        Clock { now: first.unwrap_or(begins), wall_offset: offset }
    }

    /// What is to be said beside the coverage; each once.
    pub fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    /// The session's description, as its last file has it.
    ///
    /// # Errors
    /// No file has a description that can be read.
    pub fn meta(&mut self) -> Result<Meta, FilesError> {
        let all: Vec<usize> = (0..self.files.len()).collect();
        self.meta_of(&all)
    }

    /// The last moment: of the last file of the series that can be opened, and of those that were
    /// saved beside it.
    fn find_end(&mut self) -> Result<End, FilesError> {
        let mut failure = None;
        let mut last: Option<End> = None;
        for index in (0..self.files.len()).rev() {
            let is_saved = self.files.get(index).is_some_and(|open| open.file.is_saved());
            match self.reader(index).map(end_of) {
                Ok(Some(end)) => {
                    last = Some(last.filter(|last| last.now >= end.now).unwrap_or(end));
                    if !is_saved {
                        break;
                    }
                }
                Ok(None) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match (last, failure) {
            (Some(end), _) => Ok(end),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(End { now: self.begins(), closed: false }),
        }
    }

    /// A file, opened.
    fn reader(&mut self, index: usize) -> Result<&FileReader, FilesError> {
        observe::reads_files();
        let held = self
            .files
            .iter()
            .filter_map(|open| open.reader.as_ref())
            .map(|reader| reader.blocks().len())
            .sum::<usize>();
        if held > most_blocks() {
            return Err(FilesError::TooManyBlocks(most_blocks()));
        }
        let no_file = || FilesError::Absent(Path::new("").into());
        let OpenFile { file, reader, failed } = self.files.get_mut(index).ok_or_else(no_file)?;
        match reader {
            Some(reader) => Ok(reader),
            None => match FileReader::open(&file.path) {
                Ok(opened) => Ok(reader.insert(opened)),
                Err(error) => {
                    if !*failed {
                        self.remarks.push(format!("left out: {error}"));
                    }
                    *failed = true;
                    Err(error.into())
                }
            },
        }
    }

    /// Indexes of the files that may hold something of the window, and of the one behind them: its
    /// first checkpoint tells whether they hold all of it.
    fn chosen(&self, window: Window) -> Vec<usize> {
        let touches = |file: &StoredFile| file.begins < window.until && file.ends >= window.from;
        let files = self.files.iter().enumerate();
        let mut chosen: Vec<usize> =
            files.filter(|(_, open)| touches(&open.file)).map(|(index, _)| index).collect();
        chosen.extend(chosen.last().map(|last| last + 1).filter(|next| *next < self.files.len()));
        chosen
    }

    /// When the file was begun in which a moment lies.
    pub fn file_begins(&self, moment: u64) -> u64 {
        let made = self.files.iter().map(|open| open.file.header.created_mono);
        made.take_while(|made| *made <= moment).last().unwrap_or(0)
    }

    /// The windows in the monotonic clock outside of which nothing of the window can be; `present`
    /// and its `offset` to the wall clock are told by the source where it knows them.
    pub fn around(
        &mut self,
        since: Edge,
        until: Edge,
        present: u64,
        offset: Option<i64>,
    ) -> Windows {
        let is_wall = matches!(since, Edge::Wall(_)) || matches!(until, Edge::Wall(_));
        let stretches = match is_wall.then(|| self.opened()).flatten() {
            Some(mut told) => {
                let of_present =
                    |at| Told { first: present, opened: present, least: at, greatest: at };
                told.extend(offset.map(of_present));
                anchor::opened(told)
            }
            None if is_wall => self.between_files(present, offset),
            None => Vec::new(),
        };
        anchor::windows(&stretches, since, until, present)
    }

    /// What all blocks of pages tell of the wall clock; `None` where some do not, as earlier
    /// releases' do not.
    fn opened(&mut self) -> Option<Vec<Told>> {
        let meta = self.meta().ok()?;
        let mut told = Vec::new();
        for open in &mut self.files {
            let OpenFile { file, reader, .. } = open;
            let reader = match reader {
                Some(reader) => reader,
                // What can't be opened is told when it is read.
                None => match FileReader::open(&file.path) {
                    Ok(opened) => reader.insert(opened),
                    Err(_) => continue,
                },
            };
            for block in reader.of(Kind::Pages) {
                let Clocks { opened, least, greatest } = block.header.clocks?;
                let first = block.header.first.min(opened);
                let leaps = meta.tai_range(first, opened);
                let wall =
                    |tai: i64, leap: i64| tai.saturating_sub(leap.saturating_mul(1_000_000_000));
                let (least, greatest) = (wall(least, *leaps.end()), wall(greatest, *leaps.start()));
                told.push(Told { first, opened, least, greatest });
            }
        }
        Some(told)
    }

    /// What the files' headers tell.
    fn between_files(&mut self, present: u64, offset: Option<i64>) -> Vec<Stretch> {
        let mut anchors: Vec<Anchor> =
            self.files.iter().map(|open| anchor_of(&open.file)).collect();
        let last = offset.map(|offset| Anchor { mono: present, offset });
        anchors.extend(last.or_else(|| self.last_anchor()));
        anchors.sort_by_key(|anchor| anchor.mono);
        anchor::between(&anchors)
    }

    /// The two clocks on the last page that there is.
    fn last_anchor(&mut self) -> Option<Anchor> {
        let index = self.files.len().checked_sub(1)?;
        let meta = self.meta_of(&[index]).ok()?;
        let reader = self.reader(index).ok()?;
        let block = reader.blocks().iter().rev().find(|block| block.header.kind == Kind::Pages)?;
        let Ok(Content::Pages(pages)) = reader.read(block) else { return None };
        let header = pages.iter().map(Page::header).max_by_key(|header| header.base_mono)?;
        let tai = header.base_tai.wrapping_sub(header.base_mono) as i64;
        let offset =
            tai.saturating_sub(meta.tai_offset(header.base_mono).saturating_mul(1_000_000_000));
        Some(Anchor { mono: header.base_mono, offset })
    }

    /// The window parted into stretches, none of which takes more than `most` bytes of pages, with
    /// what is read `lead` before it and `behind` it, where there is room for that; the
    /// earliest first. Each begins where the one before ends: where a file begins, if one does
    /// near enough, for it begins with all that a reader needs.
    pub fn parted(&mut self, window: Window, (lead, behind): (u64, u64), most: u64) -> Vec<Part> {
        let chosen = self.chosen(window);
        // What can't be opened is told when it is read.
        self.in_a_row(&chosen);
        self.remarks.clear();
        let mut begins: Vec<u64> = Vec::new();
        let mut blocks: Vec<(u64, u64, u64)> = Vec::new();
        let mut first_mark = self.started(&chosen, window.from).unwrap_or(u64::MAX);
        let around = Window { until: window.until.saturating_add(behind), ..window };
        for open in chosen.iter().filter_map(|index| self.files.get(*index)) {
            let Some(reader) = &open.reader else { continue };
            begins.push(open.file.header.created_mono);
            let marks = reader.of(Kind::Checkpoint).map(|block| block.header.last);
            let marks = marks.filter(|mark| *mark > window.from.saturating_add(lead));
            first_mark = marks.fold(first_mark, u64::min);
            let pages = select::pages(reader.blocks(), around, &Lane::RINGS);
            blocks.extend(
                pages.map(|block| (block.header.first, block.header.last, select::weight(block))),
            );
        }
        begins.sort_unstable();
        let weights = Weights::new(&blocks);
        let mut cuts = weights.part(window, (lead, behind), &begins, most);
        // Of the others little may be read, where it is known with what they begin: what is read
        // before the second begins behind the first moment at which the counters are known.
        let first = first_mark.saturating_add(lead.max(LEAD_IN_NS)).saturating_add(1);
        if cuts.first().is_some_and(|cut| first < *cut) {
            cuts.insert(0, first);
        }
        let froms = [window.from].into_iter().chain(cuts.iter().copied());
        let parts = froms.zip(cuts.iter().copied().chain([window.until])).enumerate().map(
            |(number, (from, until))| {
                let first = if number == 0 { from } else { weights.lead(from, lead, most) };
                let read = Window { from: first, until: until.saturating_add(behind) };
                let fits = weights.of(read) <= with_ends(most);
                let read = if fits { read } else { Window { until, ..read } };
                Part { from, until, read, weight: weights.of(read) }
            },
        );
        parts.collect()
    }

    /// When the recording began, if that is behind `from`, and the files have all from then on.
    fn started(&mut self, chosen: &[usize], from: u64) -> Option<u64> {
        let meta = self.meta_of(chosen).ok().filter(|meta| meta.started >= from)?;
        let reader = self.files.get(*chosen.first()?)?.reader.as_ref()?;
        Some(marks::start(&[reader], &meta)?.totals.now)
    }

    /// Reads what the window needs, for a recording of its own.
    ///
    /// # Errors
    /// A file of the window can not be read, but for damage, which becomes a gap.
    pub fn read(&mut self, window: Window) -> Result<Recording, FilesError> {
        self.read_some(window, Pick::Lanes(&Lane::RINGS))
    }

    /// The same with some pages alone.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub fn read_some(&mut self, window: Window, pick: Pick<'_>) -> Result<Recording, FilesError> {
        let FoundWindow { meta, pages, slots, tables, descriptors, before, after, marks, whole } =
            self.find(window, pick)?;
        let streams = streams(&meta, pages);
        if !self.end.closed && window.until > self.end.now {
            self.remarks.push(
                "the last file was not closed: the recorder or the machine stopped unexpectedly"
                    .into(),
            );
        }
        // Where something is damaged, only the counters tell what is there.
        let copied = if whole { after.now } else { 0 };
        Ok(Recording {
            meta,
            streams,
            slots,
            tables,
            descriptors,
            totals: after,
            before,
            marks,
            copied,
            whole_files: whole,
            slot_misses: 0,
            disputed_by: Vec::new(),
            sure: None,
            stretch_until: None,
            skips: Arc::default(),
        })
    }

    /// Reads of what the window needs only its ends, before `sure.from` and behind `sure.until`, if
    /// it can be shown that nothing is missing between them; what is told of it begins at
    /// `earliest` or later. With them comes what [`Self::take_remarks`] will have.
    pub fn read_ends(
        &mut self,
        window: Window,
        earliest: u64,
        sure: Window,
    ) -> Option<(Recording, Vec<String>)> {
        let chosen = self.chosen(window);
        if !self.in_a_row(&chosen) {
            return None;
        }
        let meta = self.meta_of(&chosen).ok()?;
        let opened: Vec<&FileReader> =
            chosen.iter().filter_map(|index| self.files.get(*index)?.reader.as_ref()).collect();
        if opened.iter().any(|reader| damage(reader).next().is_some()) {
            return None;
        }
        let (before, after) = marks(&opened, window);
        // Of files that are still written, what is known ends with the last moment at which the
        // counters are.
        if !self.end.closed && after.as_ref().is_none_or(|mark| mark.totals.now < sure.until) {
            return None;
        }
        let started = || marks::start(&opened, &meta).filter(|of| of.totals.now <= window.from);
        // A session's first file begins with a checkpoint that knows no ring yet.
        let before = before.filter(|mark| !mark.totals.cpus.is_empty()).or_else(started);
        let proof = Proof {
            opened: &opened,
            meta: &meta,
            before: &before?,
            after: &after?,
            earliest,
            sure,
        };
        let streams = proof.read(window)?;
        let (before, totals) = (Some(proof.before.totals.clone()), proof.after.totals.clone());
        let (slots, descriptors, copied) = (Vec::new(), Vec::new(), totals.now);
        let marks = Vec::new();
        let recording = Recording {
            meta,
            streams,
            slots,
            tables: Vec::new(),
            descriptors,
            totals,
            before,
            marks,
            copied,
            whole_files: false,
            slot_misses: 0,
            disputed_by: Vec::new(),
            sure: None,
            stretch_until: None,
            skips: Arc::default(),
        };
        Some((recording, self.remarks.clone()))
    }

    /// Whether all pages that a window needs tell the same of the wall clock, as its blocks'
    /// headers say: then an event's time does not depend on which of them are read.
    pub fn is_even(&mut self, window: Window) -> bool {
        let chosen = self.chosen(window);
        let Ok(meta) = self.meta_of(&chosen) else { return false };
        let mut told: Option<(i64, i64)> = None;
        for open in chosen.iter().filter_map(|index| self.files.get(*index)) {
            let Some(reader) = &open.reader else { return false };
            for block in reader.of(Kind::Pages) {
                let Some(Clocks { opened, least, greatest }) = block.header.clocks else {
                    return false;
                };
                let leaps = meta.tai_range(block.header.first.min(opened), opened);
                if leaps.start() != leaps.end() {
                    return false;
                }
                let wall =
                    |tai: i64| tai.saturating_sub(leaps.start().saturating_mul(1_000_000_000));
                let (least, greatest) = (wall(least), wall(greatest));
                told =
                    Some(told.map_or((least, greatest), |(l, g)| (l.min(least), g.max(greatest))));
            }
        }
        told.is_some_and(|(least, greatest)| {
            // Where no page is read the file's header tells.
            let of_header = meta.wall_offset(self.clock().wall_offset);
            greatest.saturating_sub(least) < WALL_STEP_NS
                && [least, greatest].map(|of| meta.wall_offset(of)) == [of_header; 2]
        })
    }

    /// The names that any thread may have in a window, and in the rings behind it; `None`: they
    /// can't all be read, or are too many.
    pub fn names(&mut self, window: Window, rings: Option<&Recording>) -> Option<Names> {
        let chosen = self.chosen(window);
        if !self.in_a_row(&chosen) {
            return None;
        }
        let opened: Vec<&FileReader> =
            chosen.iter().filter_map(|index| self.files.get(*index)?.reader.as_ref()).collect();
        Names::of(&opened, rings)
    }

    /// The blocks of a window that hold what is sought in it and in the rings behind it, and all
    /// that its lines depend on; `from`: all that begins before it is read in any case. `None`: all
    /// are to be read.
    pub fn choose(
        &mut self,
        window: Window,
        from: u64,
        rings: Option<Tail<'_>>,
        names: &Names,
        sought: &dyn Sought,
    ) -> Option<Chosen> {
        let chosen = self.chosen(window);
        if !self.in_a_row(&chosen) {
            return None;
        }
        let meta = self.meta_of(&chosen).ok()?;
        let opened: Vec<&FileReader> =
            chosen.iter().filter_map(|index| self.files.get(*index)?.reader.as_ref()).collect();
        narrow::choose(&narrow::Place { opened: &opened, meta: &meta, from, rings, names }, sought)
    }

    /// Reads what the window needs of some blocks.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub fn find(&mut self, window: Window, pick: Pick<'_>) -> Result<FoundWindow, FilesError> {
        let chosen = self.chosen(window);
        let meta = self.meta_of(&chosen)?;
        let mut whole = self.in_a_row(&chosen);
        let opened: Vec<&FileReader> =
            chosen.iter().filter_map(|index| self.files.get(*index)?.reader.as_ref()).collect();
        let told: Vec<String> = opened.iter().flat_map(|reader| damage(reader)).collect();
        whole &= told.is_empty();

        let (before, after) = marks(&opened, window);
        let before = before.map(|mark| mark.totals);
        let after = after.map(|mark| mark.totals).unwrap_or_default();
        let mut asked = window;
        let lanes = pick.lanes();
        let fits = |window| weight(&opened, window, pick) <= memory::to_marks_max();
        if !whole && fits(to_the_marks(window, before.as_ref(), &after)) {
            // The counters tell exactly what damage cost: up to the next moment at which they are
            // known.
            asked = to_the_marks(window, before.as_ref(), &after);
        }
        let mut pages = Vec::new();
        let held = (&*self.superseded, &*self.shared);
        let mut lost = read_pages(&opened, asked, pick, held, &mut pages)?;
        let further = to_the_marks(window, before.as_ref(), &after);
        let needs = |lane: &Lane| {
            (*lane, rims::needs(*lane, window.from, &pages, &meta, before.as_ref(), &after))
        };
        let mut needs: Vec<(Lane, Vec<Need>)> = if asked != further && pick.is_whole() {
            lanes.iter().map(needs).collect()
        } else {
            Vec::new()
        };
        needs.retain(|(_, of_lane)| !of_lane.is_empty());
        let again = asked != further && (!lost.is_empty() || !needs.is_empty());
        if again && fits(further) {
            pages = Vec::new();
            lost = read_pages(&opened, further, pick, held, &mut pages)?;
        } else {
            for (lane, needs) in needs {
                lost.extend(rims::read(&opened, (window, further), lane, &needs, &mut pages));
            }
        }
        whole &= lost.is_empty();
        let (slots, tables) = threads(&opened);
        let descriptors = descriptors(&opened, window);
        let read_damage =
            lost.iter().map(|(reader, lost)| remark(reader, lost)).collect::<Vec<_>>();
        let marks = between(&opened, further.from, further.until);
        self.remark(told.into_iter().chain(read_damage));
        Ok(FoundWindow { meta, pages, slots, tables, descriptors, before, after, marks, whole })
    }

    /// Says what is damaged: each once, and not more than a person reads.
    fn remark(&mut self, damage: impl Iterator<Item = String>) {
        let mut more = 0;
        for remark in damage {
            if self.remarks.contains(&remark) {
                continue;
            }
            if self.remarks.len() < REMARKS {
                self.remarks.push(remark);
            } else {
                more += 1;
            }
        }
        if more != 0 {
            let places = counted(more, "place");
            self.remarks.push(format!("damaged: {places} more; `flightctl verify` names them all"));
        }
    }

    /// Opens the files; whether all could be, and none is missing between them.
    fn in_a_row(&mut self, chosen: &[usize]) -> bool {
        let mut whole = true;
        for index in chosen {
            whole &= self.reader(*index).is_ok();
        }
        let numbers: Vec<u32> = chosen
            .iter()
            .filter_map(|index| self.files.get(*index))
            .map(|open| open.file.header.number)
            .collect();
        let missing = numbers
            .iter()
            .zip(numbers.iter().skip(1))
            .map(|(a, b)| u64::from(b.saturating_sub(*a).saturating_sub(1)));
        let missing: u64 = missing.sum();
        if missing != 0 {
            let files = counted(missing, "file");
            let remark = format!("{files} missing from the series: their events are a gap");
            // It may have been found before.
            if !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
        whole && missing == 0
    }

    /// The metadata of the last of these files that has any; else of any other of the session. With
    /// the names of functions and binaries that the last of all has: they become more, and stay
    /// what they are.
    fn meta_of(&mut self, chosen: &[usize]) -> Result<Meta, FilesError> {
        let mut meta = self.last_meta(chosen)?;
        if self.names.is_none() {
            let all: Vec<usize> = (0..self.files.len()).collect();
            self.names = Some(Named::of(&self.last_meta(&all)?));
        }
        if let Some(names) = &self.names {
            names.add_to(&mut meta);
        }
        Ok(meta)
    }

    /// The last metadata of these files, else of the others.
    fn last_meta(&mut self, chosen: &[usize]) -> Result<Meta, FilesError> {
        let others = (0..self.files.len()).filter(|index| !chosen.contains(index));
        let order: Vec<usize> = chosen.iter().rev().copied().chain(others).collect();
        for index in order {
            let Ok(reader) = self.reader(index) else { continue };
            let metas =
                reader.blocks().iter().rev().filter(|block| block.header.kind == Kind::Meta);
            for block in metas {
                if let Ok(Content::Meta(meta)) = reader.read(block) {
                    return Ok(*meta);
                }
            }
        }
        let path = self.files.first().map(|open| open.file.path.clone()).unwrap_or_default();
        Err(FilesError::NoMeta(path))
    }
}

/// Where a file ends; `None` where nothing is in it.
fn end_of(reader: &FileReader) -> Option<End> {
    let last_of = |kind: Kind| {
        let of_kind = reader.blocks().iter().filter(move |block| block.header.kind == kind);
        // 0: the writer did not know the counters yet.
        of_kind.map(|block| block.header.last).filter(|time| *time != 0).max()
    };
    // A file that was saved may have no checkpoint but the one before its window; then its window's
    // end is the last moment.
    let mark = last_of(Kind::Checkpoint).max(last_of(Kind::Snapshot));
    let last = reader.blocks().iter().map(|block| block.header.last.saturating_add(1)).max();
    // What came behind the last checkpoint of a closed file is only there because its page was.
    let closed = reader.complete();
    let now = if closed { mark.or(last) } else { mark.max(last) };
    now.map(|now| End { now, closed })
}

fn anchor_of(file: &StoredFile) -> Anchor {
    let mono = file.header.created_mono;
    Anchor { mono, offset: file.header.created_wall.saturating_sub_unsigned(mono) }
}

/// What is wrong in a file, for people. The end of a block that was being written is no damage:
/// what it held is still in the rings, or in the next file, or is counted as missing.
fn damage(reader: &FileReader) -> impl Iterator<Item = String> + '_ {
    let cut = |damage: &&Damage| !matches!(damage.what, What::Cut);
    reader.damage().iter().filter(cut).map(|damage| remark(reader, damage))
}

fn remark(reader: &FileReader, damage: &Damage) -> String {
    format!("damaged: {}: {damage}", reader.path().display())
}
