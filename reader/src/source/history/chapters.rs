//! Chapters in files: sessions one behind the other, and long ones in stretches.

use flightrec_format::abi::page::Lane;

use super::{Chapter, Foretold, Joins, Names, Needs, Part, Question};
use crate::memory;
use crate::source::files::FilesError;
use crate::source::files::catalog::{BootFiles, SessionFiles};
use crate::source::files::narrow::{Chosen, Sought, Tail};
use crate::source::files::session::{self, AROUND_NS, Pick, SessionSource};
use crate::source::{Clock, Recording, SourceError, Sure};
use crate::window::with_leads;
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
    /// Where it is a stretch of a window that does not fit into memory.
    joins: Option<Joins>,
    /// Which stretch of its window it is, from 0.
    number: usize,
    /// Bytes of memory that the pages of what is read take.
    weight: u64,
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

/// The chapters of one boot, the earliest first. `end`: the present, and where the chapter behind
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
/// before the window is parted with it. `goes_on`: the window goes on behind them; `most`: the
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
        let behind = goes_on || number + 1 < count;
        let joins = (!is_whole).then_some(Joins {
            whole: window,
            is_whole: !goes_on,
            from: part.from,
            until: if behind { part.until } else { part.read.until },
            before: number != 0,
            behind,
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

impl FilesPart {
    /// Of the window these stretches alone are wanted.
    pub(super) fn limit(&mut self, own: &[Window]) {
        own.clone_into(&mut self.own);
    }

    /// Reads it, as far as it is needed.
    pub(super) fn read(mut self, needs: &Needs, is_sure: bool) -> Result<Chapter, SourceError> {
        let mut threads = None;
        let pick = match needs {
            Needs::All => Pick::Lanes(&Lane::RINGS),
            Needs::Lanes(lanes) => Pick::Lanes(lanes),
            Needs::CallEnds => Pick::CallEnds { is_sure, until: self.cut },
            Needs::Chosen(chosen) => {
                threads.clone_from(&chosen.threads);
                Pick::Chosen(chosen)
            }
        };
        let mut window = self.window;
        if let (Needs::CallEnds, Some(Joins { before: true, from, .. })) = (needs, self.joins) {
            // Of the calls that begin before, the stretch before tells.
            window.from = from;
        }
        let mut recording = self.source.read_some(window, pick)?;
        let goes_on = self.joins.filter(|joins| joins.behind);
        recording.stretch_until = goes_on.map(|joins| joins.until);
        recording.sure = is_sure.then_some(Sure { read_from: window.from, threads });
        if let Needs::Chosen(chosen) = needs {
            recording.skips = chosen.skips.clone();
        }
        let remarks = self.source.take_remarks();
        let is_narrow = !matches!(needs, Needs::All);
        Ok(Chapter { is_narrow, ..self.chapter(recording, remarks) })
    }

    /// Bytes of memory that its pages take.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// How it joins others of its window.
    pub(super) fn joins(&self) -> Option<Joins> {
        self.joins
    }

    /// What it and the stretches behind it make up, if it can be told before they are read that
    /// nothing of it is missing. Of a window of which the first stretch does not tell, as it begins
    /// before the files do, the second may.
    pub(super) fn foretell(&mut self) -> Option<Foretold> {
        let Question { since, until, everything } = self.question;
        // What is before the window would have to be told apart from it.
        if everything && !matches!(since, Edge::Open) {
            return None;
        }
        let joins = self.joins.filter(|_| self.number < 2)?;
        let Window { from: begin, until: cut } = joins.whole;
        let slack = |edge| if matches!(edge, Edge::Wall(_)) { AROUND_NS } else { 0 };
        // Where another stretch ends it begins for sure.
        let (from, slack_before) =
            if joins.before { (joins.from, 0) } else { (begin, slack(since)) };
        let sure = Window {
            from: from.saturating_add(slack_before),
            until: cut.saturating_sub(slack(until)),
        };
        let with_leads = with_leads(Window { from, until: cut });
        // Where the rings follow, they have what is behind.
        let read = if joins.is_whole { with_leads } else { Window { until: cut, ..with_leads } };
        let (recording, remarks) = self.source.read_ends(read, from, sure)?;
        let mut chapter = self.chapter(recording, remarks);
        chapter.from = from;
        chapter.clock.now = self.source.clock().now.min(cut);
        let is_even = self.source.is_even(with_leads);
        Some(Foretold { chapter, sure, is_even })
    }

    /// The names that threads may have in the window of which it is a stretch, and in the rings
    /// behind it.
    pub(super) fn names(&mut self, rings: Option<&Recording>) -> Option<Names> {
        let joins = self.joins.filter(|joins| joins.is_whole || rings.is_some())?;
        self.source.names(with_leads(joins.whole), rings)
    }

    /// The blocks of this stretch and of those behind it that hold what is sought there and in the
    /// rings behind them, the first of a window excepted; `None`: all are to be read.
    pub(super) fn choose(
        &mut self,
        rings: Option<&Recording>,
        names: &Names,
        sought: &dyn Sought,
    ) -> Option<Chosen> {
        let joins = self.joins.filter(|joins| joins.is_whole || rings.is_some())?;
        let Joins { whole, from, until, before, .. } = joins;
        let from = if before { from } else { until };
        let rings = rings.map(|recording| Tail { recording, from: whole.until });
        self.source.choose(with_leads(whole), from, rings, names, sought)
    }

    fn chapter(&self, recording: Recording, remarks: Vec<String>) -> Chapter {
        let clock = self.source.clock();
        let clock = Clock { now: clock.now.min(self.cut), ..clock };
        let Question { since, until, .. } = self.question;
        Chapter {
            recording,
            from: self.from,
            clock,
            present: self.present,
            since,
            until,
            own: self.own.clone(),
            remarks,
            is_only: true,
            is_narrow: false,
            is_foretold: false,
            joins: self.joins,
        }
    }
}
