//! Events of a window, chapter by chapter.

use std::io::Write;

use anyhow::Result;
use flightrec_reader::coverage::{self, Coverage};
use flightrec_reader::fds::Naming;
use flightrec_reader::left_out::LeftOuts;
use flightrec_reader::source::history::{
    self, Chapter, Chosen, Foretold, Go, Names, Needs, Question, Sought, Visitor,
};
use flightrec_reader::source::{PageSet, VmcoreSource};
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::{Edge, Window, with_leads};
use flightrec_reader::windows::Windows;
use jiff::tz::TimeZone;

use crate::exit::Exit;
use crate::filter::{Filter, FilterError, FilterPlan, Reading, Seen, doubts};
use crate::formats;
use crate::narrowing::Narrowing;
use crate::options::kernel_dump::KernelDump;
use crate::options::past::Past;
use crate::options::shown::ShownPlan;
use crate::output::{Output, is_broken_pipe, refuse};
use crate::print::{self, Going};
use crate::progress::Progress;
use crate::render::{Format, Render, Start};
use crate::text::coverage::Telling;
use flightrec_cli::note;
use flightrec_format::human::counted;

/// Which events, and how they are shown.
#[derive(Debug, PartialEq)]
pub struct EventsPlan {
    /// Which time of which recording.
    pub past: Past,
    /// Which events, how, and where.
    pub shown: ShownPlan,
    /// Whether an incomplete window is a failure.
    pub strict: bool,
}

/// Prints events.
pub fn run(plan: &EventsPlan) -> Result<Exit> {
    let zone = crate::zone::system();
    let shown = &plan.shown;
    shown.output.iter().try_for_each(|path| refuse(path, shown.force))?;
    let target = Lines { plan, zone: &zone };
    let mut dump = Dump::new(plan, &target, &zone);
    history::read(&plan.past.history, question(plan), &mut dump)?;
    dump.finish()
}

/// Prints events of a kernel dump.
pub fn run_on(
    plan: &EventsPlan,
    dump: &KernelDump,
    source: &mut VmcoreSource,
    zone: &TimeZone,
) -> Result<Exit> {
    let target = Lines { plan, zone };
    let mut shown = Dump::new(plan, &target, zone);
    dump.read(source, question(plan), &mut shown)?;
    shown.finish()
}

/// Where events go, and in which format.
pub(crate) trait Target {
    /// What is being done, for the progress.
    const DOING: &'static str;

    /// Opens the output.
    fn open(&self) -> Result<Output>;

    /// The format for it.
    fn format(&self, output: &Output) -> Box<dyn Format>;

    /// All events are written; `None`: there was no recording to open it for.
    fn close(&self, output: Option<Output>) -> Result<()>;
}

/// Lines for people and programs.
struct Lines<'a> {
    plan: &'a EventsPlan,
    zone: &'a TimeZone,
}

impl Target for Lines<'_> {
    const DOING: &'static str = "writing the events";

    fn open(&self) -> Result<Output> {
        Ok(Output::to(self.plan.shown.output.as_deref(), self.plan.shown.force)?)
    }

    fn format(&self, output: &Output) -> Box<dyn Format> {
        formats::of(&self.plan.shown, output, self.zone)
    }

    fn close(&self, output: Option<Output>) -> Result<()> {
        drop(output);
        Ok(())
    }
}

pub(crate) fn question(plan: &EventsPlan) -> Question {
    plan.past.question(plan.shown.wants_everything())
}

/// A dump in the making: chapter by chapter.
pub(crate) struct Dump<'a, T> {
    plan: &'a EventsPlan,
    target: &'a T,
    zone: &'a TimeZone,
    /// Opened with the first chapter, so that an error before leaves an old file as it was.
    output: Option<Output>,
    /// What is said at the end.
    told: Telling<'a>,
    /// Events; `None`: the reader has seen enough.
    printed: Option<u64>,
    complete: bool,
    /// Events that are shown though their paths may be others than those asked for.
    undecided: u64,
    /// The filter means nothing to a chapter: an error unless another one knows what it names.
    unknown: Option<FilterError>,
    /// Whether a chapter knew it.
    known: bool,
    /// The coverage of the last chapter that has nothing of the window, unless another one has
    /// something: in words, and as it stands before events.
    nothing: Option<(Vec<String>, Vec<u8>)>,
    /// Who is known, as long as nothing matches.
    seen: Seen,
    /// Where the pass has come to that goes on in the next stretch of a window.
    going: Option<Going>,
    /// What need not be read.
    narrowing: Narrowing,
}

