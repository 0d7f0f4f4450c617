//! A recording that goes on: what is new in it since it was asked last.

use std::collections::HashMap;
use std::path::PathBuf;

use flightrec_format::decode::Page;
use flightrec_format::symbols::Symbols;
use flightrec_format::totals::{Position, Totals};

use super::{Source, SourceError};

/// A source that is written while it is read.
pub trait Live: Source {
    /// Session id of the recording, as it was when it was opened.
    fn session(&self) -> u64;

    /// CPUs that it has rings of.
    fn cpus(&self) -> Vec<u16>;

    /// Where the recorder writes its files, if it says so.
    fn state_dir(&self) -> Option<PathBuf> {
        None
    }

    /// Where blocked threads wait at this moment.
    ///
    /// # Errors
    /// The kernel, or this recording's probes, can't tell; or the source fails.
    fn stacks(&mut self) -> Result<Stacks, SourceError>;

    /// The pages after these positions, at most the `newest` of each ring; `None` where the
    /// recording `session` has ended (there may be another one).
    ///
    /// # Errors
    /// The source fails, or gives more pages than were asked for.
    fn since(
        &mut self,
        session: u64,
        after: &[Position],
        newest: u32,
    ) -> Result<Option<News>, SourceError>;
}

/// Kernel stacks of blocked threads.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    /// By thread id: the frames, from the innermost function out. At most
    /// [`FRAMES_MAX`](flightrec_format::abi::record::stack::FRAMES_MAX), so where there are as many
    /// there may be more.
    pub by_thread: HashMap<u32, Vec<u32>>,
    /// The functions that frames are in, as far as they are known.
    pub symbols: Symbols,
}

/// What is new.
#[derive(Debug)]
pub struct News {
    /// Of each ring, oldest first.
    pub pages: Vec<Page>,
    /// The counters, read after the pages.
    pub totals: Totals,
}

/// Puts pages together, no more than were asked for.
pub(super) struct NewsCollector {
    session: u64,
    pages: Vec<Page>,
    room: usize,
}

impl NewsCollector {
    pub(super) fn new(session: u64, after: &[Position], newest: u32) -> Self {
        Self { session, pages: Vec::new(), room: after.len().saturating_mul(newest as usize) }
    }

    /// Takes a page. What is no page of this recording is passed over: the totals tell what is
    /// missing.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), SourceError> {
        self.room = self.room.checked_sub(1).ok_or(SourceError::TooManyPages)?;
        if let Ok(page) = Page::copy_from(bytes)
            && page.header().session == self.session
        {
            self.pages.push(page);
        }
        Ok(())
    }

    pub(super) fn finish(self, totals: Totals) -> News {
        News { pages: self.pages, totals }
    }
}
