//! One recording session, read from its files.

mod damage;
mod end;
mod found;
mod part;
mod wall;

use std::path::Path;
use std::sync::{Arc, Mutex};

use flightrec_format::meta::Meta;
use flightrec_store::{Content, FileReader, Kind};

use self::damage::damage;
use self::end::End;
pub use self::found::FoundWindow;
pub use self::part::Part;
pub use self::wall::AROUND_NS;
use self::wall::offset_of;
use super::FilesError;
use super::catalog::{SessionFiles, StoredFile};
use super::checkpoints::{self, marks};
use super::decoded::Decoded;
use super::name_index::Names;
use super::named::Named;
use super::names::Superseded;
use super::narrow::{self, Chosen, Sought, Tail};
use super::pages::most_blocks;
use super::proof::Proof;
use crate::observe;
use crate::source::{Clock, PageSet};
use crate::window::Window;
use flightrec_format::human::counted;

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
        let offset = last.map_or(0, |open| offset_of(&open.file));
        Clock { now: self.end.now, wall_offset: offset }
    }

    /// When the first file was made.
    fn begins(&self) -> u64 {
        self.files.iter().map(|open| open.file.header.created_mono).min().unwrap_or(0)
    }

    /// The first moment that its files have, and the wall clock as the first of them has it.
    pub fn first(&mut self) -> Clock {
        let offset = self.files.first().map_or(0, |open| offset_of(&open.file));
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

    /// How many blocks the open files have.
    fn held_blocks(&self) -> usize {
        let readers = self.files.iter().filter_map(|open| open.reader.as_ref());
        readers.map(|reader| reader.blocks().len()).sum()
    }

    /// A file, opened.
    fn reader(&mut self, index: usize) -> Result<&FileReader, FilesError> {
        observe::reads_files();
        if self.held_blocks() > most_blocks() {
            return Err(FilesError::TooManyBlocks(most_blocks()));
        }
        let no_file = || FilesError::Absent(Path::new("").into());
        let OpenFile { file, reader, failed } = self.files.get_mut(index).ok_or_else(no_file)?;
        match reader {
            Some(reader) => Ok(reader),
            None => match FileReader::open(&file.path) {
                Ok(opened) => {
                    observe::opens(&opened);
                    Ok(reader.insert(opened))
                }
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

    /// Indexes of the files that may hold something of the window, and of the one after them: its
    /// first checkpoint tells whether they hold all of it.
    fn chosen(&self, window: Window) -> Vec<usize> {
        let touches = |file: &StoredFile| file.begins < window.until && file.ends >= window.from;
        let files = self.files.iter().enumerate();
        let mut chosen: Vec<usize> =
            files.filter(|(_, open)| touches(&open.file)).map(|(index, _)| index).collect();
        chosen.extend(chosen.last().map(|last| last + 1).filter(|next| *next < self.files.len()));
        chosen
    }

    /// Those of the files that are open.
    fn readers(&self, chosen: &[usize]) -> Vec<&FileReader> {
        chosen.iter().filter_map(|index| self.files.get(*index)?.reader.as_ref()).collect()
    }

    /// When the file was begun in which a moment lies.
    pub fn file_begins(&self, moment: u64) -> u64 {
        let made = self.files.iter().map(|open| open.file.header.created_mono);
        made.take_while(|made| *made <= moment).last().unwrap_or(0)
    }

    /// Reads of what the window needs only its ends, before `sure.from` and after `sure.until`, if
    /// it can be shown that nothing is missing between them; what is told of it begins at
    /// `earliest` or later. With them comes what [`Self::take_remarks`] will have.
    pub fn read_ends(
        &mut self,
        window: Window,
        earliest: u64,
        sure: Window,
    ) -> Option<(PageSet, Vec<String>)> {
        let chosen = self.chosen(window);
        if !self.in_a_row(&chosen) {
            return None;
        }
        let meta = self.meta_of(&chosen).ok()?;
        let opened = self.readers(&chosen);
        if opened.iter().any(|reader| damage(reader).next().is_some()) {
            return None;
        }
        let (before, after) = marks(&opened, window);
        // Of files that are still written, what is known ends with the last moment at which the
        // counters are.
        if !self.end.closed && after.as_ref().is_none_or(|mark| mark.totals.now < sure.until) {
            return None;
        }
        let started =
            || checkpoints::start(&opened, &meta).filter(|of| of.totals.now <= window.from);
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
        let copied = totals.now;
        let recording = PageSet { meta, streams, totals, before, copied, ..PageSet::default() };
        Some((recording, self.remarks.clone()))
    }

    /// The names that any thread may have in a window, and in the rings after it; `None`: they
    /// can't all be read, or are too many.
    pub fn names(&mut self, window: Window, rings: Option<&PageSet>) -> Option<Names> {
        let chosen = self.chosen(window);
        if !self.in_a_row(&chosen) {
            return None;
        }
        let opened = self.readers(&chosen);
        Names::of(&opened, rings)
    }

    /// The blocks of a window that hold what is sought in it and in the rings after it, and all
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
        let opened = self.readers(&chosen);
        narrow::choose(&narrow::Place { opened: &opened, meta: &meta, from, rings, names }, sought)
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
            let reader = match self.reader(index) {
                Ok(reader) => reader,
                Err(error @ FilesError::TooManyBlocks(_)) => return Err(error),
                Err(_) => continue,
            };
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
