//! Makes a page.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Result, bail};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use flightrec_export::page::html;
use flightrec_export::page::model::{About, Coverage, Page};
use flightrec_reader::Session;
use flightrec_reader::fds::Naming;
use flightrec_reader::memory;
use flightrec_reader::source::HistoryPlace;
use flightrec_reader::window::{Edge, Window};

use super::answer::{moment, near, told};
use super::chosen;
use super::drawing::Drawing;
use super::lines::Raw;
use super::plan::PagePlan;
use super::survey::{Both, Survey};
use super::tables::{histogram, reports, tables};
use crate::exit::Exit;
use crate::filter::FilterPlan;
use crate::output::place::Partial;
use crate::output::{OutputError, is_broken_pipe, is_stream, refuse, stream};
use crate::progress::Progress;
use crate::report::minutes::Wanted;
use crate::report::pass::{self, Scope};
use crate::report::{Period, Report, Table};
use crate::why::run::{Answered, answered};
use flightrec_cli::note;

/// Makes it, and writes it.
pub(super) fn run(plan: &PagePlan) -> Result<Exit> {
    plan.redact.begin();
    let zone = crate::zone::system();
    if let Some(path) = plan.output.as_deref() {
        refuse(path, plan.force)?;
    }
    let progress = Progress::start("making the page");
    let made = make(plan, &zone)?;
    let Some((page, is_complete)) = made else {
        note("nothing is recorded of this time: `flightctl ls` lists what is");
        return Ok(Exit::Nothing);
    };
    let text = html(&page, &plan.redact.redact)?;
    drop(progress);
    match write(plan.output.as_deref(), plan.force, text.as_bytes()) {
        Err(e) if !is_broken_pipe(&e) => return Err(e),
        _ => {}
    }
    if let Some(answer) = &page.answer {
        note(&answer.sentence);
    }
    page.coverage.lines.iter().for_each(|line| note(line));
    Ok(if plan.strict && !is_complete { Exit::Incomplete } else { Exit::Fine })
}

/// Writes the file: it gets its name when it is whole.
fn write(path: Option<&Path>, force: bool, text: &[u8]) -> Result<()> {
    let Some(path) = path else {
        let mut out = io::stdout().lock();
        out.write_all(text)?;
        return Ok(out.flush()?);
    };
    let failed = |source| OutputError::Io { path: path.into(), source };
    if is_stream(path) {
        return Ok(stream(path)?.write_all(text).map_err(failed)?);
    }
    let (partial, mut file) = Partial::file(path, force)?;
    file.write_all(text).map_err(failed)?;
    drop(file);
    Ok(partial.keep()?)
}