impl<'a, T: Target> Dump<'a, T> {
    pub(crate) fn new(plan: &'a EventsPlan, target: &'a T, zone: &'a TimeZone) -> Self {
        Self {
            plan,
            target,
            zone,
            output: None,
            told: Telling::new(zone),
            printed: Some(0),
            complete: true,
            undecided: 0,
            unknown: None,
            known: false,
            nothing: None,
            seen: Seen::default(),
            going: None,
            narrowing: Narrowing::new(plan.shown.filter.clone(), plan.shown.fds != Naming::Off)
                .off(plan.shown.graph || plan.shown.traces),
        }
    }

    /// Prints a chapter.
    fn show(&mut self, chapter: &Chapter) -> Result<Go> {
        let plan = self.plan;
        let Chapter { recording, clock, joins, .. } = chapter;
        let going = self.going.take().filter(|_| joins.is_some_and(|joins| joins.before));
        let filter = match plan.shown.filter.resolve(&recording.meta) {
            Ok(filter) => self.narrowing.limit(filter, joins.is_some_and(|joins| joins.before)),
            Err(unknown) => {
                self.unknown.get_or_insert(unknown);
                return Ok(Go::On);
            }
        };
        self.known = true;
        let mut wall = recording.wall_clock(clock.wall_offset);
        let windows = chapter.windows(&wall);
        // Of a stretch before the window nothing is told.
        let is_lead = windows.is_empty() && joins.is_some_and(|joins| joins.after);
        // Nor of one after it, where its coverage has been told.
        let is_after =
            windows.is_empty() && joins.is_some_and(|joins| joins.before) && !self.told.is_empty();
        let everything = plan.shown.wants_everything();
        let shown = chapter.windows_so_far(&wall);
        // From when on events are read; and from when on they count, however the window is parted.
        let lead = if everything { 0 } else { with_leads(shown.hull()).from };
        let read = match joins {
            Some(joins) if everything && !joins.before => Window { from: 0, until: u64::MAX },
            Some(joins) => Window { from: joins.from, until: u64::MAX },
            None => Window { from: lead, until: u64::MAX },
        };
        let until = joins.filter(|joins| joins.after).map_or(u64::MAX, |joins| joins.until);
        let mut holes = coverage::holes(recording, Window { until, ..read });
        holes.begin(lead);
        let reading = Reading {
            all: everything,
            holes: holes.clone(),
            joins: going.as_ref().map(|going| going.joined(read.from)),
        };
        // Of what is known beside its pages, and has been told, they are not asked.
        let is_known = is_lead || is_after || self.narrowing.is_sure(chapter);
        let mut reports = if is_known {
            Vec::new()
        } else {
            reports(recording, &windows, clock.now, &filter, &reading)
        };
        spare(&mut reports, recording, &filter);
        // Where the pages contradict what was told, they are right.
        let is_told = self.narrowing.is_told() && chapter.is_foretold;
        let is_silent = is_known || is_told && reports.iter().all(Coverage::is_complete);
        self.narrowing.go_on(joins.is_some_and(|joins| joins.after));
        if is_silent {
            reports.clear();
        }
        // A time of day is looked for wherever it may have been shown.
        if windows.is_empty() && !chapter.is_only && joins.is_none() {
            let coverage = Telling::new(self.zone).preview(chapter, &reports, &windows, &mut wall);
            let format = self.target.format(output(&mut self.output, self.target)?);
            let head = format.begin(&mut Start {
                recording,
                reports: &reports,
                coverage: &coverage,
                windows: &windows,
                wall: &mut wall,
            });
            self.nothing = self.told.is_empty().then_some((coverage, head));
            return Ok(Go::On);
        }
        self.nothing = None;
        let coverage = if is_silent {
            Vec::new()
        } else {
            self.told.preview(chapter, &reports, &windows, &mut wall)
        };

        let output = output(&mut self.output, self.target)?;
        output.show(Progress::start(T::DOING));
        let format = self.target.format(output);
        let mut start = Start {
            recording,
            reports: &reports,
            coverage: &coverage,
            windows: &windows,
            wall: &mut wall,
        };
        let head = if is_silent { Vec::new() } else { format.begin(&mut start) };
        let written = output
            .write_all(&head)
            .and_then(|()| {
                let Some(joins) = joins else {
                    let (events, wall) = events(&*format, &mut start);
                    return print::run(
                        recording,
                        windows.clone(),
                        &filter,
                        wall,
                        events,
                        &mut *output,
                    );
                };
                let end = with_leads(shown.hull()).until.min(joins.until);
                let until = if joins.after { joins.until } else { end };
                let going = if let Some(going) = going {
                    going.with(&mut start, holes, shown, read.from)
                } else {
                    let (events, wall) = events(&*format, &mut start);
                    Going::new(recording, holes, shown, &filter, wall, events)
                };
                let before = going.printed();
                let going = going.run(recording, (read.from, until), joins.after, &mut *output)?;
                let printed = going.printed().saturating_sub(before);
                self.going = joins.after.then_some(going);
                Ok(printed)
            })
            .map_err(|e| output.explain(e));
        if !is_silent {
            self.complete &= reports.iter().all(Coverage::is_complete);
            self.told.add(chapter, reports, &windows, &mut wall);
            self.complete &= !self.told.is_open();
        }
        self.undecided = self.undecided.saturating_add(filter.undecided());
        match written {
            Ok(printed) => {
                if printed == 0 && plan.shown.filter != FilterPlan::all() {
                    self.seen.add(recording);
                }
                self.printed = self.printed.map(|sum| sum.saturating_add(printed));
                Ok(Go::On)
            }
            // The reader has seen enough; the coverage is still said.
            Err(e) if is_broken_pipe(&e) => {
                self.printed = None;
                Ok(Go::Enough)
            }
            Err(e) => Err(e),
        }
    }

