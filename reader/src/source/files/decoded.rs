//! Blocks that were decoded while the blocks of a narrow question were chosen, for whoever reads
//! them again: the next look, and then the events themselves.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use flightrec_format::decode::{Page, Summary};
use flightrec_store::columns::Texts;
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
        let known = |held: &Held| held.blocks.get(path)?.get(&offset).cloned();
        if let Some(pages) = self.with(|held| known(held)) {
            return Ok(pages);
        }
        let pages = Arc::new(reader.read(job.reader, job.block, Texts::All)?);
        self.with(|held| {
            let sum = held.pages.saturating_add(pages.len());
            if sum <= most() && known(held).is_none() {
                held.pages = sum;
                held.blocks.entry(path.into()).or_default().insert(offset, pages.clone());
            }
        });
        Ok(pages)
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

/// Most pages that are held.
fn most() -> usize {
    usize::try_from(memory::pages_max() / 4 / memory::PAGE_WEIGHT).unwrap_or(usize::MAX)
}
