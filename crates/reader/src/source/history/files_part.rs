//! A chapter in files, or a stretch of one, before it is read.

use flightrec_format::abi::page::Lane;

use super::chapter::{Chapter, Foretold, Joins};
use super::question::Question;
use super::visitor::Needs;
use crate::source::files::name_index::Names;
use crate::source::files::narrow::{Chosen, Sought, Tail};
use crate::source::files::pick::Pick;
use crate::source::files::session::{AROUND_NS, SessionSource};
use crate::source::{Clock, PageSet, SourceError, Sure};
use crate::window::{Edge, Window, with_leads};

/// A chapter in files.
pub(super) struct FilesPart {
    pub(super) source: SessionSource,
    /// What is read.
    pub(super) window: Window,
    /// What is told of it.
    pub(super) from: u64,
    /// Where the next one begins.
    pub(super) cut: u64,
    pub(super) present: u64,
    pub(super) question: Question,
    pub(super) own: Vec<Window>,
    /// Where it is a stretch of a window that does not fit into memory.
    pub(super) joins: Option<Joins>,
    /// Which stretch of its window it is, from 0.
    pub(super) number: usize,
    /// Bytes of memory that the pages of what is read take.
    pub(super) weight: u64,
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
        let goes_on = self.joins.filter(|joins| joins.after);
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

    /// What it and the stretches after it make up, if it can be told before they are read that
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
        // Where the rings follow, they have what is after.
        let read = if joins.is_whole { with_leads } else { Window { until: cut, ..with_leads } };
        let (recording, remarks) = self.source.read_ends(read, from, sure)?;
        let mut chapter = self.chapter(recording, remarks);
        chapter.from = from;
        chapter.clock.now = self.source.clock().now.min(cut);
        let is_even = self.source.is_even(with_leads);
        Some(Foretold { chapter, sure, is_even })
    }

    /// The names that threads may have in the window of which it is a stretch, and in the rings
    /// after it.
    pub(super) fn names(&mut self, rings: Option<&PageSet>) -> Option<Names> {
        let joins = self.joins.filter(|joins| joins.is_whole || rings.is_some())?;
        self.source.names(with_leads(joins.whole), rings)
    }

    /// The blocks of this stretch and of those after it that hold what is sought there and in the
    /// rings after them, the first of a window excepted; `None`: all are to be read.
    pub(super) fn choose(
        &mut self,
        rings: Option<&PageSet>,
        names: &Names,
        sought: &dyn Sought,
    ) -> Option<Chosen> {
        let joins = self.joins.filter(|joins| joins.is_whole || rings.is_some())?;
        let Joins { whole, from, until, before, .. } = joins;
        let from = if before { from } else { until };
        let rings = rings.map(|recording| Tail { recording, from: whole.until });
        self.source.choose(with_leads(whole), from, rings, names, sought)
    }

    fn chapter(&self, recording: PageSet, remarks: Vec<String>) -> Chapter {
        let clock = self.source.clock();
        let clock = Clock { now: clock.now.min(self.cut), ..clock };
        let Question { since, until, .. } = self.question;
        Chapter {
            from: self.from,
            present: self.present,
            own: self.own.clone(),
            remarks,
            joins: self.joins,
            ..Chapter::only(recording, clock, since, until)
        }
    }
}
