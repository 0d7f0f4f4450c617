//! `flightctl dump`

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use jiff::tz::TimeZone;

use crate::args::FormatArg;
use crate::coverage::{Report, Seam};
use crate::exit::Exit;
use crate::fds::Naming;
use crate::filter::FilterError;
use crate::json;
use crate::output::{Output, is_broken_pipe, note};
use crate::pipeline;
use crate::plan::DumpPlan;
use crate::progress::Progress;
use crate::render::Renderer;
use crate::source::Source;
use crate::source::history::{self, Chapter, Go, Question};
use crate::text;

/// Prints events.
pub fn run(plan: &DumpPlan) -> Result<Exit> {
    let zone = TimeZone::system();
    let mut dump = Dump::new(plan, &zone);
    history::read(&plan.history, question(plan), |chapter| dump.show(&chapter))?;
    dump.finish()
}

/// Prints events of any source, and before them those of the files of its boot in `store`.
pub fn run_on(plan: &DumpPlan, source: &mut dyn Source, store: Option<&Path>, zone: &TimeZone) -> Result<Exit> {
    let mut dump = Dump::new(plan, zone);
    if let Some(dir) = store {
        history::read_beside(source, dir, question(plan), |chapter| dump.show(&chapter))?;
    } else {
        let clock = source.clock();
        let recording = source.read(question(plan).of_rings(clock))?;
        dump.show(&Chapter::only(recording, clock, plan.since, plan.until))?;
    }
    dump.finish()
}

/// Descriptors may have been opened long before the window.
fn question(plan: &DumpPlan) -> Question {
    let everything = plan.fds == Naming::All || plan.filter.wants_files();
    Question { since: plan.since, until: plan.until, everything }
}

/// A dump in the making: chapter by chapter.
struct Dump<'a> {
    plan: &'a DumpPlan,
    zone: &'a TimeZone,
    /// Opened with the first chapter, so that an error before leaves an old file as it was.
    output: Option<Output>,
    /// What is said at the end.
    told: Vec<String>,
    /// Events; `None`: the reader has seen enough.
    printed: Option<u64>,
    complete: bool,
    /// The filter means nothing to a chapter: an error unless another one knows what it names.
    unknown: Option<FilterError>,
    /// Whether a chapter knew it.
    known: bool,
    seam: Seam,
}

impl<'a> Dump<'a> {
    fn new(plan: &'a DumpPlan, zone: &'a TimeZone) -> Self {
        Self {
            plan,
            zone,
            output: None,
            told: Vec::new(),
            printed: Some(0),
            complete: true,
            unknown: None,
            known: false,
            seam: Seam::default(),
        }
    }

    /// Prints a chapter.
    fn show(&mut self, chapter: &Chapter) -> Result<Go> {
        let plan = self.plan;
        let Chapter { recording, clock, .. } = chapter;
        let filter = match plan.filter.resolve(&recording.meta) {
            Ok(filter) => filter,
            Err(unknown) => {
                self.unknown.get_or_insert(unknown);
                return Ok(Go::On);
            }
        };
        self.known = true;
        let mut wall = recording.wall_clock(clock.wall_offset);
        let window = chapter.window(&wall);
        let report = Report::new(recording, window, clock.now);
        let mut coverage: Vec<String> = self.seam.between(chapter, window, &mut wall, self.zone).into_iter().collect();
        self.complete &= report.is_complete() && !self.seam.is_open();
        coverage.extend(report.lines(&mut wall, self.zone));
        coverage.extend(chapter.remarks.iter().cloned());

        let output = match &mut self.output {
            Some(output) => output,
            none => none.insert(Output::open(plan.output.as_deref())?),
        };
        output.show(Progress::start("writing the events"));
        let colour = output.colours(plan.color, std::env::var_os("NO_COLOR").as_deref());
        let (head, renderer): (String, Renderer) = match plan.format {
            FormatArg::Text => {
                let options = text::Options {
                    colour,
                    merge: plan.merge,
                    fds: plan.fds,
                    time_zone: self.zone.clone(),
                    ..text::Options::default()
                };
                // A text that is kept says what it covers.
                let head = if output.is_terminal() { String::new() } else { commented(&coverage) };
                (head, text::Renderer::new(&recording.meta, options).into())
            }
            FormatArg::Jsonl => {
                let gaps = report.gap_lines(&mut wall);
                let head = report.json(&recording.meta, &mut wall);
                (head, json::Renderer::new(&recording.meta, plan.merge, gaps).name_fds(plan.fds).into())
            }
        };
        let written = output
            .write_all(head.as_bytes())
            .and_then(|()| pipeline::run(recording, window, &filter, wall, renderer, &mut *output))
            .map_err(|e| output.explain(e));
        self.told.extend(coverage);
        match written {
            Ok(printed) => {
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
    fn finish(self) -> Result<Exit> {
        if let (Some(unknown), false) = (self.unknown, self.known) {
            return Err(unknown.into());
        }
        drop(self.output);
        self.told.iter().for_each(|line| note(line));
        if !self.known {
            note("the window is before everything that is recorded");
        }
        Ok(match self.printed {
            _ if self.plan.strict && !self.complete => Exit::Incomplete,
            Some(0) => Exit::Nothing,
            _ => Exit::Fine,
        })
    }
}

/// Coverage as the head of a text.
fn commented(coverage: &[String]) -> String {
    let mut text = String::new();
    for line in coverage {
        text.push_str("# ");
        text.push_str(line);
        text.push('\n');
    }
    text
}