    /// No more chapters come: says what was covered.
    pub(crate) fn finish(mut self) -> Result<Exit> {
        if let (Some(unknown), false) = (self.unknown, self.known) {
            return Err(unknown.into());
        }
        if let Some((coverage, head)) = self.nothing.take() {
            self.told.say(coverage);
            let output = output(&mut self.output, self.target)?;
            match output.write_all(&head).map_err(|e| output.explain(e)) {
                Err(e) if !is_broken_pipe(&e) => return Err(e),
                _ => {}
            }
        }
        match self.target.close(self.output.take()) {
            Err(e) if !is_broken_pipe(&e) => return Err(e),
            _ => {}
        }
        self.told.finish().iter().for_each(|line| note(line));
        if self.undecided != 0 {
            note(&format!(
                "of {} it is not known whether they match --path: the paths are too long to be \
                 recorded completely, and their middle may be anything",
                counted(self.undecided, "event")
            ));
        }
        if !self.known {
            note("the window is before everything that is recorded");
        } else if self.printed == Some(0) {
            let is_all = (self.plan.past.since, self.plan.past.until) == (Edge::Open, Edge::Open);
            let hints = self.plan.shown.filter.hints(&self.seen, self.plan.shown.fds, is_all);
            if !hints.is_empty() {
                note("no event matches the filters:");
            }
            for hint in hints {
                note(&format!("  {hint}"));
            }
        }
        Ok(match self.printed {
            _ if self.plan.strict && !self.complete => Exit::Incomplete,
            Some(0) => Exit::Nothing,
            _ => Exit::Fine,
        })
    }
}

