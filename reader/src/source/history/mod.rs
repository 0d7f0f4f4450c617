//! One history in the order of time, from rings and files, of any number of recordings and boots.
//!
//! Each recording session is a *chapter*. It has its own metadata and its own page numbers. It ends
//! at the latest where the next session of its boot begins. The rings are read before any file,
//! because they are overwritten meanwhile. Files are read only for what is no longer in the rings.

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
use std::sync::Arc;
use std::thread;

use flightrec_format::abi::page::Lane;

pub use self::chapter::{Chapter, Foretold, Joins};
use self::part::Part;
pub use self::place::boots;
pub use self::question::Question;
pub use self::unread::Chapters;
use self::unread::Unread;
pub use self::visitor::{Go, Needs, Visitor};
pub use super::files::narrow::{Chosen, Only, Sought};
pub use super::files::who::Names;
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
    // Whether the parts that come belong to a window that was foretold, and may be read in part.
    let (mut is_foretold, mut is_even) = (false, false);
    // What of the stretches behind the first is read.
    let mut chosen = None;
    while let Some(mut next) = chapters.next_part() {
        is_foretold &= next.goes_on();
        if !next.goes_on() {
            chosen = None;
        }
        let doubts = visitor.doubts();
        let listens = !is_foretold && visitor.listens() && (!doubts || next.goes_on());
        let foretold = if listens { next.foretold() } else { None };
        if let Some(foretold) = foretold.as_ref().filter(|of| doubts && of.is_even) {
            visitor.ask(foretold);
            let rings = chapters.rings();
            let names = next.names(rings);
            let sought = names.as_ref().and_then(|names| Some((names, visitor.sought(names)?)));
            let blocks = sought.and_then(|(names, sought)| next.choose(rings, names, &*sought));
            if let Some(blocks) = blocks {
                visitor.ahead(foretold)?;
                // Where it could not tell of the window, it needs all of it.
                if visitor.wants_names() {
                    visitor.chosen(&blocks);
                    chosen = Some(Arc::new(blocks));
                }
                (is_foretold, is_even) = (true, true);
            }
        } else if let Some(foretold) = foretold.filter(|_| !doubts) {
            visitor.ahead(&foretold)?;
            (is_foretold, is_even) = (true, foretold.is_even);
            chosen = None;
            if is_even
                && visitor.wants_names()
                && let Some(names) = next.names(chapters.rings())
            {
                visitor.names(&names);
                let sought = visitor.sought(&names);
                let blocks =
                    sought.and_then(|sought| next.choose(chapters.rings(), &names, &*sought));
                chosen = blocks.map(Arc::new);
            }
        }
        let mut needs = if is_foretold && is_even { visitor.needs() } else { Needs::All };
        // The first stretch of a window tells what is known where the others begin.
        let is_inside = is_foretold && next.goes_on();
        let is_of_many = !matches!(needs, Needs::Lanes(&[Lane::Task]));
        if let (true, Some(chosen), true) = (is_of_many, &chosen, is_inside) {
            needs = Needs::Chosen(chosen.clone());
        }
        // What the rings have that follow is told by themselves.
        let is_told = is_foretold && matches!(next.part, Part::Files(_));
        let mut chapter = next.read(&needs, is_inside)?;
        loop {
            chapter.is_foretold = is_told;
            chapter.recording.redact(redact::kept());
            // Of those behind the first, fewer blocks may have been chosen.
            let is_known = matches!(needs, Needs::CallEnds) && chosen.is_none();
            let ahead = is_known.then(|| chapters.next_stretch(&chapter)).flatten();
            let (go, read) = take(visitor, chapter, ahead);
            if go? == Go::Enough {
                return Ok(());
            }
            let Some(read) = read else { break };
            chapter = read?;
        }
    }
    Ok(())
}

/// Gives a chapter to the visitor; what is `ahead`, a stretch of which the ends of calls are
/// needed, is read meanwhile.
fn take<E>(
    visitor: &mut impl Visitor<E>,
    chapter: Chapter,
    ahead: Option<Unread>,
) -> (Result<Go, E>, Option<Result<Chapter, SourceError>>) {
    let Some(ahead) = ahead else { return (visitor.take(chapter), None) };
    thread::scope(|scope| {
        let reading = scope.spawn(move || ahead.read(&Needs::CallEnds, true));
        let go = visitor.take(chapter);
        (go, Some(reading.join().unwrap_or_else(|panic| resume_unwind(panic))))
    })
}
