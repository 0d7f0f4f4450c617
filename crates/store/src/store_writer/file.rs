//! Beginning, filling and closing files.

use std::io;

use flightrec_format::decode::Page;
use flightrec_format::meta::Meta;

use super::faults::Fault;
use super::progress::InFile;
use super::resume::{ends, resume};
use super::sync::{SyncJob, Syncing};
use super::{
    CHECKPOINT_BYTES, Current, DESCRIPTORS_INTERVAL, META_BYTE, META_INTERVAL, Now, Opening,
    StoreWriter,
};
use crate::coder::{Block, Coder};
use crate::dir::{self, FileInfo, Store};
use crate::header::FileHeader;
use crate::lock::Lock;
use crate::writer::FileWriter;

/// How often another number is tried where a file of that name is there already.
const NAMES: u32 = 16;

impl StoreWriter {
    /// Makes and locks the directory, and reads what is in it; the first time, also where an
    /// earlier writer stopped.
    pub(super) fn begin(&mut self) -> Result<(), Fault> {
        let dir = &self.options.state_dir;
        self.disk.make_dir(dir).map_err(|e| Fault::at(dir, &e))?;
        if !self.lock.as_ref().is_some_and(|lock| lock.holds(dir)) {
            self.lock = None;
            self.lock = Some(Lock::take(dir).map_err(|e| Fault::at(dir, &e))?);
        }
        let store = Store::open(dir)?;
        if !self.resumed {
            (self.progress, self.predecessor) =
                resume(&store, &self.options.boot_id, self.options.session);
            self.durable = self.progress.clone();
            self.ended = ends(&store, &self.options.boot_id);
            self.resumed = true;
        }
        (self.files, self.stale) = (Some(store.all().to_vec()), false);
        Ok(())
    }

