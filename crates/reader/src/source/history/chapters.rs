//! Chapters in files: sessions one after the other, and long ones in stretches.

use super::chapter::Joins;
use super::files_part::FilesPart;
use super::part::Part;
use super::question::Question;
use crate::memory;
use crate::observe::note;
use crate::source::Clock;
use crate::source::files::FilesError;
use crate::source::files::catalog::{BootFiles, Refused, SessionFiles};
use crate::source::files::session::{self, SessionSource};
use crate::window::{Window, with_leads};

/// Chapters of files alone.
pub(super) fn stored(boots: Vec<BootFiles>, question: Question) -> Result<Vec<Part>, FilesError> {
    let newest = boots.len().saturating_sub(1);
    let mut parts = Vec::new();
    for (at, boot) in boots.into_iter().enumerate() {
        if let Some(question) = question.of_boot(at == newest) {
            parts.extend(chapters(boot.sessions, question, None, at == newest)?);
        }
    }
    Ok(parts)
}

/// The chapters of one boot, the earliest first. `end`: the present, and where the chapter after
/// these begins; else they end with the last one.
pub(super) fn chapters(
    sessions: Vec<SessionFiles>,
    question: Question,
    end: Option<(Clock, u64)>,
    is_newest: bool,
) -> Result<Vec<Part>, FilesError> {
    let mut cut = end.map_or(u64::MAX, |(_, started)| started);
    let mut present = end.map(|(clock, _)| clock.now);
    let offset = end.map(|(clock, _)| clock.wall_offset);
    let mut parts = Vec::new();
    for session in sessions.into_iter().rev() {
        let mut source = SessionSource::open(session.clone())?;
        let present = *present.get_or_insert(source.clock().now);
        let asked = source.around(question.since, question.until, present, offset);
        if with_leads(asked.hull()).from >= cut && !question.is_by_wall() {
            break;
        }
        let meta = source.meta()?;
        let end = source.clock().now.min(cut);
        // A boot that has nothing of the window is not told of; of the newest it is said that it
        // has not.
        let touches = |asked: &Window| asked.from < end && asked.until > meta.started;
        let mut told: Vec<Window> = asked.iter().filter(touches).collect();
        if told.is_empty() && is_newest && parts.is_empty() && cut == u64::MAX {
            told.push(asked.hull());
        }
        for window in told.into_iter().rev() {
            let source = SessionSource::open(session.clone())?;
            let window = Window { from: window.from, until: window.until.min(cut) };
            parts.extend(
                stretches(&session, source, window, false, present, question, memory::stretch())?
                    .into_iter()
                    .rev(),
            );
        }
        cut = cut.min(meta.started);
    }
    parts.reverse();
    Ok(parts)
}

/// A session's window, parted into stretches that fit into memory; the earliest first. What is read
/// before the window is parted with it. `goes_on`: the window goes on after them; `most`: the
/// bytes that the pages of one may take.
pub(super) fn stretches(
    session: &SessionFiles,
    mut source: SessionSource,
    window: Window,
    goes_on: bool,
    present: u64,
    question: Question,
    most: u64,
) -> Result<Vec<Part>, FilesError> {
    let Window { from, until } = with_leads(window);
    let begin = if question.everything { source.file_begins(from) } else { from };
    let around = (window.from.saturating_sub(from), until.saturating_sub(window.until));
    let asked = Window { from: begin, until: window.until };
    let parts = source.parted(asked, around, most);
    let (count, is_whole) = (parts.len(), parts.len() == 1 && !goes_on);
    let mut source = Some(source);
    let part = |(number, part): (usize, session::Part)| {
        // Each has readers of its own, which go with it.
        let source = match source.take() {
            Some(source) => source,
            None => SessionSource::open(session.clone())?,
        };
        let after = goes_on || number + 1 < count;
        let joins = (!is_whole).then_some(Joins {
            whole: window,
            is_whole: !goes_on,
            from: part.from,
            until: if after { part.until } else { part.read.until },
            before: number != 0,
            after,
        });
        let told = Window { from: part.from.max(window.from), until: part.until };
        let part = FilesPart {
            source,
            window: part.read,
            from: told.from,
            cut: told.until,
            present,
            question,
            own: Vec::new(),
            joins,
            number,
            weight: part.weight,
        };
        Ok(Part::Files(Box::new(part)))
    };
    parts.into_iter().enumerate().map(part).collect()
}

/// Files that could not be taken in are named; the others are read.
pub(super) fn told((boots, refused): (Vec<BootFiles>, Refused)) -> Vec<BootFiles> {
    for (_, error) in refused {
        note(&format!("left out: {error}"));
    }
    boots
}
