//! Blocks that were decoded, for whoever reads them again: those of a narrow question while its
//! blocks were chosen, for the next look and then the events themselves; and those in which a
//! stretch ends, for the next one.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Page, Summary};
use flightrec_store::columns::Contents;
use flightrec_store::{Damage, PagesReader};
use rustc_hash::FxHashMap;

use super::load::Job;
use crate::memory;

/// A block's pages, with what each comes to.
type Pages = Vec<(Page, Summary)>;

/// Decoded blocks, of an eighth of the memory at most.
#[derive(Default)]
pub(super) struct Decoded(Mutex<Held>);

#[derive(Default)]
struct Held {
    /// By file and by where they begin there.
    blocks: FxHashMap<PathBuf, FxHashMap<u64, Arc<Pages>>>,
    pages: usize,
}

impl Decoded {
    /// A block's pages, decoded if they are not held; they are held from now on, if there is room.
    ///
    /// # Errors
    /// The block is damaged.
    pub(super) fn look(
        &self,
        job: &Job<'_>,
        reader: &mut PagesReader,
    ) -> Result<Arc<Pages>, Damage> {
        let (path, offset) = (job.reader.path(), job.block.offset);
        let known = self.with(|held| held.blocks.get(path)?.get(&offset).cloned());
        if let Some(pages) = known {
            return Ok(pages);
        }
        let pages = Arc::new(job.pages(reader, Contents::All)?);
        self.hold(job, pages.len(), || pages.clone());
        Ok(pages)
    }

    /// Holds a block's pages, of which there are so many, if there is room.
    fn hold(&self, job: &Job<'_>, count: usize, pages: impl FnOnce() -> Arc<Pages>) {
        let (path, offset) = (job.reader.path(), job.block.offset);
        self.with(|held| {
            let sum = held.pages.saturating_add(count);
            let is_held = held.blocks.get(path).is_some_and(|blocks| blocks.contains_key(&offset));
            if sum <= most() && !is_held {
                held.pages = sum;
                held.blocks.entry(path.into()).or_default().insert(offset, pages());
            }
        });
    }

    /// Gives a block's pages away, if they are held.
    pub(super) fn take(&self, job: &Job<'_>) -> Option<Pages> {
        let pages = self.with(|held| {
            let pages = held.blocks.get_mut(job.reader.path())?.remove(&job.block.offset)?;
            held.pages = held.pages.saturating_sub(pages.len());
            Some(pages)
        })?;
        Some(Arc::try_unwrap(pages).unwrap_or_else(|shared| shared.as_ref().clone()))
    }

    /// Drops all blocks but those that are wanted.
    pub(super) fn retain(&self, is_wanted: impl Fn(&PathBuf, u64) -> bool) {
        self.with(|held| {
            for (path, blocks) in &mut held.blocks {
                blocks.retain(|offset, _| is_wanted(path, *offset));
            }
            held.pages = held.blocks.values().flatten().map(|(_, pages)| pages.len()).sum();
        });
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut Held) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decoded({} pages)", self.with(|held| held.pages))
    }
}

/// How blocks are decoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoding<'a> {
    /// Those that were, decoded as these are to be: they are taken from there.
    pub(super) held: Option<&'a Decoded>,
    /// Which contents of system calls are decoded.
    pub(super) contents: Contents,
    /// The blocks of system calls that end here or later are held from now on.
    pub(super) hold_from: u64,
}

impl Decoding<'_> {
    /// All of them, with all that they have.
    pub(super) const ALL: Self = Self { held: None, contents: Contents::All, hold_from: u64::MAX };

    /// A block's pages.
    ///
    /// # Errors
    /// The block is damaged.
    pub(super) fn pages(self, job: &Job<'_>, reader: &mut PagesReader) -> Result<Pages, Damage> {
        let header = &job.block.header;
        let is_call = header.lane == Some(Lane::Syscall);
        let contents = if is_call { self.contents } else { Contents::All };
        let known = self.held.and_then(|held| held.take(job));
        let pages = known.map_or_else(|| job.pages(reader, contents), Ok)?;
        if is_call
            && header.last >= self.hold_from
            && let Some(held) = self.held
        {
            held.hold(job, pages.len(), || Arc::new(pages.clone()));
        }
        Ok(pages)
    }
}

/// Most pages that are held.
fn most() -> usize {
    usize::try_from(memory::pages_max() / 4 / memory::PAGE_WEIGHT).unwrap_or(usize::MAX)
}