    /// Appends what is new in pages of one lane, as one block.
    pub(super) fn block(
        &mut self,
        pages: Vec<(Page, bool)>,
        copied: u64,
        opening: &mut dyn Opening,
        now: Now,
    ) -> Result<(), Fault> {
        let roll = self.current.as_ref().is_some_and(|current| {
            let age = now.mono.saturating_sub(current.begun);
            self.options.limits.roll(current.file.written(), current.file.blocks(), age)
        });
        let none = InFile::default();
        let in_file =
            self.current.as_ref().filter(|_| !roll).map_or(&none, |current| &current.in_file);
        let rest: Vec<Page> = pages
            .into_iter()
            .filter_map(|(page, open)| in_file.rest(page, open, copied, &self.progress))
            .collect();
        if rest.is_empty() {
            return Ok(());
        }
        if roll {
            self.meta(&opening.meta(), now)?;
            self.finish(now)?;
        }
        if self.current.is_none() {
            self.create(opening, now)?;
        }
        if self.meta_changed && self.current.as_ref().is_some_and(|c| now.mono >= c.meta) {
            self.meta(&opening.meta(), now)?;
        }
        let asked = self.current.as_ref().map_or(now.mono, |current| current.asked);
        if now.mono.saturating_sub(asked) >= DESCRIPTORS_INTERVAL {
            self.descriptors(opening, now)?;
        }
        let mut summaries = Vec::new();
        let events = self.push(|coder| {
            let (block, counted) = coder.summed(&rest)?;
            summaries = counted;
            Ok(block)
        })?;
        self.stats.events_written = self.stats.events_written.saturating_add(events);
        for (page, summary) in rest.iter().zip(&summaries) {
            self.progress.reached(page, summary);
            if let Some(current) = &mut self.current {
                current.in_file.reached(page);
                current.pages = true;
            }
        }
        self.health.succeeded(
            self.current.as_ref().map_or(0, |current| now.mono.saturating_sub(current.begun)),
        );
        let due = |current: &Current| {
            current.file.written().saturating_sub(current.checkpoint) >= CHECKPOINT_BYTES
        };
        if self.current.as_ref().is_some_and(due) {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Begins a file: with all that explains it.
    fn create(&mut self, opening: &mut dyn Opening, now: Now) -> Result<(), Fault> {
        self.begin()?;
        self.open_file(now)?;
        self.meta(&opening.meta(), now)?;
        let (time, slots) = opening.slots();
        let blocks = self.coder()?.slots(time, &slots).map_err(|e| self.fault(&e))?;
        blocks.into_iter().try_for_each(|block| self.push(|_| Ok(block)).map(drop))?;
        self.descriptors(opening, now)?;
        self.checkpoint()
    }

    /// Writes what the descriptors stand for, if that is known and newer than what the file has of
    /// it.
    fn descriptors(&mut self, opening: &mut dyn Opening, now: Now) -> Result<(), Fault> {
        let held = self.current.as_mut().map_or(0, |current| {
            current.asked = now.mono;
            current.descriptors
        });
        let Some((time, bytes)) = opening.descriptors().filter(|(time, _)| *time > held) else {
            return Ok(());
        };
        match self.coder()?.descriptors(time, &bytes) {
            Ok(block) => drop(self.push(|_| Ok(block))?),
            // More of them than a block takes: a recording without their names is better than none.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
                self.stats.last_fault = Some(e.to_string());
            }
            Err(e) => return Err(self.fault(&e)),
        }
        if let Some(current) = &mut self.current {
            current.descriptors = time;
        }
        Ok(())
    }

    /// Makes the file itself, with its header.
    fn open_file(&mut self, now: Now) -> Result<(), Fault> {
        let files = self.files.as_deref().unwrap_or_default();
        let last = files.iter().map(|file| file.number).max().unwrap_or(0);
        let next = last.max(self.last_number).saturating_add(1);
        let options = &self.options;
        let mut header = FileHeader {
            compatible: 0,
            incompatible: 0,
            boot_id: options.boot_id,
            session: options.session,
            number: next,
            created_wall: now.wall,
            created_mono: now.mono,
            begins: self.progress.time(),
        };
        let level = options.level;
        let mut path = dir::path(&options.state_dir, &options.boot_id, now.wall, next);
        let boot_dir = path.parent().unwrap_or(&options.state_dir).to_owned();
        self.room(4096)?;
        // After that: where the boot's last file had to go, so did its directory.
        self.disk.make_dir(&boot_dir).map_err(|e| Fault::at(&boot_dir, &e))?;
        let mut made = self.disk.create(&path);
        for number in (next..).take(NAMES as usize).skip(1) {
            if !matches!(&made, Err(e) if e.kind() == io::ErrorKind::AlreadyExists) {
                break;
            }
            header.number = number;
            path = dir::path(&self.options.state_dir, &self.options.boot_id, now.wall, number);
            made = self.disk.create(&path);
        }
        let handle = made.map_err(|e| Fault::at(&path, &e))?;
        self.last_number = header.number;
        self.unsynced.extend(self.disk.dir_syncer(&boot_dir).ok());
        self.unsynced.extend(self.disk.dir_syncer(&self.options.state_dir).ok());
        let file = match FileWriter::new(handle, &header, level) {
            Ok(file) => file,
            Err(e) => {
                let _ = self.disk.remove(&path);
                return Err(Fault::at(&path, &e));
            }
        };
        let (boot, number, bytes) = (header.boot_id, header.number, file.written());
        let (start, modified) = (now.wall.div_euclid(1_000_000_000), now.wall);
        let info = FileInfo { path: path.clone(), boot, number, start, modified, bytes };
        self.files.get_or_insert_default().push(info);
        self.stats.bytes_written += file.written();
        self.current = Some(Current {
            path,
            file,
            begun: now.mono,
            in_file: InFile::default(),
            before: self.progress.clone(),
            checkpoint: 0,
            meta: now.mono,
            asked: now.mono,
            descriptors: 0,
            pages: false,
        });
        Ok(())
    }

    /// Closes the file by its index.
    pub(super) fn finish(&mut self, now: Now) -> Result<(), Fault> {
        self.checkpoint()?;
        let ending = self.current.as_ref().map_or(0, |current| current.file.ending());
        self.room(ending)?;
        let Some(Current { path, file, .. }) = self.current.take() else { return Ok(()) };
        let number =
            self.files.as_deref().and_then(<[FileInfo]>::last).map_or(0, |last| last.number);
        self.ended.insert(number, now.mono);
        let syncer = file.out().syncer();
        self.predecessor = Some(path.clone());
        let finished = file.finish().and_then(|handle| {
            self.unsynced.push(syncer?);
            drop(handle);
            Ok(())
        });
        finished.map_err(|e| Fault::at(&path, &e))
    }

    /// Writes the metadata.
    pub(super) fn meta(&mut self, meta: &Meta, now: Now) -> Result<(), Fault> {
        let mut bytes = 0;
        self.push(|coder| {
            let block = coder.meta(meta, now.mono)?;
            bytes = block.size();
            Ok(block)
        })?;
        if let Some(current) = &mut self.current {
            current.meta = now.mono.saturating_add(META_INTERVAL.max(bytes * META_BYTE));
        }
        self.meta_changed = false;
        Ok(())
    }

    /// Writes how far the rings are in the files.
    pub(super) fn checkpoint(&mut self) -> Result<(), Fault> {
        let checkpoint = self.progress.checkpoint();
        self.push(|coder| coder.checkpoint(&checkpoint))?;
        if let Some(current) = &mut self.current {
            current.checkpoint = current.file.written();
        }
        Ok(())
    }

    /// Makes a block, makes room for it, and appends it; returns its events.
    fn push(&mut self, make: impl FnOnce(&mut Coder) -> io::Result<Block>) -> Result<u64, Fault> {
        let block = make(self.coder()?).map_err(|e| self.fault(&e))?;
        self.room(block.size())?;
        let (size, events) = (block.size(), block.events());
        let Some(current) = &mut self.current else { return Err(Fault::says("no file is open")) };
        current.file.push(block).map_err(|e| Fault::at(&current.path, &e))?;
        let written = current.file.written();
        if let Some(info) = self.files.as_mut().and_then(|files| files.last_mut()) {
            info.bytes = written;
        }
        self.stats.bytes_written += size;
        Ok(events)
    }

    fn coder(&mut self) -> Result<&mut Coder, Fault> {
        let current = self.current.as_mut().ok_or_else(|| Fault::says("no file is open"))?;
        Ok(current.file.coder())
    }

    fn fault(&self, error: &io::Error) -> Fault {
        let path = self.current.as_ref().map_or(&self.options.state_dir, |current| &current.path);
        Fault::at(path, error)
    }

    /// All that is not on the disk yet.
    pub(super) fn job(&mut self, now: Now) -> Option<SyncJob> {
        let mut what = std::mem::take(&mut self.unsynced);
        if let Some(current) = &self.current {
            match current.file.out().syncer() {
                Ok(syncer) => what.push(syncer),
                Err(e) => {
                    let fault = Fault::at(&current.path, &e);
                    self.failed(fault, now);
                    return None;
                }
            }
        }
        if what.is_empty() {
            return None;
        }
        self.syncing = Syncing::Running;
        Some(SyncJob { what, progress: self.progress.clone() })
    }
}
