//! Reads the window, and asks.

use anyhow::Result;
use jiff::tz::TimeZone;

use flightrec_analysis::why::{Answer, Subject, Traced};
use flightrec_format::containers::Container;
use flightrec_format::trace_context::TraceContext;
use flightrec_reader::coverage::Coverage;
use flightrec_reader::memory;
use flightrec_reader::source::history::{self, Chapter, Go};
use flightrec_reader::source::{HistoryPlace, HistoryPlan, Origin};
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::{Edge, Window, with_leads};
use flightrec_reader::windows::Windows;

use super::args::WhyFormat;
use super::hidden::Hidden;
use super::ingest::Ingest;
use super::plan::WhyPlan;
use super::question::{Found, Question};
use super::{json, text};
use crate::announce::announce;
use crate::exit::Exit;
use crate::options::past::Past;
use crate::output::Output;
use crate::text::coverage::Telling;
use flightrec_cli::note;

/// What [`of_thread`] is about, ns.
const LAST_NS: u64 = 10_000_000_000;
/// How much before a window is read for what descriptors stand for, where that is not known, ns:
/// the daemon looks at all of them every 10 s.
const BEFORE_NS: u64 = 12_000_000_000;
/// How much before a window is read for threads that may hang since then, ns: one after the other,
/// until all are found.
const HANGS_NS: [u64; 3] = [BEFORE_NS, 60_000_000_000, 600_000_000_000];

/// An answer, and what its times are by the wall clock.
pub(crate) struct Answered {
    pub(crate) answer: Answer,
    pub(crate) wall: WallClock,
    /// As of [`Found`].
    worth: (bool, u64),
    lacks_any: bool,
    pub(crate) container: Option<Container>,
    pub(crate) context: Option<TraceContext>,
    /// Waits in spans of traces.
    pub(crate) traced: Traced,
}

/// Answers.
pub fn run(plan: &WhyPlan, zone: &TimeZone) -> Result<Exit> {
    let cause = plan.cause();
    whole(Question::new(plan, cause.as_ref()), plan, zone)?.finish()
}

/// Why a thread was slow in the last 10 s, as lines: the answer and what is covered.
///
/// # Errors
/// The recording can't be read.
pub fn of_thread(origin: &Origin, tid: u32, zone: &TimeZone) -> Result<Vec<String>> {
    let subject = Subject { tids: vec![tid], ..Subject::default() };
    let (_, text, told) = about(origin, subject, zone)?;
    let lines = text.lines().map(str::to_owned).chain([String::new()]);
    Ok(lines.chain(told).collect())
}

/// Why a thread was slow in the last 10 s: the answer, the same as text, and what is covered;
/// `None`: nothing is recorded of it.
///
/// # Errors
/// The recording can't be read.
pub(crate) fn about(
    origin: &Origin,
    subject: Subject,
    zone: &TimeZone,
) -> Result<(Option<Answer>, String, Vec<String>)> {
    let place = HistoryPlace::Recorder { origin: origin.clone(), state_dir: None };
    let past = Past {
        history: HistoryPlan { place, boot: None },
        since: Edge::Ago(LAST_NS),
        until: Edge::Open,
    };
    let plan = WhyPlan {
        past,
        dump: None,
        subject,
        call: None,
        slower_than: None,
        at: None,
        of_cause: false,
        format: WhyFormat::Text,
        spans: 0,
        hidden: Hidden::default(),
    };
    let (best, told) = whole(Question::new(&plan, None), &plan, zone)?.answer();
    let Some(mut best) = best else {
        let none = "the recording holds none of its events any more\n";
        return Ok((None, none.to_owned(), told));
    };
    let text = text::answer(&mut best, zone);
    Ok((Some(best.answer), text, told))
}

/// The answer alone, for who shows it otherwise; `None`: nothing is recorded of this time.
///
/// # Errors
/// The recording can't be read.
#[cfg(feature = "export")]
pub(crate) fn answered(plan: &WhyPlan, zone: &TimeZone) -> Result<Option<Answered>> {
    let cause = plan.cause();
    Ok(whole(Question::new(plan, cause.as_ref()), plan, zone)?.answer().0)
}

/// Reads the window; and again with what was before it, if the answer lacks names of descriptors,
/// or if threads that are asked about have no event in the window.
fn whole<'a>(question: Question<'a>, plan: &'a WhyPlan, zone: &'a TimeZone) -> Result<Pass<'a>> {
    let mut whole = read(question, plan, zone, 0)?;
    if plan.past.since == Edge::Open {
        // All there is was read already.
        return Ok(whole);
    }
    if whole.best().is_some_and(|best| best.answer.lacks_past) {
        return read(question, plan, zone, BEFORE_NS);
    }
    for before in HANGS_NS {
        let is_known = whole.answers.is_empty() || whole.answers.iter().any(|of| !of.lacks_any);
        if is_known || whole.has_table || !plan.is_of_threads() {
            break;
        }
        whole = read(question, plan, zone, before)?;
    }
    Ok(whole)
}

