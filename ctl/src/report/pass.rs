//! One pass over a window, for a report: chapter by chapter, each once.

use std::sync::Arc;

use anyhow::Result;
use jiff::tz::TimeZone;

use flightrec_format::merge::Merge;
use flightrec_reader::Session;
use flightrec_reader::coverage::{self, Coverage};
use flightrec_reader::fds::Naming;
use flightrec_reader::left_out::LeftOuts;
use flightrec_reader::pipeline::front::Front;
use flightrec_reader::pipeline::{Merging, Resolver, Since, Wants};
use flightrec_reader::source::PageSet;
use flightrec_reader::source::history::{
    self, Chapter, Chosen, Foretold, Go, Names, Needs, Sought, Visitor,
};
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::{Window, with_leads};
use flightrec_reader::windows::Windows;

use super::ends::EndSums;
use super::minutes::{Minutes, SumsTold, Wanted};
use super::stage::{Marked, Stage, To};
use super::table::{Period, Table};
use super::{Key, Report, Sums};
use crate::announce::announce;
use crate::filter::{Filter, FilterError, FilterPlan, Joined, Reading, doubts};
use crate::narrowing::Narrowing;
use crate::options::kernel_dump::KernelDump;
use crate::options::past::Past;
use crate::text::coverage::Telling;

/// What is added up, of what.
#[derive(Debug, Clone, PartialEq)]
pub struct Scope {
    /// Which time of which recording.
    pub past: Past,
    /// Out of this kernel dump instead.
    pub dump: Option<KernelDump>,
    /// Which events.
    pub filter: FilterPlan,
    /// Which descriptors have names.
    pub naming: Naming,
    /// The same of sums of minutes.
    pub wanted: Wanted,
}

/// Makes a report, with the sums of minutes that there are; at most `most` of its rows are told
/// apart.
pub fn make(
    scope: &Scope,
    minutes: Option<Minutes>,
    report: &mut dyn Report,
    by: &[Key],
    most: usize,
    zone: &TimeZone,
) -> Result<Table> {
    let mut pass = Pass::new(scope, report, by, zone);
    let is_all = match minutes {
        Some(minutes) => pass.add_minutes(minutes)?,
        None => false,
    };
    if is_all {
        return pass.finish(most);
    }
    let everything = scope.naming == Naming::All || scope.filter.wants_files();
    let question = scope.past.question(everything);
    let has_sums = pass.minutes.is_some();
    if let Some(dump) = &scope.dump {
        let mut source = dump.open()?;
        announce(&source, zone);
        dump.read(&mut source, question, &mut pass)?;
    } else {
        let read = history::read(&scope.past.history, question, &mut pass);
        match read {
            // What the sums tell is more than nothing.
            Err(e) if has_sums => {
                pass.told.say([format!("the events can't be read: {e:#}")]);
            }
            read => read?,
        }
    }
    pass.finish(most)
}

/// A pass in the making.
pub(super) struct Pass<'a> {
    scope: &'a Scope,
    zone: &'a TimeZone,
    by: Vec<Key>,
    report: &'a mut dyn Report,
    sums: Sums,
    going: Option<Going>,
    /// What is covered.
    told: Telling<'a>,
    periods: Vec<Period>,
    is_complete: bool,
    /// The filter means nothing to a chapter: an error unless another one knows what it names.
    unknown: Option<FilterError>,
    is_known: bool,
    unknown_ns: Option<u64>,
    /// Where events are gone.
    minutes: Option<Minutes>,
    sums_told: Option<SumsTold>,
    /// What need not be read.
    narrowing: Narrowing,
    /// Whether the ends of calls are all that is needed.
    is_of_ends: bool,
}

/// What is known of one recording so far.
enum Going {
    /// From all its events.
    Events(Box<OfEvents>),
    /// From the ends of its calls.
    Ends(Box<EndSums>),
}

