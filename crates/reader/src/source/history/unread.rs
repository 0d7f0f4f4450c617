//! The chapters of a window that are still to be read.

use std::path::Path;

use super::chapter::{Chapter, Foretold, Joins};
use super::part::Part;
use super::place::parts;
use super::question::Question;
use super::rings::with_rings;
use super::visitor::Needs;
use crate::memory;
use crate::source::files::name_index::Names;
use crate::source::files::narrow::{Chosen, Sought};
use crate::source::origin::HistoryPlan;
use crate::source::{PageSet, Source, SourceError};

/// The chapters of a window, the earliest first. Each is read when it is asked for; the rings have
/// been read before any.
pub struct Chapters {
    parts: std::vec::IntoIter<Part>,
    is_only: bool,
}

impl Chapters {
    /// Of a history.
    ///
    /// # Errors
    /// The plan names no recording that can be read.
    pub fn of(plan: &HistoryPlan, question: Question) -> Result<Self, SourceError> {
        Ok(Self::new(parts(plan, question)?))
    }

    /// Of the rings of any source, and of the files of its boot in `dir`, which reach further back.
    ///
    /// # Errors
    /// As of [`Self::of`].
    pub fn beside(
        source: &mut dyn Source,
        dir: &Path,
        question: Question,
    ) -> Result<Self, SourceError> {
        Ok(Self::new(with_rings(source, dir, true, true, question)?))
    }

    /// Of the rings of a source alone.
    ///
    /// # Errors
    /// The source can not be read.
    pub fn only(source: &mut dyn Source, question: Question) -> Result<Self, SourceError> {
        let clock = source.clock();
        let recording = source.read(question.of_rings(clock))?;
        let chapter = Chapter::only(recording, clock, question.since, question.until);
        Ok(Self::new(vec![Part::Rings(Box::new(chapter))]))
    }

    fn new(parts: Vec<Part>) -> Self {
        let begins = |part: &&Part| part.joins().is_none_or(|joins| !joins.before);
        let is_only = parts.iter().filter(begins).count() == 1;
        Self { parts: parts.into_iter(), is_only }
    }

    /// The rings that go on with the window of which the last part was a stretch.
    pub(super) fn rings(&self) -> Option<&PageSet> {
        // They come last, after the stretches of that window alone.
        let next = self.parts.as_slice().iter().find(|part| !matches!(part, Part::Files(_)))?;
        let Part::Rings(chapter) = next else { return None };
        let joins = chapter.joins.filter(|joins| joins.before)?;
        let is_same = |of: Joins| of.before && of.whole == joins.whole;
        let files = self.parts.as_slice().iter().take_while(|part| matches!(part, Part::Files(_)));
        let all = files.map(Part::joins).all(|of| of.is_some_and(is_same));
        all.then_some(&chapter.recording)
    }

    /// The next part, if it is a stretch of files that goes on with a chapter, and both fit into
    /// memory.
    pub(super) fn next_stretch(&mut self, chapter: &Chapter) -> Option<Unread> {
        let Part::Files(next) = self.parts.as_slice().first()? else { return None };
        let pages = chapter.recording.streams.iter().map(|stream| stream.pages().len());
        let held = (pages.sum::<usize>() as u64).saturating_mul(memory::PAGE_WEIGHT);
        let fits = held.saturating_add(next.weight()) <= memory::pages_max();
        let goes_on = next.joins().is_some_and(|joins| joins.before);
        if fits && goes_on { self.next_part() } else { None }
    }

    pub(super) fn next_part(&mut self) -> Option<Unread> {
        Some(Unread { part: self.parts.next()?, is_only: self.is_only })
    }
}

impl Iterator for Chapters {
    type Item = Result<Chapter, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_part()?.read(&Needs::All, false))
    }
}

/// A chapter that comes next, not yet read.
pub(super) struct Unread {
    pub(super) part: Part,
    is_only: bool,
}

impl Unread {
    /// What is known, before it is read, of the window of which it is the first stretch.
    pub(super) fn foretold(&mut self) -> Option<Foretold> {
        let Part::Files(part) = &mut self.part else { return None };
        let mut foretold = part.foretell()?;
        foretold.chapter.is_only = self.is_only;
        Some(foretold)
    }

    /// Whether it is a stretch after another one of its window.
    pub(super) fn goes_on(&self) -> bool {
        self.part.joins().is_some_and(|joins| joins.before)
    }

    /// The names that threads may have in the window of which it is the first stretch; `None`: they
    /// are not known, or too many.
    pub(super) fn names(&mut self, rings: Option<&PageSet>) -> Option<Names> {
        let Part::Files(part) = &mut self.part else { return None };
        part.names(rings)
    }

    /// The blocks of it and of the stretches after it that hold what is sought there and in the
    /// rings after them; `None`: all are to be read.
    pub(super) fn choose(
        &mut self,
        rings: Option<&PageSet>,
        names: &Names,
        sought: &dyn Sought,
    ) -> Option<Chosen> {
        let Part::Files(part) = &mut self.part else { return None };
        part.choose(rings, names, sought)
    }

    pub(super) fn read(self, needs: &Needs, is_sure: bool) -> Result<Chapter, SourceError> {
        let chapter = match self.part {
            Part::Rings(mut chapter) => {
                if let Needs::Chosen(chosen) = needs {
                    chapter.recording.skips = chosen.skips.clone();
                }
                *chapter
            }
            Part::Files(part) => part.read(needs, is_sure)?,
        };
        Ok(Chapter { is_only: self.is_only, ..chapter })
    }
}
