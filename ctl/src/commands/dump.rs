//! `flightctl dump`

use std::io::Write;

use anyhow::Result;
use jiff::tz::TimeZone;

use crate::args::FormatArg;
use crate::coverage::Report;
use crate::exit::Exit;
use crate::fds::Naming;
use crate::json;
use crate::output::{Output, is_broken_pipe, note};
use crate::pipeline::{self, with_leads};
use crate::plan::DumpPlan;
use crate::progress::Progress;
use crate::render::Renderer;
use crate::source::{self, Clock, Recording, Source};
use crate::text;
use crate::window::{Edge, Window};

/// Prints events.
pub fn run(plan: &DumpPlan) -> Result<Exit> {
    let mut source = source::open(&plan.origin)?;
    run_on(plan, source.as_mut(), &TimeZone::system())
}

/// Prints events of any source.
pub fn run_on(plan: &DumpPlan, source: &mut dyn Source, zone: &TimeZone) -> Result<Exit> {
    let clock = source.clock();
    let recording = source.read(asked(plan, clock))?;
    let filter = plan.filter.resolve(&recording.meta)?;
    let (window, report, coverage) = cover(plan, &recording, clock, zone);

    // Opened as late as this, so that an error above leaves an old file as it was.
    let mut output = Output::open(plan.output.as_deref())?;
    output.show(Progress::start("writing the events"));
    let colour = output.colours(plan.color, std::env::var_os("NO_COLOR").as_deref());
    let mut wall = recording.wall_clock(clock.wall_offset);
    let (head, renderer): (String, Renderer) = match plan.format {
        FormatArg::Text => {
            let options = text::Options {
                colour,
                merge: plan.merge,
                fds: plan.fds,
                time_zone: zone.clone(),
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
        .and_then(|()| pipeline::run(&recording, window, &filter, wall, renderer, &mut output))
        .map_err(|e| output.explain(e));
    let printed = match written {
        Ok(printed) => Some(printed),
        // The reader has seen enough; the coverage is still said.
        Err(e) if is_broken_pipe(&e) => None,
        Err(e) => return Err(e),
    };
    drop(output);
    for line in &coverage {
        note(line);
    }
    Ok(match printed {
        _ if plan.strict && !report.is_complete() => Exit::Incomplete,
        Some(0) => Exit::Nothing,
        _ => Exit::Fine,
    })
}

/// The pages to ask for. Where the wall clock stood in the past only the pages tell, so for a time of
/// day all are asked for.
fn asked(plan: &DumpPlan, clock: Clock) -> Window {
    match (plan.since, plan.until) {
        (Edge::Wall(_), _) | (_, Edge::Wall(_)) => Window::ALL,
        (since, until) => {
            // Descriptors may have been opened long before.
            let since = if plan.fds == Naming::All || plan.filter.wants_files() { Edge::Open } else { since };
            let edge = |edge, open| if let Edge::Ago(ago) = edge { clock.now.saturating_sub(ago) } else { open };
            with_leads(Window { from: edge(since, 0), until: edge(until, u64::MAX) })
        }
    }
}

/// The window as far as it can have events, and what is there of it.
fn cover(plan: &DumpPlan, recording: &Recording, clock: Clock, zone: &TimeZone) -> (Window, Report, Vec<String>) {
    let mut wall = recording.wall_clock(clock.wall_offset);
    let window = wall.window(plan.since, plan.until, clock.now);
    // What happens while the pages are read is another dump's; before the recording there is nothing.
    let until = window.until.min(clock.now);
    let window = Window { from: window.from.max(recording.meta.started).min(until), until };
    let report = Report::new(recording, window, clock.now);
    let lines = report.lines(&mut wall, zone);
    (window, report, lines)
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