/// A pass over all events.
struct OfEvents {
    front: Front,
    resolver: Resolver<Marked>,
    stage: Stage,
    begun: bool,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        scope: &'a Scope,
        report: &'a mut dyn Report,
        by: &[Key],
        zone: &'a TimeZone,
    ) -> Self {
        // Other reports look at more than what is wanted.
        let is_of_calls = report.of_ends().is_some();
        let filter = scope.filter.clone();
        let filter = if is_of_calls { filter.of_calls() } else { filter };
        let narrowing = Narrowing::new(filter, by.contains(&Key::File)).off(!is_of_calls);
        Self {
            scope,
            zone,
            narrowing,
            is_of_ends: false,
            by: by.to_vec(),
            sums: Sums::new(report.shape(), by),
            report,
            going: None,
            told: Telling::new(zone),
            periods: Vec::new(),
            is_complete: true,
            unknown: None,
            is_known: false,
            unknown_ns: None,
            minutes: None,
            sums_told: None,
        }
    }

    /// No more chapters come.
    pub(super) fn finish(self, most: usize) -> Result<Table> {
        if let (Some(unknown), false) = (self.unknown, self.is_known) {
            return Err(unknown.into());
        }
        let (ranked, words) = self.sums.finish(most);
        Ok(Table {
            shape: self.report.shape(),
            by: self.by,
            ranked,
            words,
            is_complete: self.is_complete && !self.periods.is_empty(),
            periods: self.periods,
            coverage: self.told.finish(),
            limits: self.report.limits(),
            unknown_ns: self.unknown_ns,
            sums: self.sums_told,
        })
    }

    /// Adds the sums of the part of the window of which the events are gone; whether that is all.
    fn add_minutes(&mut self, minutes: Minutes) -> Result<bool> {
        if let Some(why) = Minutes::refuses(self.report, &self.by, &self.scope.wanted) {
            let until = minutes.events_from(self.zone);
            self.told.say([format!(
                "until {until} the events are gone, and the sums that are left {why}: the report \
                 lacks that time"
            )]);
            self.is_complete = false;
            return Ok(false);
        }
        self.report.join_minutes();
        let (told, damage) = minutes.add(self.report, &self.scope.wanted, &mut self.sums)?;
        self.periods.clone_from(&told.periods);
        self.told.say(told.lines(self.zone));
        self.is_complete &= told.not_whole == 0 && damage.is_empty();
        self.told.say(damage);
        self.unknown_ns = Some(told.unknown_ns).filter(|ns| *ns != 0);
        self.is_known = true;
        self.sums_told = Some(told);
        let is_all = minutes.is_all();
        self.minutes = Some(minutes);
        Ok(is_all)
    }

    /// What of a window is after the sums.
    fn after_sums(&self, recording: &PageSet, windows: Windows) -> Windows {
        let Some(minutes) = &self.minutes else { return windows };
        let from = minutes.seam(&flightrec_reader::boots::of_meta(&recording.meta));
        let hull = windows.hull();
        let at = from.min(hull.until).max(hull.from);
        let rest = windows.within(Window { from: at, until: u64::MAX });
        rest.unwrap_or_else(|| Window { from: at, until: at }.into())
    }

    /// Adds up a chapter.
    pub(super) fn add(&mut self, chapter: &Chapter) -> Result<()> {
        let Chapter { recording, clock, joins, .. } = chapter;
        let joins = *joins;
        let going = self.going.take().filter(|_| joins.is_some_and(|joins| joins.before));
        let filter = match self.scope.filter.resolve(&recording.meta) {
            Ok(filter) => self.narrowing.limit(filter, joins.is_some_and(|joins| joins.before)),
            Err(unknown) => {
                self.unknown.get_or_insert(unknown);
                return Ok(());
            }
        };
        self.is_known = true;
        let mut wall = recording.wall_clock(clock.wall_offset);
        let windows = self.after_sums(recording, chapter.windows(&wall));
        // Of a stretch before the window nothing is told, nor of one after it.
        let is_beside =
            windows.is_empty() && joins.is_some_and(|joins| joins.after || joins.before);
        let shown = self.after_sums(recording, chapter.windows_so_far(&wall));
        let everything = self.scope.naming == Naming::All || self.scope.filter.wants_files();
        let lead = if everything { 0 } else { with_leads(shown.hull()).from };
        let from = match joins {
            Some(joins) if everything && !joins.before => 0,
            Some(joins) => joins.from,
            None => lead,
        };
        let goes_on = joins.is_some_and(|joins| joins.after);
        let mut until = with_leads(shown.hull()).until;
        if let Some(joins) = joins {
            until = if goes_on { joins.until } else { until.min(joins.until) };
        }
        let end = if goes_on { until } else { u64::MAX };
        let mut holes = coverage::holes(recording, Window { from, until: end });
        holes.begin(lead);
        let is_known = is_beside || self.narrowing.is_sure(chapter);
        if !is_known {
            let joined = going.as_ref().and_then(|going| match going {
                Going::Events(of) => {
                    Some(Joined { front: &of.front, calls: of.resolver.ongoing(), from })
                }
                Going::Ends(_) => None,
            });
            let reading = Reading { all: everything, holes: holes.clone(), joins: joined };
            let reports = reports(recording, &windows, clock.now, &filter, &reading);
            // Where the pages contradict what was told, they are right.
            let is_told = self.narrowing.is_told() && chapter.is_foretold;
            if !is_told || !reports.iter().all(Coverage::is_complete) {
                self.report.coverage(recording, &reports);
                self.tell(chapter, reports, &windows, &mut wall);
            }
        }
        self.narrowing.go_on(goes_on);
        if windows.is_empty() && joins.is_none() {
            return Ok(());
        }
        let mut going = match going {
            Some(Going::Events(mut of)) => {
                of.front.go_on(recording, holes, from);
                of.resolver.go_on(recording, shown.clone(), from);
                Going::Events(of)
            }
            Some(Going::Ends(mut ends)) => {
                ends.go_on(&holes, from);
                Going::Ends(ends)
            }
            None => match EndSums::new(&*self.report, &self.by, &filter, &holes) {
                Some(ends) => Going::Ends(Box::new(ends)),
                None => {
                    Going::Events(Box::new(self.begin(recording, holes, &shown, &filter, wall)))
                }
            },
        };
        self.sums.go_on(Arc::new(Session::new(&recording.meta)));
        match &mut going {
            Going::Events(of) => {
                of.stage.expect(recording, shown, Window { from, until });
                of.run(recording, (from, until), &mut *self.report, &mut self.sums, goes_on)?;
                if let Some(ns) = of.stage.unknown_ns().filter(|_| !goes_on) {
                    self.unknown_ns = Some(self.unknown_ns.unwrap_or(0).saturating_add(ns));
                }
            }
            Going::Ends(ends) => ends.add(recording, (from, until), &shown, &mut self.sums),
        }
        if goes_on {
            self.going = Some(going);
        }
        Ok(())
    }

    fn begin(
        &self,
        recording: &PageSet,
        holes: flightrec_reader::holes::Holes,
        shown: &Windows,
        filter: &Filter,
        wall: WallClock,
    ) -> OfEvents {
        let wants = Wants { naming: self.scope.naming, merging: Merging::Never, traces: false };
        let (stage, marked) = Stage::new(recording, shown.clone(), filter, &*self.report, &self.by);
        let mut resolver = Resolver::new(recording, shown.clone(), marked, wall, wants);
        // All events, from the first on: whether one is in the window is decided here.
        resolver.lead = Some(0);
        OfEvents { front: Front::new(recording, holes), resolver, stage, begun: false }
    }

    /// Notes what a chapter covers.
    fn tell(
        &mut self,
        chapter: &Chapter,
        reports: Vec<Coverage>,
        windows: &Windows,
        wall: &mut WallClock,
    ) {
        self.is_complete &= reports.iter().all(Coverage::is_complete);
        self.told.add(chapter, reports, windows, wall);
        self.is_complete &= !self.told.is_open();
        for window in windows.iter().filter(|window| !window.is_empty()) {
            let wall = (wall.wall(window.from), wall.wall(window.until));
            let period = Period { mono: (window.from, window.until), wall };
            match self.periods.last_mut() {
                // Told before.
                Some(last) if last.mono.0 <= period.mono.0 && last.mono.1 >= period.mono.1 => {}
                // Stretches of one window.
                Some(last) if last.mono.1 == period.mono.0 => {
                    (last.mono.1, last.wall.1) = (period.mono.1, period.wall.1);
                }
                _ => self.periods.push(period),
            }
        }
    }
}