/// The page, and whether nothing of its window is missing; `None`: nothing is recorded.
fn make(plan: &PagePlan, zone: &TimeZone) -> Result<Option<(Page, bool)>> {
    memory::reserve(memory::beside());
    let mut why = plan.why.clone();
    let mut scope = Scope {
        past: why.past.clone(),
        dump: why.dump.clone(),
        filter: FilterPlan::all(),
        naming: Naming::Near,
        wanted: Wanted::default(),
    };
    let mut both = Both { survey: Survey::default(), tables: reports() };
    let whole = pass(&scope, &mut both, zone)?;
    let Some((window, period)) = window(&whole) else { return Ok(None) };
    let Both { survey, tables: several } = both;
    // Their greatest rows alone, before anything else takes memory.
    let tables = tables(several, &whole);
    pin(&mut scope, &period);
    why.past = scope.past.clone();
    let answered = answered(&why, zone)?;
    let answer = answered.as_ref().map(|of: &Answered| &of.answer);
    let near = answer.map(|answer| near(answer, window)).unwrap_or_default();
    let threads = chosen::threads(answer, &survey);
    let cpus = chosen::cpus(&survey);
    let named = threads.iter().filter(|of| of.is_named()).map(|of| of.tid);
    let redact = &plan.redact.redact;
    let raw = Raw::new(answer.and_then(moment), named, redact.clone());
    let mut drawing = Drawing::new(window, near, threads, &cpus, raw, redact);
    let second = pass(&scope, &mut drawing, zone)?;
    if drawing.has_other_boot() {
        bail!(
            "the window has recordings of two boots, and a page has one clock: name one of them \
             with --boot, or one file at a time"
        );
    }
    let session = drawing.session();
    let (timeline, shares, lines, mut merged) = drawing.finish();
    if survey.cpus.len() > cpus.len() {
        merged.push(format!("Of {} CPUs the {} busiest are drawn.", survey.cpus.len(), cpus.len()));
    }
    if survey.threads.len() > shares.len() {
        merged.push(format!(
            "Of {} threads {} are drawn: those that the answer names, the busiest, and those that \
             waited longest. The CPUs and the tables have all.",
            survey.threads.len(),
            shares.len()
        ));
    }
    // A recorder that goes on may have overwritten the beginning between two passes.
    let is_complete = whole.is_complete && second.is_complete;
    let coverage = if second.is_complete { &whole } else { &second };
    let page = Page {
        about: about(session.as_deref(), period, survey.events, zone),
        answer: answer.map(|answer| told(answer, window.from)),
        coverage: Coverage { complete: is_complete, lines: coverage.coverage.clone() },
        timeline,
        shares,
        histograms: vec![
            histogram("Duration of calls", &survey.calls),
            histogram("Run-queue delay", &survey.delays),
        ],
        tables,
        lines,
        merged,
    };
    Ok(Some((page, is_complete)))
}

/// A recorder goes on: `the last 10 s` are to be the same ones each time that it is read.
fn pin(scope: &mut Scope, period: &Period) {
    let is_live = matches!(scope.past.history.place, HistoryPlace::Recorder { .. });
    if is_live && scope.dump.is_none() {
        scope.past.since = Edge::Wall(period.wall.0);
        scope.past.until = Edge::Wall(period.wall.1);
    }
}

/// Reads the window once.
fn pass(scope: &Scope, report: &mut dyn Report, zone: &TimeZone) -> Result<Table> {
    // Sums of minutes have nothing that could be drawn.
    pass::make(scope, None, report, &[], 0, zone)
}

/// The whole window.
fn window(table: &Table) -> Option<(Window, Period)> {
    let (first, last) = (table.periods.first()?, table.periods.last()?);
    let window = Window { from: first.mono.0, until: last.mono.1 };
    let period = Period { mono: (window.from, window.until), wall: (first.wall.0, last.wall.1) };
    (!window.is_empty()).then_some((window, period))
}

fn about(session: Option<&Session>, period: Period, events: u64, zone: &TimeZone) -> About {
    let moment = |wall: i64| {
        Timestamp::from_nanosecond(i128::from(wall))
            .unwrap_or(Timestamp::UNIX_EPOCH)
            .to_zoned(zone.clone())
    };
    let (from, until) = (moment(period.wall.0), moment(period.wall.1));
    let time = from.time();
    let seconds =
        i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
    let day = seconds * 1_000_000_000 + i64::from(time.subsec_nanosecond());
    let meta = session.map(Session::meta);
    let text = |of: Option<&String>| {
        of.map(|of| flightrec_export::printable::printable(of.as_bytes()).into_owned())
            .unwrap_or_default()
    };
    About {
        host: text(meta.map(|of| &of.host)),
        kernel: text(meta.map(|of| &of.kernel)),
        boot: text(meta.map(|of| &of.boot_id)),
        from: from.strftime("%Y-%m-%d %H:%M:%S%.6f %Z").to_string(),
        until: until.strftime("%H:%M:%S%.6f").to_string(),
        length: period.mono.1 - period.mono.0,
        day: day as u64,
        made_by: format!("flightctl {}", env!("CARGO_PKG_VERSION")),
        events,
    }
}