impl<T: Target> Visitor<anyhow::Error> for Dump<'_, T> {
    fn listens(&self) -> bool {
        self.narrowing.listens()
    }

    fn doubts(&self) -> bool {
        self.narrowing.doubts()
    }

    fn ask(&mut self, foretold: &Foretold) {
        self.narrowing.ask(foretold);
    }

    fn chosen(&mut self, chosen: &Chosen) {
        self.narrowing.choose(chosen);
    }

    /// Says what all stretches cover together.
    fn ahead(&mut self, foretold: &Foretold) -> Result<()> {
        self.narrowing.begin();
        let plan = self.plan;
        let chapter = foretold.chapter();
        let recording = &chapter.recording;
        let Ok(filter) = plan.shown.filter.resolve(&recording.meta) else { return Ok(()) };
        let mut wall = recording.wall_clock(chapter.clock.wall_offset);
        let windows = chapter.windows(&wall);
        if windows.count() > 1 {
            return Ok(());
        }
        let Some(report) = Coverage::foretold(foretold, windows.hull()) else { return Ok(()) };
        let reports = vec![
            report
                .with_lacking(filter.lacking(&recording.meta))
                .of_lanes(|lane| filter.wants_lane(lane)),
        ];
        let coverage = self.told.preview(chapter, &reports, &windows, &mut wall);
        let output = output(&mut self.output, self.target)?;
        let head = self.target.format(output).begin(&mut Start {
            recording,
            reports: &reports,
            coverage: &coverage,
            windows: &windows,
            wall: &mut wall,
        });
        let written = output.write_all(&head).and_then(|()| output.flush());
        match written.map_err(|e| output.explain(e)) {
            Ok(()) => {
                self.narrowing.told(filter, recording.meta.clone());
                self.complete &= reports.iter().all(Coverage::is_complete);
                self.told.add(chapter, reports, &windows, &mut wall);
                self.complete &= !self.told.is_open();
            }
            // The next to be written finds the same.
            Err(e) if is_broken_pipe(&e) => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn wants_names(&self) -> bool {
        self.narrowing.wants_names()
    }

    fn names(&mut self, names: &Names) {
        self.narrowing.learn(names);
    }

    fn sought(&self, names: &Names) -> Option<Box<dyn Sought>> {
        self.narrowing.sought(names)
    }

    fn needs(&self) -> Needs {
        self.narrowing.needs(Needs::All)
    }

    fn take(&mut self, chapter: Chapter) -> Result<Go> {
        self.show(&chapter)
    }
}

/// The output, opened.
fn output<'o>(output: &'o mut Option<Output>, target: &impl Target) -> Result<&'o mut Output> {
    match output {
        Some(output) => Ok(output),
        none => Ok(none.insert(target.open()?)),
    }
}

/// The coverage of each stretch of a chapter's window.
fn reports(
    recording: &PageSet,
    windows: &Windows,
    now: u64,
    filter: &Filter,
    reading: &Reading<'_>,
) -> Vec<Coverage> {
    let told = coverage::told(windows);
    let doubts = doubts(recording, windows, &told, filter, reading);
    told.iter()
        .map(|window| {
            Coverage::new(recording, window, now)
                .with_doubts(doubts.of(window))
                .with_lacking(filter.lacking(&recording.meta))
                .of_lanes(|lane| filter.wants_lane(lane))
        })
        .collect()
}

/// Takes out of reports the gaps in which the quiet ring left out none of those who are asked for.
fn spare(reports: &mut [Coverage], recording: &PageSet, filter: &Filter) {
    if let Some(left_outs) = LeftOuts::of(recording) {
        let meant = filter.meant(recording);
        for report in reports {
            report.spare(recording, &mut |left_out| filter.may_want(left_out, &left_outs, &meant));
        }
    }
}

/// What writes the events that come next, and the wall clock that they go by.
fn events(format: &dyn Format, start: &mut Start<'_>) -> (Box<dyn Render>, WallClock) {
    let mut events = format.events(&start.recording.meta);
    events.expect(start);
    (events, start.wall.clone())
}

#[cfg(test)]
mod tests;