impl Visitor<anyhow::Error> for Pass<'_> {
    fn listens(&self) -> bool {
        self.minutes.is_none() && self.narrowing.listens()
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

    /// Notes what all stretches cover together.
    fn ahead(&mut self, foretold: &Foretold) -> Result<()> {
        self.narrowing.begin();
        self.is_of_ends = false;
        let chapter = foretold.chapter();
        let recording = &chapter.recording;
        let Ok(filter) = self.scope.filter.resolve(&recording.meta) else { return Ok(()) };
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
        self.report.coverage(recording, &reports);
        self.tell(chapter, reports, &windows, &mut wall);
        self.is_of_ends = EndSums::suffice(&*self.report, &self.by, &filter);
        self.narrowing.told(filter, recording.meta.clone());
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
        self.narrowing.needs(if self.is_of_ends { Needs::CallEnds } else { Needs::All })
    }

    fn take(&mut self, chapter: Chapter) -> Result<Go> {
        self.add(&chapter)?;
        Ok(Go::On)
    }
}

impl OfEvents {
    /// Takes the events of a stretch.
    fn run(
        &mut self,
        recording: &PageSet,
        (from, until): (u64, u64),
        report: &mut dyn Report,
        sums: &mut Sums,
        goes_on: bool,
    ) -> std::io::Result<()> {
        let Self { front, resolver, stage, begun } = self;
        let streams = recording.streams.iter();
        let mut events =
            Merge::new(streams.map(|stream| Since::stretch(stream, from, *begun).of(recording)));
        *begun = true;
        let mut to = To { stage, report, sums };
        while let Some(event) = events.read(front.spare()) {
            if event.time >= until {
                break;
            }
            front.take(event, &mut |item, before| {
                resolver.pass(&mut item.event, &item.found, before, &mut to)
            })?;
        }
        if goes_on {
            return Ok(());
        }
        front.end(&mut |item, before| {
            resolver.pass(&mut item.event, &item.found, before, &mut to)
        })?;
        resolver.release(u64::MAX, &mut to)?;
        let To { stage, report, sums } = to;
        stage.end(report, sums);
        Ok(())
    }
}

/// The coverage of each part of a chapter's window.
fn reports(
    recording: &PageSet,
    windows: &Windows,
    now: u64,
    filter: &Filter,
    reading: &Reading<'_>,
) -> Vec<Coverage> {
    let told = coverage::told(windows);
    let doubts = doubts(recording, windows, &told, filter, reading);
    let mut reports: Vec<Coverage> = told
        .iter()
        .map(|window| {
            Coverage::new(recording, window, now)
                .with_doubts(doubts.of(window))
                .with_lacking(filter.lacking(&recording.meta))
                .of_lanes(|lane| filter.wants_lane(lane))
        })
        .collect();
    // Gaps in which the quiet ring left out none of those who are asked for are none here.
    if let Some(left_outs) = LeftOuts::of(recording) {
        let meant = filter.meant(recording);
        for report in &mut reports {
            report.spare(recording, &mut |left_out| filter.may_want(left_out, &left_outs, &meant));
        }
    }
    reports
}
