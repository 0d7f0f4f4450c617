//! Chapters in files: sessions one behind the other, and long ones in stretches.

use super::{Chapter, Foretold, Part, Question};
use crate::pipeline::with_leads;
use crate::source::files::FilesError;
use crate::source::files::catalog::{BootFiles, SessionFiles};
use crate::source::files::session::{AROUND_NS, STRETCH, SessionSource};
use crate::source::{Clock, Recording, SourceError};
use crate::window::{Edge, Window};

/// A chapter in files.
pub(super) struct FilesPart {
    source: SessionSource,
    /// What is read.
    window: Window,
    /// What is told of it.
    from: u64,
    /// Where the next one begins.
    cut: u64,
    present: u64,
    question: Question,
    own: Vec<Window>,
}

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

/// The chapters of one boot, the earliest first. `end`: the present, and where the chapter behind these begins; else they end with
/// the last one.
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
        // A boot that has nothing of the window is not told of; of the newest it is said that it has not.
        let touches = |asked: &Window| asked.from < end && asked.until > meta.started;
        let mut told: Vec<Window> = asked.iter().filter(touches).collect();
        if told.is_empty() && is_newest && parts.is_empty() && cut == u64::MAX {
            told.push(asked.hull());
        }
        for window in told.into_iter().rev() {
            let source = SessionSource::open(session.clone())?;
            let window = Window { from: window.from, until: window.until.min(cut) };
            parts.extend(stretches(&session, source, window, present, question)?.into_iter().rev());
        }
        cut = cut.min(meta.started);
    }
    parts.reverse();
    Ok(parts)
}

/// A session's window, parted into stretches that fit into memory; the earliest first.
pub(super) fn stretches(
    session: &SessionFiles,
    mut source: SessionSource,
    window: Window,
    present: u64,
    question: Question,
) -> Result<Vec<Part>, FilesError> {
    let cuts: Vec<u64> = source.parted(window, STRETCH).into_iter().filter(|cut| window.contains(*cut)).collect();
    let begins = [window.from].into_iter().chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([window.until]);
    let mut sources = vec![source];
    for _ in &cuts {
        sources.push(SessionSource::open(session.clone())?);
    }
    let part = |((from, cut), source): ((u64, u64), SessionSource)| {
        let read = with_leads(Window { from, until: cut });
        let begin = if question.everything { source.file_begins(read.from) } else { read.from };
        let window = Window { from: begin, until: read.until };
        Part::Files(Box::new(FilesPart { source, window, from, cut, present, question, own: Vec::new() }))
    };
    Ok(begins.zip(ends).zip(sources).map(part).collect())
}

impl FilesPart {
    /// Of the window these stretches alone are wanted.
    pub(super) fn limit(&mut self, own: &[Window]) {
        own.clone_into(&mut self.own);
    }

    /// Reads it.
    pub(super) fn read(mut self) -> Result<Chapter, SourceError> {
        let recording = self.source.read(self.window)?;
        let remarks = self.source.take_remarks();
        Ok(self.chapter(recording, remarks))
    }

    /// The chapter as far as it can be told of what is complete, which is known much sooner.
    pub(super) fn foretell(&mut self) -> Option<Foretold> {
        let Question { since, until, everything } = self.question;
        if everything {
            return None;
        }
        let slack = |edge| if matches!(edge, Edge::Wall(_)) { AROUND_NS } else { 0 };
        let sure =
            Window { from: self.from.saturating_add(slack(since)), until: self.cut.saturating_sub(slack(until)) };
        let (recording, remarks) = self.source.read_ends(self.window, self.from, sure)?;
        Some(Foretold { chapter: self.chapter(recording, remarks), sure })
    }

    fn chapter(&self, recording: Recording, remarks: Vec<String>) -> Chapter {
        let clock = self.source.clock();
        let clock = Clock { now: clock.now.min(self.cut), ..clock };
        let Question { since, until, .. } = self.question;
        let (from, present, own) = (self.from, self.present, self.own.clone());
        Chapter { recording, from, clock, present, since, until, own, remarks, is_only: true }
    }
}
