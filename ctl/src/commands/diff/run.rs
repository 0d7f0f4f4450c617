//! Adds both windows up, and compares them.

use anyhow::{Result, bail};
use flightrec_analysis::compare::{Change, Side, changes};
use flightrec_reader::window::Edge;
use jiff::tz::TimeZone;

use super::show::About;
use super::topic::{self, Topic, Words};
use super::{DiffFormat, DiffPlan, Earlier, show};
use crate::exit::Exit;
use crate::output::{Output, is_broken_pipe};
use crate::report::minutes::{Minutes, SumsTold};
use crate::report::pass::{self, Scope};
use crate::report::{Period, Several, Table};
use flightrec_cli::note;

/// Most groups that are told apart in a window.
const GROUPS: usize = 8192;

/// A window that has been added up.
pub(super) struct Summed {
    pub(super) periods: Vec<Period>,
    pub(super) is_complete: bool,
    pub(super) coverage: Vec<String>,
    source: &'static str,
    sums: Option<SumsTold>,
    /// In the order of [`topic::ALL`].
    sides: Vec<Side<Words>>,
}

/// A topic, and what changed in it.
pub(super) struct Compared {
    pub(super) topic: Topic,
    pub(super) a: Side<Words>,
    pub(super) b: Side<Words>,
    pub(super) changes: Vec<Change<Words>>,
}

/// The sums of minutes that a window is to be made of.
struct Source {
    minutes: Option<Minutes>,
    /// Groups are by what sums tell.
    is_by_minutes: bool,
}

/// Compares, and prints.
pub(super) fn run(plan: &DiffPlan) -> Result<Exit> {
    let zone = crate::zone::system();
    let mut sums = Source { minutes: Minutes::find(&plan.b), is_by_minutes: false };
    if let Ok(scope) = &plan.a {
        sums.is_by_minutes = Minutes::find(scope).is_some();
    }
    sums.is_by_minutes |= sums.minutes.is_some();
    let mut b = sum(&plan.b, &zone, "--b", &mut sums)?;
    let a = match &plan.a {
        Ok(scope) => {
            sums.minutes = Minutes::find(scope);
            sum(scope, &zone, "--a", &mut sums)?
        }
        Err(earlier) => {
            let scope = before(earlier, &b.periods)?;
            sums.minutes = Minutes::find(&scope);
            if sums.minutes.is_some() && !sums.is_by_minutes {
                // Both windows are to be grouped by what sums know.
                sums.is_by_minutes = true;
                let minutes = sums.minutes.take();
                b = sum(&plan.b, &zone, "--b", &mut sums)?;
                sums.minutes = minutes;
            }
            sum(&scope, &zone, "--a", &mut sums)?
        }
    };
    if sums.is_by_minutes {
        note(
            "grouped by unit, without commands and files, which sums of minutes do not tell: a \
             part of a window is made of these",
        );
    }
    let about = |of: &Summed| About {
        periods: of.periods.clone(),
        is_complete: of.is_complete,
        coverage: of.coverage.clone(),
        source: of.source,
        sums: of.sums.clone(),
    };
    let (about_a, about_b) = (about(&a), about(&b));
    let compared: Vec<Compared> = topic::ALL
        .into_iter()
        .zip(a.sides.into_iter().zip(b.sides))
        .map(|(topic, (a, b))| {
            let changes = changes(&a, &b, topic.weight);
            let by = if sums.is_by_minutes { topic.by_minutes } else { topic.by };
            let mut topic = topic;
            topic.by = by;
            Compared { topic, a, b, changes }
        })
        .collect();
    let text = match plan.format {
        DiffFormat::Text => show::text(&compared, plan.top),
        DiffFormat::Json => show::json(&about_a, &about_b, &compared, plan.top)?,
    };
    match Output::standard().print(text.as_bytes()) {
        Err(e) if !is_broken_pipe(&e) => return Err(e),
        _ => {}
    }
    if plan.format == DiffFormat::Text {
        about_a.coverage.iter().for_each(|line| note(&format!("a: {line}")));
        about_b.coverage.iter().for_each(|line| note(&format!("b: {line}")));
    }
    if compared.iter().all(|of| of.changes.is_empty()) {
        note("no significant change");
        return Ok(Exit::Nothing);
    }
    Ok(Exit::Fine)
}

/// The window that is so much before another one.
fn before(earlier: &Earlier, periods: &[Period]) -> Result<Scope> {
    let (Some(first), Some(last)) = (periods.first(), periods.last()) else {
        bail!("--b: nothing is recorded of that window");
    };
    let by = i64::try_from(earlier.by).unwrap_or(i64::MAX);
    let mut scope = earlier.scope.clone();
    scope.past.since = Edge::Wall(first.wall.0.saturating_sub(by));
    scope.past.until = Edge::Wall(last.wall.1.saturating_sub(by));
    Ok(scope)
}

/// Adds a window up, in one pass for all topics.
fn sum(scope: &Scope, zone: &TimeZone, option: &str, from: &mut Source) -> Result<Summed> {
    let reports = topic::ALL.iter().map(|topic| match topic.report() {
        Some(mut report) if from.is_by_minutes => {
            report.join_minutes();
            Ok((report, topic.by_minutes.to_vec()))
        }
        Some(report) => Ok((report, topic.by.to_vec())),
        None => bail!("there is no report for {}", topic.name),
    });
    let mut several = Several::new(reports.collect::<Result<Vec<_>>>()?);
    let minutes = from.minutes.take();
    let whole = pass::make(scope, minutes, &mut several, &[], 0, zone)?;
    if whole.periods.is_empty() {
        bail!("{option}: nothing is recorded of that window: `flightctl ls` lists what is there");
    }
    let tables = several.tables(&whole, GROUPS);
    let sides = topic::ALL.iter().zip(&tables).map(|(topic, table)| topic.side(table)).collect();
    let source = whole.source();
    let Table { periods, is_complete, coverage, sums, .. } = whole;
    Ok(Summed { periods, is_complete, coverage, source, sums, sides })
}
