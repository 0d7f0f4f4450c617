//! One history in the order of time, from rings and files, of any number of recordings and boots.
//!
//! Each recording session is a *chapter*. It has its own metadata and its own page numbers. It ends
//! at the latest where the next session of its boot begins. The rings are read before any file,
//! because they are overwritten meanwhile. Files are read only for what is no longer in the rings.

mod ahead;
mod chapter;
mod chapters;
mod files_part;
mod own;
mod part;
mod place;
mod question;
mod rings;
#[cfg(test)]
mod tests;
mod unread;
mod visitor;

use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use self::ahead::Ahead;
pub use self::chapter::{Chapter, Foretold, Joins};
use self::part::Part;
pub use self::place::boots;
pub use self::question::Question;
pub use self::unread::Chapters;
use self::unread::Unread;
pub use self::visitor::{Go, Needs, Visitor};
pub use super::files::name_index::Names;
pub use super::files::narrow::{Chosen, Only, Sought};
use super::origin::HistoryPlan;
use super::{Source, SourceError};
use crate::redact;

/// Reads the chapters of the window, the earliest first, and drops each before the next; of those
/// of which the ends of calls are needed ([`Needs::CallEnds`]), two are held at a time.
///
/// # Errors
/// The source's, and the visitor's.
pub fn read<E: From<SourceError>>(
    plan: &HistoryPlan,
    question: Question,
    visitor: &mut impl Visitor<E>,
) -> Result<(), E> {
    visit_all(Chapters::of(plan, question)?, visitor)
}

/// The same of the rings of any source, and of the files of its boot in `dir`, which reach further
/// back.
///
/// # Errors
/// The source's, and the visitor's.
pub fn read_beside<E: From<SourceError>>(
    source: &mut dyn Source,
    dir: &Path,
    question: Question,
    visitor: &mut impl Visitor<E>,
) -> Result<(), E> {
    visit_all(Chapters::beside(source, dir, question)?, visitor)
}

fn visit_all<E: From<SourceError>>(
    mut chapters: Chapters,
    visitor: &mut impl Visitor<E>,
) -> Result<(), E> {
    let mut ahead = Ahead::default();
    while let Some(mut next) = chapters.next_part() {
        ahead.look(&mut next, chapters.rings(), visitor)?;
        let needs = ahead.needs(&next, visitor);
        let is_inside = ahead.is_foretold && next.goes_on();
        // What the rings have that follow is told by themselves.
        let is_told = ahead.is_foretold && matches!(next.part, Part::Files(_));
        let mut chapter = next.read(&needs, is_inside)?;
        loop {
            chapter.is_foretold = is_told;
            chapter.recording.redact(redact::kept());
            // Of those after the first, fewer blocks may have been chosen.
            let is_known = matches!(needs, Needs::CallEnds) && ahead.chosen.is_none();
            let following = is_known.then(|| chapters.next_stretch(&chapter)).flatten();
            let (go, read) = take(visitor, chapter, following);
            if go? == Go::Enough {
                return Ok(());
            }
            let Some(read) = read else { break };
            chapter = read?;
        }
    }
    Ok(())
}

/// Gives a chapter to the visitor; what is `following`, a stretch of which the ends of calls are
/// needed, is read meanwhile.
fn take<E>(
    visitor: &mut impl Visitor<E>,
    chapter: Chapter,
    following: Option<Unread>,
) -> (Result<Go, E>, Option<Result<Chapter, SourceError>>) {
    let Some(following) = following else { return (visitor.take(chapter), None) };
    thread::scope(|scope| {
        let reading = scope.spawn(move || following.read(&Needs::CallEnds, true));
        let go = visitor.take(chapter);
        (go, Some(reading.join().unwrap_or_else(|panic| resume_unwind(panic))))
    })
}