/// Reads the window, with so much before it, and asks.
fn read<'a>(
    asked: Question<'a>,
    plan: &'a WhyPlan,
    zone: &'a TimeZone,
    before: u64,
) -> Result<Pass<'a>> {
    memory::reserve(memory::beside());
    let mut whole = Pass {
        plan,
        asked,
        zone,
        before,
        told: Telling::new(zone),
        complete: true,
        going: None,
        until: 0,
        has_table: false,
        answers: Vec::new(),
    };
    let mut question = plan.past.question(false);
    question.since = match question.since {
        Edge::Ago(ago) => Edge::Ago(ago.saturating_add(before)),
        Edge::Wall(wall) => Edge::Wall(wall.saturating_sub_unsigned(before)),
        Edge::Open => Edge::Open,
    };
    let mut take = |chapter: Chapter| {
        whole.take(&chapter)?;
        anyhow::Ok(Go::On)
    };
    if let Some(dump) = &plan.dump {
        let mut source = dump.open()?;
        if before == 0 {
            announce(&source, zone);
        }
        dump.read(&mut source, question, &mut take)?;
    } else {
        history::read(&plan.past.history, question, &mut take)?;
    }
    Ok(whole)
}

/// The window, chapter by chapter.
struct Pass<'a> {
    plan: &'a WhyPlan,
    asked: Question<'a>,
    zone: &'a TimeZone,
    /// How much before the window is read, ns.
    before: u64,
    /// What is covered.
    told: Telling<'a>,
    complete: bool,
    /// A window that goes on in the next chapter.
    going: Option<Ingest<'a>>,
    /// Where the chapters of the window end so far: that of files may have no end of its own.
    until: u64,
    /// A table of threads that was taken in the window tells of those that hang.
    has_table: bool,
    answers: Vec<Answered>,
}

impl Pass<'_> {
    fn take(&mut self, chapter: &Chapter) -> Result<()> {
        let recording = &chapter.recording;
        let mut wall = recording.wall_clock(chapter.clock.wall_offset);
        let windows = self.windows(chapter, &wall);
        let going = self.going.take().filter(|_| chapter.joins.is_some_and(|joins| joins.before));
        if going.is_none() {
            self.until = 0;
        }
        if !windows.is_empty() {
            self.until = self.until.max(windows.hull().until);
            let mut reports = Coverage::of_all(chapter, &windows);
            let unseen = recording.meta.unseen_threads().filter(|_| self.plan.asks_who());
            for report in &mut reports {
                report.lacking.extend(unseen.cloned());
            }
            self.complete &= reports.iter().all(Coverage::is_complete);
            self.told.add(chapter, reports, &windows, &mut wall);
        }
        if windows.is_empty() && chapter.joins.is_none() {
            return Ok(());
        }
        // All stretches are of one window.
        let window = match chapter.joins {
            Some(joins) => self.asked(chapter, &wall).hull().within(joins.reach()),
            None => windows.hull(),
        };
        // By a later one a wait may be over.
        let near = with_leads(window);
        let taken = |(_, moment): &(_, u64)| (window.from..=near.until).contains(moment);
        let is_present = window.from <= chapter.present && chapter.present <= near.until;
        let is_live = |(_, moment): &(_, u64)| *moment == u64::MAX && is_present;
        self.has_table |= recording.tables.iter().any(|table| taken(table) || is_live(table));
        let asked = self.asked.of(chapter, &wall);
        let mut ingest = match going {
            Some(mut going) => {
                going.go_on(chapter, window, asked);
                going
            }
            None => Ingest::new(chapter, window, self.before, asked),
        };
        ingest.take(chapter, window)?;
        if chapter.joins.is_some_and(|joins| joins.after) {
            self.going = Some(ingest);
            return Ok(());
        }
        let (found, traced) = ingest.finish(self.until);
        let Found { answer, worth, lacks_any, container, context } = found;
        self.answers.push(Answered { answer, wall, worth, lacks_any, container, context, traced });
        Ok(())
    }

    /// What is asked about, by the recording's clock.
    fn asked(&self, chapter: &Chapter, wall: &WallClock) -> Windows {
        let Past { since, until, .. } = self.plan.past;
        wall.windows(since, until, chapter.present)
    }

    /// What of that a chapter has.
    fn windows(&self, chapter: &Chapter, wall: &WallClock) -> Windows {
        let windows = chapter.windows(wall);
        if self.before == 0 || !chapter.own.is_empty() {
            return windows;
        }
        let hull = windows.hull();
        let empty = Window { from: hull.until, until: hull.until };
        self.asked(chapter, wall).within(hull).unwrap_or_else(|| empty.into())
    }

    /// The answer: of several recordings that of the one that has more of a cause.
    fn best(&self) -> Option<&Answered> {
        self.answers.iter().max_by_key(|of| of.worth)
    }

    /// The answer, and what is covered.
    fn answer(self) -> (Option<Answered>, Vec<String>) {
        let Self { told, complete, answers, .. } = self;
        let mut best = answers.into_iter().max_by_key(|of| of.worth);
        if let Some(best) = best.as_mut().filter(|_| !complete) {
            best.answer.complete = false;
            best.answer
                .doubts
                .push("the window is not complete: the coverage says what is missing".to_owned());
        }
        (best, told.finish())
    }

    fn finish(self) -> Result<Exit> {
        let Self { plan, zone, .. } = self;
        let (best, told) = self.answer();
        let exit = if let Some(mut best) = best {
            let text = match plan.format {
                WhyFormat::Text => plan.hidden.text(&text::answer(&mut best, zone)).into_owned(),
                WhyFormat::Json => json::answer(&mut best, &told, plan)?,
            };
            Output::standard().print(text.as_bytes())?;
            if best.answer.subject.is_none() { Exit::Nothing } else { Exit::Fine }
        } else {
            note("nothing is recorded of this time: `flightctl ls` lists what is");
            Exit::Nothing
        };
        if plan.format == WhyFormat::Text {
            for line in &told {
                note(&plan.hidden.text(line));
            }
        }
        Ok(exit)
    }
}
