//! Makes a report, and prints it.

use anyhow::Result;

use super::args::ReportFormat;
use super::plan::SumPlan;
use crate::exit::Exit;
use crate::output::{Output, is_broken_pipe};
use crate::report::minutes::{self, Minutes};
use crate::report::{csv, folded, json, pass, text};
use flightrec_cli::note;

/// Makes it.
pub(super) fn run(plan: &SumPlan) -> Result<Exit> {
    let zone = crate::zone::system();
    let mut report = (plan.kind.make)();
    let minutes = Minutes::find(&plan.scope);
    // Where events are gone, commands and processes are not known any longer.
    let is_by_minutes = plan.is_by_default
        && minutes.is_some()
        && minutes::table(report.tables(), &plan.by).is_none();
    let by = if is_by_minutes { report.minute_keys() } else { &*plan.by };
    let table = pass::make(&plan.scope, minutes, &mut *report, by, plan.top, &zone)?;
    let out = match plan.format {
        ReportFormat::Text => text::table(&table, plan.hist).into_bytes(),
        ReportFormat::Json => json::table(&table, plan.hist)?.into_bytes(),
        ReportFormat::Csv => csv::table(&table),
        ReportFormat::Folded => folded::table(&table),
    };
    match Output::standard().print(&out) {
        Err(e) if !is_broken_pipe(&e) => return Err(e),
        _ => {}
    }
    // JSON has them inside.
    if plan.format != ReportFormat::Json {
        table.coverage.iter().for_each(|line| note(line));
    }
    if plan.format == ReportFormat::Text {
        for line in text::remarks(&table) {
            note(&line);
        }
    } else if plan.format != ReportFormat::Json {
        for line in text::limits(&table) {
            note(&line);
        }
    }
    if table.ranked.rows.is_empty() {
        note("nothing in the window matches");
        return Ok(Exit::Nothing);
    }
    Ok(Exit::Fine)
}
